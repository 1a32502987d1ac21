"""A process caches a job, and uses the fast path for it.

Over HTTP each claim carries its request's id, by which a repeat is recognised, and uses the slow path.
"""

import pytest

from headgate import Gate
from headgate.stores.sql.ledger import claims as claiming
from headgate.stores.sql.ledger import store as ledger_store
from tests.conftest import SQL_STORES
from tests.contract.ledger_steps import WHY, claimed, next_id, one_job
from tests.contract.steps import Gates

pytestmark = pytest.mark.parametrize("kind", SQL_STORES)


def never(*_: object) -> None:
    raise AssertionError("it used the slow path")


@pytest.fixture
def quick_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "find_next", never)
    monkeypatch.setattr(ledger_store, "on_chunk", never)


@pytest.mark.usefixtures("quick_only")
def test_a_process_that_knows_a_job_sees_each_change_of_it_at_once(gates: Gates) -> None:
    """It uses the fast path from the first claim and report on."""
    ledger, worker = one_job(gates.open()), gates.open().ledger
    ledger.publish("raw", ["1", "2", "3", "4"])
    worker.success(claimed(worker, "clean"))
    ledger.define_dataset("tidy", uri="file:///elsewhere")
    second = claimed(worker, "clean")
    assert second.outputs["tidy"].uri == "file:///elsewhere"
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], environment={"PARAM_LEVEL": "2"})
    third = claimed(worker, "clean")
    assert third.environment == {"PARAM_LEVEL": "2"}
    ledger.define_job("late", inputs=["tidy"])
    worker.success(third)
    assert claimed(worker, "late").dataid == "1"
    worker.success(second)
    assert [claimed(worker, "late").dataid for _ in range(2)] == ["2", "3"]


def test_a_process_that_knows_a_job_sees_that_it_is_paused(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, worker = one_job(gates.open()), gates.open().ledger
    ledger.publish("raw", ["1", "2"])
    worker.success(claimed(worker, "clean"))
    ledger.pause("clean", reason=WHY)
    assert next_id(worker, "clean") is None
    ledger.unpause("clean")
    monkeypatch.setattr(claiming, "find_next", never)
    assert next_id(worker, "clean") == "2"


@pytest.mark.usefixtures("quick_only")
def test_names_of_any_letters_use_the_fast_path(gate: Gate) -> None:
    ledger = gate.ledger
    odd = 'a "b", {c}\\d\'s'
    ledger.define_dataset(odd)
    ledger.define_dataset("made")
    ledger.define_job("odd", inputs=[odd], outputs=["made"])
    ledger.publish(odd, ["1 \\ 2", "2"])
    first = claimed(ledger, "odd")
    assert first.dataid == "1 \\ 2"
    ledger.success(first)
    gate.locks.acquire("ann", f"data:{odd}/2", "shared")
    with pytest.raises(AssertionError, match="slow path"):
        ledger.find_next("odd")
