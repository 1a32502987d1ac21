"""The queue in SQL: the port's methods, one transaction each. A fast path, if there is one, takes one trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from headgate.calls.deadlines import QUEUE_CALLS, answered_in_time
from headgate.calls.idempotency import is_keyed
from headgate.core.daemons import Daemon
from headgate.core.errors import ItemLost, Unavailable, UnknownName
from headgate.core.faults import Fault
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.ledger.model import Asker
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import (
    COUNTERS,
    MESSAGE_LENGTH,
    Batch,
    Changes,
    Folder,
    Hold,
    IngestJob,
    Item,
    NewJob,
    Place,
    Submission,
    Taken,
    folder_of,
    is_batch,
)
from headgate.core.queue.rules import DESIGN
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.stores.sql.database.engine import Database, FastPath
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.news.topics import ANYTHING, News, Subscription
from headgate.stores.sql.news.topics import number_of as topic_number
from headgate.stores.sql.queue import commands
from headgate.stores.sql.queue import statements as sql
from headgate.stores.sql.queue.changes import carry_out
from headgate.stores.sql.queue.rows import (
    BATCHES,
    JOBS,
    Noun,
    identifiers_document,
    number_of,
    read_daemon,
    read_hold,
    read_job,
)
from headgate.stores.sql.queue.sleepers import Sleepers, topic_of


@answered_in_time(QUEUE_CALLS)
class SqlQueue:
    """Batches, ingest jobs, holds and their history in one SQL database."""

    def __init__(self, database: Database, news: News) -> None:
        self.name = database.name
        self.options = database.options
        self._rules = database.options.queue_rules[DESIGN]
        self.batch_table: Machine = self._rules.batch
        self.job_table: Machine = self._rules.job
        self._database = database
        self._news = news
        self._sleepers = Sleepers(database, news)

    # ---------------------------------------------------------------- depositors and consumers

    def submit(self, submission: Submission, who: str) -> Batch:
        batch, listened = self._news.written(lambda tx: commands.submit(tx, submission, who))
        self._ring_for(batch, listened=listened)
        return batch

    def take_batch(self, state: str, asker: Asker, after: str | None = None) -> Batch | None:
        found = self._take(BATCHES, state, asker, None if after is None else Place(0, after))
        return found if isinstance(found, Batch) else None

    def take_job(self, state: str, asker: Asker, after: Place | None = None) -> IngestJob | None:
        found = self._take(JOBS, state, asker, after)
        return found if isinstance(found, IngestJob) else None

    def renew(self, taken: Taken, lease: float) -> float:
        return self._database.write(lambda tx: commands.renew(tx, taken, lease))

    def give_back(self, taken: Taken, message: str) -> None:
        with self._late(taken):
            self._news.write(
                lambda tx: commands.give_back(tx, taken, message), topic_of(self._table_of(taken.id), taken.state)
            )

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        made, listened = self._news.written(lambda tx: commands.create_jobs(tx, taken, position, jobs, work_folder))
        self._sleepers.ring(self.job_table, self._rules.create.target, len(jobs), listened=listened)
        return made

    def fire(self, taken: Taken, event: str, message: str, changes: Changes) -> Item:
        row = self._rules.fast_row(taken.id, taken.state, event)
        with FastPath() as fast:
            if row and (quick := self._fire_quickly(taken, row, message, changes)):
                return quick
        with self._late(taken):
            moved, listened = self._news.written(
                lambda tx: carry_out(
                    tx, taken.id, lambda seen: queue_work.fire(seen, taken, event, message, changes), event
                ),
                again=fast.cut_off,
            )
        self._ring_for(moved, listened=listened)
        return moved

    def change(self, taken: Taken, changes: Changes) -> Item:
        return self._database.write(
            lambda tx: carry_out(tx, taken.id, lambda seen: queue_work.change(seen, taken, changes))
        )

    def await_work(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        self._sleepers.sleep(states, seconds)

    def listen(self, states: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> Subscription:
        return self._news.listen([topic_of(machine, state) for machine, state in states], wake)

    def listen_to(self, item_id: str, wake: Callable[[], None]) -> Subscription:
        table = self._table_of(item_id)
        return self.listen([(table, state) for state in table.states], wake)

    # ---------------------------------------------------------------- people and daemons

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        seen: list[Item] = []
        item, listened = self._news.written(lambda tx: commands.act(tx, item_id, event, by, reason, who, seen))
        self._ring_for(item, listened=listened)
        return item

    def set_priority(self, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
        return self._database.write(
            lambda tx: carry_out(tx, job_id, lambda seen: queue_work.set_priority(seen, job_id, priority, reason, who))
        )

    def set_hold(self, hold: Hold) -> Hold:
        return self._database.write_through(lambda tx: commands.set_hold(tx, hold))

    def clear_hold(self, profile: str, who: str) -> bool:
        return self._news.write(lambda tx: commands.clear_hold(tx, profile, who), ANYTHING)

    def reportable(self, limit: int) -> Sequence[str]:
        states = self._rules.reportable
        if not states:
            return []
        rows = self._database.read(lambda tx: tx.all(sql.READ_REPORTABLE, states=list(states), limit=limit))
        return [BATCHES.id_of(int(row[0])) for row in rows]

    def cleanable(self, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
        from headgate.stores.sql.queue.questions import ask_cleanable

        return ask_cleanable(self._database, machine, seconds, limit)

    def expire(self, limit: int) -> int:
        def work(tx: Transaction) -> int:
            dead = [
                (noun, row[0]) for noun in (JOBS, BATCHES) for row in tx.all(noun.sql.find_dead, grace=0, limit=limit)
            ]
            return sum(commands.reap(tx, noun.id_of(int(number))) is not None for noun, number in dead[:limit])

        count, listened = self._news.written(work)
        if count:
            self._news.announce([ANYTHING], listened=listened)
        return count

    def sign_on(self, daemon: Daemon) -> None:
        self._database.write_through(lambda tx: commands.sign_on(tx, daemon))

    def sign_off(self, daemon_id: str) -> None:
        self._database.write(lambda tx: tx.run(sql.DROP_DAEMON, id=daemon_id))

    # ---------------------------------------------------------------- questions

    def daemons(self) -> Sequence[Daemon]:
        return [read_daemon(row) for row in self._database.read(lambda tx: tx.all(sql.READ_DAEMONS))]

    def first_free(self, machine: Machine, state: str) -> Item | None:
        noun = BATCHES if machine.name == BATCHES.name else JOBS
        row = self._database.read(lambda tx: tx.one(noun.sql.first_free, state=state))
        return None if row is None else noun.read(row)

    def holds(self) -> Sequence[Hold]:
        return [read_hold(row) for row in self._database.read(lambda tx: tx.all(sql.READ_HOLDS))]

    def batch(self, batch_id: str) -> Batch:
        found = self._read(BATCHES, batch_id)
        if isinstance(found, Batch):
            return found
        raise UnknownName(BATCHES.name, batch_id)

    def job(self, job_id: str) -> IngestJob:
        found = self._read(JOBS, job_id)
        if isinstance(found, IngestJob):
            return found
        raise UnknownName(JOBS.name, job_id)

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        from headgate.stores.sql.queue.questions import ask_batches

        return ask_batches(self._database, which)

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        from headgate.stores.sql.queue.questions import ask_jobs

        return ask_jobs(self._database, which)

    def job_ids(self, batch_id: str, folder: Folder) -> Sequence[str]:
        from headgate.stores.sql.queue.questions import ask_job_ids

        self.batch(batch_id)
        return ask_job_ids(self._database, batch_id, folder)

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        def work(tx: Transaction) -> dict[str, dict[str, int]]:
            return {
                noun.name: {str(state): int(number) for state, number in tx.all(noun.sql.count)}
                for noun in (BATCHES, JOBS)
            }

        return self._database.read(work)

    def object_blockers(self, job_id: str) -> Sequence[str]:
        self.job(job_id)
        return ()

    def foreign(self) -> Mapping[str, Mapping[str, int]]:
        return {}

    def faults(self) -> Sequence[Fault]:
        from headgate.stores.sql.queue.faults import faults

        return self._database.read(faults)

    def repair(self, fault: Fault, who: str) -> bool:
        from headgate.stores.sql.queue.faults import repair

        return self._database.write(lambda tx: repair(tx, fault, who))

    # ---------------------------------------------------------------- the fast path

    def _take(self, noun: Noun, state: str, asker: Asker, after: Place | None) -> Item | None:
        if not self._rules.may_be_taken(self._rules.machine(noun.prefix), state):
            return None
        trip = self._database.dialect.take_item.get(noun.prefix)
        cut_off = not asker.fresh
        if trip is not None and asker.fresh and after is None:
            with FastPath() as fast:
                rows = self._database.single_once(trip, state=state, **commands.taking_columns(asker))
                if not rows or rows[0][0] is not None:
                    return noun.read_taken(rows[0]) if rows else None
            cut_off = fast.cut_off
        if self._database.dialect.one_writer and asker.fresh and not self._is_free(noun, state):
            return None  # A consumer that finds nothing must not block writers.
        return self._database.write(lambda tx: commands.take(tx, noun, state, asker, after), again=cut_off)

    def _is_free(self, noun: Noun, state: str) -> bool:
        return bool(self._database.read(lambda tx: tx.one(noun.sql.is_free, state=state)))

    def _fire_quickly(self, taken: Taken, row: Transition, message: str, changes: Changes) -> IngestJob | None:
        """A job's transition in one trip; None if the slow path must decide."""
        trip = self._database.dialect.move_job
        if trip is None or is_keyed() or changes.configuration is not None:
            return None
        moved = self._database.single_once(trip, **self._quick_move(taken, row, message, changes))
        if not moved:
            return None
        self._sleepers.ring(self.job_table, row.target, listened=False)  # Other processes were notified already.
        return read_job(moved[0][:-1])

    def _quick_move(self, taken: Taken, row: Transition, message: str, changes: Changes) -> dict[str, Any]:
        before, after = folder_of(row.source), folder_of(row.target)
        identifiers = changes.identifiers
        return {
            "id": number_of(taken.id), "token": taken.token, "state": row.source, "event": row.event,
            "target": row.target, "step": row.source if row.also.has(Also.MARK_STEP) else None,
            "message": queue_work.status_message(row, message), "reason": message[:MESSAGE_LENGTH],
            "priority": changes.priority, "space_needed": changes.space_needed,
            "identifiers": None if identifiers is None else identifiers_document(identifiers),
            "leaves": before is not after, "channel": self._news.channel,
            "number": str(topic_number(topic_of(self.job_table, row.target))),
            **{name: int(after is folder) for folder, name in COUNTERS.items() if folder is not before},
        }  # fmt: skip

    @contextmanager
    def _late(self, taken: Taken) -> Iterator[None]:
        """Even a refused report is a sign of life of its sender."""
        try:
            yield
        except ItemLost:
            with suppress(Unavailable):
                self._database.write(lambda tx: commands.report_late(tx, taken))
            raise

    def _ring_for(self, item: Item, *, listened: bool) -> None:
        self._sleepers.ring(self._table_of(item.id), item.state, listened=listened)

    def _table_of(self, item_id: str) -> Machine:
        return self.batch_table if is_batch(item_id) else self.job_table

    def _read(self, noun: Noun, item_id: str) -> Item | None:
        if is_batch(item_id) is not (noun is BATCHES):
            return None
        row = self._database.read(lambda tx: tx.one(noun.sql.read, id=number_of(item_id)))
        return None if row is None else noun.read(row)
