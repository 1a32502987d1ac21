"""Counts of chunks by status, from a bounded number of rows, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, literal_column, select

from headgate.core.filters import SpanFilter
from headgate.core.ledger.census import EXPIRED, Span, Tally
from headgate.core.ledger.model import DONE, EXTERNAL, READY, Dataset, Job, Kind
from headgate.core.ledger.ordering import order_key
from headgate.stores.sql import schema
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.questions import TROUBLE, number_of
from headgate.stores.sql.ledger.rows import job_names
from headgate.stores.sql.ledger.shapes import all_datasets, all_jobs

#: The columns that identify the rows: dataset, job, kind.
Place = tuple[int, int, str]
Counts = dict[Place, Counter[str]]
#: Sorts after every key: UTF-8 never contains this byte.
BEYOND = b"\xff"
_chunk = schema.chunk.c


def ask_tallies(database: Database, most: int) -> Sequence[Tally]:
    """Number of chunks by status, for each dataset and job; of each dataset, `most` rows are read."""
    return database.read(lambda tx: _tallies(tx, most, _rows(database)))


def ask_standing(database: Database) -> Sequence[Tally]:
    """Number of chunks by status for each job, except READY and DONE ones; each chunk counts once.

    A chunk is counted by the row of its job's first output, or first input if there is no output.
    """
    rows = _rows(database)

    def ask(tx: Transaction) -> list[Tally]:
        datasets, jobs, names = all_datasets(tx), all_jobs(tx), job_names(tx)
        counts: Counts = {}
        for rare in (rows.where(TROUBLE), rows.where(_chunk.lease_until > 0)):
            # Naming the jobs lets every database use its index of rare statuses.
            _add(counts, tx.ask(_grouped(rare.where(_chunk.job_id.in_(sorted(names))))))
        found = []
        for (number, job, kind), statuses in sorted(counts.items()):
            dataset = datasets[number].name
            if names[job] == EXTERNAL or (
                job in jobs and (dataset, Kind(kind)) == (jobs[job].first, jobs[job].counted)
            ):
                found += [Tally(dataset, names[job], Kind(kind), *each) for each in sorted(statuses.items())]
        return found

    return database.read(ask)


def _rows(database: Database) -> Select[Any]:
    """Rows of chunks, each with its status, or EXPIRED."""
    now: ColumnElement[int] = literal_column(database.dialect.now)
    word = case((_chunk.lease_until <= now, EXPIRED), else_=_chunk.status)
    return select(_chunk.dataset_id, _chunk.job_id, _chunk.kind, word.label("status"))


def _tallies(tx: Transaction, most: int, rows: Select[Any]) -> list[Tally]:
    datasets, jobs = all_datasets(tx), all_jobs(tx)
    counts: Counts = {}
    cut: set[int] = set()
    for number in datasets:
        read = 0
        for question in _first_rows(rows.where(_chunk.dataset_id == number), datasets[number], jobs, most):
            read = max(read, _add(counts, tx.ask(question)))
        if read > most:
            cut.add(number)
    # A part of the rows would contain too few failures and claims, which have their own indexes.
    few = _add_few(tx, jobs, counts, cut, rows, most) if cut else set()
    names, job_by_number = {number: each.name for number, each in datasets.items()}, job_names(tx)
    return [
        Tally(names[dataset], job_by_number[job], Kind(kind), status, count,
              dataset in cut and (status in (READY, DONE) or (dataset, job, kind) in few))
        for (dataset, job, kind), found in sorted(counts.items())
        for status, count in sorted(found.items())
    ]  # fmt: skip


def _first_rows(made: Select[Any], dataset: Dataset, jobs: Mapping[int, Job], most: int) -> Iterator[Select[Any]]:
    """The first rows that produce the dataset, and for jobs without outputs those that read it."""
    yield _grouped(made.where(_chunk.kind == Kind.OUTPUT.value).limit(most + 1))
    ends = [each for each, job in jobs.items() if not job.outputs and dataset.name in job.inputs]
    if ends:
        # The first of all rows, and then the wanted ones: a million others may come before the first of those.
        part = made.limit(most + 1).subquery()
        yield (
            select(part.c.dataset_id, part.c.job_id, part.c.kind, part.c.status, func.count())
            .where(part.c.kind == Kind.INPUT.value, part.c.job_id.in_(ends))
            .group_by(part.c.dataset_id, part.c.job_id, part.c.kind, part.c.status)
        )


def _add_few(
    tx: Transaction, jobs: Mapping[int, Job], counts: Counts, cut: set[int], rows: Select[Any], most: int
) -> set[Place]:
    """For datasets that were not read completely: failed, held and running chunks. Returns where there is more."""
    beyond: set[Place] = set()
    for place in [place for place in counts if place[0] in cut]:
        for status in [status for status in counts[place] if status not in (READY, DONE)]:
            del counts[place][status]
    for job in (0, *jobs):
        kept = jobs[job].counted if job else Kind.OUTPUT
        own = rows.where(_chunk.job_id == job, _chunk.kind == kept.value)
        for rare in (own.where(TROUBLE), own.where(_chunk.lease_until > 0)):
            found: Counts = {}
            total = _add(found, tx.ask(_grouped(rare.limit(most + 1))))
            for place in [place for place in found if place[0] in cut]:
                counts.setdefault(place, Counter()).update(found[place])
                if total > most:
                    beyond.add(place)
    return beyond


def _grouped(rows: Select[Any]) -> Select[Any]:
    part = rows.subquery()
    what = (part.c.dataset_id, part.c.job_id, part.c.kind, part.c.status)
    return select(*what, func.count()).group_by(*what)


def _add(counts: Counts, rows: Sequence[tuple[Any, ...]]) -> int:
    for dataset, job, kind, status, count in rows:
        counts.setdefault((int(dataset), int(job), str(kind)), Counter())[str(status)] += int(count)
    return sum(int(row[-1]) for row in rows)


def ask_spans(database: Database, which: SpanFilter) -> Sequence[Span]:
    """Spans of data ids of a dataset in its order, with their chunks in several datasets."""
    return database.read(lambda tx: _spans(tx, which))


def _spans(tx: Transaction, which: SpanFilter) -> list[Span]:
    datasets = all_datasets(tx)
    by_name = {each.name: number for number, each in datasets.items()}
    wanted = {name: number_of("dataset", name, by_name) for name in (which.dataset, *which.beside)}
    order = datasets[wanted[which.dataset]].order
    low, high = (order_key(each, order) if each else end for each, end in ((which.start, b""), (which.last, BEYOND)))
    edges = list(_edges(tx, wanted[which.dataset], which, low, high))
    if which.size == 1:
        return _single(tx, wanted, [first for first, _ in edges])
    spans = []
    for first, last in edges:
        cells = {}
        for name, number in wanted.items():
            low, high = (order_key(each, datasets[number].order) for each in (first, last))
            cells[name] = _statuses(tx, number, low, high)
        spans.append(Span(first, last, cells))
    return spans


def _edges(tx: Transaction, dataset: int, which: SpanFilter, low: bytes, high: bytes) -> Iterator[tuple[str, str]]:
    """The first and the last data id of each span: each costs one scan of the index of the order."""
    part = {"dataset": dataset, "high": high}
    if which.size == 1:
        for dataid, _ in tx.all(sql.READ_DATAIDS, **part, low=low, skip=0, limit=which.limit):
            yield str(dataid), str(dataid)
        return
    start = tx.all(sql.READ_DATAIDS, **part, low=low, skip=0, limit=1)
    for _ in range(which.limit):
        if not start:
            return
        first, low = str(start[0][0]), bytes(start[0][1])
        # The last of this span and the first of the next.
        found = tx.all(sql.READ_DATAIDS, **part, low=low, skip=which.size - 1, limit=2)
        found = found or tx.all(sql.READ_LAST_DATAID, **part, low=low)
        yield first, str(found[0][0])
        start = found[1:]


def _statuses(tx: Transaction, dataset: int, low: bytes, high: bytes) -> dict[str, int]:
    rows = tx.all(sql.COUNT_STATUSES, dataset=dataset, low=low, high=high)
    return {str(status): int(count) for status, count in sorted(rows)}


def _single(tx: Transaction, wanted: Mapping[str, int], dataids: Sequence[str]) -> list[Span]:
    """Each data id separately: one query per dataset."""
    cells: dict[str, dict[str, dict[str, int]]] = {dataid: {} for dataid in dataids}
    for name, number in wanted.items():
        rows = tx.ask(
            select(_chunk.dataid, _chunk.status).where(
                _chunk.dataset_id == number, _chunk.kind == Kind.OUTPUT.value, _chunk.dataid.in_(dataids)
            )
        )
        for dataid, status in rows:
            cells[str(dataid)].setdefault(name, {})[str(status)] = 1
    return [Span(dataid, dataid, cells[dataid]) for dataid in dataids]
