"""The queue according to the tables alone: no store, no clock. Every store must do the same."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headgate import ItemLost, QueueRefused, UnknownName
from headgate.core.queue.model import (
    Batch,
    Folder,
    Hold,
    Identifiers,
    IngestJob,
    JobCounts,
    Submission,
    Taken,
    folder_of,
    is_batch,
)
from headgate.core.queue.rules import QueueFacts, QueueRules, choose
from headgate.core.tables.machine import Also, By, Machine
from headgate.core.tables.states import BATCH, INGEST_JOB

RULES = QueueRules(BATCH, INGEST_JOB)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class Thing:
    """A batch or a job."""

    id: str
    state: str
    profile: str
    batch: str = ""
    priority: int = 5
    last: str | None = None
    retries: int = 0
    made: int = 0
    #: The token of the newest take, and whether that still holds the item.
    token: int = 0
    taken: bool = False


@dataclass
class Model:
    """All batches and jobs, and the holds."""

    things: dict[str, Thing] = field(default_factory=dict)
    holds: set[str] = field(default_factory=set)
    told: list[tuple[str, str, str, str]] = field(default_factory=list)

    def first(self, machine: Machine, state: str) -> str | None:
        """The next item."""
        if "*" in self.holds:
            return None
        free = [
            each for each in self.things.values()
            if self.machine(each.id) is machine and each.state == state and not each.taken
        ]  # fmt: skip
        key = (lambda each: each.id) if machine is BATCH else (lambda each: (each.priority, each.id))
        return min(free, key=key).id if free else None

    def take(self, item: str, token: int) -> None:
        thing = self.things[item]
        thing.token, thing.taken = token, True

    def give_back(self, taken: Taken) -> None:
        self._owned(taken).taken = False

    def fire(self, taken: Taken, event: str) -> None:
        machine = self.machine(taken.id)
        RULES.rows_for(taken.id, taken.state, event, By.OWNER)
        thing = self.things.get(taken.id)
        targets = {row.target for row in machine.find(taken.state, event)}
        if thing and not thing.taken and thing.token == taken.token and thing.state in targets:
            return
        self._move(self._owned(taken), event)

    def act(self, item: str, event: str, by: By) -> None:
        thing = self.things.get(item)
        if thing is None:
            raise UnknownName("item", item)
        RULES.rows_for(item, thing.state, event, by)
        if thing.taken:
            raise QueueRefused(item, event, "taken")
        self._move(thing, event)

    def has(self, taken: Taken) -> bool:
        """Whether it still belongs to the owner."""
        thing = self.things.get(taken.id)
        return bool(thing and thing.taken and (thing.token, thing.state) == (taken.token, taken.state))

    def counts(self, batch: str) -> JobCounts:
        jobs = [folder_of(each.state) for each in self.jobs_of(batch)]
        return JobCounts(*(jobs.count(folder) for folder in (Folder.PROCESSING, Folder.FAILED, Folder.COMPLETED)))

    def jobs_of(self, batch: str) -> list[Thing]:
        return [each for each in self.things.values() if each.batch == batch]

    def machine(self, item: str) -> Machine:
        return BATCH if is_batch(item) else INGEST_JOB

    def _owned(self, taken: Taken) -> Thing:
        if not self.has(taken):
            raise ItemLost(taken.id, taken.token, "not yours")
        return self.things[taken.id]

    def _move(self, thing: Thing, event: str) -> None:
        row = choose(RULES.rows(thing.id, thing.state, event), self._facts(thing))
        self.told.append((thing.id, event, thing.state, row.target))
        if Also.DROP_ALL in row.also:
            for job in self.jobs_of(thing.id):
                del self.things[job.id]
            del self.things[thing.id]
            return
        thing.state, thing.taken = row.target, False
        thing.last = row.source if Also.MARK_STEP in row.also else thing.last
        thing.retries += Also.COUNT_RETRY in row.also

    def _facts(self, thing: Thing) -> QueueFacts:
        hold = Hold(thing.profile, "", "") if thing.profile in self.holds else None
        if not is_batch(thing.id):
            job = IngestJob(
                thing.id, thing.batch, thing.state, thing.last, 0, 5, 0, Identifiers(), {}, "", LONG_AGO,
            )  # fmt: skip
            return QueueFacts(item=job, batch_state=self.things[thing.batch].state, hold=hold)
        taken: Any = next((job.id for job in self.jobs_of(thing.id) if job.taken), "")
        said = Submission(thing.profile, "", "")
        batch = Batch(thing.id, thing.state, said, "", LONG_AGO, self.counts(thing.id), thing.made)
        return QueueFacts(item=batch, hold=hold, taken_job=taken)
