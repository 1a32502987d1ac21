"""Expectations in SQL: judged in bounded steps, one transaction each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from headgate.calls.deadlines import EXPECTATION_CALLS, answered_in_time
from headgate.core.ledger.expectations.model import (
    ARRIVED,
    JUDGE,
    LATE,
    WITHDRAWN,
    Expectation,
    ExpectedId,
    Judged,
    LateChunk,
    Lateness,
    Recovered,
    due_by,
    late_subject,
)
from headgate.core.ledger.expectations.parsing import expectation_of
from headgate.core.ledger.model import MESSAGE_LENGTH, READY
from headgate.core.ledger.rules import ABSENT
from headgate.core.values.durations import in_words
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import micro, moment, to_micro
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import expectation_statements as sql
from headgate.stores.sql.ledger import incident_statements as incident_sql
from headgate.stores.sql.ledger.lateness import Reasons

#: A chunk that became READY after it was due, while no judge was running, still counts as having been late.
NO_JOB = 0


@answered_in_time(EXPECTATION_CALLS)
class SqlExpectations:
    """The expectations of one SQL database."""

    def __init__(self, database: Database) -> None:
        self.name, self.options = database.name, database.options
        self._database = database

    def take_turn(self, worker: str, lease: float) -> int | None:
        return self._database.write_through(lambda tx: _take_turn(tx, worker, lease))

    def end_turn(self, worker: str, token: int) -> None:
        self._database.write(lambda tx: tx.run(sql.END_TURN, name=JUDGE, worker=worker, token=token))

    def judge(self, token: int, most: int) -> Judged | None:
        return self._database.write_through(lambda tx: _Judge(tx).judge(most) if _has_turn(tx, token) else None)

    def recover(self, token: int, after: int, most: int) -> Recovered | None:
        return self._database.write_through(lambda tx: _recover(tx, after, most) if _has_turn(tx, token) else None)

    def late(self, dataset: str | None, after: int | None, limit: int) -> Sequence[LateChunk]:
        return self._database.read(lambda tx: _late(tx, dataset or "", after, limit))

    def lateness(self) -> Sequence[Lateness]:
        def work(tx: Transaction) -> list[Lateness]:
            late = {int(dataset): (int(count), moment(due)) for dataset, count, due in tx.all(sql.COUNT_LATE)}
            return [_lateness(row, late) for row in tx.all(sql.READ_EXPECTATIONS)]

        return self._database.read(work)


def expect(tx: Transaction, dataset: int, *, something: bool, before: bool) -> None:
    """A dataset's expectation has changed or was removed. The judge withdraws lateness by an earlier one."""
    if something or before:
        tx.run(sql.DROP_EXPECTATION, dataset=dataset)
        tx.run(sql.ADD_EXPECTATION, dataset=dataset)


# ---------------------------------------------------------------- turns


def _take_turn(tx: Transaction, worker: str, lease: float) -> int | None:
    found = tx.one(sql.LOCK_TURN, name=JUDGE)
    if found is None:
        tx.run(sql.ADD_TURN, name=JUDGE, worker=worker, lease=to_micro(lease))
        return 1
    if found[0] != worker and int(found[2]) > 0:
        return None
    # After an expired lease another worker may have had the turn, so this is a new one.
    token = int(found[1]) + (found[0] != worker or int(found[2]) <= 0)
    tx.run(sql.TAKE_TURN, name=JUDGE, worker=worker, token=token, lease=to_micro(lease))
    return token


def _has_turn(tx: Transaction, token: int) -> bool:
    """Whether it is still the caller's turn; nobody else can take it until the transaction ends."""
    found = tx.one(sql.LOCK_TURN, name=JUDGE)
    return found is not None and int(found[1]) == token


# ---------------------------------------------------------------- judging


