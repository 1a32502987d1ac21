"""Fan-out: reading and writing the parts that a job makes from one data id under others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headgate.core.ledger.model import READY, RUNNING, Kind, Row
from headgate.core.ledger.ordering import order_key
from headgate.core.ledger.parts import Listed, Part, PartChange, TakenPart, part_listed, part_status
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot
from headgate.stores.sql.database.dialect import Columns
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import part_statements as part_sql
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.candidates import batches, became_ready, became_unready
from headgate.stores.sql.ledger.rows import job_names, read_row
from headgate.stores.sql.ledger.running import BY_HAND
from headgate.stores.sql.ledger.shapes import Shape

#: The token for a placeholder in a decision.
TokenOf = Callable[[int], int]


def with_parts(tx: Transaction, shape: Shape, chunk: ChunkSnapshot, *, hold_still: bool) -> ChunkSnapshot:
    """The same with its fan-out parts, and their current readers."""
    found: dict[int, dict[str, bool]] = {}
    for dataset, dataid, listed in tx.all(part_sql.READ_PARTS, job=shape.id, source=chunk.dataid):
        found.setdefault(int(dataset), {})[str(dataid)] = bool(listed)
    parts: list[Part] = []
    readers = list(chunk.readers)
    names = {shape.ids[name]: name for name in shape.job.fan_out}
    for number in sorted(set(found).intersection(names)):
        name, listed = names[number], found[number]
        rows = _made_rows(tx, shape, name, listed, hold_still=hold_still)
        parts += [Part(row, listed[row.dataid]) for row in rows if row.job == shape.job.name]
        jobs = job_names(tx)
        for batch in batches([dataid for dataid in listed if listed[dataid]]):
            found_rows = tx.all(part_sql.READ_PART_READERS, dataset=number, dataids=batch)
            readers += [read_row(row, {number: name}, jobs) for row in found_rows]
    known = chunk.rows or parts or any(source.rows for source in chunk.sources.values())
    part_of = None if known else _part_of(tx, shape, chunk.dataid)
    return replace(chunk, parts=tuple(parts), readers=tuple(readers), part_of=part_of)


def _part_of(tx: Transaction, shape: Shape, dataid: str) -> tuple[str, str] | None:
    """Which dataset that the job fans out to has this data id, and what it was made from."""
    for name in shape.job.fan_out:
        row = tx.one(part_sql.READ_SOURCES, dataset=shape.ids[name], dataids=[dataid])
        if row is not None:
            return name, str(row[1])
    return None


def with_listed(
    tx: Transaction, shape: Shape, chunk: ChunkSnapshot, listed: Listed
) -> tuple[ChunkSnapshot, list[TakenPart]]:
    """The same with listed chunks that the job made before it fanned out, and with those that belong to another job or
    another data id.
    """
    own, taken, adopted = {part.key for part in chunk.parts}, list[TakenPart](), list[Part]()
    for name in sorted(set(listed).intersection(shape.job.fan_out), key=shape.ids.__getitem__):
        new = [dataid for dataid in listed[name] if (name, dataid) not in own]
        sources = {
            str(dataid): str(source)
            for batch in batches(new)
            for dataid, source in tx.all(part_sql.READ_SOURCES, dataset=shape.ids[name], dataids=batch)
        }
        for row in _made_rows(tx, shape, name, new, hold_still=True):
            if row.job == shape.job.name and row.dataid not in sources:
                adopted.append(Part(row, listed=False))
            else:
                taken.append(TakenPart(row, sources.get(row.dataid, "")))
    return replace(chunk, parts=(*chunk.parts, *adopted)), taken


def _made_rows(tx: Transaction, shape: Shape, name: str, dataids: Iterable[str], *, hold_still: bool) -> list[Row]:
    number, jobs, found = shape.ids[name], job_names(tx), list[Row]()
    for batch in batches(list(dataids)):
        if hold_still:
            rows = tx.all(sql.LOCK_MADE, datasets=[number], dataids=batch)
        else:
            rows = tx.all(part_sql.READ_MADE, dataset=number, dataids=batch)
        found += [read_row(row, {number: name}, jobs) for row in rows]
    return sorted(found, key=lambda row: order_key(row.dataid, shape.datasets[name].order))


def parts_of(tx: Transaction, maker: Shape, dataset: str, dataids: Sequence[str]) -> set[str]:
    """The data ids of a fan-out dataset that the job made from these."""
    return {
        str(dataid)
        for batch in batches(dataids)
        for (dataid,) in tx.all(part_sql.READ_PARTS_OF, job=maker.id, dataset=maker.ids[dataset], sources=batch)
    }


# ---------------------------------------------------------------- changes


def write_parts(tx: Transaction, shape: Shape, outcome: ChunkOutcome[object], token_of: TokenOf) -> None:
    """Write the changes of one chunk's parts."""
    groups: dict[tuple[object, ...], list[PartChange]] = {}
    for change in outcome.parts:
        groups.setdefault(_says(change), []).append(change)
    for changes in groups.values():
        _write_group(tx, shape, outcome.snapshot.dataid, changes, token_of)
    if groups:
        _record_history(tx, shape, outcome)


