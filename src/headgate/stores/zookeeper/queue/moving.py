"""Moving a queue into ZooKeeper, or out of it, in our own spelling."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from headgate.core.errors import BadValue, ForeignStore, HalfMoved
from headgate.core.history import Entry
from headgate.core.queue.model import Batch, Hold, IngestJob, Item, folder_of
from headgate.core.queue.rules import DESIGN
from headgate.core.queue.snapshot import QueueRecord
from headgate.stores.zookeeper.address import Address, parse
from headgate.stores.zookeeper.ensemble.asking import look, read, remove
from headgate.stores.zookeeper.ensemble.clock import Clock
from headgate.stores.zookeeper.ensemble.multi import Op, first_error, multi
from headgate.stores.zookeeper.ensemble.session import ZkSessions, windows
from headgate.stores.zookeeper.guarded import new_mark
from headgate.stores.zookeeper.history.folders import parts_of
from headgate.stores.zookeeper.history.store import ITEM_PARTS, NodeHistory
from headgate.stores.zookeeper.locks.records import State, decode_state
from headgate.stores.zookeeper.opening import RootNode, open_tree, read_root
from headgate.stores.zookeeper.queue.records import crash_note
from headgate.stores.zookeeper.queue.reports import StatusReports
from headgate.stores.zookeeper.queue.store import ZookeeperQueue
from headgate.stores.zookeeper.queue.tree import CONFIGURATION, encode, made_content

#: Number of items whose multis are under way at once; of history entries in one multi; of numbers that are skipped in
#: one.
WINDOW, ENTRIES, NUMBERS = 100, 200, 500
#: More numbers than this are not skipped one by one: a few thousand take a second.
MOST_PASSED = 20_000
SPELLING = DESIGN


@contextmanager
def open_queue_place(url: str, *, source: bool = False) -> Iterator[ZookeeperQueuePlace]:
    """The queue in the store at that URL. A `source` must exist; a target is created."""
    address = parse(url)
    if address.queue.spelling != SPELLING:
        raise BadValue(
            "url",
            address.name,
            (f"has spelling={address.queue.spelling}; a queue is copied only with spelling={SPELLING}"),
        )
    sessions = ZkSessions(address)
    try:
        if source and isinstance(sessions.base.ask(read(address.tree.root))[0], Exception):
            raise ForeignStore(f"{address.name} is not a store of Headgate")
        yield ZookeeperQueuePlace(address, sessions, open_tree(sessions, address, half_moved=True))
    finally:
        sessions.close()


class ZookeeperQueuePlace:
    """One queue in ZooKeeper."""

    def __init__(self, address: Address, sessions: ZkSessions, root: RootNode) -> None:
        self.name = address.name
        self.tag = root.tag
        self.half_moved = bool(root.arriving)
        self._address = address
        self._sessions = sessions
        self._tree = address.queue
        self.history = NodeHistory(sessions, address.tree, root.tag)
        clock = Clock(address.tree.clock, address.tree.epochs)
        self.queue = ZookeeperQueue(address, sessions, self.history, clock, root)
        self._base = root.token_base
        self._number_base = root.number_base
        #: A check that no other process has begun to move something into the same location.
        self._guard = Op("check", address.tree.root)

    def last_numbers(self) -> Mapping[str, int]:
        made = {kind: self._made_below(path) for kind, path in self._numbered.items()}
        return {kind: max(self._number_base.get(kind, 0) + count - 1, 0) for kind, count in made.items()}

    def last_token(self) -> int:
        return max([self._base, *(state.token for _path, state, _version in self._resources())])

    def _resources(self) -> Iterator[tuple[str, State, int]]:
        """The state of each resource, with the path and the version of its node."""
        locks = self._address.tree.locks
        folders = [f"{locks}/{name}" for name in self._sessions.base.names(locks)]
        paths = [f"{folder}/{name}" for folder in folders for name in self._sessions.base.names(folder)]
        for portion in windows(paths):
            for path, found in zip(portion, self._sessions.base.ask(*map(read, portion)), strict=True):
                if not isinstance(found, Exception):
                    yield path, decode_state(found[0], path), found[1].version

    # ------------------------------------------------------------------ arriving

    def begin(self, tag: str) -> None:
        data, stat = self._sessions.base.ask(read(self._address.tree.root))[0]
        root = read_root(data, self._address)
        if root.arriving and root.arriving["from"] != tag:
            raise BadValue("target", self.name, "contains an unfinished copy of another queue; name another folder")
        if not root.arriving and not self._is_empty():
            raise BadValue("target", self.name, "is not empty; name another folder of that ensemble")
        run = {"from": tag, "run": secrets.token_hex(8)}
        self._write([Op("set", self._address.tree.root, replace(root, arriving=run).data(), stat.version)], guard=False)
        self._guard = Op("check", self._address.tree.root, version=stat.version + 1)
        if root.arriving:
            self._clear()

    def put_holds(self, holds: Sequence[Hold]) -> None:
        for hold in holds:
            since = {} if hold.since is None else {"since": self._tree.time(hold.since)}
            content = {"reason": hold.reason, "who": hold.who, **since}
            self._write([Op("make", self._tree.hold(hold.profile), encode(content))])

    def put_batches(self, batches: Sequence[Batch]) -> None:
        self._write_all([self._batch_ops(batch) for batch in batches])
        reports = StatusReports(self._sessions, self._tree)
        for batch in batches:
            if batch.report is not None:
                reports.write_rest(batch.id, batch.report)
                path = f"{self._tree.item(batch.id)}/status-report"
                self._write([Op("make", path, encode(reports.content(batch.report)))])

    def put_jobs(self, jobs: Sequence[IngestJob]) -> None:
        self._write_all([self._job_ops(job) for job in jobs])

    def put_history(self, entries: Sequence[tuple[Entry, str]]) -> None:
        told = self.queue.told
        for portion in windows(entries, ENTRIES):
            guard, mark = told.guard(), new_mark()
            ops = [told.op(_told(entry, batch), mark, guard.path) for entry, batch in portion]
            results = self._write([guard, *ops])
            told.noticed(str(results[-1]))

    def finish(self, numbers: Mapping[str, int], token: int) -> None:
        bases = {kind: self._pass_numbers(kind, numbers[kind]) for kind in self._numbered}
        for path, state, version in self._resources():
            if state.token < token:
                self._write([Op("set", path, replace(state, token=token).encode(), version)])
        data, stat = self._sessions.base.ask(read(self._address.tree.root))[0]
        root = read_root(data, self._address)
        done = replace(root, arriving={}, token_base=max(root.token_base, token), number_base=bases)
        self._write([Op("set", self._address.tree.root, done.data(), stat.version)])

    # ------------------------------------------------------------------ parts

    def _batch_ops(self, batch: Batch) -> list[Op]:
        tree, path, submission = self._tree, self._tree.item(batch.id), batch.submission
        spread = tree.submission(submission, "")
        nodes: list[tuple[str, bytes | None]] = [
            (path, tree.empty),
            (f"{path}/submission", encode(spread.nodes["submission"])),
            (f"{path}/status", tree.status_of(batch)),
            (tree.made(batch.id), encode(made_content(batch.made, submission.request_id, spread))),
        ]
        nodes += self._crash_node(batch)
        if submission.request_id:
            nodes.append((tree.request(submission.request_id), batch.id.encode()))
        if batch.made or batch.state not in tree.rules.before_jobs:
            nodes += tree.batch_nodes(batch.id)
        return [Op("make", *node) for node in nodes]

    def _job_ops(self, job: IngestJob) -> list[Op]:
        tree, path = self._tree, self._tree.item(job.id)
        spread = tree.spread(job.configuration, {CONFIGURATION: {}})
        nodes: list[tuple[str, bytes | None]] = [
            (path, tree.empty),
            (f"{path}/configuration", encode(spread.nodes[CONFIGURATION])),
            *([(tree.beside(job.id), encode(spread.beside))] if spread.beside else []),
            (f"{path}/status", tree.status_of(job)),
            (f"{path}/priority", b"%d" % job.priority),
            *([(f"{path}/space_needed", b"%d" % job.space_needed)] if job.space_needed else []),
            (f"{path}/identifiers", encode(tree.identifiers(job.identifiers))),
            *([(tree.entry(job.state, job.priority, job.id), tree.empty)] if job.state in tree.entry_states else []),
            (f"{tree.folder(job.batch, folder_of(job.state))}/{job.id}", tree.empty),
            *self._crash_node(job),
        ]
        return [Op("make", *node) for node in nodes]

    def _crash_node(self, item: Item) -> list[tuple[str, bytes | None]]:
        """The record of workers that died on an item."""
        note = crash_note(item)
        return [(self._tree.taking(item.id), encode(note))] if note else []

    def _write_all(self, changes: Sequence[list[Op]]) -> None:
        """Each of them at once or not at all; many are under way together."""
        for portion in windows(changes, WINDOW):
            answers = self._sessions.base.ask(*(multi([self._guard, *ops]) for ops in portion))
            for ops, results in zip(portion, answers, strict=True):
                self._check([self._guard, *ops], results)

    def _write(self, ops: list[Op], *, guard: bool = True) -> list[Any]:
        sent = [self._guard, *ops] if guard else ops
        return self._check(sent, self._sessions.base.ask(multi(sent))[0])

    def _check(self, ops: Sequence[Op], results: Any) -> list[Any]:
        failed = first_error(results)
        if failed is None:
            return list(results)
        raise HalfMoved(
            f"{ops[failed].path} could not be written: another process is copying into {self.name}, or an answer was "
            "lost. Repeat the command: it starts over"
        )

    def _is_empty(self) -> bool:
        tree = self._tree
        folders = [tree.batches, f"{tree.own}/batches", f"{tree.own}/requests", *tree.hold_folders]
        found = any(self._sessions.base.names(folder) for folder in folders)
        return not found and not any(self._entries()) and set(self._sessions.base.names(tree.jobs)) == {"states"}

    def _entries(self) -> Iterator[str]:
        """The paths of the queue's entries in the history."""
        for folder in self.history.folders():
            for name in self._sessions.base.names(folder):
                if len(parts_of(name)) == ITEM_PARTS:
                    yield f"{folder}/{name}"

    def _clear(self) -> None:
        """Remove everything below the folders that a queue starts with, and restore these."""
        tree = self._tree
        lists = [f"{tree.states}/{state}" for state in tree.entry_states]
        for folder in (
            tree.batches,
            f"{tree.own}/batches",
            f"{tree.own}/jobs",
            f"{tree.own}/requests",
            tree.takings,
            *tree.hold_folders,
            *lists,
        ):
            self._remove_below(folder)
        self._remove_below(tree.jobs, but="states")
        for portion in windows(list(self._entries())):
            self._sessions.base.ask(*map(remove, portion))
        self.queue.told.turn()
        self.queue.make_tree()

    def _remove_below(self, path: str, but: str = "") -> None:
        names = [f"{path}/{name}" for name in self._sessions.base.names(path) if name != but]
        for name in names:
            self._remove_below(name)
        for portion in windows(names):
            self._sessions.base.ask(*(remove(name) for name in portion))

    def _made_below(self, path: str) -> int:
        """How many nodes were ever created below it: the next numbered one gets this number."""
        stat = self._sessions.base.ask(look(path))[0]
        # ZooKeeper counts nodes that are created and removed in one change.
        return 0 if stat is None else (int(stat.cversion) + int(stat.numChildren)) // 2

    def _pass_numbers(self, kind: str, last: int) -> int:
        """Make the next number follow the last one; returns the new offset from ZooKeeper's own numbers.

        A number can only be skipped by creating a node. If there are too many to skip, the offset is raised.
        """
        path, base = self._numbered[kind], self._number_base.get(kind, 0)
        left = last + 1 - base - self._made_below(path)
        if left > MOST_PASSED:
            return last
        while left > 0:
            count = min(left, NUMBERS)
            self._write([each for _ in range(count) for each in (Op("make", f"{path}/-"), Op("remove", f"{path}/-"))])
            left -= count
        return base

    @property
    def _numbered(self) -> dict[str, str]:
        return {"bid": self._tree.batches, "jid": self._tree.jobs}


def _told(entry: Entry, batch: str) -> QueueRecord:
    job = entry.job if entry.job != batch else ""
    return QueueRecord(
        entry.event, entry.client, entry.before, entry.after, entry.reason, batch, job, entry.resource, entry.token,
        entry.spent, entry.at, entry.principal,
    )  # fmt: skip
