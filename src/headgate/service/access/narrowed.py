"""A store as seen by a caller with a limited `read`: lists leave out the rest, and other names are unknown.

Everything that is not listed here is refused, so a new method of a port reveals nothing automatically.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.core.access.sights import Sight
from headgate.core.errors import NotAllowed, UnknownName
from headgate.core.filters import BatchFilter, JobFilter, LockFilter, RowFilter, SpanFilter
from headgate.core.history import Entry, Happened, HistoryFilter, hour_of
from headgate.core.incidents import Incident, IncidentFilter, OpenIncidents
from headgate.core.inventory import Message
from headgate.core.ledger.census import Span, Tally
from headgate.core.ledger.expectations.model import LATE, LateChunk, Lateness
from headgate.core.ledger.fan import ChunkLink, FanIn
from headgate.core.ledger.model import Dataset, Job, Recurrence, Row, failure_cursor
from headgate.core.ledger.verdicts import Plan, Verdict
from headgate.core.ledger.watches.model import Watcher
from headgate.core.locks.model import Lock, Mode, Waiter
from headgate.core.logs import Log, LogStream
from headgate.core.queue.model import ALL, Batch, Folder, Hold, IngestJob, is_batch
from headgate.stores.ports.expectations import ExpectationStore
from headgate.stores.ports.history import HistoryBook, MergedHistory
from headgate.stores.ports.incidents import IncidentStore
from headgate.stores.ports.inventory import InventoryStore
from headgate.stores.ports.ledger import LedgerStore
from headgate.stores.ports.locks import LockStore
from headgate.stores.ports.news import Listening
from headgate.stores.ports.queue import QueueStore
from headgate.stores.ports.watches import WatchStore
from headgate.stores.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.stores.ports.history import HistoryKeeper, HistorySource

T = TypeVar("T")
#: Number of entries that are requested at once, and the maximum number scanned for one answer.
PORTION, MOST_LOOKED_AT = 1000, 100_000
#: Number of items that are counted by state.
MOST_COUNTED = 1000
#: The reason of a late chunk, for a caller that must not see its origin.
UPSTREAM = "something that it is made from is missing"


class _Narrowed:
    """Refuses every method of its port that is not defined."""

    port: type

    def __getattr__(self, name: str) -> Any:
        if name in dir(self.port):
            raise _refusal()
        raise AttributeError(name)


def _refusal() -> NotAllowed:
    why = "an API token whose scope `read` is limited cannot request this; it needs the unlimited scope read"
    return NotAllowed(why, "read")


class NarrowedStore:
    """The root of a store, with the parts visible to such a caller."""

    tokens, sessions, repeats, epochs, outages, keeper, logs = None, None, None, None, None, None, None

    def __init__(self, store: Store, sight: Sight) -> None:
        self._store = store
        self.name, self.tag, self.side_by_side = store.name, store.tag, store.side_by_side
        self.locks = NarrowedLocks(store.locks, sight)
        self.queue = NarrowedQueue(store.queue, sight)
        self.history = MergedHistory(*(NarrowedBook(book, sight) for book in store.history.books))
        self.ledger = None if store.ledger is None else NarrowedLedger(store.ledger, sight)
        self.inventory = None if store.inventory is None else NarrowedInventory(store.inventory, sight)
        self.watches = None if store.watches is None else NarrowedWatches(store.watches, sight)
        several = len(store.parts) > 1
        self.parts: Sequence[Store] = [NarrowedStore(each, sight) for each in store.parts] if several else (self,)

    def keep_history_in(self, keeper: HistoryKeeper) -> None:
        """Refuse to."""
        del keeper
        raise _refusal()

    def history_sources(self) -> Sequence[HistorySource]:
        """Return nothing."""
        return ()

    def files(self) -> Sequence[Path]:
        """Return nothing."""
        return ()

    def notices(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    def ping(self) -> None:
        """Send the shortest possible query."""
        self._store.ping()

    def close(self) -> None:
        """Leave the store open for others."""


class NarrowedLocks(_Narrowed):
    """Locks on visible resources."""

    port = LockStore

    def __init__(self, store: LockStore, sight: Sight) -> None:
        self._store, self._sight = store, sight
        self.name, self.tag, self.rules = store.name, store.tag, store.rules

    def get(self, lock_id: str) -> Lock:
        return _one("lock", lock_id, self._store.get, lambda lock: self._sight.resource(lock.resource))

    def list(self, which: LockFilter) -> Sequence[Lock]:
        if which.resource is not None and not self._sight.resource(which.resource):
            return []

        def ask(after: Lock | None) -> Sequence[Lock]:
            return self._store.list(replace(which, after=which.after if after is None else after.id, limit=PORTION))

        return _filled(ask, lambda lock: self._sight.resource(lock.resource), which.limit)

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        return [each for each in self._store.summary() if self._sight.resource(each[0])]

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        return [each for each in self._store.waiters(resource) if self._sight.resource(each.resource)]

    def resources(self) -> Sequence[str]:
        return [each for each in self._store.resources() if self._sight.resource(each)]


class NarrowedWatches(_Narrowed):
    """The watchers of visible datasets."""

    port = WatchStore

    def __init__(self, store: WatchStore, sight: Sight) -> None:
        self._store, self._sight = store, sight
        self.name = store.name

    def watchers(self) -> Sequence[Watcher]:
        return [each for each in self._store.watchers() if self._sight.dataset(each.dataset)]


class NarrowedLedger(_Narrowed):
    """Visible datasets, their chunks, and jobs that use no others."""

    port = LedgerStore

    def __init__(self, store: LedgerStore, sight: Sight) -> None:
        self._store, self._sight = store, sight
        self.all_incidents = store.incidents
        self.name = store.name

    @property
    def incidents(self) -> NarrowedIncidents:
        return NarrowedIncidents(self, self._sight)

    @property
    def expectations(self) -> NarrowedExpectations:
        return NarrowedExpectations(self._store.expectations, self._sight)

    def datasets(self) -> Sequence[Dataset]:
        return [each for each in self._store.datasets() if self._sight.dataset(each.name)]

    def jobs(self) -> Sequence[Job]:
        return [each for each in self._store.jobs() if self._sight.job(each)]

    def job(self, job: str) -> tuple[Job, Sequence[Dataset]]:
        return _one("job", job, self._store.job, lambda found: self._sight.job(found[0]))

    def rows(self, which: RowFilter) -> Sequence[Row]:
        """Return visible rows; for a missing job none, just as for an invisible one."""
        with suppress(UnknownName):
            return self._rows(which)
        return []

    def _rows(self, which: RowFilter) -> Sequence[Row]:
        if which.job is not None and which.job in self._sight.jobs:
            return self._store.rows(which)
        if which.dataset is not None:
            return self._store.rows(which) if self._sight.dataset(which.dataset) else []
        names = [each.name for each in self.datasets()]
        found = (row for name in names for row in self._store.rows(replace(which, dataset=name)))
        return [row for row, _ in zip(found, range(which.limit or MOST_LOOKED_AT), strict=False)]

    def failures(self, limit: int, after: str | None = None) -> Sequence[Row]:
        found: list[Row] = []
        while len(found) < limit:
            portion = self._store.failures(PORTION, after)
            found += [row for row in portion if self._sight.dataset(row.dataset)]
            if len(portion) < PORTION:
                break
            after = failure_cursor(portion[-1])
        return found[:limit]

    def standing(self) -> Sequence[Tally]:
        return [each for each in self._store.standing() if self._sight.dataset(each.dataset)]

    def tallies(self, most: int) -> Sequence[Tally]:
        return [each for each in self._store.tallies(most) if self._sight.dataset(each.dataset)]

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        if not self._sight.dataset(which.dataset):
            raise UnknownName("dataset", which.dataset)
        return self._store.spans(replace(which, beside=tuple(filter(self._sight.dataset, which.beside))))

    def running(self) -> Sequence[Lock]:
        return [each for each in self._store.running() if self._sight.resource(each.resource)]

    def explain(self, job: str, dataid: str) -> Verdict:
        self.job(job)
        return self._store.explain(job, dataid)

    def logs(self, job: str, dataid: str, attempt: int | None, stream: LogStream | None, limit: int) -> Sequence[Log]:
        self.job(job)
        return self._store.logs(job, dataid, attempt, stream, limit)

    def plan(self, job: str, limit: int) -> Plan:
        self.job(job)
        return self._store.plan(job, limit)

    def fan_in(self, job: str, dataids: Sequence[str], most: int) -> Sequence[FanIn]:
        self.job(job)
        return [each for each in self._store.fan_in(job, dataids, most) if self._sight.dataset(each.dataset)]

    def readers(self, dataset: str, dataid: str, most: int) -> Sequence[ChunkLink]:
        if not self._sight.dataset(dataset):
            raise UnknownName("dataset", dataset)
        return [each for each in self._store.readers(dataset, dataid, most) if self._sight.dataset(each.dataset)]

    def recurrences(self) -> Sequence[Recurrence]:
        seen = {job.name for job in self.jobs()}
        return [each for each in self._store.recurrences() if each.job in seen]

    def left(self, job: str, most: int) -> int:
        self.job(job)
        return self._store.left(job, most)

    def listen(self, job: str, wake: Callable[[], None]) -> Listening:
        self.job(job)
        return self._store.listen(job, wake)


class NarrowedIncidents(_Narrowed):
    """Incidents of visible jobs."""

    port = IncidentStore

    def __init__(self, ledger: NarrowedLedger, sight: Sight) -> None:
        self._store, self._ledger, self._sight = ledger.all_incidents, ledger, sight
        self.name = ledger.name

    def get(self, number: int) -> Incident:
        names = self._names()
        return _one(
            "incident",
            str(number),
            lambda _: _without_reason(self._store.get(number), names),
            lambda each: self._sees(each, names),
        )

    def list(self, which: IncidentFilter) -> Sequence[Incident]:
        names = self._names()

        def ask(after: Incident | None) -> Sequence[Incident]:
            return self._store.list(replace(which, before=which.before if after is None else after.id, limit=PORTION))

        if which.job is not None and which.job not in names:
            return []
        found = _filled(ask, lambda each: self._sees(each, names), which.limit)
        return [_without_reason(each, names) for each in found]

    def count(self) -> OpenIncidents:
        found = self.list(IncidentFilter(limit=MOST_COUNTED))
        return OpenIncidents(Counter(each.kind for each in found), min((each.since for each in found), default=None))

    def _sees(self, incident: Incident, names: set[str]) -> bool:
        if incident.kind == LATE:
            return self._sight.dataset(incident.subject.partition("/")[0])
        return incident.job in names

    def _names(self) -> set[str]:
        return {job.name for job in self._ledger.jobs()}


def _without_reason(incident: Incident, jobs: set[str]) -> Incident:
    """The reason why a chunk is late may name things that the caller must not see, even if its job is visible."""
    if incident.kind != LATE:
        return incident
    job = incident.job if incident.job in jobs else ""
    return replace(incident, message=incident.message.partition(": ")[0], job=job)


class NarrowedExpectations(_Narrowed):
    """Late chunks of visible datasets, with reasons that name only such datasets."""

    port = ExpectationStore

    def __init__(self, store: ExpectationStore, sight: Sight) -> None:
        self._store, self._sight = store, sight
        self.name = store.name

    def late(self, dataset: str | None, after: int | None, limit: int) -> Sequence[LateChunk]:
        def ask(last: LateChunk | None) -> Sequence[LateChunk]:
            return self._store.late(dataset, after if last is None else last.id, PORTION)

        found = _filled(ask, lambda each: self._sight.dataset(each.dataset), limit)
        return [each if self._shows(each.cause) else replace(each, reason=UPSTREAM, cause="") for each in found]

    def _shows(self, subject: str) -> bool:
        return self._sight.dataset(subject.partition("/")[0])

    def lateness(self) -> Sequence[Lateness]:
        return [each for each in self._store.lateness() if self._sight.dataset(each.dataset)]


class NarrowedQueue(_Narrowed):
    """Batches and ingest jobs of visible profiles."""

    port = QueueStore

    def __init__(self, store: QueueStore, sight: Sight) -> None:
        self._store, self._sight = store, sight
        self.name, self.batch_table, self.job_table = store.name, store.batch_table, store.job_table

    def holds(self) -> Sequence[Hold]:
        return [each for each in self._store.holds() if each.profile == ALL or self._sight.profile(each.profile)]

    def batch(self, batch_id: str) -> Batch:
        return _one("batch", batch_id, self._store.batch, lambda batch: self._sight.profile(batch.submission.profile))

    def job(self, job_id: str) -> IngestJob:
        return _one("ingest job", job_id, self._store.job, lambda job: self._sight.profile(job.profile))

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        def ask(after: Batch | None) -> Sequence[Batch]:
            return self._store.batches(replace(which, after=which.after if after is None else after.id, limit=PORTION))

        return _filled(ask, lambda batch: self._sight.profile(batch.submission.profile), which.limit)

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        def ask(after: IngestJob | None) -> Sequence[IngestJob]:
            return self._store.jobs(replace(which, after=which.after if after is None else after.id, limit=PORTION))

        return _filled(ask, lambda job: self._sight.profile(job.profile), which.limit)

    def listen_to(self, item_id: str, wake: Callable[[], None]) -> Listening:
        self.batch(item_id) if is_batch(item_id) else self.job(item_id)
        return self._store.listen_to(item_id, wake)

    def job_ids(self, batch_id: str, folder: Folder) -> Sequence[str]:
        self.batch(batch_id)
        return self._store.job_ids(batch_id, folder)

    def object_blockers(self, job_id: str) -> Sequence[str]:
        self.job(job_id)
        return self._store.object_blockers(job_id)

    def foreign(self) -> Mapping[str, Mapping[str, int]]:
        """Nothing: it belongs to no visible profile."""
        return {}

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of items in each state, among those that are counted."""
        return {
            "batch": Counter(each.state for each in self.batches(BatchFilter(limit=MOST_COUNTED))),
            "ingest job": Counter(each.state for each in self.jobs(JobFilter(limit=MOST_COUNTED))),
        }


