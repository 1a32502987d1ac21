"""The whole at a glance: what runs, what waits, and what needs a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headgate.core.alarms import Alarm
from headgate.core.inventory import Message
from headgate.core.ledger import HOLD, Job, Row
from headgate.core.locks import Waiter
from headgate.core.queue import Hold
from headgate.core.scopes import ApiToken
from headgate.service.inventory import Inventory
from headgate.service.ledger import Ledger
from headgate.service.locks import Locks
from headgate.service.queue import Queue

#: Failed and held chunks are counted up to this; beyond it there are "more".
MOST_COUNTED = 200
#: Who waits longer for a lock may need a person.
LONG_WAIT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Overview:
    """How things stand at one moment."""

    #: By the clock of who asked.
    at: datetime
    #: Locks that are held, chunks that are worked on among them.
    held: int
    #: Chunks that are worked on.
    running: int
    #: Who waits for a lock, earliest first.
    waiting: Sequence[Waiter]
    #: Chunks in ERROR, newest first, up to MOST_COUNTED.
    failed: Sequence[Row]
    #: Chunks in HOLD, up to MOST_COUNTED.
    stopped: Sequence[Row]
    #: Jobs that get no chunks.
    paused: Sequence[Job]
    #: Of the queue: collections that are held.
    holds: Sequence[Hold]
    #: Of the queue: how many batches and ingest jobs are in each state.
    counts: Mapping[str, Mapping[str, int]]
    #: Mails and callbacks that did not arrive, up to MOST_COUNTED.
    undelivered: Sequence[Message] = ()
    #: API tokens that end soon, the earliest first.
    expiring: Sequence[ApiToken] = ()
    #: What is stuck.
    alarms: Sequence[Alarm] = ()

    @property
    def failed_lately(self) -> int:
        """Chunks that are in ERROR since less than a day."""
        since = self.at - timedelta(days=1)
        return sum(1 for row in self.failed if row.since is not None and row.since >= since)

    @property
    def oldest_wait(self) -> timedelta | None:
        """Of a lock that somebody waits for."""
        return max(self.at - self.waiting[0].since, timedelta()) if self.waiting else None

    @property
    def long_waits(self) -> Sequence[Waiter]:
        """Who waits so long that somebody should look."""
        return [waiter for waiter in self.waiting if self.at - waiter.since >= LONG_WAIT]

    def in_state(self, noun: str, *states: str) -> int:
        """How many batches, or ingest jobs, are in these states."""
        return sum(self.counts.get(noun, {}).get(state, 0) for state in states)


def overview(
    locks: Locks, ledger: Ledger | None, queue: Queue, inventory: Inventory | None, expiring: Sequence[ApiToken]
) -> Overview:
    """How things stand. Asks for nothing that grows with what is done."""
    running = () if ledger is None else ledger.running()
    return Overview(
        at=datetime.now(UTC),
        held=locks.status()["lockCount"],
        running=len(running),
        waiting=locks.waiters(),
        failed=() if ledger is None else ledger.failures(MOST_COUNTED),
        stopped=() if ledger is None else _told_once(ledger.status(status=HOLD, limit=MOST_COUNTED)),
        paused=() if ledger is None else [job for job in ledger.jobs() if job.paused],
        holds=queue.holds(),
        counts=queue.counts(),
        undelivered=() if inventory is None else inventory.messages(failed=True, limit=MOST_COUNTED),
        expiring=expiring,
    )


def _told_once(rows: Sequence[Row]) -> Sequence[Row]:
    """One row for each chunk of a job."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        found.setdefault((row.job, row.dataid), row)
    return list(found.values())
