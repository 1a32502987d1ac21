"""The queue in ZooKeeper: the port's methods. Every transition is one multi, guarded by the version of the item's
status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headgate.core.daemons import Daemon
from headgate.core.errors import UnknownName
from headgate.core.faults import Fault
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.ledger.model import Asker
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import (
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
    is_batch,
)
from headgate.core.queue.snapshot import RemoveItem
from headgate.core.tables.machine import By, Machine
from headgate.stores.zookeeper.address import Address
from headgate.stores.zookeeper.ensemble.asking import look, make
from headgate.stores.zookeeper.ensemble.clock import Clock
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.guarded import ChangePlan
from headgate.stores.zookeeper.history.store import NodeHistory
from headgate.stores.zookeeper.opening import RootNode
from headgate.stores.zookeeper.queue.changes import ChangeOps
from headgate.stores.zookeeper.queue.commits import Commits
from headgate.stores.zookeeper.queue.daemons import Daemons
from headgate.stores.zookeeper.queue.faults import Faults
from headgate.stores.zookeeper.queue.leases import ItemLeases
from headgate.stores.zookeeper.queue.lists import ItemListening, ListListening, Wakes
from headgate.stores.zookeeper.queue.making import Making
from headgate.stores.zookeeper.queue.object_locks import ObjectLocks
from headgate.stores.zookeeper.queue.questions import ItemQuestions, ago
from headgate.stores.zookeeper.queue.reaping import Reaping
from headgate.stores.zookeeper.queue.removing import Removing
from headgate.stores.zookeeper.queue.reports import StatusReports
from headgate.stores.zookeeper.queue.snapshots import Snapshots
from headgate.stores.zookeeper.queue.taking import Taking
from headgate.stores.zookeeper.queue.tree import TreeOptions


class ZookeeperQueue:
    """Batches, ingest jobs and holds in one ZooKeeper ensemble."""

    def __init__(
        self,
        address: Address,
        sessions: ZkSessions,
        history: NodeHistory,
        clock: Clock,
        root: RootNode,
    ) -> None:
        self.name = address.name
        self._sessions = sessions
        rules = sessions.options.queue_rules[address.queue.spelling]
        options = TreeOptions(rules, root.token_base, sessions.options.work_folder)
        self._tree = tree = address.queue.with_options(options)
        self.batch_table: Machine = rules.batch
        self.job_table: Machine = rules.job
        #: The history; written by the commits.
        self.told = history
        self.make_tree()
        self._questions = ItemQuestions(sessions, tree, clock)
        self._commits = Commits(sessions, tree, address.tree, self.told)
        self._reports = StatusReports(sessions, tree)
        self._removing = Removing(sessions, tree, self._questions)
        self._objects = ObjectLocks(sessions, tree)
        self._ops = ops = ChangeOps(sessions, tree, self._commits, self._reports, self._removing, self._objects)
        self._snapshots = Snapshots(tree, self._questions, self._commits, self._removing, sessions.options.max_crashes)
        self._leases = ItemLeases(sessions, tree, self._questions, clock)
        self._reaping = Reaping(sessions, tree, self._questions, self._commits, ops, self._snapshots)
        self._taking = Taking(
            sessions, tree, self._questions, self._commits, ops, self._snapshots, self._leases, self._reaping
        )
        sessions.endings.append(self._taking.close)
        self._making = Making(sessions, tree, self._questions, self._commits, ops, self._taking, root.number_base)
        self._daemons = Daemons(sessions, tree, clock)
        self._faults = Faults(sessions, tree, self._questions, self._commits, self._removing, self._objects)

    def make_tree(self) -> None:
        """The nodes that a queue starts with, if they do not exist."""
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
        self._tree.rules.rows_for(taken.id, taken.state, event, By.OWNER)
        self._reports.write_rest(taken.id, changes.report)
        tries = 0

        def build() -> ChangePlan[Item]:
            nonlocal tries
            tries += 1
            loaded = self._taking.load(taken, event, remembered=tries == 1)
            outcome = queue_work.fire(loaded.snapshot, taken, event, message, changes)
            if not outcome.changes:  # It was fired already; other consumers may have taken it since.
                loaded = self._taking.load(taken, event, newest=True)
                outcome = queue_work.fire(loaded.snapshot, taken, event, message, changes)
            return self._ops.plan(loaded, outcome, self._taking.session_of(taken.id), careful=tries > 1)

        with self._reaping.late(taken):
            moved = self._commits.run(build)
        self._taking.reported(taken.id, moved)
        self._reports.drop_others(taken.id, changes.report)
        return moved

    def change(self, taken: Taken, changes: Changes) -> Item:
        self._reports.write_rest(taken.id, changes.report)

        def build() -> ChangePlan[Item]:
            loaded = self._taking.load(taken)
            outcome = queue_work.change(loaded.snapshot, taken, changes)
            return self._ops.plan(loaded, outcome, self._taking.session_of(taken.id))

        changed = self._commits.run(build)
        self._taking.distrust(taken.id)
        return changed

    def await_work(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        self._taking.lists.sleep(self._wakes_of(states), seconds)

    def listen(self, states: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> ListListening:
        return ListListening(self._wakes_of(states), wake)

    def listen_to(self, item_id: str, wake: Callable[[], None]) -> ItemListening:
        return ItemListening(self._sessions, self._tree.status(item_id), wake)

    def _wakes_of(self, states: Sequence[tuple[Machine, str]]) -> list[Wakes]:
        """Only states in which items are taken; the others have no lists."""
        lists = self._taking.lists
        return [
            lists.board.wakes if machine.name == self.batch_table.name else lists.jobs(state).wakes
            for machine, state in states
            if machine.name == self.batch_table.name or state in self._tree.entry_states
        ]

    # ------------------------------------------------------------------ operators and daemons

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        removed = False

        def build() -> ChangePlan[Item]:
            nonlocal removed
            loaded = self._snapshots.load(item_id, event)
            outcome = queue_work.act(loaded.snapshot, item_id, event, by, reason, who)
            removed = any(isinstance(change, RemoveItem) for change in outcome.changes)
            plan = self._ops.plan(loaded, outcome, careful=True)
            return replace(plan, ops=[*self._ops.nobody_has_it(loaded), *plan.ops])

        item = self._commits.run(build)
        if removed and is_batch(item_id):
            self._removing.drop_batch(item_id)
        return item

    def set_priority(self, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
        def build() -> ChangePlan[IngestJob]:
            loaded = self._snapshots.load(job_id)
            return self._ops.plan(loaded, queue_work.set_priority(loaded.snapshot, job_id, priority, reason, who))

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
        """Leases of items that were taken through a service are extended by the time without one."""
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

    def object_blockers(self, job_id: str) -> Sequence[str]:
        return self._objects.busy(self.job(job_id))

    def foreign(self) -> Mapping[str, Mapping[str, int]]:
        return self._questions.foreign()

    def faults(self) -> Sequence[Fault]:
        return self._faults.find()

    def repair(self, fault: Fault, who: str) -> bool:
        return self._faults.repair(fault, who)
