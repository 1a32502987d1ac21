"""Claiming chunks, and reporting what became of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headgate.calls.actor import actor
from headgate.calls.idempotency import Unfinished
from headgate.core.claims import (
    ABSENT,
    after_failure,
    after_interruption,
    claim_modes,
    interruption_message,
    may_claim,
    was_interrupted,
    worst_row,
)
from headgate.core.errors import ClaimLost, ClaimRefused
from headgate.core.ledger import DONE, ERROR, HOLD, READY, Asker, Claim, Kind
from headgate.core.locks import COMPATIBLE
from headgate.stores.sql import ledger_statements as sql
from headgate.stores.sql.chunks import Chunk
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.moments import micro, to_micro
from headgate.stores.sql.shapes import Shape, shape_of

#: Expired claims that one find_next turns over before it looks.
MOST_EXPIRED = 20
#: Candidates that are looked at in one transaction.
MOST_LOOKS = 50


@dataclass(frozen=True, slots=True)
class Place(Unfinished):
    """Where to look on: after this place of the order."""

    place: int
    order_key: bytes


def find_next(tx: Transaction, job: str, asker: Asker, after: Place | None) -> Claim | Place | None:
    """The first claimable chunk; a place to look on from when many were not; None when there is none."""
    shape = shape_of(tx, job, share=True)
    if repeated := find_repeated(tx, shape, asker):
        return repeated
    if shape.job.paused:
        return None
    if after is None:
        for row in tx.all(sql.READ_EXPIRED, job=shape.id, limit=MOST_EXPIRED):
            Chunk(tx, shape, str(row[0])).reap(asker.worker)
    for _ in range(MOST_LOOKS):
        head = _head(tx, shape, after)
        if head is None:
            return None
        dataid, place, key = head
        chunk = Chunk(tx, shape, str(dataid)).with_locks()
        if may_claim(chunk.view).granted:
            return chunk.claim(asker, "claim")
        chunk.refresh_candidate()
        after = Place(int(place), bytes(key))
    return after


def find_repeated(tx: Transaction, shape: Shape, asker: Asker) -> Claim | None:
    """The claim that this very request was given, when the answer to it was lost."""
    if asker.fresh and not tx.again:
        return None
    row = tx.one(sql.READ_REPEATED, job=shape.id, request_id=asker.request_id)
    return None if row is None else Chunk(tx, shape, str(row[0])).as_claim()


def claim(tx: Transaction, job: str, dataid: str, asker: Asker) -> Claim:
    """That very chunk, if the table says yes."""
    shape = shape_of(tx, job, share=True)
    if repeated := find_repeated(tx, shape, asker):
        return repeated
    chunk = Chunk(tx, shape, dataid)
    chunk.reap(asker.worker)
    verdict = may_claim(chunk.with_locks().view)
    if not verdict.granted:
        raise ClaimRefused(job, dataid, verdict.sentence(), verdict)
    return chunk.claim(asker, "claim")


def force(tx: Transaction, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
    """That very chunk, whatever the table says, but not from a living worker unless it is to be robbed."""
    shape = shape_of(tx, job, share=True)
    if repeated := find_repeated(tx, shape, asker):
        return repeated
    chunk = Chunk(tx, shape, dataid).with_locks()
    refuse_alive(chunk, steal=steal)
    _refuse_locked(chunk, steal=steal)
    return chunk.claim(asker, "force", reason)


def success(tx: Transaction, job: str, dataid: str, token: int, who: str) -> None:
    """The worker is done."""
    chunk = Chunk(tx, shape_of(tx, job, share=True), dataid)
    if chunk.verify(token, lambda row: row.status in (READY, DONE)):
        chunk.succeed(who)


def fail(tx: Transaction, job: str, dataid: str, token: int, message: str, who: str) -> None:
    """The worker could not do it."""
    chunk = Chunk(tx, shape_of(tx, job, share=True), dataid)
    if chunk.verify(token, lambda row: row.status in (ERROR, HOLD)):
        row = worst_row(chunk.view.owned())
        if row is not None:
            chunk.end(after_failure(chunk.job, row), "fail", who, message)


def interrupt(tx: Transaction, job: str, dataid: str, token: int, message: str, who: str) -> None:
    """The worker was asked to stop."""
    chunk = Chunk(tx, shape_of(tx, job, share=True), dataid)
    if chunk.status == ABSENT and tx.one(sql.FIND_INTERRUPTION, job=chunk.shape.id, dataid=dataid, token=token):
        return
    if chunk.verify(token, was_interrupted):
        row = worst_row(chunk.view.owned())
        if row is not None:
            before = row.interruptions if chunk.job.outputs else _told_interruptions(tx, chunk)
            outcome = after_interruption(chunk.job, replace(row, interruptions=before))
            chunk.end(outcome, "interrupt", who, interruption_message(chunk.job, outcome, message))


def _told_interruptions(tx: Transaction, chunk: Chunk) -> int:
    """The interruptions of a job that makes nothing, whose rows went with each: since the newest READY of its inputs,
    and since its counts began anew.
    """
    ready = [micro(row.since) for row in chunk.view.rows if row.kind is Kind.OUTPUT and row.since]
    since = max(ready, default=0)
    ((count,),) = tx.all(sql.COUNT_INTERRUPTIONS, job=chunk.shape.id, dataid=chunk.dataid, since=since)
    return int(count)


def heartbeat(tx: Transaction, job: str, dataid: str, token: int, lease: float) -> float:
    """The worker lives."""
    shape = shape_of(tx, job, share=False)
    if tx.count(
        sql.BEAT,
        datasets=shape.numbers,
        dataid=dataid,
        job=shape.id,
        token=token,
        lease=to_micro(lease),
        principal=actor().compared,
    ):
        return lease
    Chunk(tx, shape, dataid).verify(token, lambda _: False)
    raise ClaimLost(job, dataid, token, "its lease expired")


def refuse_alive(chunk: Chunk, *, steal: bool) -> None:
    """Not from a living worker, unless it is to be robbed."""
    if chunk.alive and not steal:
        row = next(row for row in chunk.view.owned() if row.alive)
        raise ClaimRefused(
            chunk.job.name, chunk.dataid,
            f"a worker is processing it: {row.sentence()}. Wait for it, or override its claim with steal",
        )  # fmt: skip


def _refuse_locked(chunk: Chunk, *, steal: bool) -> None:
    modes = claim_modes(chunk.job, chunk.dataid)
    held = [lock for lock in chunk.view.locks if not COMPATIBLE[modes[lock.resource], lock.mode]]
    readers = [each for each in may_claim(chunk.view).blockers if each.name == "reader"]
    why = [f"{lock.client} holds {lock.resource} {lock.mode} [lock {lock.id}]" for lock in held]
    why += [] if steal else [each.text for each in readers]
    if why:
        raise ClaimRefused(chunk.job.name, chunk.dataid, f"{chunk.job.name} on {chunk.dataid}: " + "; ".join(why))


def _head(tx: Transaction, shape: Shape, after: Place | None) -> tuple[object, int, bytes] | None:
    if after is None:
        row = tx.one(sql.TAKE_HEAD, job=shape.id)
    else:
        row = tx.one(sql.TAKE_NEXT, job=shape.id, place=after.place, order_key=after.order_key)
    return None if row is None else (row[0], row[1], row[2])
