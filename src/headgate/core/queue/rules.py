"""The tables that decide about batches and ingest jobs, as one value, and the conditions that their rows name.

Stores take the tables as a parameter, and tests change a row of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property, reduce
from operator import or_

from headgate.core.errors import QueueRefused, TransitionRefused
from headgate.core.queue.model import (
    CLEAN_EVENT,
    COUNTERS,
    CREATE_EVENT,
    MAX_CRASHES,
    REAP_EVENT,
    SUBMIT_EVENT,
    Batch,
    Folder,
    Hold,
    IngestJob,
    Item,
    folder_of,
    is_batch,
    work_states,
)
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.core.tables.states import BATCH, INGEST_JOB, MERRITT_BATCH, MERRITT_INGEST_JOB


class Look(Flag):
    """The facts that a condition looks at beside the item itself. A store reads them only if a row of the event asks
    for it.
    """

    NOTHING = 0
    #: The hold of the item's collection.
    HOLD = auto()
    #: The state of the job's batch.
    BATCH = auto()
    #: Whether the batch has jobs in processing.
    RUNNING = auto()
    #: How many jobs the batch has, and how many of them have failed.
    COUNTS = auto()
    #: A job of the batch that a consumer has taken.
    TAKEN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The facts that conditions look at."""

    #: The batch or ingest job; None: there is none.
    item: Item | None
    #: The hold of its collection.
    hold: Hold | None = None
    #: The state of the job's batch.
    batch_state: str = ""
    #: A job of the batch that a consumer has taken.
    taken_job: str = ""
    #: How many workers may crash on an item if its profile does not say; 0: any number.
    max_crashes: int = 0


@dataclass(frozen=True, slots=True)
class Predicate:
    """The meaning of a text in `when` or `needs`."""

    is_met: Callable[[QueueFacts], bool]
    looks: Look = Look.NOTHING
    #: Why an event is refused if the condition is not met; None: the text itself says it.
    refusal: Callable[[QueueFacts], str] | None = None


def _job(facts: QueueFacts) -> IngestJob:
    assert isinstance(facts.item, IngestJob)  # noqa: S101 - only the jobs' table names the condition
    return facts.item


def _batch(facts: QueueFacts) -> Batch:
    assert isinstance(facts.item, Batch)  # noqa: S101 - only the batches' table names the condition
    return facts.item


def _has_failed(facts: QueueFacts) -> bool:
    return _batch(facts).jobs.failed > 0 or _batch(facts).made == 0


def _crashes_too_often(facts: QueueFacts) -> bool:
    item = facts.item
    said = item.configuration.get(MAX_CRASHES) if isinstance(item, IngestJob) else None
    is_number = isinstance(said, int) and not isinstance(said, bool) and said >= 0
    most = said if is_number and said is not None else facts.max_crashes
    return item is not None and 0 < most <= item.crashes + 1


def _was_held_in(*states: str) -> Predicate:
    return Predicate(lambda facts: facts.item is not None and facts.item.former in states)


def _has_succeeded_in(step: str) -> Predicate:
    return Predicate(lambda facts: _job(facts).last_successful == step, refusal=_no_next_step)


def _no_next_step(facts: QueueFacts) -> str:
    if _job(facts).last_successful is None:
        return "it failed before its first step finished; submit it again"
    return f"its last successful step is {_job(facts).last_successful}, after which no job is resumed; submit it again"


