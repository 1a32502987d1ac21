"""Queries about locks with filters: the list, the queue, the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, select

from headgate.core.filters import LockFilter
from headgate.core.locks.model import Lock, Mode, Waiter, resource_digest
from headgate.stores.sql import schema
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import moment
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.locks.snapshots import read_lock


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


def _ask(database: Database, question: Select[Any]) -> list[Row]:
    return database.read(lambda tx: tx.ask(question))


def _now(database: Database) -> ColumnElement[int]:
    return literal_column(database.dialect.now)
