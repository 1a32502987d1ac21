"""History that was moved here from another store: kept once, and read with the same filters as there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, select

from headgate.core.errors import ForeignStore
from headgate.core.history import Entry
from headgate.core.locks import resource_digest
from headgate.core.queue import is_batch
from headgate.stores.base import HistoryFilter
from headgate.stores.history import Book, Leaf
from headgate.stores.queue_port import QueueHistoryFilter
from headgate.stores.sql import schema
from headgate.stores.sql.engine import Database, Transaction
from headgate.stores.sql.moments import micro, moment, to_micro, to_seconds
from headgate.stores.sql.statement import Row, Statement

#: In a column of whole numbers: not known. (Many rows go in together, and a list of numbers has no gaps.)
UNKNOWN = -1

KEEP = Statement(
    "An entry that came from elsewhere.",
    """insert into hg_moved_history (store, about, id, version, at, noun, event, rkey, resource, client, lock_id, token,
                                     state_before, state_after, reason, count, batch, item, spent, principal)
       values (:store, :about, :id, :version, :at, :noun, :event, :rkey, :resource, :client, :lock_id, :token,
               :before, :after, :reason, :count, :batch, :item, nullif(:spent, -1), :principal)""",
)
FIND_KEPT = Statement(
    "Which of these entries are here already.",
    """select id, at, event, token, version from hg_moved_history
       where store = :store and about = :about and id in (:ids*)""",
)
COUNT_AGAIN = Statement(
    "An entry was counted on after it had been kept.",
    """update hg_moved_history set count = :count, version = :version
       where store = :store and about = :about and id = :id and version < :version""",
)


class SqlHistoryKeeper:
    """Books of other stores in one SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, book: Book, leaves: Sequence[Leaf]) -> None:
        # Another mover may write the same rows: then it begins again, and finds them.
        self._database.write_through(lambda tx: _keep(tx, book, leaves))

    def read(self, book: Book, which: HistoryFilter | QueueHistoryFilter) -> Sequence[Entry]:
        told = schema.moved_history.c
        question = (
            select(
                told.id, told.at, told.noun, told.event, told.resource, told.client, told.lock_id, told.token,
                told.state_before, told.state_after, told.reason, told.count, told.item, told.spent,
                told.principal,
            )
            .where(told.store == book.store, told.about == book.about, *_conditions(which))
            .order_by(told.id.desc())
            .limit(which.limit)
        )  # fmt: skip
        return [_entry(row) for row in self._database.read(lambda tx: tx.ask(question))]


def _keep(tx: Transaction, book: Book, leaves: Sequence[Leaf]) -> None:
    rows = tx.all(FIND_KEPT, store=book.store, about=book.about, ids=[leaf.entry.id for leaf in leaves])
    kept = {int(row[0]): row for row in rows}
    for leaf in leaves:
        if leaf.entry.id in kept:
            _keep_later(tx, book, leaf, kept[leaf.entry.id])
    new = [leaf for leaf in leaves if leaf.entry.id not in kept]
    tx.many(KEEP, _columns(new), store=book.store, about=book.about)


def _keep_later(tx: Transaction, book: Book, leaf: Leaf, row: Row) -> None:
    """It is here already: of two versions the later is kept. What is not the same entry is never written over."""
    entry = leaf.entry
    _, at, event, token, version = row
    if (int(at), str(event), int(token)) != (micro(entry.at), entry.event, entry.token):
        raise ForeignStore(
            f"the history of {book.about} of store {book.store} already has another entry {entry.id} here: the store "
            "was restored to an older state, or another store has the same tag. Nothing was copied"
        )
    if int(version) < leaf.version:
        tx.run(COUNT_AGAIN, store=book.store, about=book.about, id=entry.id, count=entry.count, version=leaf.version)


def _columns(leaves: Sequence[Leaf]) -> dict[str, Sequence[object]]:
    entries = [leaf.entry for leaf in leaves]
    return {
        "id": [entry.id for entry in entries],
        "version": [leaf.version for leaf in leaves],
        "at": [micro(entry.at) for entry in entries],
        "noun": [entry.noun for entry in entries],
        "event": [entry.event for entry in entries],
        "rkey": [resource_digest(entry.resource) for entry in entries],
        "resource": [entry.resource for entry in entries],
        "client": [entry.client for entry in entries],
        "lock_id": [entry.lock_id for entry in entries],
        "token": [entry.token for entry in entries],
        "before": [entry.before for entry in entries],
        "after": [entry.after for entry in entries],
        "reason": [entry.reason for entry in entries],
        "count": [entry.count for entry in entries],
        "batch": [leaf.batch for leaf in leaves],
        "item": [entry.job for entry in entries],
        "principal": [entry.principal for entry in entries],
        "spent": [UNKNOWN if entry.spent is None else to_micro(entry.spent) for entry in entries],
    }


def _conditions(which: HistoryFilter | QueueHistoryFilter) -> list[ColumnElement[bool]]:
    told = schema.moved_history.c
    wanted: list[tuple[ColumnElement[Any], object]] = [(told.event, which.event), (told.client, which.client)]
    if isinstance(which, HistoryFilter):
        key = None if which.resource is None else resource_digest(which.resource)
        wanted += [(told.rkey, key), (told.lock_id, which.lock_id)]
    else:
        wanted.append((told.noun, which.noun))
    if isinstance(which, QueueHistoryFilter) and which.item is not None:
        wanted.append((told.batch if is_batch(which.item) else told.item, which.item))
    conditions = [column == value for column, value in wanted if value is not None]
    if which.since is not None:
        conditions.append(told.at >= micro(which.since))
    if which.before is not None:
        conditions.append(told.id < which.before)
    return conditions


def _entry(row: Row) -> Entry:
    number, at, noun, event, resource, client, lock_id, token, before, after, reason, count, item, spent, by = row
    return Entry(
        int(number), moment(at), str(noun), str(event), str(resource), str(client), str(lock_id), int(token),
        str(before), str(after), str(reason), int(count), str(item), to_seconds(spent), str(by),
    )  # fmt: skip
