"""Taking, renewing and releasing items."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from headgate import chance
from headgate.calls.actor import log_override, must_own
from headgate.calls.deadlines import within
from headgate.core.errors import HeadgateError, ItemLost, StoreUnavailable
from headgate.core.ledger.model import Asker
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import ALL, Batch, IngestJob, Item, Place, Taken, is_batch
from headgate.stores.zookeeper.ensemble.asking import catch_up, look, read
from headgate.stores.zookeeper.ensemble.multi import first_error, multi
from headgate.stores.zookeeper.ensemble.session import Interrupted, ZkSession, ZkSessions
from headgate.stores.zookeeper.guarded import ChangePlan, new_mark
from headgate.stores.zookeeper.overdue import DueCalls
from headgate.stores.zookeeper.queue.changes import ChangeOps
from headgate.stores.zookeeper.queue.commits import Commits
from headgate.stores.zookeeper.queue.grabs import Grab, grab, rehouse
from headgate.stores.zookeeper.queue.leases import ItemLeases, KeptItem
from headgate.stores.zookeeper.queue.lists import HoldWatch, JobList, Lists, Wakes
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.reaping import Reaping
from headgate.stores.zookeeper.queue.records import (
    ItemNodes,
    ask_batch,
    ask_queued,
    owner_content,
    read_batch,
    read_queued,
)
from headgate.stores.zookeeper.queue.snapshots import LoadedItem, Snapshots
from headgate.stores.zookeeper.queue.tree import QueueTree, Unreadable, decode
from headgate.stores.zookeeper.repeats import check_keys
from headgate.telemetry import event

T = TypeVar("T")
Found = TypeVar("Found", Batch, IngestJob)

#: Number of items that are tried together, if other threads want some too.
SAMPLE = 4


class Taking:
    """Takes the items of one queue for this process."""

    def __init__(
        self, sessions: ZkSessions, tree: QueueTree, questions: ItemQuestions, commits: Commits, ops: ChangeOps,
        snapshots: Snapshots, leases: ItemLeases, reaping: Reaping,
    ) -> None:  # fmt: skip
        self._sessions = sessions
        self._reaping = reaping
        self._leases = leases
        self._tree = tree
        self._questions = questions
        self._commits = commits
        self._ops = ops
        self._snapshots = snapshots
        self._begin()

    def _begin(self) -> None:
        """Nothing is cached, and nothing is watched."""
        self._pid = os.getpid()
        self._lists = Lists(self._sessions, self._tree, self._questions)
        self._holds = HoldWatch(self._tree)
        self._kept: dict[str, KeptItem] = {}
        self._overdue = DueCalls()
        #: Another consumer was first, the last time.
        self._crowded = False

    @property
    def lists(self) -> Lists:
        """The items that can be taken. After a fork, taken and watched items belong to the parent."""
        if self._pid != os.getpid():
            self._begin()
        return self._lists

    # ------------------------------------------------------------------ taking

    def take_batch(self, state: str, asker: Asker, after: str | None) -> Batch | None:
        """The oldest free batch in that state, after the named one if any."""
        if not self._tree.rules.may_be_taken(self._tree.rules.batch, state):
            return None
        if (again := self._repeated(asker)) is not None:
            return replace(again.batch, hold=again.batch.profile)  # It may be on hold by now.
        return self._caught_up(asker, lambda session: self._find_batch(session, state, asker, after))

    def _caught_up(self, asker: Asker, find: Callable[[ZkSession], T | None]) -> T | None:
        """The first match; if there is none, once more after the session's server has caught up with the others."""
        with within(self._sessions.answer_within):
            session = self._sessions.base if asker.outlives else self._sessions.leasing(asker.lease)
            found = find(session)
            if found is None:
                session.ask(catch_up(self._tree.batches))
                found = find(session)
            return found

    def _find_batch(self, session: ZkSession, state: str, asker: Asker, after: str | None) -> Batch | None:
        wakes = self.lists.board.wakes
        changes = wakes.changes
        found = [each for each in self.lists.board.batches(state) if after is None or each > after]
        if state in self._tree.rules.after_jobs:  # Merritt's own consumers set it before the last job has ended.
            found = self._questions.without_running(found)
        blockers: list[str] = []
        while found:
            some, found = found[:SAMPLE], found[SAMPLE:]
            held, records = self._look(session, some)
            if self._tree.hold(ALL) in held:
                blockers = [self._tree.hold(ALL)]
                break
            free = [record for record in records if record.item.state == state and record.lock is None]
            blockers += self._blockers(wakes, records)
            for record in free:
                if kept := self._take(session, record, asker, blockers):
                    return self._with_hold(kept.batch, held)
        if after is None:  # Earlier entries were not checked.
            self._found_nothing(wakes, changes, blockers)
        return None

    def take_job(self, state: str, asker: Asker, after: Place | None) -> IngestJob | None:
        """The first free job in that state, after that position."""
        if not self._tree.rules.may_be_taken(self._tree.rules.job, state):
            return None
        if (again := self._repeated(asker)) is not None:
            return replace(again.job, hold=again.job.profile)
        return self._caught_up(asker, lambda session: self._find_job(session, state, asker, after))

    def _find_job(self, session: ZkSession, state: str, asker: Asker, after: Place | None) -> IngestJob | None:
        jobs = self.lists.jobs(state)
        changes = jobs.wakes.changes
        behind = f"{after.priority:02d}-{after.id}" if after else ""
        blockers: list[str] = []
        for names in self._samples(jobs, behind):
            held, records = self._look(session, names)
            if self._tree.hold(ALL) in held:
                jobs.put_back(names)
                blockers = [self._tree.hold(ALL)]
                break
            free = [
                each for each in records if each.item.state == state and each.lock is None and _name(each.job) in names
            ]
            blockers += self._blockers(jobs.wakes, records)
            record, untried = self._take_one(session, free, asker, blockers)
            jobs.put_back(_name(each.job) for each in untried)
            if record:
                return self._with_hold(record.job, held)
        self._found_nothing(jobs.wakes, changes, blockers)
        return None

    def _blockers(self, wakes: Wakes, records: Sequence[ItemNodes]) -> list[str]:
        """The locks of those that are taken. This process itself reports expired leases without a session."""
        for record in records:
            if record.left is not None:
                self._overdue.expect(f"wake {record.item.id}", time.monotonic() + record.left, wakes.notify)
        return [self._tree.lock(record.item.id) for record in records if record.lock is not None]

    def _samples(self, jobs: JobList, behind: str) -> Iterator[list[str]]:
        """A few names at a time, none twice, until even a new list has no others."""
        tried: set[str] = set()
        listed = False
        jobs.refresh()
        while True:
            names = jobs.choose(SAMPLE if self._crowded else 1, behind)
            if not names:
                if listed:
                    return
                listed = True
                jobs.refresh(all_of_it=True)
            new = [name for name in names if name not in tried]
            tried.update(new)
            if new:
                yield new

    def _take_one(
        self, session: ZkSession, free: Sequence[ItemNodes], asker: Asker, blockers: list[str]
    ) -> tuple[ItemNodes | None, list[ItemNodes]]:
        """The first; if another consumer was quicker, any of the others, so that not all try the same one again.

        Returns it, and those that were not tried.
        """
        left, tries = list(free), 0
        while left:
            record = left.pop(chance.below(len(left)) if tries else 0)
            tries += 1
            if kept := self._take(session, record, asker, blockers):
                self._crowded = tries > 1
                return kept, left
            self._crowded = True
        return None, left

    def _look(self, session: ZkSession, names: Sequence[str]) -> tuple[frozenset[str], list[ItemNodes]]:
        """The holds, and the current state of these batches or entries; unreadable ones are skipped."""
        tree = self._tree
        questions = [ask_batch(tree, each) if is_batch(each) else ask_queued(tree, each[3:]) for each in names]
        held, answers = self._holds.ask(session, [ask for some in questions for ask in some])
        found: list[ItemNodes] = []
        place = 0
        for name, some in zip(names, questions, strict=True):
            parse = read_batch if is_batch(name) else read_queued
            try:
                record = parse(tree, name, answers[place : place + len(some)])
            except Unreadable as error:
                event("queue.unreadable", item=name, why=str(error))
                record = None
            place += len(some)
            found += [record] if record else []
        return held, self._questions.judged(found, session)

    def _with_hold(self, item: Found, held: frozenset[str]) -> Found:
        return replace(item, hold=item.profile) if self._tree.hold(item.profile) in held else item

    def _take(self, session: ZkSession, record: ItemNodes, asker: Asker, blockers: list[str]) -> ItemNodes | None:
        """One multi, in which the new version of the status is the token. `blockers`: receives the locks of its object.

        A dead owner's item is reaped first, and skipped when that puts it on hold.
        """
        if record.died is not None:
            again = self._again(record) if self._reaping.reap(record) else None
            return self._take(session, again, asker, blockers) if again and again.died is None else None
        item, mark, sent = record.item, new_mark(), time.monotonic()
        seen = self._snapshots.plain(record)
        taken = queue_work.take(seen, item.state, asker.worker, asker.lease, item.token + 1).result
        wanted = grab(self._tree, self._ops, session, record, taken, asker, mark) if taken else ()
        if taken is None or not isinstance(wanted, Grab):
            blockers += () if isinstance(wanted, Grab) else wanted
            return None
        keys = self._commits.key_ops(item)
        parts = [*keys, *wanted.ops]
        try:
            results = session.change(multi(parts))[0]
        except Interrupted:
            if not self._is_marked(session, item.id, mark, taken.token):
                return None
        else:
            failed = None if isinstance(results, Exception) else first_error(results)
            check_keys(keys, None if failed is None else parts[failed])
            if failed is not None and parts[failed] is wanted.noted and not record.noted:
                # A worker died on it, which its entry in the queue does not show.
                again = self._again(record)
                return self._take(session, again, asker, blockers) if again and again.noted else None
            if isinstance(results, Exception) or failed is not None:
                return None
            self._commits.learn(results[-1].mtime)
        number = 0 if asker.outlives else session.id
        kept = replace(
            record, item=taken, version=record.version + 1, lock=number, owned=True, noted=True, mark=mark,
            locks=wanted.locks,
        )  # fmt: skip
        self._keep(item.id, KeptItem(kept, taken.token, session, number, asker.request_id, sent + asker.lease))
        return kept

    def _again(self, record: ItemNodes) -> ItemNodes | None:
        """The current item, if it is still in its state and free."""
        found = self._questions.find(record.item.id)
        return found if found and found.lock is None and found.item.state == record.item.state else None

    def _keep(self, item_id: str, kept: KeptItem) -> None:
        """Remember a taken or renewed item; forget it when it is not renewed in time."""
        self._kept[item_id] = kept
        self._overdue.expect(item_id, kept.until, lambda: self._let_go(item_id, kept))

    def _is_marked(self, session: ZkSession, item_id: str, mark: str, token: int) -> bool:
        """Whether a take whose answer was lost took effect, and its session is alive."""
        try:
            found: Any = session.ask(read(self._tree.owner(item_id)))[0]
            marked = not isinstance(found, Exception) and decode(found[0], "owner").get("mark") == mark
            if not marked:
                self._reaping.report_late(item_id, token)
        except StoreUnavailable:
            self._let_go_later(session, item_id, mark, token)
            raise
        return marked

    def _let_go_later(self, session: ZkSession, item_id: str, mark: str, token: int) -> None:
        """This session may have taken it without notice: release it once the server answers."""

        def work() -> None:
            try:
                record = self._questions.find(item_id)
                if record and record.mark == mark:
                    self.give_back(Taken(item_id, record.item.token, record.item.state), "")
                else:
                    self._reaping.report_late(item_id, token)
            except StoreUnavailable:
                self._let_go_later(session, item_id, mark, token)
            except HeadgateError:
                pass  # It no longer exists, or belongs to another.

        session.on_return(work)

    def _found_nothing(self, wakes: Wakes, changes: int, blockers: Sequence[str]) -> None:
        wakes.exhaust(changes)
        self.lists.watch(wakes, blockers)

    def _repeated(self, asker: Asker) -> ItemNodes | None:
        """The item that this request has taken already, and still holds."""
        if asker.fresh or self._pid != os.getpid():  # After a fork, taken items belong to the parent.
            return None
        for item_id, kept in list(self._kept.items()):
            if kept.request_id == asker.request_id:
                record = self._questions.find(item_id)
                if record and record.item.token == kept.token and record.lock == kept.number:
                    return record
        return None

    # ------------------------------------------------------------------ expired leases

    def _let_go(self, item_id: str, kept: KeptItem) -> None:
        """This process did not renew it in time, so it is released, unless another process renews it.

        Leases without a session are judged by the process that needs the item.
        """
        if not kept.number:
            self._kept.pop(item_id, None)
            return

        def run() -> None:
            present = self._kept.get(item_id)
            if present is None or (present.token, present.until) != (kept.token, kept.until) or kept.session.closed:
                return
            try:
                with within(self._sessions.answer_within):
                    self._end_lease(item_id, kept)
            except StoreUnavailable:  # Its session may have been lost meanwhile, and the item with it.
                kept.session.on_return(run)
            except HeadgateError:
                self.forget(item_id)

        threading.Thread(target=run, name="headgate-let-go", daemon=True).start()

    def _end_lease(self, item_id: str, kept: KeptItem) -> None:
        record = self._questions.find(item_id)
        if record is None or record.item.token != kept.token or record.lock != kept.number:
            self.forget(item_id)
            return
        left = self._leases.left(record)
        if left > 0:
            self._keep(item_id, replace(kept, until=time.monotonic() + left))
            return
        event("queue.lease_expired", item=item_id, token=kept.token)
        if self._reaping.end(record, kept.session):
            self._freed(record.item)
        self.forget(item_id)

    def _freed(self, item: Item) -> None:
        if isinstance(item, IngestJob):
            self.lists.jobs(item.state).put_back([_name(item)])
            self.lists.jobs(item.state).wakes.notify()

    def expire(self, limit: int) -> int:
        """Free items whose consumer died. Returns how many."""
        freed = list(self._reaping.expire(limit))
        for record in freed:
            self._freed(record.item)
        return len(freed)

    # ------------------------------------------------------------------ keeping

    def load(
        self, taken: Taken, event: str = "", *, remembered: bool = False, again: bool = False, newest: bool = False
    ) -> LoadedItem:
        """The item that a consumer names, with the facts that the rows of an event look at.

        `remembered`: from the time when this process took it, if nothing shows that it has changed since. `again`: an
        earlier attempt at the same may have taken effect. `newest`: after the server has caught up with the others.
        """
        kept = self._kept.get(taken.id)
        if kept and kept.token != taken.token:
            kept = None
        in_time, why = kept is not None and time.monotonic() < kept.until, ""
        if kept and kept.number and kept.session.id != kept.number:
            # Remembered permanently: another tool's lock, which rewrites nothing, must not be taken for ours.
            why = "its ZooKeeper session has ended"
        elif kept and kept.number and not in_time:
            why = "its lease expired"
        if kept and kept.record and remembered and in_time and not why:
            return self._snapshots.of(kept.record, event, remembered=True, again=again)
        if newest:
            self._questions.catch_up()
        record = self._questions.find(taken.id)
        if not why and kept and record and record.lock not in (None, kept.number):
            why = "another session has taken it"
        return self._snapshots.of(record, event, lost=why, again=again)

    def owned(self, taken: Taken) -> ItemNodes:
        """The current item, if it is taken with that token in that state; otherwise ItemLost."""
        loaded = self.load(taken)
        _, overrides = queue_work.owned(loaded.snapshot, taken)
        for each in overrides:
            log_override(each.what, each.owner)
        return loaded.found

    def session_of(self, item_id: str) -> ZkSession:
        """The session of a taken item, if it belongs to this process; otherwise the general session."""
        kept = self._kept.get(item_id)
        return kept.session if kept else self._sessions.base

    def distrust(self, item_id: str) -> None:
        """It may have changed since it was taken."""
        if kept := self._kept.get(item_id):
            self._kept[item_id] = replace(kept, record=None)

    def reported(self, item_id: str, moved: Item) -> None:
        """Its consumer has fired an event: this process no longer holds it, unless the table says so."""
        kept = self._kept.get(item_id)
        if kept and moved.lease is not None:
            self._keep(item_id, replace(kept, record=None, token=moved.token))
        else:
            self.forget(item_id)

    def forget(self, item_id: str) -> None:
        """This process no longer holds it."""
        self._kept.pop(item_id, None)
        self._overdue.drop(item_id)

    def close(self) -> None:
        """Release the items of this process's sessions: it ends cleanly."""
        kept = {} if self._pid != os.getpid() else {item: each for item, each in self._kept.items() if each.number}
        with suppress(HeadgateError), within(self._sessions.answer_within):
            for record in self._questions.records(kept) if kept and self._sessions.base.connected else ():
                with suppress(ItemLost):
                    self.give_back(Taken(record.item.id, kept[record.item.id].token, record.item.state), "")

    def renew(self, taken: Taken, lease: float) -> float:
        """Restart the lease of a living owner."""
        with within(self._sessions.answer_within):
            sent = time.monotonic()
            kept = self._kept.get(taken.id)
            if kept and kept.token == taken.token and not kept.number and sent < kept.until and kept.record:
                must_own(taken.id, kept.record.item.principal)
                if not self._leases.renew_in_one_trip(taken, lease, kept.record):
                    self._leases.renew(taken, lease, lambda: self.owned(taken))
            else:
                record = self.owned(taken)
                if kept is None or not kept.number:
                    self._leases.renew(taken, lease, lambda: self.owned(taken))
                elif record.item.lease != lease:
                    self._rehouse(taken, self._sessions.leasing(lease), lease, kept)
                    kept = self._kept[taken.id]
                elif kept.session.ask(look(self._tree.lock(taken.id)))[0] is None:
                    raise ItemLost(taken.id, taken.token, "its lock is gone")
            if kept and kept.token == taken.token:
                self._keep(taken.id, replace(kept, until=sent + lease))
            return lease

    def _rehouse(self, taken: Taken, session: ZkSession, lease: float, kept: KeptItem) -> None:
        """Another length needs another session."""
        sent = time.monotonic()
        mark = new_mark()

        def build() -> ChangePlan[None]:
            found = self._questions.find(taken.id)
            if found and found.mark == mark:
                return ChangePlan([], None)
            record = self.owned(taken)
            ops = rehouse(self._tree, self._ops, record, owner_content(record.item, lease, mark))
            return ChangePlan(ops, None, session=session)

        try:
            self._commits.run(build)
        except StoreUnavailable:
            self._let_go_later(session, taken.id, mark, taken.token)
            raise
        self._keep(taken.id, KeptItem(None, taken.token, session, session.id, kept.request_id, sent + lease))

    def give_back(self, taken: Taken, message: str) -> None:
        """The owner releases it. Its status is rewritten, so that the token is stale for good."""
        with within(self._sessions.answer_within), self._reaping.late(taken):
            self._give_back(taken, message)

    def _give_back(self, taken: Taken, message: str) -> None:
        sent = False

        def build() -> ChangePlan[Item]:
            nonlocal sent
            loaded = self.load(taken, remembered=not sent, again=sent)
            outcome = queue_work.give_back(loaded.snapshot, taken, message)
            sent = True
            return self._ops.plan(loaded, outcome, self.session_of(taken.id))

        item = self._commits.run(build)
        self.forget(taken.id)
        self._freed(item)


def _name(job: IngestJob) -> str:
    return f"{job.priority:02d}-{job.id}"
