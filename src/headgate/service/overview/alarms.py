"""Collects the facts that the rules for alarms look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Protocol

from headgate.core.alarms import Alarm, AlarmFacts, Backlog, Unclaimed, find_alarms
from headgate.core.daemons import step_of
from headgate.core.errors import Unavailable
from headgate.core.history import HistoryFilter
from headgate.core.ledger.model import CLAIM_EVENT, DONE, Job
from headgate.core.queue.model import ALL, PENDING, Batch, work_states
from headgate.core.tables.states import BATCH, MERRITT_INGEST_JOB
from headgate.service.expectations import Expectations
from headgate.service.inventory import Inventory
from headgate.service.leases.clock import steady, wall
from headgate.service.ledger.use_cases import Ledger
from headgate.service.ledger.watches import Watches
from headgate.service.queue.use_cases import Queue
from headgate.service.upkeep import Upkeep
from headgate.stores.ports.history import HistoryStore

#: Maximum number of pending batches whose profile is checked, of jobs of the ledger that are read, and of messages that
#: are counted.
MOST_BATCHES, MOST_JOBS, MOST_COUNTED = 100, 100, 1000
#: Number of history entries from which the usual time in a state, or between two runs of a job, is derived.
EXPERIENCE = 500
#: A completed job that is older should have been cleaned up.
CLEANED_WITHIN = timedelta(days=1)
#: The ledger is checked once in this many seconds: its chunks count as stuck after a day.
LEDGER_SECONDS = 60.0
#: Chunks that were due this long ago should have been judged.
UNJUDGED_SECONDS = 300.0


class Profiles(Protocol):
    """A process's access to ingest profiles."""

    @property
    def exists(self) -> bool:
        """Whether there is a folder of profiles."""

    def problem(self, name: str) -> str:
        """Why the profile with that name cannot be used; empty: it can."""


class FindsAlarms(Protocol):
    """Finds alarms, here or at a service."""

    def find(self) -> list[Alarm]:
        """Everything that is stuck now."""

    def of_batch(self, batch: Batch) -> list[Alarm]:
        """What blocks a batch; empty when nothing does, or the store does not answer."""