#: States of a batch in which its failed jobs may be resumed.
_RESUMABLE = ("processing", "failed")
#: The texts of `when` and `needs` in the tables.
CONDITIONS: Mapping[str, Predicate] = {
    "its collection is not held": Predicate(
        lambda facts: facts.hold is None, Look.HOLD, lambda facts: facts.hold.in_words if facts.hold else ""
    ),
    "none of its jobs is taken": Predicate(
        lambda facts: not facts.taken_job,
        Look.TAKEN,
        lambda facts: f"{facts.taken_job} is being processed; try again when it has finished",
    ),
    "none of its jobs is in processing": Predicate(
        lambda facts: _batch(facts).jobs.processing == 0,
        Look.RUNNING,
        lambda facts: f"{_batch(facts).jobs.processing} of its jobs have not finished",
    ),
    "no job failed": Predicate(lambda facts: not _has_failed(facts), Look.COUNTS),
    "a job failed, or it has no jobs": Predicate(_has_failed, Look.COUNTS),
    "its batch is processing or failed": Predicate(
        lambda facts: facts.batch_state in _RESUMABLE,
        Look.BATCH,
        lambda facts: f"its batch is {facts.batch_state}; try again when its report has been sent",
    ),
    "fewer than max_crashes workers crashed on it": Predicate(lambda facts: not _crashes_too_often(facts)),
    "max_crashes workers crashed on it": Predicate(_crashes_too_often),
    "it was held in pending": _was_held_in("", "pending"),
    **{
        f"its workers crashed in {state}": _was_held_in(state)
        for machine in (BATCH, MERRITT_INGEST_JOB)
        for state in work_states(machine)
    },
    **{f"the last successful step was {step}": _has_succeeded_in(step) for step in work_states(MERRITT_INGEST_JOB)},
}


@dataclass(frozen=True, eq=False)
class QueueRules:
    """What may happen to batches and ingest jobs."""

    batch: Machine = BATCH
    job: Machine = INGEST_JOB

    def machine(self, item_id: str) -> Machine:
        """The table that an item follows."""
        return self.batch if is_batch(item_id) else self.job

    def rows(self, item_id: str, state: str, event: str) -> Sequence[Transition]:
        """The rows of an event in a state; TransitionRefused when there are none."""
        return self.machine(item_id).find(state, event)

    def rows_for(self, item_id: str, state: str, event: str, by: By) -> Sequence[Transition]:
        """Those among them that this caller may fire; TransitionRefused when there are none."""
        found = [row for row in self.rows(item_id, state, event) if row.by is by]
        if not found:
            machine = self.machine(item_id)
            own = dict.fromkeys(row.event for row in machine.rows if row.source == state and row.by is by)
            raise TransitionRefused(machine.name, state, event, tuple(own))
        return found

    def looks(self, item_id: str, state: str, event: str) -> Look:
        """The facts that the rows of an event in a state look at."""
        return self._looks.get((self.machine(item_id).name, state, event), Look.NOTHING)

    def reap_row(self, facts: QueueFacts) -> Transition | None:
        """The row for an item whose consumer died; None: there is none in its state."""
        item = facts.item
        if item is None:
            return None
        return self.machine(item.id).choose(item.state, REAP_EVENT, lambda row: CONDITIONS[row.when].is_met(facts))

    def reaps_into(self, item_id: str, former: str, state: str) -> bool:
        """Whether the death of a consumer can lead from one state to the other."""
        return any(row.target == state for row in self.machine(item_id).rows_of(former, REAP_EVENT))

    def removes(self, item_id: str, row: Transition) -> bool:
        """Whether a row removes the item. It stays while other rows continue from the target state."""
        return row.also.has(Also.DROP_ALL) and row.target in self._ends[self.machine(item_id).name]

    def concerns_jobs(self, item_id: str, event: str) -> bool:
        """Whether an event removes a batch with jobs in some state, or depends on which of them are taken."""
        return is_batch(item_id) and event in self._concerning_jobs

    def may_be_taken(self, machine: Machine, state: str) -> bool:
        """Whether consumers work on what follows this table in that state."""
        return state in machine.owned

    def state_for_jobs(self, batch: Batch) -> str:
        """The state of a batch that applies to events of its jobs.

        Merritt's programs set the reporting state as soon as they have created the jobs. The report is due when none is
        running.
        """
        is_early = batch.jobs.processing > 0 and batch.state in self.after_jobs
        return self.reportable[0] if is_early else batch.state

    def has_left(self, job: IngestJob) -> bool:
        """Whether a job is no longer in the queue."""
        return job.state in self._ends[self.job.name]

    def fast_row(self, item_id: str, state: str, event: str) -> Transition | None:
        """The row of a job that a fast path may execute: the only one of its event, with effects that it implements.

        None: left to the slow path. TransitionRefused when there is no row for a consumer.
        """
        row = None if is_batch(item_id) else self._fast.get((state, event))
        if row is None:
            self.rows_for(item_id, state, event, By.OWNER)
        return row

    # ------------------------------------------------------------ parts of the tables

    @property
    def submit(self) -> Transition:
        """The row of a new batch."""
        return self.rows("bid", self.batch.start, SUBMIT_EVENT)[0]

    @property
    def create(self) -> Transition:
        """The row of a new job."""
        return self.rows("jid", self.job.start, CREATE_EVENT)[0]

    @cached_property
    def reportable(self) -> tuple[str, ...]:
        """States of batches that a daemon advances when none of their jobs is in processing."""
        return _states(row.source for row in self._after_jobs if row.by is By.DAEMON)

    @cached_property
    def with_jobs(self) -> tuple[str, ...]:
        """States of batches that wait until none of their jobs is in processing."""
        return _states(row.source for row in self._after_jobs)

    @cached_property
    def before_jobs(self) -> tuple[str, ...]:
        """States of batches whose jobs do not all exist yet."""
        made_in = self.submit.target
        after = (row.target for row in self.batch.rows if row.source == made_in and row.target not in self.with_jobs)
        return _states((made_in, *after))

    @cached_property
    def after_jobs(self) -> tuple[str, ...]:
        """States that a batch enters when none of its jobs is in processing."""
        return _states(row.target for row in self._after_jobs)

    @cached_property
    def cleaned(self) -> Mapping[str, str]:
        """States of jobs that have left the queue while their record is kept, each with the preceding state."""
        return {row.target: row.source for row in self.job.rows if row.also.has(Also.DROP_ENTRY)}

    @property
    def _after_jobs(self) -> Iterable[Transition]:
        return (row for row in self.batch.rows if looks_of(row.needs) is Look.RUNNING)

    @cached_property
    def _looks(self) -> Mapping[tuple[str, str, str], Look]:
        found: dict[tuple[str, str, str], Look] = {}
        for machine in (self.batch, self.job):
            for row in machine.rows:
                key = (machine.name, row.source, row.event)
                found[key] = found.get(key, Look.NOTHING) | looks_of(row.when, row.needs)
        return found

    @cached_property
    def _fast(self) -> Mapping[tuple[str, str], Transition]:
        return {
            (row.source, row.event): row
            for row in self.job.rows
            if not row.when and not row.needs and row.by is By.OWNER and row.also | Also.MARK_STEP == _FAST_EFFECTS
            and folder_of(row.source) is Folder.PROCESSING and folder_of(row.target) in COUNTERS
        }  # fmt: skip

    @cached_property
    def _ends(self) -> Mapping[str, frozenset[str]]:
        return {machine.name: frozenset(machine.ends) for machine in (self.batch, self.job)}

    @cached_property
    def _concerning_jobs(self) -> frozenset[str]:
        return frozenset(
            row.event
            for row in self.batch.rows
            if row.also.has(Also.DROP_ALL) or Look.TAKEN in looks_of(row.when, row.needs)
        )


