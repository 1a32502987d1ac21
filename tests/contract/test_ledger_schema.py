"""The ledger's tables: brought to an older store, as the schema says, and found by an index."""

from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

import headgate
from headgate import Gate
from headgate.migrating import migrate
from headgate.stores.sql import ledger_statements as sql
from headgate.stores.sql.dialects import dialect_for
from headgate.stores.sql.engine import Database
from headgate.stores.sql.migrations import runner
from headgate.stores.sql.schema import metadata
from headgate.stores.sql.statement import Statement
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import claimed, database, one_job


def to_version(url: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store as an older Headgate made it."""
    upgrade = command.upgrade
    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", lambda config, _head: upgrade(config, version))
        made = Database(dialect_for(url))
        runner.upgrade(made)
        made.close()


def test_an_older_store_gets_the_ledger_and_keeps_its_locks(sql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    to_version(sql_url, "0001", monkeypatch)
    older = Database(dialect_for(sql_url))
    older.write(lambda tx: tx.run(Statement("A client.", "insert into hg_client (name, since) values ('ann', 1)")))
    if not sql_url.startswith("sqlite"):
        # As an interrupted migration leaves it where the schema is not part of the transaction.
        older.write(lambda tx: tx.run(Statement("Half of it.", "create table hg_dataset (id int)")))
    older.close()
    with pytest.raises(headgate.SchemaMismatch, match="headgate migrate"):
        headgate.connect(sql_url)
    assert migrate(sql_url).changed
    with headgate.connect(sql_url) as gate:
        ledger = one_job(gate)
        ledger.publish("raw", "1")
        assert claimed(ledger, "clean").dataid == "1"
        assert [name for name, _ in gate.locks.clients()] == ["ann"]


def test_migrations_lead_to_the_schema(sql_url: str) -> None:
    headgate.connect(sql_url).close()
    dialect = dialect_for(sql_url)
    driver = dialect.connect()
    engine = create_engine(f"{dialect.sqlalchemy_name}://", creator=lambda: driver, poolclass=StaticPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": runner.VERSION_TABLE})
        found = [each for each in compare_metadata(context, metadata) if not _noise(each)]
    driver.close()
    assert found == []


def _noise(difference: Any) -> bool:
    """Boolean is a small number on MariaDB, and comments are told there only."""
    kind = difference[0][0] if isinstance(difference, list) else difference[0]
    return kind in ("modify_comment", "modify_type", "modify_table_comment")


@pytest.mark.parametrize("kind", SQL_STORES)
def test_find_next_reads_the_head_of_an_index(gate: Gate, kind: str) -> None:
    """The plan of the one statement that must not grow with what is done."""
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(3000)])
    store = database(gate)
    text, params = store.dialect.prepare(sql.TAKE_HEAD, {"job": 1})
    if kind == "postgresql":
        store.write(lambda tx: tx.run(Statement("Know the sizes.", "analyze hg_candidate")))
    explain = {"sqlite": "explain query plan ", "postgresql": "explain ", "mariadb": "explain "}[kind]

    def ask(connection: Any) -> str:
        cursor = connection.cursor()
        cursor.execute(explain + text, params)
        return str(cursor.fetchall())

    plan = store.lend(ask)
    assert "hg_candidate_next" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan
    assert "filesort" not in plan
