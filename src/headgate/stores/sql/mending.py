"""Support's operations on chunks: hold, forget, publish, and a status by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headgate.core.claims import ABSENT, worst_row
from headgate.core.errors import BadValue, ClaimRefused, UnknownName
from headgate.core.ledger import EXTERNAL, HOLD, READY, RUNNING, Change, Kind, Row
from headgate.core.ordering import order_key
from headgate.core.states import CHUNK
from headgate.stores.sql import ledger_statements as sql
from headgate.stores.sql.candidates import batches, became_ready
from headgate.stores.sql.chunks import Chunk, job_names
from headgate.stores.sql.claiming import refuse_alive
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.shapes import Shape, external_shape, shape_of

Changes = list[Change]


def publish(tx: Transaction, dataset: str, dataids: Sequence[str], who: str) -> int:
    """Data made elsewhere is READY: how many were not."""
    shape = external_shape(tx, dataset, share=True)
    number, order = shape.ids[dataset], shape.datasets[dataset].order
    count = 0
    for batch in batches(dataids):
        there = {(str(row[1]), int(row[2])): row for row in tx.all(sql.LOCK_MADE, dataset=number, dataids=batch)}
        known = {dataid for dataid, _ in there}
        foreign = next((dataid for dataid, job in there if job != 0), None)
        if foreign is not None:
            raise _conflict(tx, dataset, foreign, there)
        new = [dataid for dataid in batch if dataid not in known]
        at = tx.one(sql.READ_WALL)[0]
        keys = [order_key(each, order) for each in new]
        tx.many(sql.PUBLISH_ROW, {"dataid": new, "order_key": keys}, dataset=number, forced=False, at=at)
        tx.many(
            sql.TELL, {"dataid": new}, event="publish", job=0, dataset=number, who=who, token=0,
            before=ABSENT, after=READY, reason="",
        )  # fmt: skip
        became_ready(tx, [number], new)
        again = [dataid for (dataid, _), row in there.items() if row[4] != READY]
        for dataid in again:
            _publish_again(tx, shape, dataid, who)
        count += len(new) + len(again)
    return count


def withdraw(tx: Transaction, dataset: str, dataids: Sequence[str], reason: str, who: str) -> None:
    """Data made elsewhere is there no more. Who made something of it keeps that."""
    shape = external_shape(tx, dataset, share=True)
    for dataid in dataids:
        chunk = Chunk(tx, shape, dataid)
        if rows := chunk.view.owned():
            _change(chunk, "forget", who, reason, [(row.kind, row.dataset, None) for row in rows])


def hold(tx: Transaction, job: str, dataid: str, reason: str, who: str) -> Changes:
    """Nobody shall make or read it."""
    chunk = Chunk(tx, shape_of(tx, job, share=True), dataid)
    refuse_alive(chunk, steal=False)
    chunk.reap(who)
    CHUNK.find(chunk.state, "hold")
    names = chunk.job.outputs or chunk.job.inputs
    blank = worst_row(chunk.view.owned()) or Row("", dataid, job, chunk.job.counted, ABSENT)

    def held(name: str) -> Row | None:
        row = chunk.view.own(chunk.job.counted, name)
        if row is not None and row.status == HOLD:
            return row
        former = "" if row is None else row.status
        base = row or replace(blank, dataset=name, kind=chunk.job.counted)
        return replace(base, status=HOLD, former=former, retry_in=None, message=reason)

    return _change(chunk, "hold", who, reason, [(Kind(chunk.job.counted), name, held(name)) for name in names])


def unhold(tx: Transaction, job: str, dataid: str, reason: str, who: str) -> Changes:
    """As it was before it was held."""
    chunk = Chunk(tx, shape_of(tx, job, share=True), dataid)
    rows = [row for row in chunk.view.counted() if row is not None and row.status == HOLD]
    CHUNK.find(HOLD if rows else chunk.state, "unhold")
    back = [(row.kind, row.dataset, replace(row, status=row.former, former="") if row.former else None) for row in rows]
    return _change(chunk, "unhold", who, reason, back)


def forget(tx: Transaction, job: str, dataid: str, reason: str, who: str, *, steal: bool) -> Changes:
    """As if it never was."""
    chunk = Chunk(tx, shape_of(tx, job, share=True), dataid)
    if not chunk.view.owned():
        raise UnknownName("chunk", f"{job}/{dataid}", "There is no row to forget; list them with: headgate data list")
    refuse_alive(chunk, steal=steal)
    return _change(chunk, "forget", who, reason, [(row.kind, row.dataset, None) for row in chunk.view.owned()])


def set_status(tx: Transaction, wanted: Row, reason: str, who: str) -> Change:
    """Support's hand: one row, any word."""
    if wanted.job == EXTERNAL:
        shape = external_shape(tx, wanted.dataset, share=True)
    else:
        shape = shape_of(tx, wanted.job, share=True)
    names = shape.job.inputs if wanted.kind is Kind.INPUT else shape.job.outputs
    if wanted.dataset not in names:
        listed = ", ".join(names) or "none"
        raise BadValue("dataset", wanted.dataset, f"is not an {wanted.kind} of job {wanted.job!r}; known: {listed}")
    chunk = Chunk(tx, shape, wanted.dataid)
    old = chunk.view.own(wanted.kind, wanted.dataset)
    base = replace(old or wanted, lease=None, expires_in=None, retry_in=None, worker="")
    new = replace(base, status=wanted.status, former="", message=reason)
    if wanted.status == RUNNING:
        new = replace(new, token=tx.next_token(), worker=who)
    return _change(chunk, "set_status", who, reason, [(wanted.kind, wanted.dataset, new)])[0]


def _change(chunk: Chunk, event: str, who: str, reason: str, wanted: Iterable[tuple[Kind, str, Row | None]]) -> Changes:
    """Rows become what is wanted (None: they go); who reads them, the history and the order learn of it."""
    ready = chunk.ready_outputs()
    before = chunk.status
    token = max((row.token for row in chunk.view.owned()), default=0)
    changes = [_write(chunk, kind, name, new) for kind, name, new in wanted]
    if event != "hold" or any(each.before != each.after for each in changes):
        after = changes[0].after if event == "set_status" else chunk.status
        before = changes[0].before if event == "set_status" else before
        chunk.tell(event, who, token, before, after, reason)
    chunk.settle(ready)
    return changes


def _write(chunk: Chunk, kind: Kind, name: str, new: Row | None) -> Change:
    old = chunk.view.own(kind, name)
    if new is None and old is not None:
        chunk.drop(old)
    elif new is not None and new is not old:
        chunk.put(new)
    before, after = (ABSENT if row is None else row.status for row in (old, new))
    return Change(chunk.job.name, name, chunk.dataid, kind, before, after)


def _publish_again(tx: Transaction, shape: Shape, dataid: str, who: str) -> None:
    chunk = Chunk(tx, shape, dataid)
    CHUNK.find(chunk.state, "publish")
    (row,) = chunk.view.owned()
    new = replace(row, status=READY, former="", failures=0, crashes=0, interruptions=0, message="")
    _change(chunk, "publish", who, "", [(row.kind, row.dataset, new)])


def _conflict(tx: Transaction, dataset: str, dataid: str, there: Iterable[tuple[str, int]]) -> ClaimRefused:
    names = job_names(tx)
    job = next(names[job] for found, job in there if found == dataid and job != 0)
    return ClaimRefused(
        EXTERNAL, dataid, (f"{dataset}/{dataid} is produced by job {job}; it cannot be published as well")
    )
