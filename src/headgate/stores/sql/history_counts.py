"""How often events happened in each hour: counted by the database, from the entries of that time alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, case, func, literal, select

from headgate.stores.history import HOUR_SECONDS, Happened
from headgate.stores.sql import queue_schema, schema
from headgate.stores.sql.engine import Database, Transaction
from headgate.stores.sql.moments import MICROSECONDS, micro

#: Entries are written in the order of their ids but for those that were under way at the same time.
SLACK = 600 * MICROSECONDS


def ask_lock_events(database: Database, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
    """Events of locks; a refusal counts as often as it happened."""
    told, refusal = schema.history, schema.refusal
    question = select(told).outerjoin(refusal, refusal.c.history_id == told.c.id)
    count = func.sum(func.coalesce(refusal.c.count, 1))
    return _ask(database, told, question, told.c.noun, count, since, events)


def ask_chunk_events(database: Database, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
    """Events of chunks, and of jobs."""
    told = schema.chunk_history
    noun = case((told.c.dataset_id.is_(None), "job"), else_="chunk")
    return _ask(database, told, select(told), noun, func.count(), since, events)


def ask_queue_events(database: Database, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
    """Events of batches, ingest jobs and holds."""
    told = queue_schema.queue_history
    noun = case((told.c.job_id.is_not(None), "ingest job"), (told.c.batch_id.is_not(None), "batch"), else_="hold")
    return _ask(database, told, select(told), noun, func.count(), since, events)


def _ask(
    database: Database, told: Table, rows: Select[Any], noun: ColumnElement[Any], count: ColumnElement[Any],
    since: datetime, events: Sequence[str],
) -> list[Happened]:  # fmt: skip
    def ask(tx: Transaction) -> list[Happened]:
        hour = (told.c.at // literal(HOUR_SECONDS * MICROSECONDS)).label("hour")
        first = _first(tx, told, micro(since) - SLACK)
        question = (
            rows.with_only_columns(noun.label("what"), told.c.event, hour, count)
            .where(told.c.id >= first, told.c.at >= micro(since), told.c.event.in_(events))
            .group_by("what", told.c.event, "hour")
        )
        return [Happened(str(what), str(event), int(at), int(times)) for what, event, at, times in tx.ask(question)]

    return database.read(ask)


def _first(tx: Transaction, told: Table, since: int) -> int:
    """The id from which on entries are not older: found by halves along the key, since there is no index of times."""
    ((low, high),) = tx.ask(select(func.min(told.c.id), func.max(told.c.id)))
    if low is None:
        return 0
    low, high = int(low), int(high)
    while low < high:
        middle = (low + high) // 2
        ((at,),) = tx.ask(select(told.c.at).where(told.c.id >= middle).order_by(told.c.id).limit(1))
        if int(at) < since:
            low = middle + 1
        else:
            high = middle
    return low
