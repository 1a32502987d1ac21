"""The only folder that knows the differences between databases: one file each, one interface."""

from __future__ import annotations

from headgate.core.errors import BadValue
from headgate.stores.sql.database.dialect import Dialect

KINDS = ("sqlite", "postgresql", "mysql")


def dialect_for(url: str) -> Dialect:
    """The dialect for a store URL. Its driver is imported here, and nowhere else."""
    kind = url.partition("://")[0].partition("+")[0]
    if kind == "sqlite":
        from headgate.stores.sql.dialects.sqlite.dialect import Sqlite

        return Sqlite(url)
    if kind in ("postgresql", "postgres"):
        from headgate.stores.sql.dialects.postgresql.dialect import Postgresql

        return Postgresql(url)
    if kind in ("mysql", "mariadb"):
        from headgate.stores.sql.dialects.mysql.dialect import Mysql

        return Mysql(url)
    raise BadValue("url", url, "is not a URL of a SQL store: " + ", ".join(KINDS))
