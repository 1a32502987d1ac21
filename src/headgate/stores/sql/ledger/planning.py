"""The next chunks of a job, what blocks the others, and how many are left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import func, select

from headgate.core.ledger.claims import may_claim, nearness
from headgate.core.ledger.mappings.sources import Listed
from headgate.core.ledger.snapshot import ChunkSnapshot
from headgate.core.ledger.verdicts import Plan, Verdict
from headgate.stores.sql import schema
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.arrivals import MOST_FOLDS, fold
from headgate.stores.sql.ledger.mapping_statements import HAS_ARRIVALS
from headgate.stores.sql.ledger.questions import number_of
from headgate.stores.sql.ledger.recurrences import has_due, move_due
from headgate.stores.sql.ledger.rows import job_names
from headgate.stores.sql.ledger.shapes import Shape, shape_of
from headgate.stores.sql.ledger.snapshots import look, with_locks

#: Number of incomplete data ids of a mapped job that are compared, and of the data ids that they may read together.
MOST_COMPARED, MOST_SOURCES = 1000, 50_000


def ask_plan(database: Database, job: str, limit: int) -> Plan:
    """The chunks that would run next, in order, and those that are blocked: for mapped jobs the nearly complete ones
    first.
    """
    _fold_all(database, job)
    return database.read(lambda tx: _plan(tx, shape_of(tx, job, share=False), limit))


def ask_left(database: Database, job: str, most: int) -> int:
    """Number of chunks that a job can find, counted up to `most`."""
    _fold_all(database, job)
    candidate = schema.candidate.c

    def ask(tx: Transaction) -> int:
        number = number_of("job", job, {name: number for number, name in job_names(tx).items()})
        some = select(candidate.dataid).where(candidate.job_id == number, candidate.missing == 0).limit(most)
        ((count,),) = tx.ask(select(func.count()).select_from(some.subquery()))
        return int(count)

    return database.read(ask)


def _fold_all(database: Database, job: str) -> None:
    """Process arrivals of a mapped job and chunks that are due again, as find_next does."""

    def waits(tx: Transaction) -> bool:
        shape = shape_of(tx, job, share=False)
        arrived = shape.job.mapped and tx.one(HAS_ARRIVALS, job=shape.id) is not None
        return arrived or (shape.job.recur > 0 and has_due(tx, shape))

    def move(tx: Transaction) -> bool:
        shape = shape_of(tx, job, share=True)
        more = shape.job.recur > 0 and move_due(tx, shape)
        return (shape.job.mapped and fold(tx, shape)) or more

    for _ in range(MOST_FOLDS):
        if not database.read(waits) or not database.write_through(move):
            return


def _plan(tx: Transaction, shape: Shape, limit: int) -> Plan:
    near: dict[str, float] = {}

    def verdict(dataid: str) -> Verdict:
        chunk: ChunkSnapshot = look(tx, shape, dataid)
        near[dataid] = nearness(chunk)
        return may_claim(with_locks(tx, chunk))

    def verdicts(statement: Statement, **params: object) -> list[Verdict]:
        return [verdict(str(row[0])) for row in tx.all(statement, job=shape.id, limit=limit, **params)]

    ahead = verdicts(sql.READ_NEXT)
    busy, trouble = (verdicts(each, datasets=shape.numbers) for each in (sql.READ_BUSY, sql.READ_TROUBLE))
    incomplete = [verdict(each) for each in _incomplete(tx, shape, limit)]
    # A chunk with an expired claim is not a candidate yet: find_next reaps it first.
    granted = {each.dataid: each for each in (*ahead, *busy) if each.granted}
    blocked = {each.dataid: each for each in (*ahead, *busy, *trouble, *incomplete) if not each.granted}
    ordered = sorted(blocked.values(), key=lambda each: (-near[each.dataid], shape.order_key(each.dataid)))
    first = sorted(granted.values(), key=lambda each: (not each.first, shape.order_key(each.dataid)))
    return Plan(tuple(first[:limit]), tuple(ordered[:limit]))


def _incomplete(tx: Transaction, shape: Shape, limit: int) -> Sequence[str]:
    """Data ids that wait for inputs: for a mapped job those that lack the least."""
    most = MOST_COMPARED if shape.job.mapped else limit
    found = [str(row[0]) for row in tx.all(sql.READ_INCOMPLETE, job=shape.id, limit=most)]
    if len(found) <= limit:
        return found
    shares = _shares(tx, shape, found)
    return sorted(found, key=lambda each: -shares.get(each, 0.0))[:limit]


def _shares(tx: Transaction, shape: Shape, dataids: Iterable[str]) -> dict[str, float]:
    """For data ids whose inputs a calendar lists: the READY share of what they need, for the input with the lowest
    share.
    """
    shares: dict[str, float] = {}
    for name in shape.job.creators:
        mapping, listed, count = shape.job.map_of(name), dict[str, tuple[str, ...]](), 0
        for dataid in dataids:
            wanted = mapping.sources(dataid)
            count += len(wanted.ids) if isinstance(wanted, Listed) else 0
            if isinstance(wanted, Listed) and wanted.ids and count <= MOST_SOURCES:
                listed[dataid] = wanted.ids
        asked = sorted({each for ids in listed.values() for each in ids})
        rows = tx.all(sql.READ_READY, datasets=[shape.ids[name]], dataids=asked) if asked else []
        ready = {str(dataid) for _, dataid in rows}
        for dataid, ids in listed.items():
            share = len(ready.intersection(ids)) / max(mapping.least(len(ids)), 1)
            shares[dataid] = min(share, shares.get(dataid, 1.0))
    return shares
