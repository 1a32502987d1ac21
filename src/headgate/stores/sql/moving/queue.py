"""Moving a queue alone, into a database that contains other data too, or out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headgate.core.history import QUEUE_NOUNS, Entry
from headgate.core.queue.model import Batch, Hold, IngestJob
from headgate.stores.options import DEFAULT_OPTIONS, StoreOptions
from headgate.stores.ports.history import HistoryBook
from headgate.stores.ports.queue import QueueStore
from headgate.stores.sql.database import facts
from headgate.stores.sql.database.columns import one_of
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import micro, to_micro
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.history import subject_of
from headgate.stores.sql.history_schema import history
from headgate.stores.sql.moving import statements as sql
from headgate.stores.sql.moving.whole import SqlTarget, require_store
from headgate.stores.sql.opening import open_database
from headgate.stores.sql.queue import schema
from headgate.stores.sql.queue.rows import batch_columns, document, job_columns, number_of
from headgate.stores.sql.queue.statements import ADD_COUNTER
from headgate.stores.sql.store import SqlStore

TABLES = (schema.counter, schema.batch, schema.ingest_job, schema.hold, history)
#: The condition for rows that belong to the queue, for tables with other rows.
OWN = {history.name: f" where {one_of('noun', QUEUE_NOUNS)}"}
#: Columns of an item that is not taken.
FREE: Mapping[str, Any] = {"worker": "", "request_id": "", "token": 0, "lease": None, "lease_until": None}


@contextmanager
def open_queue_place(
    url: str, *, source: bool = False, options: StoreOptions = DEFAULT_OPTIONS
) -> Iterator[SqlQueuePlace]:
    """The queue in the database at that URL. A `source` must exist; a target is created if it is empty."""
    if source:
        require_store(url)
    database = open_database(url, options, half_moved=True)
    try:
        yield SqlQueuePlace(database)
    finally:
        database.close()


class SqlQueuePlace:
    """One queue in a SQL database."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self.half_moved = facts.ARRIVING in facts.read_facts(database)
        self._database = database
        self._store = SqlStore(database)
        self.tag = self._store.tag
        self._target = SqlTarget(database, TABLES, OWN)
        #: Number of jobs of each batch that were copied here.
        self._put: dict[str, int] = {}

    @property
    def queue(self) -> QueueStore:
        return self._store.queue

    @property
    def history(self) -> HistoryBook:
        return self._store.keeper

    def last_numbers(self) -> Mapping[str, int]:
        found = self._database.read(lambda tx: tx.all(sql.READ_COUNTERS))
        return {"bid": 0, "jid": 0, **{str(name): int(value) for name, value in found}}

    def last_token(self) -> int:
        def read(tx: Transaction) -> int:
            # Issued newly, so that it is greater than the tokens of claims and of removed items.
            return max(tx.next_token(), int(tx.one(sql.READ_LAST_TOKEN)[0] or 0), facts.read_floor(tx))

        return self._database.write(read)

    def begin(self, tag: str) -> None:
        self._target.arrive(tag)
        self._put = {}

    def put_holds(self, holds: Sequence[Hold]) -> None:
        self._insert(
            "hg_hold",
            [
                {"profile": each.profile, "reason": each.reason, "who": each.who, "since": micro(each.since)}
                for each in holds
                if each.since is not None
            ],
        )

    def put_batches(self, batches: Sequence[Batch]) -> None:
        self._insert("hg_batch", [_batch_row(batch) for batch in batches])

    def put_jobs(self, jobs: Sequence[IngestJob]) -> None:
        rows = []
        for job in jobs:
            position = self._put[job.batch] = self._put.get(job.batch, -1) + 1
            own = {"id": number_of(job.id), "batch_id": number_of(job.batch), "position": position}
            rows.append({**own, **job_columns(job), **FREE})
        self._insert("hg_ingest_job", rows)

    def put_history(self, entries: Sequence[tuple[Entry, str]]) -> None:
        self._insert(history.name, [_history_row(entry, batch) for entry, batch in entries])

    def finish(self, numbers: Mapping[str, int], token: int) -> None:
        def end(tx: Transaction) -> None:
            for name, value in numbers.items():
                tx.run(ADD_COUNTER, name=name, count=max(value, 0))
            self._database.dialect.raise_token(tx, max(token, 1))
            self._raise_floor(tx, token)
            tx.run(facts.DROP_FACT, name=facts.ARRIVING)

        self._target.write(end)

    def _raise_floor(self, tx: Transaction, token: int) -> None:
        floor = max(token, facts.read_floor(tx))
        tx.run(sql.RAISE_TO, token=floor)
        facts.write_fact(tx, facts.TOKEN_FLOOR, str(floor))

    def _insert(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            names = list(rows[0])
            text = f"insert into {table} ({', '.join(names)}) values ({', '.join(f':{name}' for name in names)})"
            self._target.write(lambda tx: tx.insert(text, rows))


def _batch_row(batch: Batch) -> dict[str, object]:
    submission, jobs = batch.submission, batch.jobs
    return {
        "id": number_of(batch.id), "profile": submission.profile, "submitter": submission.submitter,
        "payload_url": submission.payload_url, "type": submission.type, "mode": submission.mode,
        "metadata": document(dict(submission.metadata)), "submit_id": submission.request_id or None,
        "processing": jobs.processing, "failed": jobs.failed, "completed": jobs.completed, "made": batch.made,
        **batch_columns(batch), **FREE,
    }  # fmt: skip


def _history_row(entry: Entry, batch: str) -> dict[str, object]:
    return {
        "at": micro(entry.at), "noun": entry.noun, "event": entry.event, "subject": subject_of(entry),
        "batch_id": number_of(batch) if batch else None, "client": entry.client, "token": entry.token,
        "state_before": entry.before, "state_after": entry.after, "reason": entry.reason,
        "spent": to_micro(entry.spent), "principal": entry.principal,
    }  # fmt: skip