def _says(change: PartChange) -> tuple[object, ...]:
    """The common values of changes that one statement writes."""
    before, after = (
        None if part is None else replace(part, row=replace(part.row, dataid="", since=None, started=None))
        for part in (change.before, change.after)
    )
    dataset = change.key[0]
    return (dataset, before is None, before is None or before.listed, after)


def _write_group(tx: Transaction, shape: Shape, source: str, changes: Sequence[PartChange], token_of: TokenOf) -> None:
    first, dataids = changes[0], [change.key[1] for change in changes]
    name = first.key[0]
    key: dict[str, object] = {"dataset": shape.ids[name], "job": shape.id}
    after = None if first.after is None else first.after.row
    relisted = first.before is None or first.after is None or first.before.listed != first.after.listed
    if after is None:
        for batch in batches(dataids):
            tx.run(sql.DROP_ROWS, dataids=batch, kind=Kind.OUTPUT.value, **key)
    elif first.before is None:
        keys = [order_key(each, shape.datasets[name].order) for each in dataids]
        tx.many(
            part_sql.ADD_PART_ROWS, {"dataid": dataids, "order_key": keys}, status=after.status,
            token=token_of(after.token), forced=False, message=after.message,
            at=tx.one(sql.READ_WALL)[0], **key,
        )  # fmt: skip
    else:
        for batch in batches(dataids):
            tx.run(
                part_sql.CHANGE_PART_ROWS, dataids=batch, status=after.status, former=after.former,
                token=token_of(after.token), worker=after.worker, message=after.message,
                lease_left=BY_HAND if after.status == RUNNING else None, **key,
            )  # fmt: skip
    if relisted:
        for batch in batches(dataids):
            tx.run(part_sql.DROP_PARTS, dataset=shape.ids[name], dataids=batch)
        if first.after is not None:
            tx.many(part_sql.ADD_PARTS, {"dataid": dataids}, source=source, listed=first.after.listed, **key)


def _record_history(tx: Transaction, shape: Shape, outcome: ChunkOutcome[object]) -> None:
    """The history of each part records when it was listed and when it no longer was."""
    who = next((record.who for record in outcome.records), "")
    for event in {change.event for change in outcome.parts} - {""}:
        for name in shape.job.fan_out:
            told = [change for change in outcome.parts if change.event == event and change.key[0] == name]
            before = [part_status(change.before) for change in told]
            rows = [change.after.row for change in told if change.after]
            columns: Columns = {
                "dataid": [row.dataid for row in rows], "before": before, "after": [row.status for row in rows],
                "token": [row.token for row in rows], "reason": [row.message for row in rows],
            }  # fmt: skip
            tx.many(sql.RECORD, columns, event=event, job=shape.id, dataset=shape.ids[name], who=who)


def announce_parts(tx: Transaction, shape: Shape, outcome: ChunkOutcome[object]) -> None:
    """Update the jobs that read parts which became READY, are READY no longer, or are gone or no longer listed."""
    for name in shape.job.fan_out if outcome.parts else ():
        ready, unready = list[str](), list[str]()
        for change in outcome.parts:
            was, now = part_status(change.before) == READY, part_status(change.after) == READY
            if change.key[0] == name and (was != now or not part_listed(change.after)):
                (ready if now else unready).append(change.key[1])
        became_unready(tx, [shape.ids[name]] if unready else [], unready)
        became_ready(tx, [shape.ids[name]] if ready else [], ready)
