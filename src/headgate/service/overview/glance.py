"""A summary: running and waiting work, and problems that need a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headgate.core.access.scopes import ApiToken
from headgate.core.alarms import Alarm
from headgate.core.counts import Counts
from headgate.core.inventory import Message
from headgate.core.ledger.model import HOLD, Job, Row
from headgate.core.locks.model import Waiter
from headgate.core.queue.model import FAILED, Batch, Hold
from headgate.service.inventory import Inventory
from headgate.service.ledger.use_cases import Ledger
from headgate.service.locks.use_cases import Locks
from headgate.service.queue.use_cases import Queue

#: Maximum number of failed and held chunks, and of undelivered messages, that are named.
MOST_NAMED = 200
#: Seconds after which a waiter for a lock may need attention.
LONG_WAIT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Overview:
    """Running work, waiting work and problems that need an operator, at one moment."""

    #: By the caller's clock.
    at: datetime
    #: All counts; the lists below may be cut short.
    now: Counts
    #: Waiters for locks, earliest first.
    waiting: Sequence[Waiter]
    #: Chunks in ERROR, newest first, up to MOST_NAMED.
    failed: Sequence[Row]
    #: Chunks in HOLD, up to MOST_NAMED.
    stopped: Sequence[Row]
    #: Paused jobs.
    paused: Sequence[Job]
    #: Batches that failed, up to MOST_NAMED.
    failed_batches: Sequence[Batch]
    #: The held collections of the queue.
    holds: Sequence[Hold]
    #: Undelivered mails and callbacks, up to MOST_NAMED.
    undelivered: Sequence[Message] = ()
    #: API tokens that expire soon, earliest first.
    expiring: Sequence[ApiToken] = ()
    #: What is stuck.
    alarms: Sequence[Alarm] = ()

    @property
    def oldest_wait(self) -> timedelta | None:
        """The holders of a lock that others wait for."""
        return max(self.at - self.waiting[0].since, timedelta()) if self.waiting else None

    @property
    def long_waits(self) -> Sequence[Waiter]:
        """Waiters that have been waiting for a long time."""
        return [waiter for waiter in self.waiting if self.at - waiter.since >= LONG_WAIT]


def overview(
    now: Counts,
    locks: Locks,
    ledger: Ledger | None,
    queue: Queue,
    inventory: Inventory | None,
    expiring: Sequence[ApiToken],
) -> Overview:
    """How things stand. The cost does not grow with the number of finished chunks."""
    return Overview(
        at=datetime.now(UTC),
        now=now,
        waiting=locks.waiters(),
        failed=() if ledger is None else ledger.failures(MOST_NAMED),
        stopped=() if ledger is None else _counted_once(ledger.status(status=HOLD, limit=MOST_NAMED)),
        paused=() if ledger is None else [job for job in ledger.jobs() if job.paused],
        failed_batches=queue.batches(FAILED, limit=MOST_NAMED),
        holds=queue.holds(),
        undelivered=() if inventory is None else inventory.messages(failed=True, limit=MOST_NAMED),
        expiring=expiring,
    )


def _counted_once(rows: Sequence[Row]) -> Sequence[Row]:
    """One row for each chunk of a job."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        found.setdefault((row.job, row.dataid), row)
    return list(found.values())