class NarrowedInventory(_Narrowed):
    """No stored objects and no messages: neither has its own namespace."""

    port = InventoryStore

    def __init__(self, store: InventoryStore, sight: Sight) -> None:
        self.name = store.name
        del sight

    def messages(self, *which: Any, **more: Any) -> Sequence[Message]:
        """Return none, so that the first page can be shown."""
        del which, more
        return ()


def _one(noun: str, name: str, ask: Callable[[str], T], admits: Callable[[T], bool]) -> T:
    """Return the thing with this name, if the caller may see it. Otherwise raise UnknownName, without similar names."""
    with suppress(UnknownName):
        found = ask(name)
        if admits(found):
            return found
    raise UnknownName(noun, name)


class NarrowedBook(_Narrowed):
    """Visible entries."""

    port = HistoryBook

    def __init__(self, book: HistoryBook, sight: Sight) -> None:
        self._book, self._sight = book, sight

    def read(self, which: HistoryFilter) -> Sequence[Entry]:
        def older(last: Entry | None) -> Sequence[Entry]:
            before = which.before if last is None else last.place
            return self._book.read(replace(which, before=before, limit=PORTION))

        with suppress(UnknownName):  # The answer is the same as for a job without history.
            return _filled(older, self._sight.entry, which.limit)
        return []

    def count(self, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        counts: Counter[tuple[str, str, int]] = Counter()
        for entry in self.read(HistoryFilter(since=since, limit=MOST_LOOKED_AT)):
            if entry.event in events:
                counts[entry.noun, entry.event, hour_of(entry.at)] += entry.count
        return [Happened(*key, count) for key, count in counts.items()]


def _filled(ask: Callable[[T | None], Sequence[T]], admits: Callable[[T], bool], limit: int | None) -> list[T]:
    """As many visible items as requested. `ask` returns the items after the last one."""
    found: list[T] = []
    for each in _all(ask):
        if admits(each):
            found.append(each)
            if limit is not None and len(found) >= limit:
                break
    return found


def _all(ask: Callable[[T | None], Sequence[T]]) -> Iterator[T]:
    last: T | None = None
    for _ in range(MOST_LOOKED_AT // PORTION):
        portion = ask(last)
        yield from portion
        if len(portion) < PORTION:
            return
        last = portion[-1]
