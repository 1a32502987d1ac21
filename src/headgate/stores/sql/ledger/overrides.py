"""Operators' actions on chunks: publish, withdraw, set a status, and resubmit, one or many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from headgate.core.errors import BadValue, Refused
from headgate.core.ledger import work as chunk_work
from headgate.core.ledger.model import EXTERNAL, Change, Kind, Row
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.candidates import batches, consumers_of
from headgate.stores.sql.ledger.changes import ClaimTokens, announce, apply_many, carry_out
from headgate.stores.sql.ledger.mapping_statements import READ_MADE_OF
from headgate.stores.sql.ledger.parts import parts_of
from headgate.stores.sql.ledger.rows import job_names
from headgate.stores.sql.ledger.shapes import Shape, external_shape, shape_of
from headgate.stores.sql.ledger.snapshots import ChunkGroup, decide_many
from headgate.stores.sql.ledger.sources import targets_of


def publish(tx: Transaction, dataset: str, dataids: Sequence[str], who: str) -> int:
    """Data made elsewhere becomes READY. Returns how many chunks were not READY before."""
    shape = external_shape(tx, dataset, share=True)
    groups = decide_many(tx, shape, dataids, lambda chunk: chunk_work.publish(chunk, who), sql.LOCK_MADE)
    apply_all(tx, [(shape, group) for group in groups])
    return sum(len(group.dataids) for group in groups if group.outcome.changed)


def withdraw(tx: Transaction, dataset: str, dataids: Sequence[str], reason: str, who: str) -> None:
    """Data made elsewhere no longer exists. Jobs that made something from it keep that."""
    shape = external_shape(tx, dataset, share=True)

    def unit(chunk: ChunkSnapshot) -> ChunkOutcome[None]:
        return chunk_work.forget(chunk, reason, who, steal=True) if chunk.owned() else ChunkOutcome(None, chunk)

    for dataid in dataids:
        carry_out(tx, shape, dataid, unit)


def set_status(tx: Transaction, wanted: Row, reason: str, who: str) -> Change:
    """Set any status on one row."""
    if wanted.job == EXTERNAL:
        shape = external_shape(tx, wanted.dataset, share=True)
    else:
        shape = shape_of(tx, wanted.job, share=True)
    if wanted.dataset in shape.job.fan_out:
        told = f"{wanted.dataset}/{wanted.dataid} is made by fan-out of job {wanted.job}"
        raise Refused(f"{told}: its status follows the chunk that it was made from")
    names = shape.job.inputs if wanted.kind is Kind.INPUT else shape.job.outputs
    if wanted.dataset not in names:
        listed = ", ".join(names) or "none"
        raise BadValue("dataset", wanted.dataset, f"is not an {wanted.kind} of job {wanted.job!r}; known: {listed}")
    unit = partial(chunk_work.set_status, wanted=wanted, reason=reason, who=who)
    return carry_out(tx, shape, wanted.dataid, unit).result


# ---------------------------------------------------------------- resubmit


class Resubmission(NamedTuple):
    """The requested row."""

    reason: str
    who: str
    downstream: bool
    steal: bool
    dry_run: bool


def resubmit(tx: Transaction, job: str, dataids: Sequence[str], wish: Resubmission) -> list[Change]:
    """Redo these before all others, and with `downstream` also everything that was made from them. Returns the changes,
    or those that it would make.
    """
    found = find_resubmitted(tx, shape_of(tx, job, share=True), dataids, wish)
    changes: dict[str, list[Change]] = {dataid: [] for dataid in dataids}
    for _, group in found:
        for dataid in group.dataids:
            changes.setdefault(dataid, []).extend(group.outcome.changes(dataid))
    if not wish.dry_run:
        apply_all(tx, found)
    return [change for each in changes.values() for change in each]


def find_resubmitted(
    tx: Transaction, root: Shape, dataids: Sequence[str], wish: Resubmission
) -> list[tuple[Shape, ChunkGroup]]:  # fmt: skip
    """The chunks, and with `downstream` every chunk made from them on any path, each once."""
    found = [(root, group) for group in _decide(tx, root, dataids, wish, named=True)]
    shapes, asked = {root.id: root}, {root.id: set(dataids)}
    pending = [(root, set(dataids))] if wish.downstream else []
    while pending:
        maker, made = pending.pop(0)
        for shape in _consumers(tx, maker, shapes):
            new = _made_of(tx, maker, shape, made) - asked.setdefault(shape.id, set())
            asked[shape.id] |= new
            groups = _decide(tx, shape, sorted(new), wish, named=False)
            found += [(shape, group) for group in groups]
            reached = {dataid for group in groups for dataid in group.dataids}
            pending += [(shape, reached)] if reached else []
    return found


def _decide(
    tx: Transaction, shape: Shape, dataids: Sequence[str], wish: Resubmission, *, named: bool
) -> list[ChunkGroup]:  # fmt: skip
    unit = partial(chunk_work.resubmit, reason=wish.reason, who=wish.who, named=named, steal=wish.steal)
    groups = decide_many(tx, shape, dataids, unit, sql.READ_MANY_ROWS if wish.dry_run else sql.LOCK_MANY_ROWS)
    return [group for group in groups if group.outcome.changed]


def _consumers(tx: Transaction, maker: Shape, shapes: dict[int, Shape]) -> Iterator[Shape]:
    for consumer in consumers_of(tx, maker.made) if maker.made else ():
        if consumer.id not in shapes:
            shapes[consumer.id] = shape_of(tx, job_names(tx)[consumer.id], share=True)
        yield shapes[consumer.id]


def _made_of(tx: Transaction, maker: Shape, reader: Shape, made: set[str]) -> set[str]:
    """The data ids of a job that read these of another job, or were made from them."""
    found = set[str]()
    for name in set(maker.job.makes).intersection(reader.job.inputs):
        there = made if name in maker.job.outputs else parts_of(tx, maker, name, sorted(made))
        if not reader.job.mapped:
            found |= there
            continue
        found.update(target for dataid in there for target in targets_of(tx, reader, name, dataid))
        for batch in batches(sorted(there)):
            rows = tx.all(READ_MADE_OF, job=reader.id, dataset=reader.ids[name], dataids=batch)
            found.update(str(dataid) for (dataid,) in rows)
    return found


def apply_all(tx: Transaction, found: Sequence[tuple[Shape, ChunkGroup]]) -> None:
    tokens = ClaimTokens(tx)
    for shape, group in found:
        apply_many(tx, shape, group, tokens)
    # Candidates are written for all of them before the missing inputs of each are determined.
    for shape, group in found:
        announce(tx, shape, group.outcome, group.dataids)
