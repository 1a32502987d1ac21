"""Operations on selected chunks, part by part: each is one transaction, so a large selection never blocks others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import select

from headgate.core.errors import Refused
from headgate.core.ledger import work as chunk_work
from headgate.core.ledger.model import FORGET_EVENT, HOLD_EVENT, RESUBMIT_EVENT, UNHOLD_EVENT, Change
from headgate.core.ledger.selection import (
    MOST_LISTED,
    MOST_REFUSED,
    BulkRequest,
    BulkResult,
    RefusedChunk,
    Tried,
    first_line,
    on_selected,
)
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot
from headgate.stores.sql import schema
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.overrides import Resubmission, apply_all, find_resubmitted
from headgate.stores.sql.ledger.questions import with_statuses
from headgate.stores.sql.ledger.shapes import Shape, shape_of
from headgate.stores.sql.ledger.snapshots import ChunkGroup, decide_many

#: Number of selected chunks in one transaction, and of the rows that are read for them.
PART, MOST_LOOKED_AT = 2000, 20_000
#: Number of rows that are read at once.
PORTION = 5000

Found = tuple[Shape, ChunkGroup]
Unit = Callable[[ChunkSnapshot], ChunkOutcome[object]]


#: The unit of work for each operation.
UNITS: Mapping[str, Callable[[BulkRequest], Unit]] = {
    RESUBMIT_EVENT: lambda wish: partial(
        chunk_work.resubmit, reason=wish.reason, who=wish.who, named=True, steal=wish.steal
    ),
    HOLD_EVENT: lambda wish: partial(chunk_work.hold, reason=wish.reason, who=wish.who),
    UNHOLD_EVENT: lambda wish: partial(chunk_work.unhold, reason=wish.reason, who=wish.who),
    FORGET_EVENT: lambda wish: partial(chunk_work.forget, reason=wish.reason, who=wish.who, steal=wish.steal),
}


def change_selected(tx: Transaction, job: str, wish: BulkRequest) -> BulkResult:
    """Run the operation on the next part of the selection. Refused chunks are unchanged, and are named."""
    shape = shape_of(tx, job, share=True)
    dataids, behind = _part(tx, shape, wish)
    part = _SelectedPart(tx, shape, wish)
    found = part.decide(dataids)
    if wish.downstream and found:
        found = part.with_downstream([dataid for _, group in found for dataid in group.dataids])
    if not wish.dry_run:
        apply_all(tx, found)
    return BulkResult(
        wish.act, dict(part.selected), _count(found), len(part.refused), part.refused[:MOST_REFUSED],
        _changes(found), behind, _reached(shape, found) if wish.after or behind else {},
    )  # fmt: skip


def _part(tx: Transaction, shape: Shape, wish: BulkRequest) -> tuple[list[str], str | None]:
    """The selected data ids, and the one after which the next part begins; None: this is the last."""
    chunk, job, selection = schema.chunk.c, shape.job, wish.selection
    low, high = selection.bounds
    limit = PORTION if selection.dataids else PART
    question = (
        select(chunk.dataid)
        .where(
            chunk.dataset_id == shape.ids[job.first], chunk.job_id == shape.id, chunk.kind == job.counted.value,
            chunk.dataid >= low, *with_statuses(selection.statuses),
        )
        .order_by(chunk.dataid)
        .limit(limit)
    )  # fmt: skip
    if high is not None:
        question = question.where(chunk.dataid <= high)
    found: list[str] = []
    after, looked = wish.after, 0
    while True:
        rows = tx.ask(question.where(chunk.dataid > after) if after else question)
        for (dataid,) in rows:
            after, looked = str(dataid), looked + 1
            if selection.names(after):
                found.append(after)
            if len(found) == PART or looked == MOST_LOOKED_AT:
                return found, after
        if len(rows) < limit:
            return found, None


class _SelectedPart:
    """One part of a selection, during the decision. Nothing is written until all of it is decided."""

    def __init__(self, tx: Transaction, shape: Shape, wish: BulkRequest) -> None:
        self._tx, self._shape, self._wish = tx, shape, wish
        self._unit = UNITS[wish.act](wish)
        #: Selected chunks by status.
        self.selected: Counter[str] = Counter()
        self.refused: list[RefusedChunk] = []
        self._reached: set[tuple[int, str]] = set()

    def decide(self, dataids: Sequence[str]) -> list[Found]:
        """The outcome for each one separately. A chunk whose status has changed meanwhile is no longer selected."""
        found = []
        for group in self._groups(dataids):
            tried = _tried(group)
            if tried.refused:
                self._refuse_each(group.dataids)
            elif tried.before:
                self.selected[tried.before] += len(group.dataids)
                found.append((self._shape, group))
        return [each for each in found if each[1].outcome.changed]

    def with_downstream(self, dataids: Sequence[str]) -> list[Found]:
        """These chunks, and all that were made from them. If a downstream chunk is refused, its sources are refused
        with it, and no others.
        """
        try:
            found = find_resubmitted(self._tx, self._shape, dataids, _resubmission(self._wish))
        except Refused as error:
            if len(dataids) == 1:
                self.refused.append(RefusedChunk(dataids[0], first_line(error)))
                return []
            half = len(dataids) // 2
            return [*self.with_downstream(dataids[:half]), *self.with_downstream(dataids[half:])]
        return list(filter(None, (self._new(shape, group) for shape, group in found)))

    def _new(self, shape: Shape, group: ChunkGroup) -> Found | None:
        """The chunks of a group that the other half has not reached."""
        new = [place for place, dataid in enumerate(group.dataids) if (shape.id, dataid) not in self._reached]
        self._reached |= {(shape.id, group.dataids[place]) for place in new}
        if not new:
            return None
        return shape, ChunkGroup(
            group.outcome, [group.dataids[place] for place in new], [group.tokens[place] for place in new]
        )

    def _refuse_each(self, dataids: Sequence[str]) -> None:
        """The reasons name each chunk's own claim, so each is decided separately."""
        for dataid in dataids:
            for group in self._groups([dataid]):
                tried = _tried(group)
                self.selected[tried.before] += 1
                self.refused.append(RefusedChunk(dataid, tried.refused))

    def _groups(self, dataids: Sequence[str]) -> list[ChunkGroup]:
        unit = partial(on_selected, selection=self._wish.selection, unit=self._unit)
        read = sql.READ_MANY_ROWS if self._wish.dry_run else sql.LOCK_MANY_ROWS
        return decide_many(self._tx, self._shape, dataids, unit, read)


