"""The chunks that chunks are made from, and those made from them."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.ledger.fan import ChunkLink, FanIn, fan_in_of
from headgate.core.ledger.model import EXTERNAL, Kind
from headgate.core.ledger.ordering import order_key
from headgate.core.ledger.rules import ABSENT
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.candidates import consumers_of
from headgate.stores.sql.ledger.mapping_statements import READ_MADE_OF, READ_STATUSES
from headgate.stores.sql.ledger.parts import parts_of
from headgate.stores.sql.ledger.rows import job_names
from headgate.stores.sql.ledger.shapes import Shape, all_jobs, dataset_of, shape_of
from headgate.stores.sql.ledger.sources import source_of, targets_of


def ask_fan_in(database: Database, job: str, dataids: Sequence[str], most: int) -> Sequence[FanIn]:
    """The needs of these data ids of a job for each input, whether or not it is mapped."""

    def ask(tx: Transaction) -> Sequence[FanIn]:
        shape = shape_of(tx, job, share=False)
        makers = {name: each.name for each in all_jobs(tx).values() for name in each.makes}
        return [
            fan_in_of(source_of(tx, shape, name, dataid), makers.get(name, EXTERNAL), most)
            for dataid in dataids
            for name in shape.job.inputs
        ]

    return database.read(ask)


def ask_readers(database: Database, dataset: str, dataid: str, most: int) -> Sequence[ChunkLink]:
    """The chunks that read this one, or were made from it: by job, up to a number for each."""

    def ask(tx: Transaction) -> Sequence[ChunkLink]:
        number, _ = dataset_of(tx, dataset)
        names = job_names(tx)
        shapes = [shape_of(tx, names[each.id], share=False) for each in consumers_of(tx, [number])]
        ordered = sorted(shapes, key=lambda shape: shape.job.name)
        return [link for shape in ordered for link in _links(tx, shape, dataset, dataid, most)]

    return database.read(ask)


def _links(tx: Transaction, shape: Shape, dataset: str, dataid: str, most: int) -> list[ChunkLink]:
    job, found = shape.job, {dataid}
    if job.mapped:
        rows = tx.all(READ_MADE_OF, job=shape.id, dataset=shape.ids[dataset], dataids=[dataid])
        found = {*targets_of(tx, shape, dataset, dataid), *(str(row[0]) for row in rows)}
    order = shape.datasets[job.first].order
    shown = sorted(found, key=lambda each: order_key(each, order))[:most]
    if not shown:
        return []
    rows = tx.all(
        READ_STATUSES, dataset=shape.ids[job.first], dataids=shown, job=shape.id, kind=job.counted.value
    )  # fmt: skip
    statuses = {str(each): str(status) for each, status in rows}
    links = [ChunkLink(job.name, job.first, each, statuses.get(each, ABSENT)) for each in shown]
    return links + [link for name in job.fan_out for link in _part_links(tx, shape, name, shown, most)]


def _part_links(tx: Transaction, shape: Shape, dataset: str, sources: Sequence[str], most: int) -> list[ChunkLink]:
    """The fan-out parts that the job made from these data ids."""
    order = shape.datasets[dataset].order
    found = sorted(parts_of(tx, shape, dataset, sources), key=lambda each: order_key(each, order))[:most]
    rows = tx.all(
        READ_STATUSES, dataset=shape.ids[dataset], dataids=found, job=shape.id, kind=Kind.OUTPUT.value
    ) if found else []  # fmt: skip
    statuses = {str(each): str(status) for each, status in rows}
    return [ChunkLink(shape.job.name, dataset, each, statuses.get(each, ABSENT)) for each in found]
