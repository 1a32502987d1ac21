"""The tables decide about chunks: with a changed cell or row a store behaves differently, on both of its paths."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from headgate import Claim, ClaimRefused, TransitionRefused
from headgate.core.filters import RowFilter
from headgate.core.ledger.model import Asker, Dataset, Job, Kind, Row
from headgate.core.ledger.rules import CHUNK_RULES, CLAIM_TABLE, INPUT_STATES, ChunkRules
from headgate.core.ledger.verdicts import Answer
from headgate.core.tables.machine import Also, By, Transition
from headgate.core.tables.states import CHUNK
from headgate.store_opening import open_store
from headgate.stores.ports.ledger import LedgerStore
from headgate.stores.store import Store
from tests.conftest import SQL_STORES
from tests.waiting import PATIENT_OPTIONS

#: Every kind of store that keeps a ledger. (A service has the tables of its store.)
pytestmark = pytest.mark.parametrize("kind", SQL_STORES)
WHY = "the test wants it so"
JOBS = (Job("clean", ("raw",), ("tidy",)), Job("report", ("tidy",), ("rep",)))
DATASETS = tuple(Dataset(name) for name in ("raw", "tidy", "rep"))
OpenWith = Callable[[ChunkRules], LedgerStore]
Change = Callable[[Transition], Transition | None]


@pytest.fixture
def open_with(store_url: str) -> Iterator[OpenWith]:
    """Opens the store with other tables; its pipeline is raw, clean, tidy, report, rep."""
    opened: list[Store] = []

    def open_with(rules: ChunkRules) -> LedgerStore:
        opened.append(open_store(store_url, options=replace(PATIENT_OPTIONS, chunk_rules=rules)))
        ledger = opened[-1].ledger
        assert ledger
        ledger.define(DATASETS, JOBS)
        return ledger

    yield open_with
    for store in opened:
        store.close()


def with_rows(change: Change, *more: Transition) -> ChunkRules:
    """The table with changed rows; None: the row is removed, and its target states stay reachable."""
    machine = replace(CHUNK)
    rows = tuple(row for row in map(change, CHUNK.rows) if row)
    object.__setattr__(machine, "rows", (*rows, *more))
    return replace(CHUNK_RULES, machine=machine)


def without(*keys: tuple[str, str]) -> ChunkRules:
    """The table without the rows of these states and events."""
    return with_rows(lambda row: None if (row.source, row.event) in keys else row)


def with_cell(output: str, given: str, answer: Answer) -> ChunkRules:
    line = list(CLAIM_TABLE[output])
    line[INPUT_STATES.index(given)] = answer
    return replace(CHUNK_RULES, table={**CLAIM_TABLE, output: tuple(line)})


def asker(*, fresh: bool = True) -> Asker:
    """A request that cannot be a repeat takes the fast path; the other takes the slow path."""
    return Asker("ann", 60.0, uuid.uuid4().hex, fresh=fresh)


def find(ledger: LedgerStore, job: str = "clean", *, fresh: bool = True) -> Claim | None:
    return ledger.find_next(job, asker(fresh=fresh))


def claimed(ledger: LedgerStore, job: str = "clean") -> Claim:
    claim = find(ledger, job)
    assert claim
    return claim


def status(ledger: LedgerStore, dataid: str, dataset: str = "tidy") -> str:
    rows = ledger.rows(RowFilter(dataset, dataid=dataid, kind=Kind.OUTPUT))
    return rows[0].status if rows else "absent"


# ------------------------------------------------------------------ claims


@pytest.mark.parametrize("rules", [without(("absent", "claim")), with_cell("absent", "absent", Answer.NO)])
def test_a_first_claim_needs_its_row_and_its_cell_on_both_paths(open_with: OpenWith, rules: ChunkRules) -> None:
    ledger = open_with(rules)
    ledger.publish("raw", ["1", "2"], "ann")
    assert [find(ledger, fresh=fresh) for fresh in (True, False)] == [None, None]
    with pytest.raises(ClaimRefused):
        ledger.claim("clean", "1", asker())
    assert not ledger.explain("clean", "1").granted
    usual = open_with(CHUNK_RULES)
    usual.publish("raw", ["3"], "ann")
    assert find(usual)


def test_a_changed_cell_lets_find_next_give_out_a_ready_chunk_again(open_with: OpenWith) -> None:
    rules = with_cell("READY", "DONE", Answer.YES)
    again = replace(CHUNK.find("ERROR", "claim")[0], source="READY")
    ledger = open_with(replace(rules, machine=with_rows(lambda row: row, again).machine))
    ledger.publish("raw", ["1"], "ann")
    for attempt in (1, 2):
        claim = claimed(ledger)
        assert (claim.dataid, claim.attempt) == ("1", attempt)
        ledger.success("clean", "1", claim.token, "ann")


def test_a_row_without_an_effect_does_not_have_it(open_with: OpenWith) -> None:
    """Claims are not recorded and do not count as attempts."""

    def quiet(row: Transition) -> Transition:
        gone = Also.RECORD_HISTORY | Also.COUNT_ATTEMPT
        return replace(row, also=row.also & ~gone) if row.event == "claim" else row

    ledger = open_with(with_rows(quiet))
    ledger.publish("raw", ["1"], "ann")
    claim = claimed(ledger)
    ledger.success("clean", "1", claim.token, "ann")
    assert claim.attempt == 0
    assert [row.attempt for row in ledger.rows(RowFilter("tidy"))] == [0]


# ------------------------------------------------------------------ reports


def test_success_follows_its_row_on_both_paths(open_with: OpenWith) -> None:
    """Without the row it is refused; with another target it leads there, and a chunk that is not READY is not read."""
    ledger = open_with(without(("RUNNING", "success")))
    ledger.publish("raw", ["1", "2"], "ann")
    claim = claimed(ledger)
    with pytest.raises(TransitionRefused):
        ledger.success("clean", "1", claim.token, "ann")
    assert status(ledger, "1") == "RUNNING"
    ledger = open_with(with_rows(lambda row: replace(row, target="PENDING") if row.event == "success" else row))
    ledger.success("clean", "1", claim.token, "ann")
    assert (status(ledger, "1"), find(ledger, "report")) == ("PENDING", None)
    ledger = open_with(CHUNK_RULES)
    ledger.success("clean", "2", claimed(ledger).token, "ann")
    assert (status(ledger, "2"), claimed(ledger, "report").dataid) == ("READY", "2")


def test_a_report_follows_the_guard_of_its_row(open_with: OpenWith) -> None:
    """If any caller may report, no token is required: the fast path, which compares tokens, is not taken."""
    ledger = open_with(with_rows(lambda row: replace(row, by=By.CLIENT) if row.event == "success" else row))
    ledger.publish("raw", ["1"], "ann")
    claim = claimed(ledger)
    ledger.success("clean", "1", claim.token + 1, "ann")
    assert status(ledger, "1") == "READY"


# ------------------------------------------------------------------ every other event


def test_an_event_without_a_row_is_refused_and_changes_nothing(open_with: OpenWith) -> None:
    keys = [
        ("RUNNING", "fail"), ("RUNNING", "interrupt"), ("RUNNING", "force"), ("ERROR", "force"), ("ERROR", "resubmit"),
        ("ERROR", "hold"), ("HOLD", "unhold"), ("ERROR", "forget"), ("absent", "set_status"), ("absent", "publish"),
    ]  # fmt: skip
    usual = open_with(CHUNK_RULES)
    usual.publish("raw", ["1", "2", "3"], "ann")
    token = claimed(usual).token
    usual.fail("clean", "2", claimed(usual).token, "no", "ann")
    usual.hold("clean", "3", WHY, "ann")
    ledger = open_with(without(*keys))
    before = usual.rows(RowFilter())
    acts: list[Callable[[], object]] = [
        lambda: ledger.fail("clean", "1", token, "no", "ann"),
        lambda: ledger.interrupt("clean", "1", token, "SIGTERM", "ann"),
        lambda: ledger.force("clean", "2", asker(), WHY, steal=True),
        lambda: ledger.resubmit("clean", ["2"], WHY, "ann", downstream=False, steal=False, dry_run=False),
        lambda: ledger.hold("clean", "2", WHY, "ann"),
        lambda: ledger.unhold("clean", "3", WHY, "ann"),
        lambda: ledger.forget("clean", "2", WHY, "ann", steal=False),
        lambda: ledger.set_status(Row("tidy", "4", "clean", Kind.OUTPUT, "PENDING"), WHY, "ann"),
        lambda: ledger.publish("raw", ["4"], "ann"),
    ]
    for act in acts:
        with pytest.raises(TransitionRefused):
            act()
    found = [replace(row, expires_in=None, retry_in=None) for row in usual.rows(RowFilter())]
    assert found == [replace(row, expires_in=None, retry_in=None) for row in before]
