"""Questions about the queue with filters: batches, ingest jobs, the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, literal_column, select, text

from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.machine import Machine
from headgate.core.queue import FOLDERS, Batch, Folder, IngestJob
from headgate.stores.sql import queue_schema as schema
from headgate.stores.sql import queue_statements as sql
from headgate.stores.sql.engine import Database
from headgate.stores.sql.moments import to_micro
from headgate.stores.sql.queue_rows import BATCHES, JOBS, number_of, read_batch, read_job


def ask_batches(database: Database, which: BatchFilter) -> Sequence[Batch]:
    """Batches, by id."""
    batch = schema.batch.alias("i")
    columns = sql.BATCH_COLUMNS.format(now=database.dialect.now)
    question: Select[Any] = select(text(columns)).select_from(batch).order_by(batch.c.id).limit(which.limit)
    for column, wanted in ((batch.c.state, which.state), (batch.c.profile, which.profile),
                           (batch.c.submitter, which.submitter)):  # fmt: skip
        if wanted is not None:
            question = question.where(column == wanted)
    if which.taken:
        question = question.where(batch.c.lease_until > literal_column(database.dialect.now))
    if which.after is not None:
        question = question.where(batch.c.id > number_of(which.after))
    return [read_batch(row) for row in database.read(lambda tx: tx.ask(question))]


def ask_jobs(database: Database, which: JobFilter) -> Sequence[IngestJob]:
    """Ingest jobs, by id."""
    job = schema.ingest_job.alias("i")
    columns = sql.JOB_COLUMNS.format(now=database.dialect.now)
    question: Select[Any] = select(text(columns)).select_from(job).order_by(job.c.id).limit(which.limit)
    batch = None if which.batch is None else number_of(which.batch)
    for column, wanted in ((job.c.state, which.state), (job.c.batch_id, batch), (job.c.profile, which.profile)):
        if wanted is not None:
            question = question.where(column == wanted)
    if which.taken:
        question = question.where(job.c.lease_until > literal_column(database.dialect.now))
    if which.after is not None:
        question = question.where(job.c.id > number_of(which.after))
    return [read_job(row) for row in database.read(lambda tx: tx.ask(question))]


def ask_job_ids(database: Database, batch_id: str, folder: Folder) -> Sequence[str]:
    """The jobs that a batch has in one of its folders, by id."""
    job = schema.ingest_job.c
    here = [state for state, where in FOLDERS.items() if where is folder]
    inside = job.state.not_in(list(FOLDERS)) if folder is Folder.PROCESSING else job.state.in_(here)
    question = select(job.id).where(job.batch_id == number_of(batch_id), inside).order_by(job.id)
    return [JOBS.id_of(int(row[0])) for row in database.read(lambda tx: tx.ask(question))]


def ask_cleanable(database: Database, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
    """What `clean` has a row for, and has been in its state for that long."""
    noun, table = (BATCHES, schema.batch) if machine.name == BATCHES.machine.name else (JOBS, schema.ingest_job)
    states = [row.source for row in machine.rows if row.event == "clean"]
    until: ColumnElement[int] = literal_column(database.dialect.wall) - to_micro(seconds)
    question = select(table.c.id).where(table.c.state.in_(states), table.c.since <= until)
    rows = database.read(lambda tx: tx.ask(question.order_by(table.c.id).limit(limit)))
    return [noun.id_of(int(row[0])) for row in rows]