class _Judge:
    """One step of the judge, within its transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx, self._reasons = tx, Reasons(tx)

    def judge(self, most: int) -> Judged:
        """Judge what is due in one dataset; when nothing is left, withdraw lateness by an earlier definition."""
        row = self._tx.one(sql.NEXT_TO_JUDGE)
        if row is None:
            return Judged(0, 0, more=False)
        dataset, defined, position, name, document, wall = row
        now, expectation = moment(wall), expectation_of(json.loads(document) if document else {})
        found = [] if expectation is None else due_by(expectation, position, now, most)
        late = self._write(int(dataset), str(name), int(defined), found)
        others = len(found) < most and self._withdraw(int(dataset), int(defined), most)
        if expectation is None and not others:
            self._tx.run(sql.FORGET_EXPECTATION, dataset=dataset, defined=defined)
        else:
            last = found[-1].position if found else position
            due = wall if others or len(found) == most else _next_due(expectation, last)
            self._tx.run(sql.JUDGED, dataset=dataset, defined=defined, position=last, due=due)
        return Judged(len(found), late, more=True)

    def _write(self, dataset: int, name: str, defined: int, found: Sequence[ExpectedId]) -> int:
        """Late chunks, each with its incident. Returns how many are new."""
        standing = _standing(self._tx, dataset, [each.dataid for each in found])
        maker = self._tx.one(sql.READ_PRODUCER, dataset=dataset) if found else None
        job, count = NO_JOB if maker is None else int(maker[0]), 0
        known = self._known(dataset, [each.dataid for each in found])
        for each in found:
            due = micro(each.due)
            times = {
                "dataset": dataset, "dataid": each.dataid, "defined": defined, "expected": micro(each.at), "due": due,
            }  # fmt: skip
            status, since = standing.get(each.dataid, (ABSENT, 0))
            if each.dataid in known:
                self._tx.run(sql.STILL_LATE, **times)
            elif since > due and self._state_at(due, job, dataset, each.dataid) == READY:
                continue  # It is made again, or was: nobody judged between both.
            elif status != READY:
                self._tx.run(sql.ADD_LATE, **times, job=job)
                self._open(job, name, each, self._reasons.of(name, each.dataid).text)
                count += 1
            elif defined <= due < since:
                # No process judged in between.
                self._open(job, name, each, f"was READY only at {moment(since):%Y-%m-%d %H:%M} UTC")
                _close(self._tx, job, [late_subject(name, each.dataid)], ARRIVED)
                count += 1
        return count

    def _state_at(self, at: int, job: int, dataset: int, dataid: str) -> str:
        """What a chunk was at a moment; empty: the history does not go back so far."""
        found = self._tx.one(sql.READ_STATE_AT, at=at, job=job, dataset=dataset, dataid=dataid)
        return "" if found is None else str(found[0])

    def _known(self, dataset: int, dataids: Sequence[str]) -> set[str]:
        rows = self._tx.all(sql.READ_LATE_OF, dataset=dataset, dataids=dataids) if dataids else []
        return {str(dataid) for (dataid,) in rows}

    def _open(self, job: int, name: str, each: ExpectedId, why: str) -> None:
        text = f"{_expected_text(each)}: {why}"[:MESSAGE_LENGTH]
        named = {
            "job": job, "subject": late_subject(name, each.dataid), "kind": LATE, "message": text, "reported": False,
        }  # fmt: skip
        if not self._tx.count(incident_sql.REPEAT_INCIDENT, **named):
            self._tx.run(incident_sql.OPEN_INCIDENT, **named)

    def _withdraw(self, dataset: int, defined: int, most: int) -> bool:
        """Chunks that are late only by an earlier definition are no longer late. Returns whether any was."""
        rows = self._tx.all(sql.READ_OTHERS, dataset=dataset, defined=defined, limit=most)
        name = _names(self._tx).get(dataset, "")
        for job, group in groupby(sorted(rows, key=lambda row: int(row[2])), key=lambda row: int(row[2])):
            _close(self._tx, job, [late_subject(name, str(row[1])) for row in group], WITHDRAWN)
        if rows:
            self._tx.run(sql.DROP_LATE, numbers=[int(row[0]) for row in rows])
        return bool(rows)


def _expected_text(each: ExpectedId) -> str:
    grace = (each.due - each.at).total_seconds()
    return f"expected {each.at:%Y-%m-%d %H:%M} UTC" + (f", late {in_words(grace)} after" if grace else "")


def _next_due(expectation: Expectation | None, position: int | None) -> int | None:
    following = None if expectation is None else next(expectation.expected(position), None)
    return None if following is None else micro(following.due)


def _recover(tx: Transaction, after: int, most: int) -> Recovered:
    rows = tx.all(sql.READ_LATE, after=after, limit=most)
    names, arrived = _names(tx) if rows else {}, []
    for dataset, dataids in _by_dataset(rows).items():
        standing = _standing(tx, dataset, dataids)
        arrived += [
            row for row in rows if int(row[1]) == dataset and standing.get(str(row[2]), (ABSENT, 0))[0] == READY
        ]
    for job, group in groupby(sorted(arrived, key=lambda row: int(row[3])), key=lambda row: int(row[3])):
        _close(tx, job, [late_subject(names.get(int(row[1]), ""), str(row[2])) for row in group], ARRIVED)
    if arrived:
        tx.run(sql.DROP_LATE, numbers=[int(row[0]) for row in arrived])
    return Recovered(len(arrived), int(rows[-1][0]) if len(rows) == most else None)


def _close(tx: Transaction, job: int, subjects: Sequence[str], event: str) -> None:
    tx.run(sql.CLOSE_INCIDENT, job=job, subjects=subjects, kind=LATE, event=event)


def _names(tx: Transaction) -> dict[int, str]:
    return {int(row[0]): str(row[1]) for row in tx.all(sql.READ_EXPECTATIONS)}


def _by_dataset(rows: Iterable[Row]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(int(row[1]), []).append(str(row[2]))
    return found


def _standing(tx: Transaction, dataset: int, dataids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """The status of each data id that has one, and since when it has it; READY only if all rows are."""
    found: dict[str, tuple[str, int]] = {}
    for dataid, status, since in tx.all(sql.READ_STANDING, dataset=dataset, dataids=dataids) if dataids else []:
        if str(dataid) not in found or status != READY:
            found[str(dataid)] = str(status), int(since)
    return found


# ---------------------------------------------------------------- questions


def _place_of(tx: Transaction, after: int) -> tuple[int, int]:
    """Where a list continues after a late chunk: if that is late no longer, before its neighbours by number."""
    before = tx.one(sql.READ_PLACE, number=after)
    if before is not None and int(before[1]) == after:
        return int(before[0]), after
    following = tx.one(sql.READ_NEXT_PLACE, number=after)
    places = [] if before is None else [(int(before[0]), int(before[1]))]
    places += [] if following is None else [(int(following[0]), after)]
    return min(places, default=(0, after))


def _late(tx: Transaction, dataset: str, after: int | None, limit: int) -> list[LateChunk]:
    due, number = (-(2**62), 0) if after is None else _place_of(tx, after)
    rows = tx.all(sql.LIST_LATE, dataset=dataset, due=due, number=number, limit=limit)
    standing: dict[tuple[int, str], tuple[str, int]] = {}
    for key, dataids in _by_dataset([(row[0], row[2], row[3]) for row in rows]).items():
        standing |= {(key, dataid): found for dataid, found in _standing(tx, key, dataids).items()}
    reasons, found = Reasons(tx), []
    for number, name, key, dataid, expected, due in rows:
        status, _ = standing.get((int(key), str(dataid)), (ABSENT, 0))
        if status != READY:  # The judge notices soon.
            cause = reasons.of(str(name), str(dataid))
            about = late_subject(cause.dataset, cause.dataid)
            found.append(LateChunk(int(number), str(name), str(dataid), moment(expected), moment(due), status,
                                   cause.text, about))  # fmt: skip
    return found


def _lateness(row: Row, late: Mapping[int, tuple[int, datetime]]) -> Lateness:
    dataset, name, document, position, due, wall = row
    expectation = expectation_of(json.loads(document) if document else {})
    following = None if expectation is None else next(expectation.expected(position), None)
    count, oldest = late.get(int(dataset), (0, None))
    behind = timedelta() if due is None else max(moment(wall) - moment(due), timedelta())
    return Lateness(
        str(name), "nothing" if expectation is None else str(expectation), count, oldest,
        None if following is None else following.dataid, None if following is None else following.due,
        behind.total_seconds(),
    )  # fmt: skip
