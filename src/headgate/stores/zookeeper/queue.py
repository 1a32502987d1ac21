"""The queue in ZooKeeper: the port's methods. Every move is one multi, guarded by the version of the item's status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from headgate.core.daemons import Daemon
from headgate.core.errors import ItemLost, QueueRefused, UnknownName
from headgate.core.faults import Fault
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.ledger import Asker
from headgate.core.machine import Also, By, Machine, Transition
from headgate.core.queue import (
    Batch,
    Changes,
    Facts,
    Folder,
    Hold,
    IngestJob,
    Item,
    NewJob,
    Place,
    Submission,
    Taken,
    changed_by,
    choose,
    folder_of,
    is_batch,
    refuse_others,
)
from headgate.stores.zookeeper.address import Address
from headgate.stores.zookeeper.asking import look, make
from headgate.stores.zookeeper.changes import Plan
from headgate.stores.zookeeper.clock import Clock
from headgate.stores.zookeeper.history import History
from headgate.stores.zookeeper.multi import Op
from headgate.stores.zookeeper.queue_commits import Commits
from headgate.stores.zookeeper.queue_daemons import Daemons
from headgate.stores.zookeeper.queue_faults import Faults
from headgate.stores.zookeeper.queue_history import Told
from headgate.stores.zookeeper.queue_leases import ItemLeases
from headgate.stores.zookeeper.queue_lists import ListListening, Wakes
from headgate.stores.zookeeper.queue_making import Making
from headgate.stores.zookeeper.queue_moves import Moves
from headgate.stores.zookeeper.queue_questions import QueueQuestions, ago
from headgate.stores.zookeeper.queue_reaping import Reaping
from headgate.stores.zookeeper.queue_records import Record
from headgate.stores.zookeeper.queue_removing import Removing
from headgate.stores.zookeeper.queue_reports import Reports
from headgate.stores.zookeeper.queue_taking import Taking
from headgate.stores.zookeeper.session import Sessions

HELD_CONDITION = "its collection is not held"


class ZookeeperQueue:
    """Batches, ingest jobs and holds in one ZooKeeper ensemble."""

    def __init__(
        self,
        address: Address,
        sessions: Sessions,
        history: History,
        clock: Clock,
        number_base: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.name = address.name
        self._sessions = sessions
        self._tree = tree = address.queue
        self.batch_table: Machine = tree.batch_table
        self.job_table: Machine = tree.job_table
        #: What happened; written by the commits.
        self.told = history
        self.make_tree()
        self._questions = QueueQuestions(sessions, tree, clock)
        self._commits = Commits(sessions, tree, address.tree, self.told)
        self._reports = Reports(sessions, tree)
        self._moves = Moves(tree, self._commits, self._reports)
        self._removing = Removing(sessions, tree, self._questions, self._moves)
        self._leases = ItemLeases(sessions, tree, self._questions, clock)
        self._reaping = Reaping(sessions, tree, self._questions, self._commits, self._moves)
        self._taking = Taking(sessions, tree, self._questions, self._commits, self._moves, self._leases, self._reaping)
        sessions.endings.append(self._taking.close)
        self._making = Making(sessions, tree, self._questions, self._commits, self._moves, self._taking, number_base)
        self._daemons = Daemons(sessions, tree, clock)
        self._faults = Faults(sessions, tree, self._questions, self._commits, self._removing)

    def make_tree(self) -> None:
        """The nodes that a queue begins with, if they are not there."""
        paths = self._tree.made_at_once
        if None in self._sessions.base.ask(*map(look, paths)):
            self._sessions.base.ask(*(make(path, self._tree.empty) for path in paths))

    # ------------------------------------------------------------------ depositors and consumers

    def submit(self, submission: Submission, who: str) -> Batch:
        return self._making.submit(submission, who)

    def take_batch(self, state: str, asker: Asker, after: str | None = None) -> Batch | None:
        return self._taking.take_batch(state, asker, after)

    def take_job(self, state: str, asker: Asker, after: Place | None = None) -> IngestJob | None:
        return self._taking.take_job(state, asker, after)

    def renew(self, taken: Taken, lease: float) -> float:
        return self._taking.renew(taken, lease)

    def give_back(self, taken: Taken, message: str) -> None:
        self._taking.give_back(taken, message)

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        return self._making.create_jobs(taken, position, jobs, work_folder)

    def fire(self, taken: Taken, event: str, message: str, changes: Changes) -> Item:
        table = self._questions.table(taken.id)
        refuse_others(table, taken.state, event, By.OWNER)
        self._reports.write_rest(taken.id, changes.report)
        tries = 0

        def build() -> Plan[Item]:
            nonlocal tries
            tries += 1
            try:
                record = self._taking.owned(taken, remembered=tries == 1)
            except ItemLost:
                if done := self._fired_already(taken, event):
                    return Plan([], done)
                raise
            row = choose(table, taken.id, taken.state, event, self._facts(record, event))
            new = self._moves.after(record, row, message, changes)
            ops = self._moves.move(record, new, row)
            if tries > 1:
                ops = [*self._missing_folder(new), *ops]
            told = self._moves.told(record, row, record.item.worker, message)
            return Plan(ops, new, [told], self._taking.session_of(taken.id))

        with self._reaping.late(taken):
            moved = self._commits.run(build)
        self._taking.forget(taken.id)
        self._reports.drop_others(taken.id, changes.report)
        return moved

    def change(self, taken: Taken, changes: Changes) -> Item:
        self._reports.write_rest(taken.id, changes.report)

        def build() -> Plan[Item]:
            record = self._taking.owned(taken, remembered=False)
            new = changed_by(changes, record.item, self._commits.now())
            ops = self._moves.change(record, new) if new != record.item else []
            return Plan(ops, new, session=self._taking.session_of(taken.id))

        changed = self._commits.run(build)
        self._taking.distrust(taken.id)
        return changed

    def await_work(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        self._taking.lists.sleep(self._wakes_of(states), seconds)

    def listen(self, states: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> ListListening:
        return ListListening(self._wakes_of(states), wake)

    def _wakes_of(self, states: Sequence[tuple[Machine, str]]) -> list[Wakes]:
        """Of those states that items are taken in; the others tell nothing."""
        lists = self._taking.lists
        return [
            lists.board.wakes if machine.name == self.batch_table.name else lists.jobs(state).wakes
            for machine, state in states
            if machine.name == self.batch_table.name or state in self._tree.entry_states
        ]

    def _fired_already(self, taken: Taken, event: str) -> Item | None:
        """The item, if it is where this event of that very token led: its answer was lost."""
        record = self._questions.find(taken.id)
        if record is None or record.lock is not None or record.version != taken.token + 1:
            return None
        targets = {row.target for row in self._questions.table(taken.id).find(taken.state, event)}
        return record.item if record.item.state in targets else None

    def _missing_folder(self, new: Item) -> list[Op]:
        """The batch's folder that a job goes into: Merritt's library makes it for the first job alone."""
        if isinstance(new, Batch):
            return []
        path = self._tree.folder(new.batch, folder_of(new.state))
        missing = self._sessions.base.ask(look(path))[0] is None
        return [Op("make", path, self._tree.empty)] if missing else []

    # ------------------------------------------------------------------ people and daemons

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        def build() -> Plan[tuple[Item, bool]]:
            record = self._questions.get(item_id)
            table = self._questions.table(item_id)
            refuse_others(table, record.item.state, event, by)
            if record.lock is not None:
                raise QueueRefused(item_id, event, f"{record.item.worker} is processing it")
            row = choose(table, item_id, record.item.state, event, self._facts(record, event))
            return self._act_plan(record, row, reason, who)

        item, marked = self._commits.run(build)
        if marked:
            self._removing.drop_batch(item_id)
        return item

    def _act_plan(self, record: Record, row: Transition, reason: str, who: str) -> Plan[tuple[Item, bool]]:
        new = self._moves.after(record, row, reason, Changes())
        told = self._moves.told(record, row, who, reason)
        ends = row.target in self._questions.table(new.id).ends and Also.DROP_ALL in row.also
        if ends and isinstance(new, Batch):
            return Plan(self._removing.mark_batch(record, row, new), (record.item, True), [told])
        if ends:
            return Plan(self._removing.job_ops(record), (record.item, False), [told])
        ops = [*self._missing_folder(new), *self._moves.move(record, new, row)]
        if row.needs == HELD_CONDITION:
            ops += self._moves.not_held(new)
        if row.event == "resume":
            ops.append(self._batch_unmoved(record.job))
        return Plan(ops, (new, False), [told])

    def _batch_unmoved(self, job: IngestJob) -> Op:
        """That the job's batch is still in the state that was looked at."""
        return Op("check", self._tree.status(job.batch), version=self._questions.get(job.batch).version)

    def _facts(self, record: Record, event: str) -> Facts:
        """What the conditions of the event's rows look at, and no more."""
        item = record.item
        hold = self._questions.hold(item.profile) if event == "release" else None
        if isinstance(item, IngestJob):
            batch = self._questions.find(item.batch) if event == "resume" else None
            return Facts(item.last_successful, batch.item.state if batch else "", hold, former=item.former)
        if event == "finish":
            item = self._questions.get(item.id).batch  # A person may have deleted a job since it was taken.
        taken_job = self._removing.taken_job(item.id) if event == "delete" else ""
        return Facts(hold=hold, jobs=item.jobs, made=item.made, taken_job=taken_job, former=item.former)

    def set_priority(self, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
        def build() -> Plan[IngestJob]:
            record = self._questions.get(job_id)
            job = record.job
            if job.state not in self._tree.entry_states:
                raise QueueRefused(job.id, "set-priority", f"it is {job.state}, and no longer in the queue")
            if job.priority == priority:
                return Plan([], job)
            new = replace(job, priority=priority)
            why = f"priority {job.priority} to {priority}" + (f": {reason}" if reason else "")
            told = Told("set-priority", who, job.state, job.state, why, job.batch, job.id, token=record.version)
            return Plan(self._moves.reorder(record, new), new, [told])

        changed = self._commits.run(build)
        self._taking.distrust(job_id)
        return changed

    def set_hold(self, hold: Hold) -> Hold:
        return self._making.set_hold(hold)

    def clear_hold(self, profile: str, who: str) -> bool:
        return self._making.clear_hold(profile, who)

    def reportable(self, limit: int) -> Sequence[str]:
        return self._questions.reportable(limit)

    def cleanable(self, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
        return self._questions.cleanable(machine, ago(self._commits.now(), seconds), limit)

    def expire(self, limit: int) -> int:
        return self._taking.expire(limit)

    def move_on(self, outage: float) -> None:
        """Leases of items that were taken through a service run on by the time that there was none."""
        self._leases.move_on(outage)

    def sign_on(self, daemon: Daemon) -> None:
        self._daemons.sign_on(daemon)

    def sign_off(self, daemon_id: str) -> None:
        self._daemons.sign_off(daemon_id)

    # ------------------------------------------------------------------ questions

    def daemons(self) -> Sequence[Daemon]:
        self._questions.catch_up()
        return self._daemons.living()

    def first_free(self, machine: Machine, state: str) -> Item | None:
        self._questions.catch_up()
        return self._questions.first_free(machine, state)

    def holds(self) -> Sequence[Hold]:
        return self._questions.holds()

    def batch(self, batch_id: str) -> Batch:
        if not is_batch(batch_id):
            raise UnknownName(self.batch_table.name, batch_id)
        self._questions.catch_up()
        return self._questions.get(batch_id).batch

    def job(self, job_id: str) -> IngestJob:
        if is_batch(job_id):
            raise UnknownName(self.job_table.name, job_id)
        self._questions.catch_up()
        return self._questions.get(job_id).job

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        return self._questions.batches(which)

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        return self._questions.jobs(which)

    def job_ids(self, batch_id: str, folder: Folder) -> Sequence[str]:
        self.batch(batch_id)
        return self._questions.refs(batch_id, folder)

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        return self._questions.counts()

    def faults(self) -> Sequence[Fault]:
        return self._faults.find()

    def repair(self, fault: Fault, who: str) -> bool:
        return self._faults.repair(fault, who)
