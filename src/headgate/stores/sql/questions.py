"""Questions about locks with filters: the list, the queue, the history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, select

from headgate.core.history import Entry
from headgate.core.locks import Lock, Mode, Waiter, resource_digest
from headgate.stores.base import HistoryFilter, LockFilter
from headgate.stores.sql import schema
from headgate.stores.sql.engine import Database
from headgate.stores.sql.lock_snapshots import read_lock
from headgate.stores.sql.moments import MICROSECONDS, moment
from headgate.stores.sql.statement import Row


def ask_locks(database: Database, which: LockFilter) -> Sequence[Lock]:
    """Live locks, by id."""
    lock, resource, now = schema.lock.c, schema.resource.c, _now(database)
    question = (
        select(
            lock.id, resource.uri, lock.client, lock.mode, lock.token, lock.since, lock.lease,
            lock.lease_until - now, lock.count, lock.owner, lock.note, lock.request_id, lock.principal,
        )
        .join_from(schema.lock, schema.resource, lock.rkey == resource.rkey)
        .where(lock.lease_until.is_(None) | (lock.lease_until > now))
        .order_by(lock.id)
    )  # fmt: skip
    if which.resource is not None:
        question = question.where(lock.rkey == resource_digest(which.resource))
    if which.client is not None:
        question = question.where(lock.client == which.client)
    if which.mode is not None:
        question = question.where(lock.mode == which.mode.value)
    if which.after is not None:
        question = question.where(lock.id > which.after)
    return [read_lock(row) for row in _ask(database, question.limit(which.limit))]


def ask_summary(database: Database) -> Sequence[tuple[str, Mode, int]]:
    """Held resources with mode and number of live locks."""
    lock, resource, now = schema.lock.c, schema.resource.c, _now(database)
    question = (
        select(resource.uri, lock.mode, func.count())
        .join_from(schema.lock, schema.resource, lock.rkey == resource.rkey)
        .where(lock.lease_until.is_(None) | (lock.lease_until > now))
        .group_by(resource.uri, lock.mode)
    )
    return sorted((str(uri), Mode(mode), int(count)) for uri, mode, count in _ask(database, question))


def ask_waiters(database: Database, resource: str | None) -> Sequence[Waiter]:
    """Live waiters, earliest first."""
    wait, ticket, of = schema.wait.c, schema.ticket.c, schema.resource.c
    question = (
        select(wait.ticket, of.uri, ticket.client, wait.mode, ticket.since, ticket.owner)
        .join_from(schema.wait, schema.ticket, wait.ticket == ticket.number)
        .join(schema.resource, wait.rkey == of.rkey)
        .where(ticket.alive_until > _now(database))
        .order_by(wait.ticket, of.uri)
    )
    if resource is not None:
        question = question.where(wait.rkey == resource_digest(resource))
    return [
        Waiter(number, uri, client, Mode(mode), moment(since), owner)
        for number, uri, client, mode, since, owner in _ask(database, question)
    ]


def ask_history(database: Database, which: HistoryFilter) -> Sequence[Entry]:
    """What happened, newest first."""
    told, resource, refusal = schema.history.c, schema.resource.c, schema.refusal.c
    question = (
        select(
            told.id, told.at, told.noun, told.event, resource.uri, told.client, told.lock_id, told.token,
            told.state_before, told.state_after, told.reason, func.coalesce(refusal.count, 1), told.principal,
        )
        .join_from(schema.history, schema.resource, told.rkey == resource.rkey)
        .outerjoin(schema.refusal, refusal.history_id == told.id)
        .order_by(told.id.desc())
        .limit(which.limit)
    )  # fmt: skip
    for condition in _history_conditions(which):
        question = question.where(condition)
    return [_entry(row) for row in _ask(database, question)]


def _history_conditions(which: HistoryFilter) -> list[ColumnElement[bool]]:
    told = schema.history.c
    conditions: list[ColumnElement[bool]] = []
    if which.resource is not None:
        conditions.append(told.rkey == resource_digest(which.resource))
    if which.client is not None:
        conditions.append(told.client == which.client)
    if which.event is not None:
        conditions.append(told.event == which.event)
    if which.lock_id is not None:
        conditions.append(told.lock_id == which.lock_id)
    if which.since is not None:
        conditions.append(told.at >= _microseconds(which.since))
    if which.before is not None:
        conditions.append(told.id < which.before)
    return conditions


def _entry(row: Row) -> Entry:
    number, at, noun, event, uri, client, lock_id, token, before, after, reason, count, principal = row
    return Entry(
        int(number), moment(at), str(noun), str(event), str(uri), str(client), str(lock_id), int(token),
        str(before), str(after), str(reason), int(count), principal=str(principal),
    )  # fmt: skip


def _ask(database: Database, question: Select[Any]) -> list[Row]:
    return database.read(lambda tx: tx.ask(question))


def _now(database: Database) -> ColumnElement[int]:
    return literal_column(database.dialect.now)


def _microseconds(at: datetime) -> int:
    return round(at.timestamp() * MICROSECONDS)
