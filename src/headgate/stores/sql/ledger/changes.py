"""Applies decisions about chunks: rows, history, and the list of claimable chunks, for one or for many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headgate.calls.actor import log_override
from headgate.core.ledger.claims import find_candidate
from headgate.core.ledger.model import RUNNING, Claim, Row
from headgate.core.ledger.ordering import order_key
from headgate.core.ledger.snapshot import Candidate, ChunkOutcome, ChunkSnapshot, RowChange
from headgate.stores.sql.database.dialect import Columns
from headgate.stores.sql.database.moments import MICROSECONDS, to_micro
from headgate.stores.sql.database.transaction import Duplicate, Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.candidates import batches, became_ready, became_unready
from headgate.stores.sql.ledger.incident_changes import write_incidents
from headgate.stores.sql.ledger.mapping_statements import ADD_ARRIVAL, ADD_READ, DROP_READS
from headgate.stores.sql.ledger.parts import announce_parts, write_parts
from headgate.stores.sql.ledger.recurrences import keep_recurrence
from headgate.stores.sql.ledger.running import BY_HAND
from headgate.stores.sql.ledger.shapes import Claimed, Shape, shape_of
from headgate.stores.sql.ledger.snapshots import ChunkGroup, load

T = TypeVar("T")


class ClaimTokens:
    """New tokens for the negative placeholders in a decision."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._given: dict[int, int] = {}

    def __call__(self, token: int) -> int:
        if token >= 0:
            return token
        if token not in self._given:
            self._given[token] = self._tx.next_token()
        return self._given[token]


def carry_out(
    tx: Transaction, shape: Shape, dataid: str, unit: Callable[[ChunkSnapshot], ChunkOutcome[T]]
) -> ChunkOutcome[T]:
    """Load a chunk, decide, and write the changes."""
    outcome = unit(load(tx, shape, dataid))
    apply(tx, shape, outcome)
    return outcome


def on_chunk(
    tx: Transaction, job: str, dataid: str, unit: Callable[[ChunkSnapshot], ChunkOutcome[T]]
) -> ChunkOutcome[T]:
    """The same for a chunk of a job that is given by its name."""
    return carry_out(tx, shape_of(tx, job, share=True), dataid, unit)


def apply(tx: Transaction, shape: Shape, outcome: ChunkOutcome[object], request_id: str = "") -> ClaimTokens:
    """Write the changes of one chunk. `request_id`: the request that its claim, if one starts, answers."""
    for override in outcome.overrides:
        log_override(override.what, override.owner)
    tokens = ClaimTokens(tx)
    if not outcome.changed:
        return tokens
    dataid, told = outcome.snapshot.dataid, [tokens(record.token) for record in outcome.records]
    for change in outcome.rows:
        _write_row(tx, shape, change, tokens, request_id)
    for record, token in zip(outcome.records, told, strict=True):
        tx.run(
            sql.RECORD, event=record.event, job=shape.id, dataset=shape.told, dataid=dataid, who=record.who,
            token=token, before=record.before, after=record.after, reason=record.reason,
        )  # fmt: skip
    _write_reads(tx, shape, dataid, outcome)
    write_parts(tx, shape, outcome, tokens)
    write_incidents(tx, shape.id, [dataid], outcome.incidents)
    announce(tx, shape, outcome, [dataid])
    write_candidates(tx, shape, [dataid], outcome.candidate)
    return tokens


def as_claim(shape: Shape, chunk: ChunkSnapshot, tokens: ClaimTokens | None = None) -> Claim:
    """The running rows as a claim for the worker; secrets are still sealed."""
    row = chunk.owned()[0]
    token = row.token if tokens is None else tokens(row.token)
    lease = row.lease or 0.0
    return shape.claim(
        Claimed(chunk.dataid, row.attempt, token, row.worker, lease, row.expires_in or lease, row.forced),
        chunk.reads,
        chunk.parts,
    )


def announce(tx: Transaction, shape: Shape, outcome: ChunkOutcome[object], dataids: Sequence[str]) -> None:
    """Update the jobs that read chunks which became READY, or are no longer READY."""
    became_unready(tx, sorted(shape.ids[name] for name in outcome.unready), dataids)
    became_ready(tx, sorted(shape.ids[name] for name in outcome.ready), dataids)
    announce_parts(tx, shape, outcome)


def refresh_candidate(tx: Transaction, shape: Shape, dataid: str) -> None:
    """Update a chunk's position in the list of claimable chunks from its rows."""
    write_candidates(tx, shape, [dataid], find_candidate(load(tx, shape, dataid)))


def write_candidates(tx: Transaction, shape: Shape, dataids: Sequence[str], candidate: Candidate | None) -> None:
    """The same position in the list of claimable chunks, for many chunks; None: none of them is listed."""
    if not shape.id:  # Data made elsewhere is never claimed.
        return
    if shape.job.recur:
        candidate = keep_recurrence(tx, shape, dataids, candidate)
    if candidate is None:
        for batch in batches(dataids):
            tx.run(sql.DROP_CANDIDATES, job=shape.id, dataids=batch)
        return
    keys = [shape.order_key(dataid) for dataid in dataids]
    tx.many(
        sql.PUT_CANDIDATE, {"dataid": dataids, "order_key": keys}, job=shape.id, place=candidate.place,
        missing=candidate.missing, delay=round(candidate.delay * MICROSECONDS),
    )  # fmt: skip
    if shape.job.mapped and candidate.missing:
        # Arrivals may have been folded before this was written, so it is re-evaluated.
        tx.many(ADD_ARRIVAL, {"dataid": dataids}, job=shape.id, dataset=0, ready=False)


