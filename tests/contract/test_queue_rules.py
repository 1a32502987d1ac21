"""The tables decide: with a changed row a store behaves differently, on its fast path and its slow path."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from headgate import IngestJob, QueueRefused, TransitionRefused
from headgate.core.history import HistoryFilter
from headgate.core.queue.model import Folder, Item, forward_event, work_states
from headgate.core.queue.rules import QUEUE_RULES, QueueRules
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.core.tables.states import MERRITT_INGEST_JOB
from headgate.service.access.identity import asker_for
from headgate.service.queue.use_cases import Queue
from headgate.store_opening import open_store
from headgate.stores.store import Store
from tests.conftest import SQL_STORES
from tests.contract.queue_steps import (
    PROFILE,
    WHO,
    WHY,
    as_job,
    batch_with_jobs,
    new_batch,
    taken_batch,
    taken_job,
)
from tests.contract.steps import LONG
from tests.contract.test_queue_crashes import die
from tests.waiting import PATIENT_OPTIONS

#: Every kind of store, in each spelling of the tree. (A service has the tables of its store.)
pytestmark = pytest.mark.parametrize(
    ("kind", "spelling"),
    [*((kind, "design") for kind in SQL_STORES), *(("zookeeper", spelling) for spelling in QUEUE_RULES)],
)
#: Changes a row of a table; None: the row is removed.
Change = Callable[[Transition], Transition | None]


class Opened:
    """A queue with its own tables."""

    def __init__(self, store: Store, rules: QueueRules) -> None:
        self.store = store
        self.rules = rules
        self.queue = Queue(store.queue, "/work")

    def act(self, item: Item, event: str, by: By = By.OPERATOR) -> Item:
        return self.store.queue.act(item.id, event, by, WHY, WHO)

    def events(self, item: Item) -> list[tuple[str, str, str]]:
        """The history of an item, oldest first."""
        (book,) = self.store.history.books
        found = book.read(HistoryFilter(item=item.id, limit=1000))
        return [(entry.event, entry.before, entry.after) for entry in reversed(found) if entry.job == item.id]


OpenWith = Callable[[Change], Opened]


@pytest.fixture
def open_with(store_url: str, spelling: str) -> Iterator[OpenWith]:
    """Opens the store with changed tables; rows of unreachable states are removed."""
    opened: list[Store] = []

    def open_with(change: Change) -> Opened:
        kept = QUEUE_RULES[spelling]
        rules = QueueRules(changed(kept.batch, change), changed(kept.job, change))
        url = store_url if spelling == "design" else f"{store_url}?spelling={spelling}"
        opened.append(open_store(url, options=replace(PATIENT_OPTIONS, queue_rules={**QUEUE_RULES, spelling: rules})))
        return Opened(opened[-1], rules)

    yield open_with
    for store in opened:
        store.close()


def changed(machine: Machine, change: Change) -> Machine:
    rows, reached = [row for row in map(change, machine.rows) if row], {machine.start}
    while more := {row.target for row in rows if row.source in reached} - reached:
        reached |= more
    return replace(machine, rows=tuple(row for row in rows if row.source in reached))


def new_job(opened: Opened) -> IngestJob:
    """The only job of a new batch."""
    batch = batch_with_jobs(opened.queue)
    (job,) = opened.queue.job_ids(batch.id, Folder.PROCESSING)
    return opened.queue.job(job)


def first_job(opened: Opened, state: str = "pending") -> IngestJob:
    """The same, taken in a state that it was moved to."""
    job = new_job(opened)
    while job.state != state:
        taken = taken_job(opened.queue, job.state)
        job = as_job(opened.queue.fire(taken, forward_event(opened.rules.job, job.state)))
    return taken_job(opened.queue, state)


def is_row(row: Transition, *words: str) -> bool:
    """Whether it is the row of this state and event, and of this target if one is given."""
    return (row.source, row.event, row.target)[: len(words)] == words


# ------------------------------------------------------------------ rows


@pytest.mark.parametrize("source", ["pending", "downloading"])
def test_a_consumer_cannot_fire_an_event_without_a_row(open_with: OpenWith, source: str) -> None:
    opened = open_with(lambda row: None if is_row(row, source, "fail") else row)
    job = first_job(opened, source)
    with pytest.raises(TransitionRefused) as refused:
        opened.queue.fire(job, "fail", WHY)
    assert "fail" not in refused.value.allowed
    assert opened.queue.job(job.id).state == source
    assert opened.queue.fire(job, forward_event(opened.rules.job, source), WHY).state != source


def test_nobody_else_can_fire_an_event_without_a_row(open_with: OpenWith) -> None:
    opened = open_with(lambda row: None if row.event in ("release", "resume") else row)
    failed = opened.queue.fire(first_job(opened, "downloading"), "fail", WHY)
    with pytest.raises(TransitionRefused):
        opened.queue.resume(failed.id)
    assert opened.queue.job(failed.id).state == "failed"
    new_batch(opened.queue)
    held = opened.queue.fire(taken_batch(opened.queue), "hold", WHY)
    with pytest.raises(TransitionRefused):
        opened.queue.release(held.id)


def test_an_item_goes_where_its_row_leads(open_with: OpenWith) -> None:
    """A job skips a step, which then has no consumers; another step ends the work; the batch follows."""

    def change(row: Transition) -> Transition | None:
        if is_row(row, "pending", "accept"):
            return replace(row, target="downloading")
        if is_row(row, "downloading", "finish"):
            return replace(row, target="completed")
        return None if "estimating" in (row.source, row.target) else row

    opened = open_with(change)
    job = first_job(opened)
    assert opened.queue.fire(job, "accept").state == "downloading"
    assert "estimating" not in work_states(opened.rules.job)
    assert opened.store.queue.take_job("estimating", asker_for(None, LONG, None)) is None
    done = as_job(opened.queue.fire(taken_job(opened.queue, "downloading"), "finish"))
    assert (done.state, done.last_successful) == ("completed", "downloading")
    assert opened.queue.job_ids(done.batch, Folder.COMPLETED) == [done.id]
    assert opened.queue.report_finished() == [done.batch]
    assert opened.events(done) == [
        ("create", "new", "pending"), ("accept", "pending", "downloading"), ("finish", "downloading", "completed"),
    ]  # fmt: skip


def test_a_renamed_event_is_the_one_that_is_fired_and_recorded(open_with: OpenWith) -> None:
    steps = work_states(MERRITT_INGEST_JOB)
    opened = open_with(
        lambda row: replace(row, event="resume") if row.source in steps and row.event in ("accept", "finish") else row
    )
    job = new_job(opened)
    while job.state in work_states(opened.rules.job):
        taken = taken_job(opened.queue, job.state)
        with pytest.raises(TransitionRefused):
            opened.queue.fire(taken, "finish")
        job = as_job(opened.queue.fire(taken, "resume"))
    assert job.state == "completed"
    assert {event for event, _, _ in opened.events(job)} == {"create", "resume"}


def test_the_death_of_a_consumer_follows_its_rows(open_with: OpenWith) -> None:
    """Without rows it is freed, and nothing is counted; with another target it moves there."""

    def change(row: Transition) -> Transition | None:
        if row.event != "reap" or row.source not in ("pending", "estimating"):
            return row
        return None if row.source == "pending" else replace(row, target="failed")

    opened = open_with(change)
    job = new_job(opened)
    freed = as_job(die(opened.queue, job))
    assert (freed.state, freed.crashes, freed.worker) == ("pending", 0, "")
    opened.queue.fire(taken_job(opened.queue), "accept")
    failed = as_job(die(opened.queue, opened.queue.job(job.id)))
    assert (failed.state, failed.former) == ("failed", "estimating")
    assert opened.queue.job_ids(job.batch, Folder.FAILED) == [job.id]
    assert [event for event, _, _ in opened.events(job)] == ["create", "accept", "reap"]
    assert opened.queue.faults() == []


# ------------------------------------------------------------------ effects and guards


def test_a_row_without_an_effect_does_not_have_it(open_with: OpenWith) -> None:
    """Nothing is recorded, no step is marked, and a consumer keeps its item."""
    without = {
        "submit": Also.RECORD_HISTORY, "create": Also.RECORD_HISTORY, "accept": Also.RECORD_HISTORY,
        "finish": Also.MARK_STEP | Also.DROP_OWNER,
    }  # fmt: skip
    opened = open_with(lambda row: replace(row, also=row.also & ~without.get(row.event, Also.NOTHING)))
    job = new_job(opened)
    assert opened.queue.fire(taken_job(opened.queue), "accept").worker == ""
    taken = taken_job(opened.queue, "estimating")
    kept = as_job(opened.queue.fire(taken, "finish"))
    assert (kept.state, kept.last_successful, kept.worker) == ("provisioning", None, taken.worker)
    assert opened.queue.acquire_job("provisioning") is None
    kept = as_job(opened.queue.fire(kept, "finish"))
    failed = opened.queue.fire(kept, "fail", WHY)
    assert opened.queue.job(job.id).worker == ""
    assert [event for event, _, _ in opened.events(failed)] == ["finish", "finish", "fail"]
    with pytest.raises(QueueRefused):  # No step was marked.
        opened.queue.resume(job.id)


def test_each_row_is_limited_to_its_actor_and_its_conditions(open_with: OpenWith) -> None:
    """Reporting is an operator's event, and a collection on hold does not block releases."""

    def change(row: Transition) -> Transition:
        if row.event == "report":
            return replace(row, by=By.OPERATOR)
        return replace(row, needs="") if row.event == "release" else row

    opened = open_with(change)
    batch = batch_with_jobs(opened.queue, count=2)
    held = opened.queue.fire(taken_job(opened.queue), "hold", WHY)
    opened.queue.set_hold(PROFILE, reason=WHY)
    assert opened.queue.release(held.id).state == "pending"
    for _ in range(2):
        opened.queue.fire(taken_job(opened.queue), "fail", WHY)
    with pytest.raises(TransitionRefused):
        opened.act(batch, "report", By.DAEMON)
    assert opened.act(batch, "report").state == "reporting"
    # The stores, not a daemon's list, determine which batches are due.
    assert opened.queue.reportable() == []


def test_a_condition_that_is_left_out_no_longer_chooses(open_with: OpenWith) -> None:
    """Every batch completes, whatever the outcome of its jobs."""
    opened = open_with(
        lambda row: None if is_row(row, "reporting", "finish", "failed") else
        replace(row, when="") if is_row(row, "reporting", "finish") else row
    )  # fmt: skip
    failed = as_job(opened.queue.fire(first_job(opened), "fail", WHY))
    assert opened.queue.report_finished() == [failed.batch]
    assert opened.queue.fire(taken_batch(opened.queue, "reporting"), "finish").state == "completed"
