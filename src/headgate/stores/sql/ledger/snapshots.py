"""Loads the snapshot for a decision about chunks: their rows, under row locks, and the locks on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headgate.calls.actor import actor
from headgate.core.ledger.claims import claim_modes
from headgate.core.ledger.model import EXTERNAL, HOLD, RUNNING, Kind
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot
from headgate.core.locks.model import resource_digest
from headgate.stores.sql.database.moments import moment
from headgate.stores.sql.database.sql_text import Row as SqlRow
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.candidates import batches
from headgate.stores.sql.ledger.parts import with_parts
from headgate.stores.sql.ledger.rows import job_names, read_row
from headgate.stores.sql.ledger.shapes import Shape
from headgate.stores.sql.ledger.sources import mapped_rows, with_readers, with_sources
from headgate.stores.sql.locks import statements as lock_statements
from headgate.stores.sql.locks.snapshots import BESIDE, read_lock


def load(tx: Transaction, shape: Shape, dataid: str) -> ChunkSnapshot:
    """One chunk, locked until the transaction ends."""
    tx.one(sql.LOCK_CANDIDATE, job=shape.id, dataid=dataid)
    if shape.job.mapped:
        rows = mapped_rows(tx, shape, dataid, hold_still=True)
        chunk = with_sources(tx, shape, snapshot_of(tx, shape, dataid, rows), hold_still=True)
    else:
        chunk = snapshot_of(tx, shape, dataid, tx.all(sql.LOCK_ROWS, datasets=shape.numbers, dataid=dataid))
    return _with_others(tx, shape, chunk, hold_still=True)


def look(tx: Transaction, shape: Shape, dataid: str) -> ChunkSnapshot:
    """One chunk, without locking it."""
    if shape.job.mapped:
        rows = mapped_rows(tx, shape, dataid, hold_still=False)
        chunk = with_sources(tx, shape, snapshot_of(tx, shape, dataid, rows), hold_still=False)
    else:
        chunk = snapshot_of(tx, shape, dataid, tx.all(sql.READ_ROWS, datasets=shape.numbers, dataid=dataid))
    return _with_others(tx, shape, chunk, hold_still=False)


def _with_others(tx: Transaction, shape: Shape, chunk: ChunkSnapshot, *, hold_still: bool) -> ChunkSnapshot:
    """The same with jobs that read it by a mapping, and with its fan-out parts."""
    if shape.mapped_readers:
        chunk = with_readers(tx, shape, chunk)
    return with_parts(tx, shape, chunk, hold_still=hold_still) if shape.job.fan_out else chunk


def snapshot_of(tx: Transaction, shape: Shape, dataid: str, found: Sequence[SqlRow]) -> ChunkSnapshot:
    """A chunk from the columns of its rows."""
    datasets = {number: name for name, number in shape.ids.items()}
    jobs = {0: EXTERNAL, shape.id: shape.job.name}
    if shape.mapped_readers:  # Their INPUT rows have their own data ids.
        found = [row for row in found if row[3] == Kind.OUTPUT or int(row[2]) not in shape.mapped_readers]
    if any(int(row[2]) not in jobs for row in found):
        jobs |= job_names(tx)
    rows = tuple(read_row(row, datasets, jobs) for row in found)
    chunk = ChunkSnapshot(shape.job, dataid, rows, (), actor(), tx.again, tx.chunk_rules, tx.lock_rules)
    return replace(chunk, at=moment(tx.one(sql.READ_WALL)[0])) if shape.job.recur else chunk


def with_locks(tx: Transaction, snapshot: ChunkSnapshot) -> ChunkSnapshot:
    """The same with the explicit locks on the chunk, which a claim must respect."""
    keys = [resource_digest(resource) for resource in claim_modes(snapshot)]
    rows = tx.all(lock_statements.READ_LOCKS, keys=keys)
    locks = tuple(read_lock(row) for row in rows if row[BESIDE] is None or int(row[BESIDE]) > 0)
    return replace(snapshot, locks=locks)


# ---------------------------------------------------------------- many at once


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """Chunks whose rows have the same content, with the outcome that was decided once for all."""

    outcome: ChunkOutcome[object]
    dataids: list[str]
    #: The newest token of each.
    tokens: list[int]


def decide_many(
    tx: Transaction,
    shape: Shape,
    dataids: Sequence[str],
    unit: Callable[[ChunkSnapshot], ChunkOutcome[object]],
    read: Statement = sql.LOCK_MANY_ROWS,
    *,
    delays: bool = False,
) -> list[ChunkGroup]:
    """Decide about many chunks of one job, based on the rows that `read` finds. `delays`: the delay of a row counts
    too.
    """
    if shape.job.mapped or shape.job.fan_out:
        return [_decide_one(tx, shape, dataid, unit, read) for dataid in sorted(dataids)]
    return _decide_groups(tx, shape, dataids, unit, read, delays=delays)


def _decide_groups(
    tx: Transaction,
    shape: Shape,
    dataids: Sequence[str],
    unit: Callable[[ChunkSnapshot], ChunkOutcome[object]],
    read: Statement,
    *,
    delays: bool,
) -> list[ChunkGroup]:
    groups: dict[tuple[object, ...], ChunkGroup] = {}
    for batch in batches(dataids):
        if read is sql.LOCK_MANY_ROWS:
            tx.all(sql.LOCK_CANDIDATES, job=shape.id, dataids=batch)
        found: dict[str, list[SqlRow]] = {}
        for row in tx.all(read, datasets=shape.numbers, dataids=batch):
            found.setdefault(str(row[1]), []).append(row)
        for dataid, rows in found.items():
            words = [_says(row, shape.id, again=tx.again, delays=delays) for row in rows]
            says = tuple(sorted(words) if len(words) > 1 else words)
            group = groups.get(says)
            if group is None:
                group = groups[says] = ChunkGroup(unit(snapshot_of(tx, shape, dataid, rows)), [], [])
            group.dataids.append(dataid)
            group.tokens.append(max([row[9] for row in rows if row[2] == shape.id], default=0))
        if new := [dataid for dataid in batch if dataid not in found]:
            if () not in groups:
                groups[()] = ChunkGroup(unit(snapshot_of(tx, shape, new[0], ())), [], [])
            groups[()].dataids.extend(new)
            groups[()].tokens.extend([0] * len(new))
    return list(groups.values())


def _decide_one(
    tx: Transaction, shape: Shape, dataid: str, unit: Callable[[ChunkSnapshot], ChunkOutcome[object]], read: Statement
) -> ChunkGroup:
    """Chunks of mapped jobs each have their own inputs, and those of fan-out jobs their own parts."""
    chunk = (look if read is sql.READ_MANY_ROWS else load)(tx, shape, dataid)
    return ChunkGroup(unit(chunk), [dataid], [max((row.token for row in chunk.owned()), default=0)])


def _says(row: SqlRow, job: int, *, again: bool, delays: bool) -> tuple[object, ...]:
    """The deciding content: of the job's own rows everything but tokens and times, of others their status."""
    status, left = row[4], row[12]
    alive = left is not None and left > 0
    if row[2] != job:
        return (row[0], row[2:5], alive)
    worker = row[10] if status == RUNNING else ""
    message = row[17] if again or status in (HOLD, RUNNING) else ""
    return (row[0], row[2:9], row[19], alive, worker, message, row[14] if delays else None)