class Alarms:
    """Finds what is stuck in one store."""

    def __init__(
        self,
        queue: Queue,
        ledger: Ledger | None,
        inventory: Inventory | None,
        profiles: Profiles,
        history: HistoryStore,
        upkeep: Upkeep,
        watches: Watches | None,
        expectations: Expectations | None,
    ) -> None:
        self._queue = queue
        self._history = history
        self._upkeep = upkeep
        self._watches = watches
        self._expectations = expectations
        self._ledger = ledger
        self._inventory = inventory
        self._profiles = profiles
        self._unclaimed: Sequence[Unclaimed] = ()
        self._ledger_until = 0.0

    def find(self) -> list[Alarm]:
        """Everything that is stuck now."""
        living = {step for daemon in self._queue.presence.living() for step in daemon.steps}
        return find_alarms(
            AlarmFacts(
                at=wall(),
                waiting=self._waiting(living),
                living=living,
                knows_consumers=self._knows_consumers,
                paused=any(hold.profile == ALL for hold in self._queue.holds()),
                unusable=[] if self._elsewhere(living) else self._unusable(),
                has_profiles=self._profiles.exists,
                rounds=self._rounds(living),
                watchers=self._watches.list() if self._watches else (),
                unclaimed=self._unclaimed_chunks(),
                history_overdue=self._upkeep.history_overdue(),
                logs_overdue=self._upkeep.logs_overdue(),
                usual=self._usual,
            )
        )

    def of_batch(self, batch: Batch) -> list[Alarm]:
        """What blocks a batch; empty when nothing does, or the store does not answer."""
        if batch.state not in work_states(BATCH):
            return []
        with suppress(Unavailable):
            return find_alarms(self._facts_of(batch))
        return []

    def _facts_of(self, batch: Batch) -> AlarmFacts:
        step = step_of(BATCH.name, batch.state)
        living = {name for daemon in self._queue.presence.living() for name in daemon.steps}
        taken = step not in living and len(self._taken(batch, batch.state)) > 0
        looked_up = batch.state == PENDING and not self._elsewhere(living)
        problem = self._profiles.problem(batch.profile) if looked_up else ""
        return AlarmFacts(
            at=wall(),
            waiting=[Backlog(BATCH.name, batch.state, 1, batch, some_taken=taken)],
            living=living,
            knows_consumers=self._knows_consumers,
            unusable=[(batch, problem)] if problem else [],
            has_profiles=self._profiles.exists,
        )

    @property
    def _knows_consumers(self) -> bool:
        """Merritt's own daemons work on a queue in its spelling, without registering."""
        return self._queue.tables()[1] is not MERRITT_INGEST_JOB

    def _elsewhere(self, living: set[str]) -> bool:
        """Whether daemons on another machine, with their own profiles, take new batches."""
        return not self._profiles.exists and step_of(BATCH.name, PENDING) in living

    def _waiting(self, living: set[str]) -> list[Backlog]:
        counts = self._queue.counts()
        found = []
        for table in self._queue.tables():
            for state in work_states(table):
                count = counts.get(table.name, {}).get(state, 0)
                first = self._queue.first_free(table.name, state) if count else None
                if first is None:
                    continue
                known = step_of(table.name, state) in living
                taken = 0 if known else len(self._taken(first, state))
                found.append(Backlog(table.name, state, max(count - taken, 1), first, taken > 0))
        return found

    def _taken(self, like: object, state: str) -> Sequence[object]:
        if isinstance(like, Batch):
            return self._queue.batches(state, taken=True, limit=MOST_COUNTED)
        return self._queue.jobs(state, taken=True, limit=MOST_COUNTED)

    def _unusable(self) -> list[tuple[Batch, str]]:
        batches = self._queue.batches(PENDING, limit=MOST_BATCHES)
        problems = {name: self._profiles.problem(name) for name in {batch.profile for batch in batches}}
        return [(batch, problems[batch.profile]) for batch in batches if problems[batch.profile]]

    def _rounds(self, living: set[str]) -> dict[str, int]:
        """The amount of work that waits for missing daemons."""
        jobs = self._queue.tables()[1]
        age = CLEANED_WITHIN.total_seconds()
        counts: dict[str, Callable[[], int]] = {
            "batch-watcher": lambda: len(self._queue.reportable(MOST_COUNTED)),
            "cleaner": lambda: len(self._queue.cleanable(jobs.name, age, MOST_COUNTED)),
            "timekeeper": self._unjudged,
            "messenger": lambda: len(self._inventory.due(MOST_COUNTED)) if self._inventory else 0,
        }
        return {name: count() for name, count in counts.items() if name not in living}

    def _unjudged(self) -> int:
        """Number of datasets with chunks that were due some time ago and not judged."""
        found = self._expectations.lateness() if self._expectations else ()
        return sum(each.behind > UNJUDGED_SECONDS for each in found)

    def _usual(self, noun: str, state: str) -> timedelta | None:
        """How long items stayed in a state, according to the newest history."""
        told = self._history.page(HistoryFilter(nouns=(noun,), limit=EXPERIENCE))
        spent = [entry.spent for entry in told if entry.before == state and entry.spent is not None]
        return timedelta(seconds=median(spent)) if spent else None

    def _unclaimed_chunks(self) -> Sequence[Unclaimed]:
        """Claimable chunks of jobs that are not running, one entry for each job."""
        ledger = self._ledger
        if ledger is None:
            return ()
        if steady() >= self._ledger_until:
            busy = {row.job for row in ledger.running()}
            idle = [job for job in ledger.jobs() if job.inputs and not job.paused and job.name not in busy]
            found = (self._unclaimed_of(ledger, job) for job in idle[:MOST_JOBS])
            self._unclaimed = [each for each in found if each]
            self._ledger_until = steady() + LEDGER_SECONDS
        return self._unclaimed

    def _unclaimed_of(self, ledger: Ledger, job: Job) -> Unclaimed | None:
        plan = ledger.next_of(job)
        if not plan.next:
            return None
        first = plan.next[0]
        again = timedelta(seconds=job.recur)
        times = [
            each.row.since + (again if each.row.status == DONE else timedelta())
            for each in first.conditions
            if each.row is not None and each.row.since is not None
        ]
        if not times:
            return None
        ran = [
            entry.at for entry in self._history.page(HistoryFilter(job=job.name, event=CLAIM_EVENT, limit=EXPERIENCE))
        ]
        pauses = (later - earlier for later, earlier in pairwise(ran))
        count = ledger.left_of(job)
        return Unclaimed(
            job.name, first.dataid, count, max(times), ran[0] if ran else None, max(pauses, default=timedelta())
        )
