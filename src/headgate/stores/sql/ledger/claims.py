"""Claims of chunks, and reports of their outcome: the slow path."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.calls.actor import actor
from headgate.calls.idempotency import Unfinished
from headgate.core.ledger import work as chunk_work
from headgate.core.ledger.claims import missing_references
from headgate.core.ledger.model import RESUBMIT, SUCCESS_EVENT, Asker, Claim, Kind
from headgate.core.ledger.parts import Listed
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot
from headgate.stores.sql.database.moments import micro, to_micro
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.arrivals import MOST_FOLDS, fold
from headgate.stores.sql.ledger.changes import apply, as_claim, carry_out
from headgate.stores.sql.ledger.mapping_statements import FIND_SUCCESS
from headgate.stores.sql.ledger.parts import with_listed
from headgate.stores.sql.ledger.reaping import read_expired
from headgate.stores.sql.ledger.recurrences import move_due
from headgate.stores.sql.ledger.shapes import Shape, shape_of
from headgate.stores.sql.ledger.snapshots import load, with_locks

#: Number of expired claims that one find_next reaps before it starts.
MOST_EXPIRED = 20
#: Number of candidates that one transaction checks.
MOST_LOOKS = 50
#: Before every position of the list.
BEGINNING = (-1, b"")


@dataclass(frozen=True, slots=True)
class SearchPosition(Unfinished):
    """The position in the order after which find_next continues."""

    place: int
    order_key: bytes
    #: Number of steps that folded arrivals before this position.
    folded: int = 0


def find_next(tx: Transaction, job: str, asker: Asker, after: SearchPosition | None) -> Claim | SearchPosition | None:
    """Claim the first claimable chunk. Returns a position to continue from when many were not claimable; None: there is
    none.
    """
    shape = shape_of(tx, job, share=True)
    if repeated := find_repeated(tx, shape, asker):
        return repeated
    if shape.job.paused:
        return None
    if shape.job.recur and after is None:
        move_due(tx, shape)
    if shape.job.mapped and fold(tx, shape):
        # More has arrived than one step folds. Claim from what is known by then: the rest may take long.
        again = SearchPosition(*BEGINNING, 1 + (after.folded if after else 0))
        return again if again.folded <= MOST_FOLDS else _first(tx, shape, asker, None) or again
    return _first(tx, shape, asker, after)


def _first(tx: Transaction, shape: Shape, asker: Asker, after: SearchPosition | None) -> Claim | SearchPosition | None:
    if after is None:
        for expired in read_expired(tx, shape.id, MOST_EXPIRED):
            carry_out(tx, shape, expired, lambda chunk: chunk_work.reap(chunk, asker.worker))
    for _ in range(MOST_LOOKS):
        head = _head(tx, shape, after)
        if head is None:
            return None
        dataid, place, key = head
        outcome = chunk_work.claim_next(with_locks(tx, load(tx, shape, str(dataid))), asker.worker, asker.lease)
        tokens = apply(tx, shape, outcome, asker.request_id)
        if outcome.result:
            return as_claim(shape, outcome.snapshot, tokens)
        if missing_references(outcome.snapshot):
            return None  # All data ids of the job wait for these.
        after = SearchPosition(int(place), bytes(key))
    return after


def find_repeated(tx: Transaction, shape: Shape, asker: Asker) -> Claim | None:
    """The claim that this request has already received, if the answer was lost."""
    if asker.fresh and not tx.again:
        return None
    row = tx.one(sql.READ_REPEATED, job=shape.id, request_id=asker.request_id)
    return None if row is None else as_claim(shape, load(tx, shape, str(row[0])))


def claim(tx: Transaction, job: str, dataid: str, asker: Asker) -> Claim:
    """Claim this chunk; ClaimRefused when the rules say no."""
    shape = shape_of(tx, job, share=True)
    if repeated := find_repeated(tx, shape, asker):
        return repeated
    outcome = chunk_work.claim(with_locks(tx, load(tx, shape, dataid)), asker.worker, asker.lease)
    return as_claim(shape, outcome.snapshot, apply(tx, shape, outcome, asker.request_id))


def force(tx: Transaction, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
    """Claim this chunk regardless of the claim table; `steal`: also from a living worker."""
    shape = shape_of(tx, job, share=True)
    if repeated := find_repeated(tx, shape, asker):
        return repeated
    chunk = with_locks(tx, load(tx, shape, dataid))
    outcome = chunk_work.force(chunk, asker.worker, asker.lease, reason, steal=steal)
    return as_claim(shape, outcome.snapshot, apply(tx, shape, outcome, asker.request_id))


def succeed(tx: Transaction, job: str, dataid: str, token: int, who: str, listed: Listed | None) -> None:
    """The worker succeeded; `listed`: its fan-out parts."""
    shape = shape_of(tx, job, share=True)

    def unit(chunk: ChunkSnapshot) -> ChunkOutcome[None]:
        known = _is_redone(tx, shape, chunk, token)
        chunk, taken = with_listed(tx, shape, chunk, listed or {})
        return chunk_work.succeed(chunk, token, who, listed, taken, known=known)

    carry_out(tx, shape, dataid, unit)


def _is_redone(tx: Transaction, shape: Shape, chunk: ChunkSnapshot, token: int) -> bool:
    """Whether this claim has succeeded and its chunk is being redone because of late inputs."""
    row = chunk.speaker
    if not shape.job.mapped or (row is not None and (row.token != token or row.status != RESUBMIT)):
        return False
    return tx.one(FIND_SUCCESS, job=shape.id, dataid=chunk.dataid, event=SUCCESS_EVENT, token=token) is not None


def interrupt(tx: Transaction, job: str, dataid: str, token: int, message: str, who: str) -> None:
    """The worker was asked to stop."""
    shape = shape_of(tx, job, share=True)

    def unit(chunk: ChunkSnapshot) -> ChunkOutcome[None]:
        row, past, known = chunk.speaker, None, False
        if row is None:
            known = bool(tx.one(sql.FIND_INTERRUPTION, job=shape.id, dataid=dataid, token=token))
        elif row.token == token and not shape.job.outputs:
            past = _past_interruptions(tx, shape, chunk)
        return chunk_work.interrupt(chunk, token, message, who, past=past, known=known)

    carry_out(tx, shape, dataid, unit)


def _past_interruptions(tx: Transaction, shape: Shape, chunk: ChunkSnapshot) -> int:
    """The interruptions of a job without outputs, each of which removed its rows: since the newest READY of its inputs,
    and since its counts were reset.
    """
    ready = [micro(row.since) for row in chunk.rows if row.kind is Kind.OUTPUT and row.since]
    since = max(ready, default=0)
    ((count,),) = tx.all(sql.COUNT_INTERRUPTIONS, job=shape.id, dataid=chunk.dataid, since=since)
    return int(count)


def heartbeat(tx: Transaction, job: str, dataid: str, token: int, lease: float) -> float:
    """Renew the lease of a living worker."""
    shape = shape_of(tx, job, share=False)
    renewed = tx.count(
        sql.BEAT, datasets=shape.numbers, dataid=dataid, job=shape.id, token=token, lease=to_micro(lease),
        principal=actor().compared,
    )  # fmt: skip
    if not renewed:
        raise chunk_work.refuse_heartbeat(load(tx, shape, dataid), token)
    return lease


def _head(tx: Transaction, shape: Shape, after: SearchPosition | None) -> tuple[object, int, bytes] | None:
    if after is None:
        row = tx.one(sql.TAKE_HEAD, job=shape.id)
    else:
        row = tx.one(sql.TAKE_NEXT, job=shape.id, place=after.place, order_key=after.order_key)
    return None if row is None else (row[0], row[1], row[2])
