"""Freeing the chunks of workers that died: many at once, in steps that keep nobody waiting.

Rows are read and written in bulk. What becomes of a chunk is decided once for all chunks whose rows say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.core.claims import Outcome
from headgate.core.ledger import MESSAGE_LENGTH, RUNNING, Row
from headgate.stores.sql import ledger_statements as sql
from headgate.stores.sql.chunks import Chunk, write_candidates
from headgate.stores.sql.engine import Database, Duplicate, Transaction
from headgate.stores.sql.moments import to_micro
from headgate.stores.sql.shapes import Shape, all_jobs, shape_of
from headgate.stores.sql.statement import Row as SqlRow

#: Chunks that one transaction frees: a step lasts about as long as a few commits.
AT_ONCE = 250


@dataclass(slots=True)
class _Group:
    """Chunks whose rows say the same, and what becomes of them."""

    rows: list[Row]
    outcome: Outcome
    message: str
    candidate: tuple[int, int, int] | None
    dataids: list[str] = field(default_factory=list)


def reap(database: Database, who: str, limit: int) -> int:
    """Turn at most so many expired claims into errors, or hold their chunks. Returns how many."""
    count = 0
    for number, job in database.read(all_jobs).items():
        left = limit - count
        found = database.read(lambda tx: tx.all(sql.READ_EXPIRED, job=number, limit=left)) if left > 0 else []  # noqa: B023 - run at once
        dataids = [str(row[0]) for row in found]
        for start in range(0, len(dataids), AT_ONCE):
            step = dataids[start : start + AT_ONCE]
            count += database.write_through(lambda tx: _reap(tx, job.name, step, who))  # noqa: B023 - the same
    return count


def _reap(tx: Transaction, job: str, dataids: Sequence[str], who: str) -> int:
    shape = shape_of(tx, job, share=True)
    tx.all(sql.LOCK_CANDIDATES, job=shape.id, dataids=dataids)
    rows: dict[str, list[SqlRow]] = {}
    for row in tx.all(sql.LOCK_MANY_ROWS, datasets=shape.numbers, dataids=dataids):
        rows.setdefault(str(row[1]), []).append(row)
    # One for all of them: nobody was given it, and each dead worker that wakes up finds its own stale.
    token = tx.next_token()
    groups: dict[tuple[object, ...], _Group | None] = {}
    for dataid, found in rows.items():
        says = tuple(sorted(_says(row, shape.id) for row in found))
        if says not in groups:
            groups[says] = _decide(Chunk(tx, shape, dataid, found=found), token)
        group = groups[says]
        if group is not None:
            group.dataids.append(dataid)
    dead = [group for group in groups.values() if group is not None]
    for group in dead:
        _write(tx, shape, group, token, who)
    return sum(len(group.dataids) for group in dead)


def _says(row: SqlRow, job: int) -> tuple[object, ...]:
    """What decides: everything of the job's own rows but their times and tokens, the status of others."""
    alive = row[12] is not None and row[12] > 0
    if row[2] == job:
        return (row[0], *row[2:9], row[10], alive, row[14])
    return (row[0], *row[2:5], alive)


def _decide(chunk: Chunk, token: int) -> _Group | None:
    crash = chunk.crash()
    if crash is None:
        return None
    outcome, message = crash
    rows = chunk.ended(outcome, message, token)
    chunk.imagine((row.kind, row.dataset, row) for row in rows)
    return _Group(rows, outcome, message[:MESSAGE_LENGTH], chunk.candidate())


def _write(tx: Transaction, shape: Shape, group: _Group, token: int, who: str) -> None:
    for row in group.rows:
        changed = tx.count(
            sql.END_ROWS, dataset=shape.ids[row.dataset], dataids=group.dataids, job=shape.id, kind=row.kind.value,
            status=row.status, former=row.former, failures=row.failures, crashes=row.crashes, token=token,
            delay=to_micro(row.retry_in), message=row.message,
        )  # fmt: skip
        if changed != len(group.dataids):
            raise Duplicate("a row was changed at the same time")
    tx.many(
        sql.TELL, {"dataid": group.dataids}, event="reap", job=shape.id, dataset=shape.told, who=who, token=token,
        before=RUNNING, after=group.outcome.status, reason=group.message,
    )  # fmt: skip
    write_candidates(tx, shape, group.dataids, group.candidate)
