"""The metrics for Prometheus: requests, events of the store, and its current content."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from headgate import telemetry
from headgate.core.alarms import KINDS_OF_ALARM
from headgate.core.counts import MEANINGS
from headgate.core.history import Entry
from headgate.core.inventory import Delivery
from headgate.core.queue.model import FAILED, HELD, work_states
from headgate.gate import Gate
from headgate.http.waiters.following import Follower

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
#: Buckets in seconds: for requests from fast to slow, and for holds from short to days.
QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LONG = (0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400)
#: Maximum number of undelivered messages that are counted.
MOST_MESSAGES = 1000
#: Number of beginnings that are remembered until their ends arrive.
MOST_BEGUN = 10_000


@dataclass(frozen=True, slots=True)
class Series:
    """One metric."""

    name: str
    kind: type[Counter | Gauge | Histogram]
    #: One sentence.
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = QUICK

    @property
    def shown(self) -> str:
        """In the format of Prometheus."""
        return self.name + "_total" if self.kind is Counter else self.name


KNOWN = (
    Series("headgate_http_requests", Counter, "Requests, by route and status.", ("method", "route", "status")),
    Series("headgate_http_seconds", Histogram, "Duration of requests, without those that wait.", ("method", "route")),
    Series("headgate_http_waiting", Gauge, "Requests that wait for a lock, a chunk or an item."),
    Series("headgate_http_streams", Gauge, "Open event streams."),
    Series("headgate_store_seconds", Histogram, "Duration of one transaction of this process in the store."),
    Series("headgate_events", Counter, "Events in the store since this process started, by any client: grants, "
          "refusals, claims, successes, failures (`fail`), interruptions (`interrupt`), "
          "expired leases (`expire`, `reap`).", ("noun", "event")),
    Series("headgate_state_seconds", Histogram, "How long locks, chunks, batches and ingest jobs had been in the state "
          "that they left.", ("noun", "state"), LONG),
    Series("headgate_locks_held", Gauge, "Locks that are held.", ("mode",)),
    Series("headgate_locks_waited", Gauge, "Waiters in the queues for locks."),
    Series("headgate_locks_oldest_waiter_seconds", Gauge, "How long the first waiter has waited; 0: there is none."),
    Series("headgate_claims", Gauge, MEANINGS["chunks_running"].meaning),
    Series("headgate_chunks_failed", Gauge, MEANINGS["chunks_failed"].meaning),
    Series("headgate_incidents_open", Gauge, "Open incidents.", ("kind",)),
    Series("headgate_incidents_oldest_seconds", Gauge, "How long the oldest open incident has been open; 0: none is."),
    Series("headgate_late_chunks", Gauge, "Chunks that were not READY in time, and still are not.", ("dataset",)),
    Series("headgate_late_oldest_seconds", Gauge,
           "For how long the oldest late chunk has been late; 0: none is.", ("dataset",)),
    Series("headgate_lateness_behind_seconds", Gauge,
           "How long ago the oldest chunk was due that was not judged yet; 0: the timekeeper is on time."),
    Series("headgate_alarms", Gauge, "Stuck work that waits for an operator, as in `GET /v1/alarms`.", ("kind",)),
    Series("headgate_messages_given_up", Gauge,
          "Mails and callbacks that were given up, until they are resent or discarded (1,000: or more)."),
    Series("headgate_counts", Gauge, "Every count of `/v1/counts`, by its name.", ("count",)),
    Series("headgate_queue_items", Gauge, "Batches and ingest jobs.", ("noun", "state")),
    Series("headgate_queue_oldest_seconds", Gauge,
          "How long the oldest ingest job has been in a state that needs an operator.", ("state",)),
    Series("headgate_logs_overdue_seconds", Gauge,
          "How overdue the removal of the oldest log of an attempt is (`log_keep_for`); 0: none is."),
    Series("headgate_recur_seconds", Gauge,
          "How long after it is DONE a job processes a chunk again (`recur`).", ("ledger_job",)),
    Series("headgate_recur_oldest_seconds", Gauge,
          "The age of such a job's oldest DONE chunk; 0: none is DONE.",
          ("ledger_job",)),
    Series("headgate_watcher_looked_seconds", Gauge,
          "How long ago the watcher of a dataset last polled for files.", ("dataset",)),
    Series("headgate_watcher_file_seconds", Gauge,
          "How long ago a new file last arrived for a watched dataset.", ("dataset",)),
    Series("headgate_watcher_files_waiting", Gauge,
          "Files of a watched dataset that do not count yet.", ("dataset",)),
    Series("headgate_history_overdue_seconds", Gauge,
          "How overdue the removal of the oldest history entry is (`history_keep`); 0: none is."),
)  # fmt: skip


class Metrics:
    """Of one service."""

    def __init__(self, gate: Callable[[], Gate]) -> None:
        self._gate = gate
        self._registry = CollectorRegistry()
        made = {known.name: self._make(known) for known in KNOWN if not _is_of_store(known)}
        self._requests, self._seconds = (
            cache(made["headgate_http_requests"].labels),
            cache(made["headgate_http_seconds"].labels),
        )
        self.waiting, self.streams = made["headgate_http_waiting"], made["headgate_http_streams"]
        self._events, self._states = made["headgate_events"], made["headgate_state_seconds"]
        self._registry.register(self)
        self._begun: OrderedDict[tuple[str, ...], datetime] = OrderedDict()
        self._follower = Follower(gate)
        self._following = threading.Lock()
        telemetry.on_store_call(made["headgate_store_seconds"].observe)

    def count_request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request was answered, after this long; None: it waited."""
        known = method if method in METHODS else "other"  # Callers may send any word: each would be kept forever.
        self._requests(known, route, status).inc()
        if seconds is not None:
            self._seconds(known, route).observe(seconds)

    def page(self) -> bytes:
        """All metrics as text."""
        return generate_latest(self._registry)

    def follow(self) -> None:
        """Count the events since the last time."""
        with self._following:
            for entry in self._follower.newer():
                self._count(entry)

    def describe(self) -> list[Metric]:
        """Names are known without a query of the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The current content of the store."""
        gate = self._gate()
        now = gate.counts()
        yield _gauge("headgate_counts", [((name,), count) for name, count in asdict(now).items()])
        stuck = Tally(each.kind for each in gate.alarms())
        yield _gauge("headgate_alarms", [((kind,), stuck[kind]) for kind in KINDS_OF_ALARM])
        yield from _of_locks(gate)
        yield from _of_queue(gate)
        overdue = gate.upkeep.history_overdue().total_seconds()
        yield _gauge("headgate_history_overdue_seconds", [((), max(overdue, 0.0))])
        overdue = gate.upkeep.logs_overdue().total_seconds()
        yield _gauge("headgate_logs_overdue_seconds", [((), max(overdue, 0.0))])
        if gate.keeps_ledger:
            yield _gauge("headgate_claims", [((), now.chunks_running)])
            yield _gauge("headgate_chunks_failed", [((), now.chunks_failed)])
            found = gate.incidents.count()
            yield _gauge("headgate_incidents_open", [((kind,), count) for kind, count in found.count.items()])
            oldest = 0.0 if found.oldest is None else (datetime.now(UTC) - found.oldest).total_seconds()
            yield _gauge("headgate_incidents_oldest_seconds", [((), max(oldest, 0.0))])
            failed = gate.inventory.messages(failed=True, limit=MOST_MESSAGES)
            given_up = sum(each.state is Delivery.GIVEN_UP for each in failed)
            yield _gauge("headgate_messages_given_up", [((), given_up)])
            yield from _of_watchers(gate)
            yield from _of_recurrences(gate)
            yield from _of_expectations(gate)

    def _make(self, known: Series) -> Any:
        more: dict[str, Any] = {"buckets": known.buckets} if known.kind is Histogram else {}
        return known.kind(known.name, known.meaning, known.labels, registry=self._registry, **more)

    def _count(self, entry: Entry) -> None:
        self._events.labels(entry.noun, entry.event).inc(entry.count)
        key = (entry.noun, entry.resource, entry.job, entry.lock_id)
        began = self._begun.pop(key, None)
        self._begun[key] = entry.at
        while len(self._begun) > MOST_BEGUN:
            self._begun.popitem(last=False)
        spent = entry.spent
        if spent is None and began is not None:
            spent = (entry.at - began).total_seconds()
        if spent is not None and entry.before != entry.after:
            self._states.labels(entry.noun, entry.before).observe(spent)


