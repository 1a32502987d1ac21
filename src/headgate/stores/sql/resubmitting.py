"""Making chunks again, and with them all that was made from them: many at once, in one transaction.

Rows are read and written in bulk. What becomes of a chunk is decided once for all chunks whose rows say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headgate.core.claims import ABSENT
from headgate.core.errors import UnknownName
from headgate.core.ledger import HOLD, RESUBMIT, Change, Kind, Row
from headgate.stores.sql import ledger_statements as sql
from headgate.stores.sql.candidates import batches, became_unready, consumers_of
from headgate.stores.sql.chunks import Chunk, job_names, write_candidates
from headgate.stores.sql.claiming import refuse_alive
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.shapes import Shape, shape_of
from headgate.stores.sql.statement import Row as SqlRow

#: A row that changes: its kind and dataset, what it was, and what it becomes (None: it goes).
Step = tuple[Kind, str, str, Row | None]


class Wish(NamedTuple):
    """What is asked for."""

    reason: str
    who: str
    downstream: bool
    steal: bool
    dry_run: bool


@dataclass(slots=True)
class Group:
    """Chunks of one job whose rows say the same, and what becomes of them."""

    shape: Shape
    steps: list[Step]
    before: str
    after: str
    #: Outputs that are READY no longer, by number.
    unready: list[int]
    #: Their place among what may be claimable, and what is missing; None: they are not among it.
    candidate: tuple[int, int, int] | None
    dataids: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def resubmit(tx: Transaction, job: str, dataids: Sequence[str], wish: Wish) -> list[Change]:
    """Make these again, first, and with `downstream` all that was made from them. Gives what changed, or would."""
    groups = _find(tx, shape_of(tx, job, share=True), dataids, wish)
    changes: dict[str, list[Change]] = {dataid: [] for dataid in dataids}
    for group in groups:
        for dataid in group.dataids:
            changes[dataid] += _changes(group, dataid)
    if not wish.dry_run:
        for group in groups:
            _write_rows(tx, group, wish)
            write_candidates(tx, group.shape, group.dataids, group.candidate)
        # Only when all have their places can each be told what it waits for.
        for group in groups:
            became_unready(tx, group.unready, group.dataids)
    return [change for dataid in dataids for change in changes[dataid]]


def _find(tx: Transaction, root: Shape, dataids: Sequence[str], wish: Wish) -> list[Group]:
    """The chunks, and with `downstream` every chunk that was made from them, by whatever way, each once."""
    groups = _load(tx, root, dataids, wish, root=True)
    shapes, asked = {root.id: root}, {root.id: set(dataids)}
    pending = [(root, set(dataids))] if wish.downstream else []
    while pending:
        maker, made = pending.pop(0)
        for shape in _consumers(tx, maker, shapes):
            new = made - asked.setdefault(shape.id, set())
            asked[shape.id] |= new
            found = _load(tx, shape, sorted(new), wish, root=False)
            groups += found
            reached = {dataid for group in found for dataid in group.dataids}
            pending += [(shape, reached)] if reached else []
    return groups


def _consumers(tx: Transaction, maker: Shape, shapes: dict[int, Shape]) -> Iterator[Shape]:
    outputs = [maker.ids[name] for name in maker.job.outputs]
    for consumer in consumers_of(tx, outputs) if outputs else ():
        if consumer.id not in shapes:
            shapes[consumer.id] = shape_of(tx, job_names(tx)[consumer.id], share=True)
        yield shapes[consumer.id]


def _load(tx: Transaction, shape: Shape, dataids: Sequence[str], wish: Wish, *, root: bool) -> list[Group]:
    """The chunks of one job, held still unless it is a preview. Those that are named must be there."""
    groups: dict[tuple[object, ...], Group] = {}
    for batch in batches(dataids):
        if not wish.dry_run:
            tx.all(sql.LOCK_CANDIDATES, job=shape.id, dataids=batch)
        read = sql.READ_MANY_ROWS if wish.dry_run else sql.LOCK_MANY_ROWS
        rows: dict[str, list[SqlRow]] = {}
        for row in tx.all(read, datasets=shape.numbers, dataids=batch):
            rows.setdefault(str(row[1]), []).append(row)
        for dataid in batch:
            own = [row for row in rows.get(dataid, ()) if row[2] == shape.id]
            if own and not (tx.again and _is_resubmitted(own, wish)):
                _sort_in(tx, shape, dataid, rows[dataid], groups, wish, root=root)
            elif root and not own:
                raise _unknown(shape, dataid)
    return list(groups.values())


def _sort_in(
    tx: Transaction, shape: Shape, dataid: str, rows: list[SqlRow], groups: dict[tuple[object, ...], Group],
    wish: Wish, *, root: bool,
) -> None:  # fmt: skip
    """Into the group of chunks whose rows say the same; the first of its kind decides for all of them."""
    says = tuple(sorted((row[0], *row[2:9], row[12] is not None and row[12] > 0, _kept_message(row)) for row in rows))
    if says not in groups:
        chunk = Chunk(tx, shape, dataid, found=rows)
        if root and not any(chunk.view.counted()):
            raise _unknown(shape, dataid)
        refuse_alive(chunk, steal=wish.steal)
        groups[says] = _decide(chunk, wish, root=root)
    groups[says].dataids.append(dataid)
    groups[says].tokens.append(max(int(row[9]) for row in rows if row[2] == shape.id))


def _is_resubmitted(own: Sequence[SqlRow], wish: Wish) -> bool:
    """Whether it happened already, though the answer was lost: then it is not told twice."""
    return all(row[4] == RESUBMIT and row[17] == wish.reason for row in own)


def _kept_message(row: SqlRow) -> str:
    return str(row[17]) if row[4] == HOLD else ""


def _decide(chunk: Chunk, wish: Wish, *, root: bool) -> Group:
    """What becomes of a chunk."""
    before, ready = chunk.status, set(chunk.ready_outputs())
    steps = [(row.kind, row.dataset, row.status, _again(row, wish, root=root)) for row in chunk.view.owned()]
    chunk.imagine((kind, name, new) for kind, name, _, new in steps)
    unready = sorted(ready - set(chunk.ready_outputs()))
    return Group(chunk.shape, steps, before, chunk.status, unready, chunk.candidate())


def _again(row: Row, wish: Wish, *, root: bool) -> Row | None:
    """What a row becomes; None: it goes. What is held stays so, unless it is named itself."""
    again = replace(
        row, status=RESUBMIT, former="", failures=0, crashes=0, interruptions=0, lease=None, expires_in=None,
        retry_in=None, message=wish.reason,
    )  # fmt: skip
    if not root and row.status == HOLD:
        former = RESUBMIT if row.kind is Kind.OUTPUT else ""
        return replace(again, status=HOLD, former=former, message=row.message)
    return again if row.kind is Kind.OUTPUT else None


def _changes(group: Group, dataid: str) -> list[Change]:
    job = group.shape.job.name
    return [
        Change(job, name, dataid, kind, was, ABSENT if new is None else new.status)
        for kind, name, was, new in group.steps
    ]


def _write_rows(tx: Transaction, group: Group, wish: Wish) -> None:
    shape = group.shape
    for batch in batches(group.dataids):
        for kind, name, _, new in group.steps:
            key = {"dataset": shape.ids[name], "job": shape.id, "kind": kind.value, "dataids": batch}
            if new is None:
                tx.run(sql.DROP_ROWS, **key)
            else:
                tx.run(sql.RESUBMIT_ROWS, **key, status=new.status, former=new.former, message=new.message)
    tx.many(
        sql.TELL, {"dataid": group.dataids, "token": group.tokens}, event="resubmit", job=shape.id, dataset=shape.told,
        who=wish.who, before=group.before, after=group.after, reason=wish.reason,
    )  # fmt: skip


def _unknown(shape: Shape, dataid: str) -> UnknownName:
    return UnknownName(
        "chunk", f"{shape.job.name}/{dataid}", ("There is nothing to resubmit; list chunks with: headgate data list")
    )
