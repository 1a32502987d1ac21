"""Queries about the queue with filters: batches, ingest jobs, the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, literal_column, select, text

from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.queue.model import FOLDERS, Batch, Folder, IngestJob
from headgate.core.queue.rules import cleanable
from headgate.core.tables.machine import Machine
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import to_micro
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.queue import schema
from headgate.stores.sql.queue import statements as sql
from headgate.stores.sql.queue.rows import BATCHES, JOBS, number_of, read_batch, read_job


def ask_batches(database: Database, which: BatchFilter) -> Sequence[Batch]:
    """Batches, by id."""
    wanted = {"state": which.state, "profile": which.profile, "submitter": which.submitter}
    return [read_batch(row) for row in _ask(database, schema.batch, sql.BATCH_COLUMNS, which, wanted)]


def ask_jobs(database: Database, which: JobFilter) -> Sequence[IngestJob]:
    """Ingest jobs, by id."""
    batch = None if which.batch is None else number_of(which.batch)
    wanted = {"state": which.state, "batch_id": batch, "profile": which.profile}
    return [read_job(row) for row in _ask(database, schema.ingest_job, sql.JOB_COLUMNS, which, wanted)]


def _ask(
    database: Database, table: Table, columns: str, which: BatchFilter | JobFilter, wanted: Mapping[str, object]
) -> list[Row]:
    """Rows in which the columns have the wanted values, if any are given."""
    item, now = table.alias("i"), database.dialect.now
    question: Select[Any] = select(text(columns.format(now=now))).select_from(item)
    question = question.where(*(item.c[name] == value for name, value in wanted.items() if value is not None))
    if which.taken:
        question = question.where(item.c.lease_until > literal_column(now))
    if which.after is not None:
        question = question.where(item.c.id > number_of(which.after))
    return database.read(lambda tx: tx.ask(question.order_by(item.c.id).limit(which.limit)))


def ask_job_ids(database: Database, batch_id: str, folder: Folder) -> Sequence[str]:
    """The jobs in one of a batch's folders, by id."""
    job = schema.ingest_job.c
    here = [state for state, where in FOLDERS.items() if where is folder]
    inside = job.state.not_in(list(FOLDERS)) if folder is Folder.PROCESSING else job.state.in_(here)
    question = select(job.id).where(job.batch_id == number_of(batch_id), inside).order_by(job.id)
    return [JOBS.id_of(int(row[0])) for row in database.read(lambda tx: tx.ask(question))]


def ask_cleanable(database: Database, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
    """Items for which `clean` has a row, and that have been in their state for that long."""
    noun, table = (BATCHES, schema.batch) if machine.name == BATCHES.name else (JOBS, schema.ingest_job)
    states = cleanable(machine)
    until: ColumnElement[int] = literal_column(database.dialect.wall) - to_micro(seconds)
    question = select(table.c.id).where(table.c.state.in_(states), table.c.since <= until)
    rows = database.read(lambda tx: tx.ask(question.order_by(table.c.id).limit(limit)))
    return [noun.id_of(int(row[0])) for row in rows]