def _resubmission(wish: BulkRequest) -> Resubmission:
    return Resubmission(wish.reason, wish.who, wish.downstream, wish.steal, wish.dry_run)


def _tried(group: ChunkGroup) -> Tried:
    result: Any = group.outcome.result
    assert isinstance(result, Tried)  # noqa: S101 - what on_selected returns
    return result


def _count(found: Sequence[Found]) -> dict[str, int]:
    """Number of changed chunks of each job."""
    counts: Counter[str] = Counter()
    for shape, group in found:
        if group.outcome.rows:
            counts[shape.job.name] += len(group.dataids)
    return dict(counts)


def _reached(root: Shape, found: Sequence[Found]) -> dict[str, list[str]]:
    """The downstream chunks by job, if a mapping leads to any: then other parts of the selection may reach them too."""
    there = [(shape, group) for shape, group in found if shape.id != root.id and group.outcome.rows]
    if not any(shape.job.mapped for shape, _ in there):
        return {}
    reached: dict[str, list[str]] = {}
    for shape, group in there:
        reached.setdefault(shape.job.name, []).extend(group.dataids)
    return reached


def _changes(found: Sequence[Found]) -> list[Change]:
    """The first changes, in the order of the data ids."""
    changes: list[Change] = []
    for _, group in found:
        for dataid in group.dataids[:MOST_LISTED]:
            changes += group.outcome.changes(dataid)
    return sorted(changes, key=lambda each: each.dataid)[:MOST_LISTED]
