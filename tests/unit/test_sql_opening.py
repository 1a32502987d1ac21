"""Opening: an empty database becomes a store; what is not ours is left as it is.

Many who come first at the same moment: tests/faults/test_first_use.py.
"""

import sqlite3
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, inspect, text

import headgate
from headgate import ForeignStore, SchemaMismatch
from headgate.stores.sql import schema_versions
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.dialects.mysql.dialect import MysqlConnection

ENSEMBL = [
    "create table client (client_id integer primary key, name varchar(50) not null)",
    "create table resource (resource_id integer primary key, uri varchar(255) not null)",
    """create table resource_lock (resource_lock_id integer primary key, lock_type varchar(10) not null,
       client_id integer not null, resource_id integer not null, created timestamp not null)""",
]


def run(url: str, *statements: str) -> None:
    dialect = dialect_for(url)
    engine = create_engine(f"{dialect.sqlalchemy_name}://", creator=dialect.connect, poolclass=NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))


def tables(url: str) -> list[str]:
    dialect = dialect_for(url)
    engine = create_engine(f"{dialect.sqlalchemy_name}://", creator=dialect.connect, poolclass=NullPool)
    with engine.connect() as connection:
        return sorted(inspect(connection).get_table_names())


def test_an_empty_database_becomes_a_store(sql_url: str) -> None:
    with headgate.connect(sql_url) as gate:
        lock = gate.locks.acquire("a", "r", "write")
    with headgate.connect(sql_url) as gate:
        assert gate.locks.check(lock).token == lock.token


def test_opening_twice_changes_nothing(sql_url: str) -> None:
    with headgate.connect(sql_url) as first:
        tag = first.store.tag
    before = tables(sql_url)
    with headgate.connect(sql_url) as second:
        assert second.store.tag == tag
    assert tables(sql_url) == before


def test_a_newer_schema_says_what_to_do(sql_url: str) -> None:
    headgate.connect(sql_url).close()
    run(sql_url, "update hg_schema set version_num = '9999'")
    before = tables(sql_url)
    with pytest.raises(SchemaMismatch, match=r"has schema 9999 of a newer Headgate.*Upgrade Headgate"):
        headgate.connect(sql_url)
    assert tables(sql_url) == before


def test_an_older_schema_says_how_to_migrate(sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    headgate.connect(sql_url).close()
    present: Callable[[], list[str]] = schema_versions.versions
    monkeypatch.setattr(schema_versions, "versions", lambda: [*present(), "9998"])
    with pytest.raises(SchemaMismatch, match=r"needs 9998\. .*headgate migrate"):
        headgate.connect(sql_url)


def test_a_database_of_another_program_is_left_unchanged(sql_url: str) -> None:
    run(sql_url, "create table invoices (id integer primary key)")
    with pytest.raises(ForeignStore, match=r"has tables of another program \(invoices\)"):
        headgate.connect(sql_url)
    assert tables(sql_url) == ["invoices"]


def test_the_original_of_the_ensembl_locker_is_recognised(sql_url: str) -> None:
    run(sql_url, *ENSEMBL)
    with pytest.raises(ForeignStore, match=r"holds Ensembl's resource locks.*headgate migrate"):
        headgate.connect(sql_url)
    assert tables(sql_url) == ["client", "resource", "resource_lock"]


@pytest.mark.parametrize("mode", ["", "?journal_mode=wal"])
def test_a_foreign_sqlite_file_keeps_every_byte(tmp_path: Path, mode: str) -> None:
    """Reading it does not change its journal mode either."""
    path = tmp_path / "invoices.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table invoices (id integer primary key)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ForeignStore):
        headgate.connect(f"sqlite:///{path}{mode}")
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["invoices.sqlite"]


def test_a_partly_created_store_is_completed(sql_url: str) -> None:
    """As when a process is killed while it creates the schema, where the database cannot roll that back."""
    headgate.connect(sql_url).close()
    run(sql_url, "delete from hg_schema", "delete from hg_meta")
    with headgate.connect(sql_url) as gate:
        assert gate.locks.acquire("a", "r", "write").token == 1


def test_both_journal_modes_of_sqlite_work(tmp_path: Path) -> None:
    for mode in ("wal", "truncate"):
        url = f"sqlite:///{tmp_path}/{mode}.sqlite?journal_mode={mode}"
        with headgate.connect(url) as one, headgate.connect(url) as other:
            lock = one.locks.acquire("a", "r", "write")
            assert other.locks.check(lock).token == lock.token
        with sqlite3.connect(tmp_path / f"{mode}.sqlite") as connection:
            found = connection.execute("pragma journal_mode").fetchone()[0]
        connection.close()
        assert (found == "wal") is (mode == "wal")


def test_a_relative_file_stays_the_same_file_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with headgate.connect("sqlite:///here.db") as gate:
        monkeypatch.chdir(tmp_path / "elsewhere")
        gate.locks.acquire("a", "r", "write")
    assert (tmp_path / "here.db").exists()
    assert not (tmp_path / "elsewhere" / "here.db").exists()


def test_a_connection_to_mariadb_reads_the_machines_authorities_only_to_check_a_certificate() -> None:
    """It is encrypted if the server supports that; the server's identity is checked only with `tls`."""
    anybody = MysqlConnection(defer_connect=True)
    assert (anybody.ssl, anybody.ctx.verify_mode, anybody.ctx.cert_store_stats()["x509"]) == (True, ssl.CERT_NONE, 0)
    asked = ssl.create_default_context()
    assert MysqlConnection(defer_connect=True, ssl=asked).ctx is asked
