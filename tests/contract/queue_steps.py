"""Building blocks of the queue's cases: items in every state, every row fired, and a dump of everything stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from headgate import Batch, Gate, IngestJob, UnknownName
from headgate.client.queue import RemoteQueue
from headgate.core.history import QUEUE_NOUNS, Entry
from headgate.core.queue.model import Folder, Hold, Item, NewJob, Taken, forward_event, is_batch, work_states
from headgate.core.tables.machine import By, Machine, Transition
from headgate.core.tables.states import BATCH, INGEST_JOB
from headgate.service.queue.use_cases import Queue
from headgate.stores.ports.queue import QueueStore
from tests.contract.steps import LONG
from tests.waiting import until

T = TypeVar("T")

WHY = "the test wants it so"
WHO = "the operator"
PROFILE = "demo_content"
#: The states of a successful job, in order.
STEPS = work_states(INGEST_JOB)
FOLDERS = (Folder.PROCESSING, Folder.FAILED, Folder.COMPLETED)


def port(gate: Gate) -> QueueStore:
    """The store's own side of the queue, where events can be fired by callers that may not do so."""
    return cast("QueueStore", QueueOverHttp(gate.queue)) if gate.service else gate.store.queue


class QueueOverHttp:
    """The queue of a service with the methods of the port, for cases that use a store directly."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.batch_table, self.job_table = queue.tables()

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        return self._queue.act(item_id, event, reason=reason, by=who, daemon=by is By.DAEMON)

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], _work_folder: str) -> int:
        return self._queue.create_portion(taken, position, jobs)

    def cleanable(self, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
        return self._queue.cleanable(machine.name, seconds, limit)


# ---------------------------------------------------------------- making


def new_batch(queue: Queue, profile: str = PROFILE) -> Batch:
    """A submitted batch."""
    return queue.submit(profile, "ann", "https://example.org/payload.checkm")


def taken_batch(queue: Queue, state: str = "pending") -> Batch:
    """The next batch in a state, which must exist."""
    batch = queue.acquire_batch(state, lease=LONG)
    assert batch is not None
    return batch


def taken_job(queue: Queue, state: str = "pending") -> IngestJob:
    """The next job in a state, which must exist."""
    job = queue.acquire_job(state, lease=LONG)
    assert job is not None
    return job


def rows_for(count: int, **more: Any) -> list[dict[str, Any]]:
    """Objects of a payload."""
    return [{"payload_url": f"https://example.org/{number}", **more} for number in range(count)]


def batch_with_jobs(
    queue: Queue, count: int = 1, profile: str = PROFILE, max_crashes: int | None = None, **more: Any
) -> Batch:
    """A batch that is processing, with `count` pending jobs. `max_crashes`: of its profile."""
    if max_crashes is not None and isinstance(queue, RemoteQueue):
        folder = Path("headgate-profiles")
        folder.mkdir(exist_ok=True)
        (folder / f"{profile}.toml").write_text(f'collection = "c"\nowner = "o"\nmax_crashes = {max_crashes}\n')
    made = new_batch(queue, profile)
    batch = taken_batch(queue)
    assert batch.id == made.id
    assert queue.create_jobs(batch, rows_for(count, **more), max_crashes=max_crashes) == count
    queue.fire(batch, "start")
    return queue.batch(batch.id)


def job_in(queue: Queue, state: str, good: str | None = None) -> IngestJob:
    """The only job of a new batch, in that state; a failed one with that last successful step."""
    batch = batch_with_jobs(queue)
    job = queue.job(queue.job_ids(batch.id, Folder.PROCESSING)[0])
    if state == "held":
        return as_job(queue.fire(taken_job(queue), "hold", WHY))
    if state == "failed":
        before = "pending" if good is None else next_step(good)
        job = advance(queue, job, before)
        return as_job(queue.fire(taken_job(queue, before), "fail", "it broke"))
    if state == "cleaned":
        job = advance(queue, job, "completed")
        assert job.id in queue.clean(0)
        return queue.job(job.id)
    return advance(queue, job, state)


def next_step(state: str) -> str:
    """The state that follows a successful step."""
    return INGEST_JOB.find(state, forward_event(INGEST_JOB, state))[0].target


def advance(queue: Queue, job: IngestJob, state: str) -> IngestJob:
    """Step by step, all successful, up to a state."""
    while job.state != state:
        taken = taken_job(queue, job.state)
        assert taken.id == job.id
        job = as_job(queue.fire(taken, forward_event(INGEST_JOB, job.state)))
    return job


def batch_in(queue: Queue, state: str, *, well: bool = True) -> Batch:
    """A batch in that state; `well`: its only job has completed, or will complete."""
    if state == "pending":
        return new_batch(queue)
    if state == "held":
        new_batch(queue)
        return as_batch(queue.fire(taken_batch(queue), "hold", WHY))
    if state == "processing":
        return batch_with_jobs(queue)
    ends_well = well and state not in ("failed", "update-reporting")
    job = job_in(queue, "completed") if ends_well else job_in(queue, "failed", "recording")
    assert queue.report_finished() == [job.batch]
    if state in ("completed", "failed", "update-reporting"):
        queue.fire(taken_batch(queue, "reporting"), "finish")
    if state == "update-reporting":
        if well:
            advance(queue, as_job(queue.resume(job.id)), "completed")
        queue.update_report(job.batch, reason=WHY, by=WHO)
    assert queue.batch(job.batch).state == state
    return queue.batch(job.batch)


def item_in(queue: Queue, machine: Machine, state: str) -> Item:
    """A batch or job in that state."""
    return batch_in(queue, state) if machine.name == BATCH.name else job_in(queue, state)


def as_job(item: Item) -> IngestJob:
    assert isinstance(item, IngestJob)
    return item


def as_batch(item: Item) -> Batch:
    assert isinstance(item, Batch)
    return item


def as_taken(item: Item, state: str | None = None) -> Taken:
    """The proof of an item's owner."""
    return Taken(item.id, max(item.token, 1), state or item.state, "somebody", LONG)


