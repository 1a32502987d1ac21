"""The ledger's tables: what is read is found by an index."""

from typing import Any

import pytest

from headgate import Gate
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.ledger import statements as sql
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import database, one_job


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
