"""Building blocks of all tables: kinds of columns that mean the same on every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Text
from sqlalchemy.dialects import mysql

metadata = MetaData()

#: Sensitive to case and to trailing blanks, on every database.
MYSQL_COLLATION = "utf8mb4_nopad_bin"
MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": MYSQL_COLLATION}


#: Key in a column's `info`: its values are moments on the lease clock, which is each store's own.
LEASE_CLOCK = "lease clock"
ON_LEASE_CLOCK = {LEASE_CLOCK: True}


def text(length: int) -> String:
    """Text that is compared exactly."""
    return String(length)


def principal(comment: str) -> Column[str]:
    """The column that names a principal; empty: it was written before principals were recorded."""
    return Column("principal", text(255), nullable=False, server_default="", comment=comment)


Key = LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
#: SQLite numbers rows automatically only in a column of exactly this type.
Number = BigInteger().with_variant(Integer(), "sqlite")
#: Text that may be long.
Document = Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
#: A data id's position in the order, compared byte by byte on every database.
OrderKey = LargeBinary(1300).with_variant(mysql.VARBINARY(1300), "mysql", "mariadb")


def one_of(column: str, words: tuple[str, ...]) -> str:
    """A condition by which the database itself refuses unknown words."""
    return f"{column} in ({', '.join(repr(str(word)) for word in words)})"