# ---------------------------------------------------------------- one row


def _write_row(tx: Transaction, shape: Shape, change: RowChange, tokens: ClaimTokens, request_id: str) -> None:
    old, row = change.before, change.after
    was: dict[str, object] = {} if old is None else {"was": old.status, "was_token": old.token}
    if row is None:
        if old is not None and not tx.count(sql.DROP_ROW, **was, **_key(shape, old)):
            raise _changed()
        return
    columns: dict[str, Any] = {
        **_key(shape, row), "status": row.status, "former": row.former, "attempt": row.attempt,
        "failures": row.failures, "crashes": row.crashes, "interruptions": row.interruptions,
        "token": tokens(row.token), "worker": row.worker, "request_id": request_id if change.starts else "",
        "lease": to_micro(row.lease), "lease_left": _lease_left(row), "forced": row.forced,
        "delay": to_micro(row.retry_in), "message": row.message, "starts": change.starts, "principal": row.principal,
    }  # fmt: skip
    if old is None:
        tx.run(sql.ADD_ROW, order_key=order_key(row.dataid, shape.datasets[row.dataset].order), **columns)
    elif not tx.count(sql.CHANGE_ROW, **was, **columns):
        raise _changed()


def _write_reads(tx: Transaction, shape: Shape, dataid: str, outcome: ChunkOutcome[object]) -> None:
    reads = outcome.reads
    if reads is None:
        return
    tx.run(DROP_READS, job=shape.id, dataid=dataid)
    columns: Columns = {
        "dataset": [shape.ids[each.dataset] for each in reads], "source": [each.dataid for each in reads],
        "version": [each.version for each in reads], "newer": [each.newer for each in reads],
    }  # fmt: skip
    tx.many(ADD_READ, columns, job=shape.id, dataid=dataid)


def _key(shape: Shape, row: Row) -> dict[str, object]:
    return {"dataset": shape.ids[row.dataset], "dataid": row.dataid, "job": shape.id, "kind": row.kind.value}


def _lease_left(row: Row) -> int | None:
    if row.status != RUNNING:
        return None
    return BY_HAND if row.lease is None else to_micro(row.lease)


def _changed() -> Duplicate:
    return Duplicate("the row was changed at the same time")


# ---------------------------------------------------------------- many at once


def apply_many(tx: Transaction, shape: Shape, group: ChunkGroup, tokens: ClaimTokens) -> None:
    """Write the changes of chunks whose rows have the same content. `announce` informs the jobs that read them."""
    outcome = group.outcome
    if not outcome.changed:
        return
    for batch in batches(group.dataids):
        for change in outcome.rows:
            _write_rows(tx, shape, change, batch, tokens)
    for record in outcome.records:
        given = set(group.tokens) if record.token >= 0 else {tokens(record.token)}
        one: dict[str, object] = {"token": given.pop()} if len(given) == 1 else {}
        columns: Columns = {"dataid": group.dataids, **({} if one else {"token": group.tokens})}
        tx.many(
            sql.RECORD, columns, event=record.event, job=shape.id, dataset=shape.told, who=record.who,
            before=record.before, after=record.after, reason=record.reason, **one,
        )  # fmt: skip
    for dataid in group.dataids:
        _write_reads(tx, shape, dataid, outcome)
    write_parts(tx, shape, outcome, tokens)
    write_incidents(tx, shape.id, group.dataids, outcome.incidents)
    write_candidates(tx, shape, group.dataids, outcome.candidate)


def _write_rows(tx: Transaction, shape: Shape, change: RowChange, dataids: Sequence[str], tokens: ClaimTokens) -> None:
    old, row = change.before, change.after
    some = old or row
    if some is None:
        return
    key = {"dataset": shape.ids[some.dataset], "job": shape.id, "kind": some.kind.value}
    if row is None:
        tx.run(sql.DROP_ROWS, dataids=dataids, **key)
    elif old is None:
        keys = [order_key(each, shape.datasets[row.dataset].order) for each in dataids]
        at = tx.one(sql.READ_WALL)[0]
        tx.many(sql.ADD_ROWS, {"dataid": dataids, "order_key": keys}, status=row.status, forced=False, at=at, **key)
    else:
        changed = tx.count(
            sql.CHANGE_ROWS, **key, dataids=dataids, was=old.status, status=row.status, former=row.former,
            attempt=row.attempt, failures=row.failures, crashes=row.crashes, interruptions=row.interruptions,
            token=None if row.token >= 0 else tokens(row.token), delay=to_micro(row.retry_in), message=row.message,
        )  # fmt: skip
        if changed != len(dataids):
            raise _changed()