def _is_of_store(known: Series) -> bool:
    """Queried when Prometheus scrapes."""
    return known.kind is Gauge and not known.name.startswith("headgate_http_")


def _gauge(name: str, values: Sequence[tuple[tuple[str, ...], float]]) -> Metric:
    known = next(each for each in KNOWN if each.name == name)
    family = GaugeMetricFamily(name, known.meaning, labels=known.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _of_locks(gate: Gate) -> Iterator[Metric]:
    tally = Tally[str]()
    for _resource, mode, count in gate.locks.summary():
        tally[mode] += count
    yield _gauge("headgate_locks_held", [((mode,), count) for mode, count in sorted(tally.items())])
    waiters = gate.locks.waiters()
    yield _gauge("headgate_locks_waited", [((), len(waiters))])
    oldest = min((each.since for each in waiters), default=None)
    yield _gauge("headgate_locks_oldest_waiter_seconds", [((), _age(oldest))])


def _of_queue(gate: Gate) -> Iterator[Metric]:
    counts = gate.queue.counts()
    items = [((noun, state), count) for noun, states in counts.items() for state, count in states.items()]
    yield _gauge("headgate_queue_items", items)
    table = gate.queue.tables()[1]
    there = [state for state in (FAILED, HELD, *work_states(table)) if counts.get(table.name, {}).get(state)]
    # The smallest id is the oldest, because ids grow.
    oldest = [(state, next(iter(gate.queue.jobs(state, limit=1)), None)) for state in there]
    yield _gauge("headgate_queue_oldest_seconds", [((state,), _age(job.since)) for state, job in oldest if job])


def _of_watchers(gate: Gate) -> Iterator[Metric]:
    found, at = gate.watches.list(), datetime.now(UTC)
    yield _gauge(
        "headgate_watcher_looked_seconds", [((each.dataset,), each.silent(at).total_seconds()) for each in found]
    )
    yield _gauge("headgate_watcher_file_seconds", [((each.dataset,), each.quiet(at).total_seconds()) for each in found])
    yield _gauge("headgate_watcher_files_waiting", [((each.dataset,), each.waiting) for each in found])


def _of_recurrences(gate: Gate) -> Iterator[Metric]:
    found, at = gate.ledger.recurrences(), datetime.now(UTC)
    yield _gauge("headgate_recur_seconds", [((each.job,), each.recur) for each in found])
    yield _gauge("headgate_recur_oldest_seconds", [((each.job,), each.age(at)) for each in found])


def _of_expectations(gate: Gate) -> Iterator[Metric]:
    found = gate.expectations.lateness()
    yield _gauge("headgate_late_chunks", [((each.dataset,), each.late) for each in found])
    yield _gauge("headgate_late_oldest_seconds", [((each.dataset,), _age(each.oldest)) for each in found])
    yield _gauge("headgate_lateness_behind_seconds", [((), max((each.behind for each in found), default=0.0))])


def _age(since: datetime | None) -> float:
    return 0.0 if since is None else max((datetime.now(UTC) - since).total_seconds(), 0.0)
