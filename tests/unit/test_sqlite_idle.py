"""A worker that finds no chunk neither blocks writers of the SQLite file nor is blocked by them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import Gate, StoreUnavailable
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.statements import MAY_FIND
from tests.contract.ledger_steps import expire, one_job

MODES = ["truncate", "wal"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headgate.sqlite"


@pytest.fixture(params=MODES)
def gates(request: pytest.FixtureRequest, file: Path) -> Iterator[tuple[Gate, Gate]]:
    """Two gates on one file, each as a separate process would have."""
    url = f"sqlite:///{file}?journal_mode={request.param}"
    with headgate.connect(url, answer_within="1s") as one, headgate.connect(url, answer_within="1s") as other:
        yield one, other


@pytest.fixture
def gate(gates: tuple[Gate, Gate]) -> Gate:
    return gates[0]


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Another program has the write lock meanwhile."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("begin immediate")
        yield
        other.execute("rollback")


def paused(gate: Gate) -> None:
    gate.ledger.publish("raw", "9")
    gate.ledger.pause("clean", reason="a test")


def running(gate: Gate) -> None:
    gate.ledger.publish("raw", "9")
    assert gate.ledger.find_next("clean")
    assert gate.ledger.find_next("clean") is None


def put_off(gate: Gate) -> None:
    gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], retry_delay=3600)
    gate.ledger.publish("raw", "9")
    gate.ledger.fail(gate.ledger.claim("clean", "9"), "it broke")
    assert gate.ledger.find_next("clean") is None


@pytest.mark.parametrize("state", [lambda _gate: None, paused, running, put_off])
def test_a_search_that_finds_nothing_takes_no_write_lock(
    gates: tuple[Gate, Gate], file: Path, state: Callable[[Gate], None]
) -> None:
    gate, first_look = gates
    one_job(gate)
    state(gate)
    with writing(file):
        assert first_look.ledger.find_next("clean") is None
        for request_id in (None, "a-request-of-mine"):
            assert gate.ledger.find_next("clean", request_id=request_id) is None


def test_all_claimable_chunks_are_still_found(gates: tuple[Gate, Gate], file: Path) -> None:
    gate, other = gates
    ledger = one_job(gate, max_attempts=0)
    assert other.ledger.find_next("clean") is None
    ledger.publish("raw", "1")
    with writing(file), pytest.raises(StoreUnavailable):
        ledger.find_next("clean")
    claim = other.ledger.find_next("clean", request_id="a-request-of-mine")
    assert claim
    assert ledger.find_next("clean") is None
    again = ledger.find_next("clean", request_id="a-request-of-mine")
    assert again, "the answer was lost, and the request is repeated"
    assert again.token == claim.token
    expire(gate, "1")
    found = ledger.find_next("clean")
    assert found, "the lease of another worker expired"
    ledger.success(found)
    assert other.ledger.find_next("clean") is None
    ledger.resubmit("clean", "1", reason="a test")
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], max_attempts=5)
    assert other.ledger.find_next("clean"), "and the job is defined again"


def noting(asked: list[str], do: Callable[..., Any]) -> Callable[..., Any]:
    """The same, recording each statement."""

    def noted(*given: Any, **more: Any) -> Any:
        asked.append(next(each.text for each in given if isinstance(each, Statement)))
        return do(*given, **more)

    return noted


def test_consecutive_claims_send_no_additional_query(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(4)])
    asked: list[str] = []
    database: Any = gate.store.ledger
    for place, names in ((database._database, ("single",)), (Transaction, ("one", "run"))):
        for name in names:
            monkeypatch.setattr(place, name, noting(asked, getattr(place, name)))
    looks = []
    for _ in range(4):
        asked.clear()
        assert ledger.find_next("clean")
        looks.append((len(asked), MAY_FIND.text in asked))
    assert looks[0][1], "a process does not know whether there is anything to do"
    assert looks[1:] == [(6, False)] * 3


def test_a_change_is_noticed_by_any_connection(gate: Gate, file: Path) -> None:
    """Each connection counts the changes that it noticed: two may have the same count before and after a change."""
    store: Any = gate.store.locks
    dialect = store._database.dialect
    write = "insert into hg_client (name, since) values (?, 0)"
    with closing(dialect.connect()) as one, closing(dialect.connect()) as another, closing(sqlite3.connect(file)) as by:
        assert dialect.changed(one)
        assert dialect.changed(another)
        with by:
            by.execute(write, ("ann",))
        seen = dialect.changed(one)
        assert dialect.changed(one) == seen
        with by:
            by.execute(write, ("ben",))
        assert dialect.changed(another) != seen
        assert dialect.changed(one) != seen
