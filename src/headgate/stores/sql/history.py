"""The history in a SQL database: reading, counting, removal, and storage for a store that cannot keep its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, literal, literal_column, or_, select

from headgate.calls.deadlines import HISTORY_CALLS, answered_in_time
from headgate.core.errors import ForeignStore
from headgate.core.history import HOUR_SECONDS, Entry, Happened, HistoryFilter
from headgate.core.ledger.model import chunk_resource, parse_chunk_resource
from headgate.core.locks.model import resource_digest, resource_key
from headgate.core.queue.model import is_batch
from headgate.stores.ports.history import Leaf
from headgate.stores.sql import schema
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.facts import HISTORY_SINCE, write_fact
from headgate.stores.sql.database.moments import MICROSECONDS, micro, moment, to_micro, to_seconds
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction, by_column
from headgate.stores.sql.history_schema import RARE
from headgate.stores.sql.ledger.questions import number_of as job_number
from headgate.stores.sql.ledger.rows import job_names
from headgate.stores.sql.locks.statements import ADD_RESOURCE
from headgate.stores.sql.queue.rows import BATCHES, JOBS, number_of

TOLD = schema.history.c
#: The origin of a copied entry consists of its store's tag, and in these low bits its id there.
ORIGIN_BITS = 41
LAST_ID = 2**63 - 1
#: The value for "unknown" in a column of whole numbers. (Many rows are inserted together, and a list of numbers has no
#: gaps.)
UNKNOWN = -1
#: Number of resource names that one query asks for.
MANY = 200

LAST = Statement("The newest id.", "select coalesce(max(id), 0) from hg_history")
HOLD_TAG = Statement(
    "One process at a time copies entries.", "select value from hg_meta where name = 'tag' {for_update}"
)
FIND_COPIED = Statement(
    "The entries among these that are already here.",
    "select origin, event, token from hg_history where at in (:times*) and origin in (:origins*)",
)
COPY = Statement(
    "Insert a copied entry.",
    """insert into hg_history (at, noun, event, subject, lock_id, batch_id, client, token, state_before, state_after,
                               reason, count, spent, origin, principal)
       values (:at, :noun, :event, :subject, nullif(:lock_id, ''), nullif(:batch, -1), :client, :token, :before, :after,
               :reason, :count, nullif(:spent, -1), :origin, :principal)""",
)
COUNT_AGAIN = Statement(
    "Update the count of a copied entry.",
    "update hg_history set count = :count where at = :at and origin = :origin and count < :count",
)
FIND_LAST = Statement(
    "The last of the oldest entries, which are removed together.",
    "select at, id from hg_history where at < :until order by at, id limit 1 offset :ahead",
)
FIND_OLDEST = Statement(
    "The oldest entry that may be removed.",
    """select at from hg_history
       where id <> (select last from (select max(id) as last from hg_history) newest) order by at, id limit 1""",
)
#: One range of the key. The newest entry always stays, so that ids continue after it.
FORGET = Statement(
    "Remove the entries up to that one.",
    """delete from hg_history
       where at <= :at and (at < :at or id <= :id)
         and id <> (select last from (select max(id) as last from hg_history) newest)""",
)
FORGET_REFUSALS = Statement(
    "Remove minutes that are over, since the history has their counts.",
    "delete from hg_refusal where minute < {minute} - 1",
)


@answered_in_time(HISTORY_CALLS)
class SqlHistory:
    """The history of one database, including the entries copied into it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.options = database.options

    def read(self, which: HistoryFilter, tag: str | None = None) -> Sequence[Entry]:
        """Entries, newest first: those of this store, or those copied from the store with that tag."""
        return self._database.read(lambda tx: _read(tx, which, tag))

    def last(self) -> int:
        """The newest id."""
        return int(self._database.single(LAST)[0][0])

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        """How often each of these events happened in each hour since then."""
        hour = (TOLD.at // literal(HOUR_SECONDS * MICROSECONDS)).label("hour")
        question = (
            select(TOLD.noun, TOLD.event, hour, func.sum(func.coalesce(TOLD.count, 1)))
            .where(TOLD.at >= micro(since), TOLD.event.in_(events))
            .group_by(TOLD.noun, TOLD.event, "hour")
        )
        rows = self._database.read(lambda tx: tx.ask(question))
        return [Happened(str(noun), str(event), int(at), int(times)) for noun, event, at, times in rows]

    def copy(self, tag: str, leaves: Sequence[Leaf]) -> None:
        """Store each entry once, however often it is passed. ForeignStore when another entry has the same id."""
        self._database.write(lambda tx: _copy(tx, tag, leaves))

    def oldest(self) -> datetime | None:
        """The time of the oldest entry, apart from the newest."""
        return next((moment(at) for (at,) in self._database.single(FIND_OLDEST)), None)

    def forget(self, until: datetime, limit: int) -> int:
        """Remove at most `limit` entries from before that time, oldest first. Returns how many."""

        def step(tx: Transaction) -> int:
            tx.run(FORGET_REFUSALS)
            last = tx.one(FIND_LAST, until=micro(until), ahead=limit - 1) or (micro(until) - 1, LAST_ID)
            removed = tx.count(FORGET, at=last[0], id=last[1])
            if removed:
                write_fact(tx, HISTORY_SINCE, str(micro(until)))
            return removed

        return self._database.write(step)


def _read(tx: Transaction, which: HistoryFilter, store: str | None) -> list[Entry]:
    dataset, job = schema.dataset.c, schema.job.c
    # A copied entry is identified by its id in its own store.
    number = TOLD.id if store is None else TOLD.origin.op("&")((1 << ORIGIN_BITS) - 1)
    question: Select[Any] = (
        select(
            number, TOLD.at, TOLD.noun, TOLD.event, TOLD.subject, TOLD.client, func.coalesce(TOLD.lock_id, ""),
            TOLD.token, TOLD.state_before, TOLD.state_after, TOLD.reason, func.coalesce(TOLD.count, 1), TOLD.spent,
            TOLD.principal, dataset.name, func.coalesce(job.name, "external"),
        )
        .select_from(schema.history)
        .outerjoin(schema.dataset, dataset.id == TOLD.dataset_id)
        .outerjoin(schema.job, job.id == TOLD.job_id)
        .where(*_conditions(tx, which, number), _origin(store))
        .order_by(TOLD.at.desc(), number.desc())
        .limit(which.limit)
    )  # fmt: skip
    rows = tx.ask(question)
    names = _resources(tx, {str(row[4]) for row in rows if row[2] == "lock"}, which.resource)
    return [_entry(row, names) for row in rows]


def _origin(store: str | None) -> ColumnElement[bool]:
    if store is None:
        return TOLD.origin.is_(None)
    return TOLD.origin.between(origin_of(store, 0), origin_of(store, (1 << ORIGIN_BITS) - 1))


def origin_of(store: str, number: int) -> int:
    """The identity of a copied entry: the tag of its store and its id there."""
    return int(store, 36) << ORIGIN_BITS | number


def _conditions(tx: Transaction, which: HistoryFilter, number: ColumnElement[int]) -> list[ColumnElement[bool]]:
    found = [*_of_subject(tx, which), *_of_time(which, number)]
    found += [
        column == value
        for column, value in ((TOLD.event, which.event), (TOLD.client, which.client))
        if value is not None
    ]
    if which.nouns:
        found.append(TOLD.noun.in_(which.nouns))
        if not {"lock", "chunk"} & set(which.nouns):
            found.append(literal_column(RARE))
    return found


def _of_subject(tx: Transaction, which: HistoryFilter) -> Iterator[ColumnElement[bool]]:
    """The condition for the subject of an event, in a form that an index serves."""
    if which.lock_id is not None:
        yield and_(TOLD.subject == which.lock_id.split("-")[1], TOLD.lock_id == which.lock_id)
    if which.resource is not None:
        yield _of_resource(which.resource)
    if which.job is not None:
        numbers = {name: number for number, name in job_names(tx).items()}
        yield TOLD.job_id == job_number("job", which.job, numbers)
    if which.dataid is not None:
        yield and_(TOLD.noun == "chunk", TOLD.subject == which.dataid)
    if which.item is not None:
        number = number_of(which.item)
        of_job = and_(TOLD.noun == "ingest job", TOLD.subject == str(number))
        yield TOLD.batch_id == number if is_batch(which.item) else of_job


def _of_time(which: HistoryFilter, number: ColumnElement[int]) -> Iterator[ColumnElement[bool]]:
    if which.since is not None:
        yield TOLD.at >= micro(which.since)
    if which.until is not None:
        yield TOLD.at <= micro(which.until)
    if which.before is not None:
        at, last = which.before
        yield and_(TOLD.at <= at, or_(TOLD.at < at, number < last))
    if which.newer is not None:
        yield number > which.newer


def _of_resource(resource: str) -> ColumnElement[bool]:
    """Events of a resource's locks; for a chunk's resource, also those of the chunk."""
    key, chunk = resource_key(resource), parse_chunk_resource(resource)
    of_locks = and_(TOLD.noun == "lock", TOLD.subject == key)
    if chunk is None:
        return of_locks
    name, dataid = chunk
    of_chunk = and_(TOLD.noun == "chunk", TOLD.subject == dataid, schema.dataset.c.name == name)
    return and_(TOLD.subject.in_([key, dataid]), or_(of_locks, of_chunk))


def _resources(tx: Transaction, keys: set[str], known: str | None) -> dict[str, str]:
    """The names of resources by the keys in their lock ids, which are prefixes of the keys in the table."""
    names = {} if known is None else {resource_key(known): known}
    missing, of = sorted(keys - set(names)), schema.resource.c
    for start in range(0, len(missing), MANY):
        spans = [of.rkey.between(*_span(key)) for key in missing[start : start + MANY]]
        names.update({resource_key(str(uri)): str(uri) for (uri,) in tx.ask(select(of.uri).where(or_(*spans)))})
    return names


def _span(key: str) -> tuple[bytes, bytes]:
    start = base64.b32decode(key.upper())
    return start + b"\0" * (32 - len(start)), start + b"\xff" * (32 - len(start))


def _entry(row: Row, names: dict[str, str]) -> Entry:
    number, at, noun, event, subject, client, lock_id, token, before, after, reason, count, spent, by, dataset, job = (
        row
    )
    subject, resource, of = str(subject), "", ""
    if noun == "lock":
        resource = names.get(subject, "")
    elif noun == "chunk":
        resource, of = chunk_resource(str(dataset), subject), str(job)
    elif noun == "job":
        of = str(job)
    elif noun == "hold":
        resource = subject
    else:
        of = (BATCHES if noun == BATCHES.name else JOBS).id_of(int(subject))
    return Entry(
        int(number), moment(at), str(noun), str(event), resource, str(client), str(lock_id),
        int(token), str(before), str(after), str(reason), int(count), of, to_seconds(spent), str(by),
    )  # fmt: skip


def _copy(tx: Transaction, store: str, leaves: Sequence[Leaf]) -> None:
    tx.all(HOLD_TAG)
    origins = [origin_of(store, leaf.entry.id) for leaf in leaves]
    times = [micro(leaf.entry.at) for leaf in leaves]
    kept = {int(row[0]): row[1:] for row in tx.all(FIND_COPIED, times=times, origins=origins)}
    new = []
    for origin, leaf in zip(origins, leaves, strict=True):
        if origin not in kept:
            new.append((origin, leaf))
        elif kept[origin] != (leaf.entry.event, leaf.entry.token):
            raise ForeignStore(
                f"the history of store {store} already has another entry {leaf.entry.id} here: the store was restored "
                "to an older state, or another store has the same tag. Nothing was copied"
            )
        else:
            tx.run(COUNT_AGAIN, at=micro(leaf.entry.at), origin=origin, count=leaf.entry.count)
    if new:
        for uri in sorted({leaf.entry.resource for _, leaf in new if leaf.entry.noun == "lock"}):
            tx.run(ADD_RESOURCE, rkey=resource_digest(uri), uri=uri, known=False)
        tx.many(COPY, _columns(new))


def _columns(new: Sequence[tuple[int, Leaf]]) -> dict[str, Sequence[object]]:
    entries = [leaf.entry for _, leaf in new]
    return {
        "origin": [origin for origin, _ in new],
        "at": [micro(entry.at) for entry in entries],
        "subject": [subject_of(entry) for entry in entries],
        "batch": [number_of(leaf.batch) if leaf.batch else UNKNOWN for _, leaf in new],
        "spent": [UNKNOWN if entry.spent is None else to_micro(entry.spent) for entry in entries],
        **by_column(
            entries, "noun", "event", "lock_id", "client", "token", "before", "after", "reason", "count", "principal"
        ),
    }


def subject_of(entry: Entry) -> str:
    """The stored subject of an entry about a lock, a batch, an ingest job or a hold."""
    if entry.noun == "lock":
        return resource_key(entry.resource)
    return str(number_of(entry.job)) if entry.job else entry.resource
