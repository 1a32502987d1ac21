"""Queries about the queue: items, lists, counts, holds. None of them writes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from headgate.core.errors import ForeignStore, UnknownName
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.queue.model import Batch, Folder, Hold, IngestJob, Item, folder_of, is_batch
from headgate.core.queue.rules import cleanable
from headgate.core.tables.machine import Machine
from headgate.stores.zookeeper.ensemble.asking import catch_up, look, read
from headgate.stores.zookeeper.ensemble.clock import Clock
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions, windows
from headgate.stores.zookeeper.queue.records import ItemNodes, answers_of, as_cleaned, judged, read_item
from headgate.stores.zookeeper.queue.reports import StatusReports
from headgate.stores.zookeeper.queue.tree import QueueTree, Unreadable, decode, is_item, is_numbered, read_entry
from headgate.telemetry import event

#: Number of items that are read in one trip.
WINDOW = 60
#: An item by its id and the answers about it.
Parse = Callable[[str, Sequence[Any]], "ItemNodes | None"]


class ItemQuestions:
    """Reads the queue of one store."""

    def __init__(self, sessions: ZkSessions, tree: QueueTree, clock: Clock) -> None:
        self._sessions = sessions
        self._tree = tree
        self._clock = clock
        self._reports = StatusReports(sessions, tree)

    # ------------------------------------------------------------------ items

    def catch_up(self) -> None:
        """Reads see everything that others have seen, whichever servers they are connected to."""
        self._sessions.base.send(catch_up(self._tree.own))

    def find(self, item_id: str) -> ItemNodes | None:
        """An item; None: it does not exist, or is being removed. ForeignStore if its nodes cannot be read."""
        try:
            found = self._read([item_id], self._one)
        except Unreadable as error:
            raise ForeignStore(
                f"{self._tree.item(item_id)} has unreadable content: {error}. Run: headgate doctor"
            ) from None
        return found[0] if found else None

    def get(self, item_id: str) -> ItemNodes:
        """An item, or UnknownName."""
        found = self.find(item_id)
        if found is None:
            raise UnknownName(self.table(item_id).name, item_id)
        return found

    def table(self, item_id: str) -> Machine:
        """The table of an item."""
        return self._tree.rules.machine(item_id)

    def records(self, ids: Iterable[str], *, judge: bool = True) -> Iterator[ItemNodes]:
        """Items in the same order; unreadable and missing ones are left out."""
        for portion in windows(list(ids), WINDOW):
            yield from self._read(portion, self._tolerant, judge=judge)

    def owned(self) -> list[str]:
        """The items that our workers have taken."""
        return self.item_ids(self._tree.owners)

    def noted(self) -> list[str]:
        """The items that our workers have taken, or died on."""
        return self.item_ids(self._tree.takings)

    def _read(self, ids: Sequence[str], parse: Parse, *, judge: bool = True) -> list[ItemNodes]:
        found: list[ItemNodes] = []
        for item_id, answers in answers_of(self._sessions.base, self._tree, ids):
            record = parse(item_id, answers)
            if record is not None and record.item.state not in self.table(item_id).ends:
                found.append(record)
        return self._with_cleaned(self.judged(found, self._sessions.base) if judge else found)

    def judged(self, records: Sequence[ItemNodes], session: ZkSession) -> list[ItemNodes]:
        """The same; items that were taken through a service are free once their lease has expired."""
        doubtful = [each for each in records if each.lock == 0]
        if not doubtful:
            return list(records)
        now, owners = self._clock.ask(session, [read(self._tree.owner(each.item.id)) for each in doubtful])
        found = {each.item.id: judged(each, owner, now) for each, owner in zip(doubtful, owners, strict=True)}
        return [found.get(each.item.id, each) for each in records]

    def _with_cleaned(self, records: Sequence[ItemNodes]) -> list[ItemNodes]:
        """Jobs without an entry in the queue are cleaned, if their state leads to that."""
        tree, after = self._tree, {source: target for target, source in self._tree.rules.cleaned.items()}
        done = [each.job for each in records if not is_batch(each.item.id) and each.item.state in after]
        looks = self._sessions.base.ask(*(look(tree.entry(job.state, job.priority, job.id)) for job in done))
        gone = {job.id for job, stat in zip(done, looks, strict=True) if stat is None}
        return [as_cleaned(each, after[each.item.state]) if each.item.id in gone else each for each in records]

    def _one(self, item_id: str, answers: Sequence[Any]) -> ItemNodes | None:
        record = read_item(self._tree, item_id, answers)
        return self._reports.whole(record) if record and is_batch(item_id) else record

    def _tolerant(self, item_id: str, answers: Sequence[Any]) -> ItemNodes | None:
        try:
            return self._one(item_id, answers)
        except Unreadable as error:
            event("queue.unreadable", item=item_id, why=str(error))
            return None

    # ------------------------------------------------------------------ lists

    def names(self, path: str) -> list[str]:
        """The children of a node, sorted; empty if there is no such node."""
        return sorted(self._sessions.base.names(path))

    def item_ids(self, path: str) -> list[str]:
        """The batches or jobs below a node."""
        return [name for name in self.names(path) if is_item(name)]

    def batches(self, which: BatchFilter) -> list[Batch]:
        """Batches, by id."""
        self.catch_up()
        wanted = (which.state, which.profile, which.submitter)
        found = (
            record.batch
            for record in self.records(_behind(self.item_ids(self._tree.batches), which.after))
            if _fits(wanted, (record.item.state, record.item.profile, record.batch.submission.submitter))
            and (record.lock is not None or not which.taken)
        )
        return _first(found, which.limit)

    def jobs(self, which: JobFilter) -> list[IngestJob]:
        """Ingest jobs, by id."""
        self.catch_up()
        wanted = (which.state, which.batch, which.profile)
        found = (
            record.job
            for record in self.records(_behind(self._job_ids(which), which.after))
            if _fits(wanted, (record.item.state, record.job.batch, record.item.profile))
            and (record.lock is not None or not which.taken)
        )
        return _first(found, which.limit)

    def _job_ids(self, which: JobFilter) -> list[str]:
        """Possible matches, from the shortest list that contains them all."""
        if which.batch is not None:
            folders = self._tree.folders if which.state is None else (folder_of(which.state),)
            return sorted({job for folder in folders for job in self.refs(which.batch, folder)})
        if which.state in self._tree.entry_states:
            return sorted({job for _, job in self.entries(which.state)})
        return self.item_ids(self._tree.jobs)

    def first_free(self, machine: Machine, state: str) -> Item | None:
        """The item in a state that would be taken next; None: there is none."""
        if machine.name == self._tree.rules.job.name:
            ids = [job for _, job in self.entries(state)]
        else:
            states = self.batch_states(self.item_ids(self._tree.batches))
            ids = [each for each, found in states.items() if found == state]
        free = (each.item for each in self.records(ids) if each.lock is None and each.item.state == state)
        return next(free, None)

    def refs(self, batch_id: str, folder: Folder) -> list[str]:
        """The jobs in one of a batch's folders."""
        return self.item_ids(self._tree.folder(batch_id, folder))

    def entries(self, state: str) -> list[tuple[int, str]]:
        """Priority and id of the jobs in one state, in their order."""
        return [entry for name in self.names(f"{self._tree.states}/{state}") if (entry := read_entry(name))]

    def counts(self) -> dict[str, dict[str, int]]:
        """Number of items in each state that has any."""
        self.catch_up()
        tree = self._tree
        batches = Counter(self.batch_states(self.item_ids(tree.batches)).values())
        ends = (*tree.rules.batch.ends, "")
        paths = [tree.jobs, *(f"{tree.states}/{state}" for state in tree.entry_states)]
        total, *queued = (stat.numChildren if stat else 0 for stat in self._sessions.base.ask(*map(look, paths)))
        # Beside the jobs there is the folder of states.
        left = dict.fromkeys(tree.rules.cleaned, max(total - 1 - sum(queued), 0))
        jobs = {**dict(zip(tree.entry_states, queued, strict=True)), **left}
        return {
            tree.rules.batch.name: {state: count for state, count in batches.items() if state not in ends},
            tree.rules.job.name: {state: count for state, count in jobs.items() if count},
        }

    def batch_states(self, ids: Sequence[str]) -> dict[str, str]:
        """The state of each of these batches; empty: unreadable."""
        found: dict[str, str] = {}
        for portion in windows(ids):
            answers = self._sessions.base.ask(*(read(self._tree.status(each)) for each in portion))
            for batch_id, answer in zip(portion, answers, strict=True):
                found[batch_id] = "" if isinstance(answer, Exception) else self.batch_state(answer[0])
        return found

    def batch_state(self, status: bytes) -> str:
        """The state in a batch's status; empty: unreadable."""
        try:
            return self._tree.state(decode(status, "status").get("status"), self._tree.rules.batch)
        except Unreadable:
            return ""

    def reportable(self, limit: int) -> list[str]:
        """Batches that are processing, without a job in processing."""
        self.catch_up()
        states = self.batch_states(self.item_ids(self._tree.batches))
        running = [batch for batch, state in states.items() if state in self._tree.rules.reportable]
        return self.without_running(running)[:limit]

    def without_running(self, batches: Sequence[str]) -> list[str]:
        """Those of these batches that have no job in processing."""
        paths = [self._tree.folder(batch, Folder.PROCESSING) for batch in batches]
        stats = [stat for portion in windows(paths) for stat in self._sessions.base.ask(*map(look, portion))]
        return [batch for batch, stat in zip(batches, stats, strict=True) if stat is None or not stat.numChildren]

    def cleanable(self, machine: Machine, until: datetime, limit: int) -> list[str]:
        """Items for which `clean` has a row, and that have been in their state since then."""
        self.catch_up()
        states = cleanable(machine)
        if machine.name == self._tree.rules.batch.name:
            found = self.batch_states(self.item_ids(self._tree.batches))
            ids = [batch for batch, state in found.items() if state in states]
        else:
            ids = sorted(job for state in states for _, job in self.entries(state))
        old = (each.item.id for each in self.records(ids) if each.item.state in states and each.item.since <= until)
        return _first(old, limit)

    def foreign(self) -> dict[str, dict[str, int]]:
        """Other programs' entries beside the queue: the children of each of their folders, by their status."""
        found: dict[str, dict[str, int]] = {}
        for root in self._tree.foreign:
            top = self._tree.foreign_path(root)
            for folder in (top, *(f"{top}/{name}" for name in self.names(top) if not is_numbered(name))):
                items = [f"{folder}/{name}" for name in self.names(folder) if is_numbered(name)]
                if items or folder != top:
                    found[f"{root}{folder.removeprefix(top)}"] = dict(Counter(self._words(items)))
        return found

    def _words(self, items: Sequence[str]) -> Iterator[str]:
        for portion in windows(items):
            for answer in self._sessions.base.ask(*(read(f"{each}/status") for each in portion)):
                try:
                    content = {} if isinstance(answer, Exception) else decode(answer[0], "status")
                except Unreadable:
                    content = {}
                yield str(content.get("status") or "unknown")

    # ------------------------------------------------------------------ holds

    def hold(self, profile: str) -> Hold | None:
        """The hold of a collection, or of the whole queue; None: it is not held."""
        note = self._tree.hold_note(profile)
        found, *notes = self._sessions.base.ask(read(self._tree.hold(profile)), *([read(note)] if note else []))
        if isinstance(found, Exception):
            return None
        # A record of a hold that another program has cleared and set again does not apply to the new one.
        said = [each for each in notes if not isinstance(each, Exception) and each[1].czxid == found[1].czxid]
        return self._hold(profile, (said or [found])[0][0])

    def holds(self) -> list[Hold]:
        """All of them, by profile."""
        self.catch_up()
        names = {path: self.names(path) for path in self._tree.hold_folders}
        profiles = sorted(set(self._tree.held_profiles(names)))
        return [hold for hold in map(self.hold, profiles) if hold]

    def _hold(self, profile: str, data: bytes | None) -> Hold:
        """Another tool's hold has no content, but it still holds."""
        try:
            content = decode(data, "hold")
            since = self._tree.read_time(content["since"])
        except (Unreadable, KeyError):
            return Hold(profile, "", "")
        name = str(content.get("profile", profile))
        return Hold(name, str(content.get("reason", "")), str(content.get("who", "")), since)


def ago(now: datetime, seconds: float) -> datetime:
    """The time that long before now, slightly later, because nodes store whole milliseconds or seconds."""
    return now - timedelta(seconds=seconds) + timedelta(milliseconds=1)


def _behind(ids: list[str], after: str | None) -> list[str]:
    return ids if after is None else ids[bisect_right(ids, after) :]


def _fits(wanted: Sequence[str | None], found: Sequence[str]) -> bool:
    return all(want is None or want == has for want, has in zip(wanted, found, strict=True))


def _first(found: Iterable[object], limit: int | None) -> list:  # type: ignore[type-arg]
    from itertools import islice

    return list(islice(found, limit))
