"""Incidents in SQL: written with the changes that they report, listed, and reported once each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headgate.calls.deadlines import INCIDENT_CALLS, answered_in_time
from headgate.core.errors import UnknownName
from headgate.core.incidents import Incident, IncidentFilter, OpenIncidents, state_of_incident
from headgate.core.inventory import Message
from headgate.core.notices import SentNotice
from headgate.core.values.wire import plain
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import micro, moment, to_micro
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.inventory.store import post
from headgate.stores.sql.ledger import incident_statements as sql
from headgate.stores.sql.ledger.candidates import batches
from headgate.stores.sql.ledger.statements import READ_WALL

#: Seconds for which notices are counted.
HOUR = 3600.0


@answered_in_time(INCIDENT_CALLS)
class SqlIncidents:
    """The incidents of one SQL database."""

    def __init__(self, database: Database) -> None:
        self.name, self.options = database.name, database.options
        self._database = database

    def list(self, which: IncidentFilter) -> Sequence[Incident]:
        before = 2**62 if which.before is None else which.before
        rows = self._database.single(
            sql.LIST_INCIDENTS, before=before, job=which.job or "", kind=which.kind or "", closed=int(which.closed),
            limit=2**31 if which.limit is None else which.limit,
        )  # fmt: skip
        return [read_incident(row) for row in rows]

    def get(self, number: int) -> Incident:
        rows = self._database.single(sql.READ_INCIDENT, id=number)
        if not rows:
            raise _unknown(number)
        return read_incident(rows[0])

    def count(self) -> OpenIncidents:
        rows = self._database.single(sql.COUNT_OPEN)
        oldest = min((int(row[2]) for row in rows), default=None)
        return OpenIncidents(
            {str(kind): int(count) for kind, count, _ in rows}, None if oldest is None else moment(oldest)
        )

    def acknowledge(self, number: int, who: str) -> Incident:
        def work(tx: Transaction) -> Incident:
            _read(tx, number)
            tx.run(sql.ACKNOWLEDGE, id=number, who=who, reported=True)
            return _read(tx, number)

        return self._database.write_through(work)

    def snooze(self, number: int, seconds: float) -> Incident:
        def work(tx: Transaction) -> Incident:
            _read(tx, number)
            tx.run(sql.SNOOZE, id=number, span=to_micro(seconds))
            return _read(tx, number)

        return self._database.write_through(work)

    def due(self, limit: int) -> Sequence[Incident]:
        return [read_incident(row) for row in self._database.single(sql.READ_DUE, limit=limit)]

    def now(self) -> datetime:
        return moment(self._database.single(READ_WALL)[0][0])

    def notices(self) -> Sequence[SentNotice]:
        found = self._database.single(sql.READ_NOTICES, age=to_micro(HOUR))
        return [
            SentNotice(str(number), str(recipient), moment(at), int(count), None if kept is None else json.loads(kept))
            for number, recipient, at, count, kept in found
        ]

    def report(
        self, reported: Sequence[Incident], notices: Sequence[SentNotice], messages: Sequence[Message],
        released: Sequence[str] = (),
    ) -> bool:  # fmt: skip
        def work(tx: Transaction) -> bool:
            due = {each.id: None if each.due is None else micro(each.due) for each in reported}
            if not _are_due(tx, due):
                return False
            for batch in batches([str(number) for number in due]):
                tx.run(sql.REPORTED, ids=[int(number) for number in batch], reported=True)
            for batch in batches(released):
                tx.run(sql.RELEASE_NOTICES, ids=batch)
            for notice in notices:
                if tx.one(sql.FIND_NOTICE, id=notice.id) is None:
                    kept = None if notice.kept is None else json.dumps(plain(notice.kept), ensure_ascii=False)
                    tx.run(sql.ADD_NOTICE, id=notice.id, recipient=notice.recipient, count=notice.count, kept=kept)
            for message in messages:
                post(tx, message)
            return True

        return self._database.write_through(work)

    def prune(self, age: float) -> int:
        def work(tx: Transaction) -> int:
            tx.run(sql.DROP_NOTICES, age=to_micro(HOUR))
            return tx.count(sql.DROP_OLD, age=to_micro(age))

        return self._database.write(work)


def _are_due(tx: Transaction, due: Mapping[int, int | None]) -> bool:
    """Whether the notices of all these are still due, and they have not changed since they were read."""
    if not due:
        return True
    found: dict[int, Any] = {}
    numbers = sorted(due)
    for start in range(0, len(numbers), 500):
        found |= {int(number): at for number, at in tx.all(sql.HOLD_DUE, ids=numbers[start : start + 500])}
    return all(found.get(number) == at for number, at in due.items())


def _read(tx: Transaction, number: int) -> Incident:
    row = tx.one(sql.READ_INCIDENT, id=number)
    if row is None:
        raise _unknown(number)
    return read_incident(row)


def _unknown(number: int) -> UnknownName:
    return UnknownName("incident", str(number), "List them with: headgate incident list")


def read_incident(row: Row) -> Incident:
    """An incident from its row."""
    number, kind, job, subject, message, since, at, count, closed, closed_by, known_by, snoozed, due, reported = row
    return Incident(
        int(number), str(kind), str(job), str(subject), str(message), moment(since), moment(at), int(count),
        None if closed is None else moment(closed), str(closed_by), str(known_by),
        None if snoozed is None else moment(snoozed), state_of_incident(closed, snoozed, known_by),
        None if due is None else moment(due), bool(reported),
    )  # fmt: skip