#: The effects that every fast path implements, and that of a successful step.
_FAST_EFFECTS = Also.DROP_OWNER | Also.RECORD_HISTORY | Also.MARK_STEP
#: The standard tables, by the spelling of the tree in which the queue is kept. Databases use the first one.
DESIGN, MERRITT = "design", "mrt-zk"
QUEUE_RULES: Mapping[str, QueueRules] = {DESIGN: QueueRules(), MERRITT: QueueRules(MERRITT_BATCH, MERRITT_INGEST_JOB)}


def choose(rows: Sequence[Transition], facts: QueueFacts) -> Transition:
    """The row whose condition is met. QueueRefused if there is none, or if its `needs` is not met."""
    row = next((row for row in rows if not row.when or CONDITIONS[row.when].is_met(facts)), None)
    unmet = rows[0].when if row is None else row.needs
    if row is not None and (not unmet or CONDITIONS[unmet].is_met(facts)):
        return row
    refusal = CONDITIONS[unmet].refusal
    why = refusal(facts) if refusal else f"this condition is not met: {unmet}"
    raise QueueRefused(facts.item.id if facts.item else "", rows[0].event, why)


def cleanable(machine: Machine) -> tuple[str, ...]:
    """States in which items are cleaned up."""
    return _states(row.source for row in machine.rows if row.event == CLEAN_EVENT)


def _states(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def looks_of(*conditions: str) -> Look:
    """The facts that these conditions look at."""
    return reduce(or_, (CONDITIONS[text].looks for text in conditions if text), Look.NOTHING)
