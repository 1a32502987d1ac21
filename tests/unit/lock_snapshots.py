"""Snapshots, requests and tables for tests of the units of work for locks."""

from dataclasses import replace
from datetime import UTC, datetime

from headgate.core.locks.model import COMPATIBLE, Lock, Mode, Request, Waiter, Want
from headgate.core.locks.rules import LOCK_RULES, LockRules
from headgate.core.locks.snapshot import Change, LockOutcome, LockRecord, LockSnapshot, QueueEntry, ResourceSnapshot
from headgate.core.tables.states import LOCK

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
TAG = "ab12"
R, S = "file:///r", "file:///s"
SHARED, EXCLUSIVE = Mode.SHARED, Mode.EXCLUSIVE


# ------------------------------------------------------------------ building


def ask(client: str, *wants: tuple[str, Mode], request_id: str = "", **more: object) -> Request:
    found = tuple(Want(*want) for want in sorted(wants or ((R, EXCLUSIVE),)))
    return Request(request_id or f"of {client}", client, found, **more)  # type: ignore[arg-type]


def lock_of(client: str, mode: Mode = EXCLUSIVE, token: int = 1, resource: str = R, **more: object) -> Lock:
    request = ask(client, (resource, mode))
    lock = Lock(request.lock_id(TAG, resource), resource, client, mode, token, NOW, request_id=request.id)
    return replace(lock, **more)  # type: ignore[arg-type]


def waiting(client: str, mode: Mode = EXCLUSIVE, ticket: int = 1, resource: str = R, **more: object) -> QueueEntry:
    request = ask(client, (resource, mode))
    entry = QueueEntry(Waiter(ticket, resource, client, mode, NOW), request.id, lock_id=request.lock_id(TAG, resource))
    return replace(entry, **more)  # type: ignore[arg-type]


def holding(*locks: Lock, queue: tuple[QueueEntry, ...] = (), **more: object) -> ResourceSnapshot:
    token = max((lock.token for lock in locks), default=0)
    return replace(ResourceSnapshot(R, token, known=True, locks=locks, queue=queue), **more)  # type: ignore[arg-type]


def snap(*resources: ResourceSnapshot, **more: object) -> LockSnapshot:
    found = resources or (ResourceSnapshot(R),)
    return LockSnapshot(TAG, {each.uri: each for each in found}, NOW, **more)  # type: ignore[arg-type]


def kinds(outcome: LockOutcome[object]) -> list[str]:
    return [type(change).__name__ for change in outcome.changes]


def of(outcome: LockOutcome[object], kind: type[Change]) -> list[Change]:
    return [change for change in outcome.changes if isinstance(change, kind)]


def records(outcome: LockOutcome[object]) -> list[tuple[str, str, str, str]]:
    found = [change for change in outcome.changes if isinstance(change, LockRecord)]
    return [(each.client, each.before, each.event, each.after) for each in found]


def without(*rows: tuple[str, str]) -> LockRules:
    kept = tuple(row for row in LOCK.rows if (row.source, row.event) not in rows)
    return replace(LOCK_RULES, machine=replace(LOCK, rows=kept))


def with_row(source: str, event: str, **more: object) -> LockRules:
    rows = tuple(replace(row, **more) if (row.source, row.event) == (source, event) else row for row in LOCK.rows)  # type: ignore[arg-type]
    return replace(LOCK_RULES, machine=replace(LOCK, rows=rows))


def cell(wanted: Mode, held: Mode, *, allowed: bool) -> LockRules:
    return replace(LOCK_RULES, compatible={**COMPATIBLE, (wanted, held): allowed})
