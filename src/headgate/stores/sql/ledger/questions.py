"""Queries about the ledger with filters: rows of chunks, running chunks, the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, false, func, literal_column, select

from headgate.core.errors import BadValue
from headgate.core.filters import RowFilter
from headgate.core.ledger.model import DONE, ERROR, READY, RUNNING, Dataset, Kind, Row
from headgate.core.ledger.ordering import order_key
from headgate.core.locks.model import Lock
from headgate.stores.sql import schema
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import micro
from headgate.stores.sql.database.sql_text import Row as SqlRow
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.mapping_statements import READ_RUNNING_READS
from headgate.stores.sql.ledger.rows import job_names, read_row
from headgate.stores.sql.ledger.running import as_lock
from headgate.stores.sql.ledger.shapes import all_datasets, unknown

#: The index's own condition, word for word: it finds failed and held chunks without reading finished ones.
TROUBLE: ColumnElement[bool] = literal_column(schema.UNSETTLED)

#: A number beyond every job's, for rows whose definition was lost.
NO_JOB = 2**62


def ask_rows(database: Database, which: RowFilter) -> Sequence[Row]:
    """Rows of chunks, by dataset and in its order."""
    return database.read(lambda tx: _rows(tx, which, literal_column(database.dialect.now)))


def _rows(tx: Transaction, which: RowFilter, now: ColumnElement[int]) -> list[Row]:
    chunk = schema.chunk.c
    datasets, jobs = all_datasets(tx), job_names(tx)
    question = _select_rows(now).order_by(chunk.dataset_id, *_places(which))
    for condition in _conditions(which, datasets, jobs):
        question = question.where(condition)
    names = {number: dataset.name for number, dataset in datasets.items()}
    rows = [read_row(row, names, jobs) for row in tx.ask(question.limit(which.limit))]
    return sorted(rows, key=lambda row: row.dataset)


def _places(which: RowFilter) -> list[ColumnElement[Any]]:
    """The order within a dataset, in a form for which databases use the right index."""
    chunk = schema.chunk.c
    if which.dataid is not None:
        # It has one position in the order, which the key leads to.
        return [chunk.dataid, chunk.job_id, chunk.kind]
    if _is_rare(which.status):
        # By the index of rare statuses, and then sorted; never through all finished chunks.
        return [chunk.order_key, chunk.job_id, chunk.kind.desc()]
    # In exactly the order of the index, so that only the first rows are read.
    return [chunk.order_key, chunk.dataid, chunk.job_id, chunk.kind]


def _is_rare(status: str | None) -> bool:
    return status not in (None, READY, DONE)


def ask_failures(database: Database, limit: int, after: str | None) -> Sequence[Row]:
    """Chunks that are in ERROR, newest first, each once: by the row of its job's first output, or first input if there
    is no output.
    """
    chunk, link = schema.chunk.c, schema.job_dataset.c
    makers = select(link.job_id).where(link.kind == Kind.OUTPUT.value)
    mine = (link.job_id == chunk.job_id) & (link.dataset_id == chunk.dataset_id) & (link.kind == chunk.kind)
    question = (
        _select_rows(literal_column(database.dialect.now))
        .outerjoin_from(schema.chunk, schema.job_dataset, mine)
        .where(chunk.status == ERROR, TROUBLE)
        .where((chunk.kind == Kind.OUTPUT.value) | chunk.job_id.not_in(makers))
        .where((link.position == 0) | (chunk.job_id == 0))
        .order_by(chunk.since.desc(), chunk.dataset_id, chunk.order_key, chunk.job_id)
        .limit(limit)
    )

    def ask(tx: Transaction) -> list[Row]:
        datasets, jobs = all_datasets(tx), job_names(tx)
        names = {number: dataset.name for number, dataset in datasets.items()}
        wanted = question if after is None else question.where(_behind(after, datasets, jobs))
        return [read_row(row, names, jobs) for row in tx.ask(wanted)]

    return database.read(ask)


def _behind(after: str, datasets: dict[int, Dataset], jobs: dict[int, str]) -> ColumnElement[bool]:
    """The failures after a given row, which may no longer exist."""
    chunk = schema.chunk.c
    try:
        since, dataset, job, dataid = after.split("/", 3)
        at = micro(datetime.fromisoformat(since))
    except ValueError:
        raise BadValue("after", after, "is not the `next` of a page") from None
    number = number_of("dataset", dataset, {each.name: number for number, each in datasets.items()})
    maker = {name: number for number, name in jobs.items()}.get(job, NO_JOB)
    key = order_key(dataid, datasets[number].order)
    same_key = (chunk.order_key == key) & (chunk.job_id > maker)
    same_set = (chunk.dataset_id == number) & ((chunk.order_key > key) | same_key)
    return (chunk.since < at) | ((chunk.since == at) & ((chunk.dataset_id > number) | same_set))


def _select_rows(now: ColumnElement[int]) -> Select[Any]:
    chunk = schema.chunk.c
    return select(
        chunk.dataset_id, chunk.dataid, chunk.job_id, chunk.kind, chunk.status, chunk.former, chunk.attempt,
        chunk.failures, chunk.crashes, chunk.token, chunk.worker, chunk.lease, chunk.lease_until - now, chunk.forced,
        chunk.retry_after - now, chunk.since, chunk.started, chunk.message, chunk.principal,
        chunk.interruptions,
    )  # fmt: skip


def _conditions(which: RowFilter, datasets: dict[int, Dataset], jobs: dict[int, str]) -> list[ColumnElement[bool]]:
    chunk = schema.chunk.c
    conditions = [*_in_datasets(which, datasets), *_of_jobs(which, jobs)]
    if which.dataid is not None:
        conditions.append(chunk.dataid == which.dataid)
    if which.kind is not None:
        conditions.append(chunk.kind == which.kind.value)
    if which.status is not None:
        conditions += _with_status(which.status)
    return conditions


def _in_datasets(which: RowFilter, datasets: dict[int, Dataset]) -> Iterator[ColumnElement[bool]]:
    chunk = schema.chunk.c
    if which.dataset is not None:
        number = number_of("dataset", which.dataset, {dataset.name: number for number, dataset in datasets.items()})
        yield chunk.dataset_id == number
        if which.after is not None:
            yield chunk.order_key > order_key(which.after, datasets[number].order)
    elif which.dataid is not None:
        # The key begins with the dataset.
        yield chunk.dataset_id.in_(sorted(datasets))


def _of_jobs(which: RowFilter, jobs: dict[int, str]) -> Iterator[ColumnElement[bool]]:
    chunk = schema.chunk.c
    if which.job is not None:
        yield chunk.job_id == number_of("job", which.job, {name: number for number, name in jobs.items()})
    elif _is_rare(which.status):
        # The indexes of rare statuses begin with the job.
        yield chunk.job_id.in_(sorted(jobs))


def _with_status(status: str) -> list[ColumnElement[bool]]:
    """That status, with the condition of its index, so that every database uses the index."""
    chunk = schema.chunk.c
    if status == RUNNING:
        return [chunk.status == status, chunk.lease_until > 0]
    return [chunk.status == status] if status in (READY, DONE) else [chunk.status == status, TROUBLE]


def with_statuses(statuses: Sequence[str]) -> list[ColumnElement[bool]]:
    """One of these statuses, in the same way; empty: any."""
    if len(statuses) == 1:
        return _with_status(statuses[0])
    conditions: list[ColumnElement[bool]] = [schema.chunk.c.status.in_(statuses)] if statuses else []
    return [*conditions, TROUBLE] if statuses and not {RUNNING, READY, DONE} & {*statuses} else conditions


def ask_running(database: Database, tag: str) -> Sequence[Lock]:
    """The running chunks, as the locks that they act as."""
    chunk, dataset, job = schema.chunk.c, schema.dataset.c, schema.job.c
    now: ColumnElement[int] = literal_column(database.dialect.now)
    question = (
        select(
            dataset.name, chunk.dataid, func.coalesce(job.name, "external"), chunk.kind, chunk.token, chunk.worker,
            chunk.lease, chunk.lease_until - now, chunk.since, chunk.attempt, chunk.principal,
        )
        .join_from(schema.chunk, schema.dataset, dataset.id == chunk.dataset_id)
        .outerjoin(schema.job, job.id == chunk.job_id)
        .where(chunk.lease_until > 0, chunk.lease_until > now)
        .where((chunk.kind == Kind.OUTPUT.value) | func.coalesce(job.mapped, false()).is_(false()))
    )  # fmt: skip

    def ask(tx: Transaction) -> list[SqlRow]:
        # Naming the jobs lets every database use its index of running chunks.
        return tx.ask(question.where(chunk.job_id.in_(sorted(job_names(tx))))) + tx.all(READ_RUNNING_READS)

    locks = [as_lock(tag, row) for row in database.read(ask)]
    return sorted(locks, key=lambda lock: lock.id)


def number_of(what: str, name: str, there: dict[str, int]) -> int:
    if name not in there:
        raise unknown(what, name, there)
    return there[name]
