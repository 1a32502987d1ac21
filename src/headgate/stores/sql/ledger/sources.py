"""The sources of mapped inputs for a data id, and the jobs that read a chunk by a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headgate.core.ledger.expectations.model import expected_sources
from headgate.core.ledger.expectations.parsing import expectation_of
from headgate.core.ledger.mappings.model import InputMap
from headgate.core.ledger.mappings.sources import Everything, Listed, Matching, Neighbours
from headgate.core.ledger.mappings.windows import targets_in_order, window_in_order
from headgate.core.ledger.model import Row
from headgate.core.ledger.ordering import order_key
from headgate.core.ledger.snapshot import ChunkSnapshot
from headgate.core.ledger.sources import Reading, SourceSet, source_set
from headgate.stores.sql.database.sql_text import Row as SqlRow
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import mapping_statements as mapping_sql
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.rows import job_names, read_row
from headgate.stores.sql.ledger.shapes import Shape

#: Sorts after every text with a given prefix.
BEYOND = chr(0x10FFFF)


def mapped_rows(tx: Transaction, shape: Shape, dataid: str, *, hold_still: bool) -> list[SqlRow]:
    """The output rows of a mapped job, and its own input rows."""
    own = mapping_sql.LOCK_OWN_INPUTS if hold_still else mapping_sql.READ_OWN_INPUTS
    made = sql.LOCK_ROWS if hold_still else sql.READ_ROWS
    inputs, outputs = (sorted(shape.ids[each] for each in names) for names in (shape.job.inputs, shape.job.outputs))
    rows = tx.all(made, datasets=outputs, dataid=dataid) if outputs else []
    return rows + tx.all(own, datasets=inputs, dataid=dataid, job=shape.id)


def with_sources(tx: Transaction, shape: Shape, chunk: ChunkSnapshot, *, hold_still: bool) -> ChunkSnapshot:
    """The same with the sources of its mapped inputs, and the read set of its newest claim. Datasets are read in the
    order of their numbers, so that all transactions lock rows in one order.
    """
    found = {
        name: source_of(tx, shape, name, chunk.dataid, hold_still=hold_still)
        for name in sorted(shape.job.inputs, key=shape.ids.__getitem__)
    }
    names = {number: name for name, number in shape.ids.items()}
    reads = tuple(
        Reading(names[int(dataset)], str(source), int(version), bool(newer))
        for dataset, source, version, newer in tx.all(mapping_sql.READ_READS, job=shape.id, dataid=chunk.dataid)
        if int(dataset) in names  # The job had a different definition when it was made.
    )
    return replace(chunk, sources={name: found[name] for name in shape.job.inputs}, reads=reads)


def with_readers(tx: Transaction, shape: Shape, chunk: ChunkSnapshot) -> ChunkSnapshot:
    """The same with the jobs that currently read it by a mapping."""
    made = sorted(shape.ids[name] for name in shape.job.outputs)
    rows = tx.all(mapping_sql.READ_READERS, datasets=made, dataid=chunk.dataid) if made else []
    if not rows:
        return chunk
    names, jobs = {shape.ids[name]: name for name in shape.job.outputs}, job_names(tx)
    return replace(chunk, readers=tuple(read_row(row, names, jobs) for row in rows))


def source_of(tx: Transaction, shape: Shape, name: str, dataid: str, *, hold_still: bool = False) -> SourceSet:
    """The sources of one mapped input for a data id. `hold_still`: it cannot change until the transaction ends."""
    mapping, most = shape.job.map_of(name), tx.options.max_input_ids
    rows = [] if mapping.fault(dataid) else _rows(tx, shape, name, dataid, hold_still=hold_still)
    asked = not mapping.sources(dataid).complete
    closed = asked and tx.one(mapping_sql.IS_CLOSED, job=shape.id, dataid=dataid) is not None
    expectation = expectation_of(shape.datasets[name].expect) if asked and not closed else None
    expected = expected_sources(expectation, mapping, dataid, most + 1) if expectation else ()
    return source_set(name, mapping, shape.job.name, dataid, rows, closed=closed, most=most, expected=expected)


def _rows(tx: Transaction, shape: Shape, name: str, dataid: str, *, hold_still: bool) -> list[Row]:
    """The OUTPUT rows that a mapping names; one more than the limit if it is exceeded."""
    number, mapping, most = shape.ids[name], shape.job.map_of(name), tx.options.max_input_ids + 1
    wanted = mapping.sources(dataid)
    if isinstance(wanted, Everything):
        statement = mapping_sql.LOCK_FIRST if hold_still else mapping_sql.FIRST
        return _read(tx, shape, name, tx.all(statement, dataset=number, limit=most))
    if isinstance(wanted, Listed):
        dataids: Sequence[str] = wanted.ids
    elif isinstance(wanted, Matching):
        dataids = _matching(tx, number, mapping, wanted.prefix, dataid)
    else:
        dataids = window(tx, shape, name, dataid, wanted)
    statement = mapping_sql.LOCK_LISTED if hold_still else mapping_sql.LISTED
    rows = tx.all(statement, dataset=number, dataids=list(dataids[:most])) if dataids else []
    return _read(tx, shape, name, rows)


def _read(tx: Transaction, shape: Shape, name: str, found: Sequence[SqlRow]) -> list[Row]:
    jobs, order = job_names(tx) if found else {}, shape.datasets[name].order
    rows = [read_row(row, {shape.ids[name]: name}, jobs) for row in found]
    return sorted(rows, key=lambda row: order_key(row.dataid, order))


def _matching(tx: Transaction, dataset: int, mapping: InputMap, prefix: str, dataid: str) -> list[str]:
    rows = tx.all(mapping_sql.PREFIXED, dataset=dataset, prefix=prefix, beyond=prefix + BEYOND)
    return [str(found) for (found,) in rows if dataid in mapping.targets(str(found))]


# ---------------------------------------------------------------- windows in the input's order


def window(tx: Transaction, shape: Shape, name: str, dataid: str, wanted: Neighbours) -> tuple[str, ...]:
    """The data id with its neighbours among all of the input's ids."""
    before, after = _neighbours(tx, shape, name, dataid, wanted.before, wanted.after)
    return window_in_order(wanted.before, wanted.after, before, dataid, after)


def targets_of(tx: Transaction, shape: Shape, name: str, source: str) -> Sequence[str]:
    """The data ids of a job that read an upstream id; empty for reference data, which all of them read."""
    mapping = shape.job.map_of(name)
    if not mapping.in_order:
        return mapping.targets(source)
    before, after = mapping.before or 0, mapping.after or 0
    near = _neighbours(tx, shape, name, source, after, before)
    return targets_in_order(before, after, near[0], source, near[1])


def _neighbours(
    tx: Transaction, shape: Shape, name: str, dataid: str, before: int, after: int
) -> tuple[list[str], list[str]]:
    """Data ids before and after one, in the input's order."""
    number, key = shape.ids[name], order_key(dataid, shape.datasets[name].order)

    def near(ahead: bool, count: int) -> Iterator[str]:  # noqa: FBT001 - private
        statement = mapping_sql.FOLLOWING if ahead else mapping_sql.PRECEDING
        for (found,) in tx.all(statement, dataset=number, order_key=key, limit=count) if count else ():
            yield str(found)

    return list(near(False, before))[::-1], list(near(True, after))  # noqa: FBT003