def take(queue: Queue, item: Item) -> Item:
    """The taken item: it must be the next one in its state."""
    found = taken_batch(queue, item.state) if is_batch(item.id) else taken_job(queue, item.state)
    assert found.id == item.id
    return found


# ---------------------------------------------------------------- the rows of the tables


def prepared_for(queue: Queue, machine: Machine, row: Transition) -> Item:
    """An item for which the row can be fired: in its state, with its condition met."""
    if row.event == "report":
        return queue.batch(job_in(queue, "completed").batch)
    if machine.name == BATCH.name:
        return batch_in(queue, row.source, well=row.when != "a job failed, or it has no jobs")
    good = row.when.removeprefix("the last successful step was ") or None
    return job_in(queue, row.source, good)


def fire_row(gate: Gate, row: Transition, item: Item) -> Item:
    """Fire it, as an actor that may."""
    if row.by is By.OWNER:
        return gate.queue.fire(take(gate.queue, item), row.event, WHY)
    return port(gate).act(item.id, row.event, row.by, WHY, WHO)


def row_name(machine: Machine, row: Transition) -> str:
    """A row of one of the tables."""
    return f"{machine.name}: {row.name}"


# ---------------------------------------------------------------- looking


class Everything(NamedTuple):
    """Everything that the queue stores."""

    batches: list[Batch]
    jobs: list[IngestJob]
    folders: dict[str, dict[str, list[str]]]
    counts: dict[str, dict[str, int]]
    holds: list[Hold]
    history: list[Entry]


def everything(gate: Gate) -> Everything:
    """All of it, as any caller can read it."""
    queue = gate.queue
    batches = list(queue.batches())
    counts = {noun: dict(found) for noun, found in queue.counts().items()}
    return Everything(
        batches,
        list(queue.jobs()),
        {batch.id: folders(queue, batch.id) for batch in batches},
        counts,
        list(queue.holds()),
        [entry for entry in gate.history(limit=100_000) if entry.noun in QUEUE_NOUNS],
    )


def folders(queue: Queue, batch: str) -> dict[str, list[str]]:
    """Where a batch keeps each of its jobs."""
    return {folder.value: list(queue.job_ids(batch, folder)) for folder in FOLDERS}


def told(gate: Gate, item: str) -> list[Entry]:
    """The history of an item itself, oldest first."""
    found = gate.history(item=item, limit=100_000)
    return [entry for entry in reversed(found) if entry.job == item]


def is_there(queue: Queue, item_id: str) -> bool:
    """Whether the item still exists."""
    try:
        if is_batch(item_id):
            queue.batch(item_id)
        else:
            queue.job(item_id)
    except UnknownName:
        return False
    return True


def untaken(item: Item) -> Item:
    """The item without the values that a take changes."""
    return replace(item, worker="", token=0, lease=None)


def retaken(acquire: Callable[[], T | None]) -> T:
    """A dead consumer's item, once it is free again."""
    found: list[T] = []

    def look() -> bool:
        item = acquire()
        found.extend([] if item is None else [item])
        return bool(found)

    until(look, "what a dead consumer had")
    return found[0]


#: Every row of the tables.
ROWS = [(machine, row) for machine in (BATCH, INGEST_JOB) for row in machine.rows]
