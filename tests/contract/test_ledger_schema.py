"""The ledger's tables: reads use an index."""

from typing import Any

import pytest

from headgate import Gate
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.ledger import statements as sql
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import database, one_job

EXPIRED = Statement(
    "All that is there is a claim of a worker that died.",
    "update hg_chunk set job_id = 1, status = 'RUNNING', lease = 1, lease_until = 1, worker = 'dead'",
)


@pytest.mark.parametrize("kind", SQL_STORES)
def test_find_next_reads_the_head_of_an_index(gate: Gate, kind: str) -> None:
    """The plan of the one statement whose cost must not grow with finished chunks."""
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(3000)])
    store = database(gate)
    text, params = store.dialect.prepare(sql.TAKE_HEAD, {"job": 1})
    if kind == "postgresql":
        store.write(lambda tx: tx.run(Statement("Know the sizes.", "analyze hg_candidate")))
    plan = str(plan_of(store, kind, text, params))
    assert "hg_candidate_next" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan
    assert "filesort" not in plan


@pytest.mark.parametrize("kind", SQL_STORES)
def test_a_few_expired_claims_are_found_among_many_without_sorting_all(gate: Gate, kind: str) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(3000)])
    store = database(gate)
    store.write(lambda tx: tx.run(EXPIRED))
    store.dialect.learn_sizes(store)
    text, params = store.dialect.prepare(sql.READ_EXPIRED, {"job": 1, "limit": 10, "rows": 40})
    rows = plan_of(store, kind, text, params)
    (place,) = [place for place, row in enumerate(rows) if "hg_chunk_lease_until" in str(row)]
    # Nothing comes between the scan of the index and the limit.
    if kind == "sqlite":
        assert not [row for row in rows if row[1] == rows[place][1] and "TEMP B-TREE" in row[3]], rows
    elif kind == "postgresql":
        assert "Limit" in str(rows[place - 1]), rows
    else:
        assert "filesort" not in str(rows[place]), rows


def plan_of(store: Database, kind: str, text: str, params: Any) -> list[tuple[Any, ...]]:
    explain = {"sqlite": "explain query plan ", "postgresql": "explain ", "mariadb": "explain "}[kind]

    def ask(connection: Any) -> list[tuple[Any, ...]]:
        cursor = connection.cursor()
        cursor.execute(explain + text, params)
        return [tuple(row) for row in cursor.fetchall()]

    return store.lend(ask)
