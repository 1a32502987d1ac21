"""The whole at a glance: what runs, what waits, and what needs a person."""

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

#: At most this many failed and held chunks, and undelivered messages, are named.
MOST_NAMED = 200
#: Seconds after which a waiter for a lock may need a person.
LONG_WAIT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Overview:
    """What runs, what waits and what needs an operator, at one moment."""

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
    #: Of the queue: collections that are held.
    holds: Sequence[Hold]
    #: Mails and callbacks that did not arrive, up to MOST_NAMED.
    undelivered: Sequence[Message] = ()
    #: API tokens that expire soon, earliest first.
    expiring: Sequence[ApiToken] = ()
    #: What is stuck.
    alarms: Sequence[Alarm] = ()

    @property
    def oldest_wait(self) -> timedelta | None:
        """Of a lock that somebody waits for."""
        return max(self.at - self.waiting[0].since, timedelta()) if self.waiting else None

    @property
    def long_waits(self) -> Sequence[Waiter]:
        """Waiters that have waited for long."""
        return [waiter for waiter in self.waiting if self.at - waiter.since >= LONG_WAIT]


def overview(
    now: Counts,
    locks: Locks,
    ledger: Ledger | None,
    queue: Queue,
    inventory: Inventory | None,
    expiring: Sequence[ApiToken],
) -> Overview:
    """How things stand. Asks for nothing that grows with what is done."""
    return Overview(
        at=datetime.now(UTC),
        now=now,
        waiting=locks.waiters(),
        failed=() if ledger is None else ledger.failures(MOST_NAMED),
        stopped=() if ledger is None else _told_once(ledger.status(status=HOLD, limit=MOST_NAMED)),
        paused=() if ledger is None else [job for job in ledger.jobs() if job.paused],
        failed_batches=queue.batches(FAILED, limit=MOST_NAMED),
        holds=queue.holds(),
        undelivered=() if inventory is None else inventory.messages(failed=True, limit=MOST_NAMED),
        expiring=expiring,
    )


def _told_once(rows: Sequence[Row]) -> Sequence[Row]:
    """One row for each chunk of a job."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        found.setdefault((row.job, row.dataid), row)
    return list(found.values())
