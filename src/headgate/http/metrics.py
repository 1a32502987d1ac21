"""What Prometheus is told: counts and times of requests, and what the store holds when it is asked."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from headgate.core.ledger import RUNNING
from headgate.wiring import Gate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Of one service."""

    def __init__(self, gate: Callable[[], Gate]) -> None:
        self._gate = gate
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "headgate_http_requests", "Requests, by route and answer.", ("method", "route", "status"),
            registry=self._registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "headgate_http_seconds", "How long requests took, those that wait left out.", ("method", "route"),
            registry=self._registry,
        )  # fmt: skip
        self.waiting = Gauge("headgate_http_waiting", "Callers that wait here.", registry=self._registry)
        self._registry.register(self)

    def page(self) -> bytes:
        """All of it, as text."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing is asked of the store to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What the store holds now."""
        gate = self._gate()
        held = GaugeMetricFamily("headgate_locks_held", "Locks that are held.", labels=["mode"])
        tally = Tally[str]()
        for _resource, mode, count in gate.store.summary():
            tally[mode] += count
        for word, count in sorted(tally.items()):
            held.add_metric([word], count)
        yield held
        yield GaugeMetricFamily("headgate_locks_waited", "Places in queues for locks.", len(gate.locks.waiters()))
        yield from self._queue(gate)
        if getattr(gate.store, "ledger", None) is not None:
            running = len(gate.ledger.status(status=RUNNING, limit=100_000))
            yield GaugeMetricFamily("headgate_chunks_running", "Rows of chunks that are worked on.", running)
            yield GaugeMetricFamily(
                "headgate_chunks_failed", "Chunks in ERROR, counted up to 1000.", len(gate.ledger.failures(1000))
            )

    def _queue(self, gate: Gate) -> Iterator[Metric]:
        items = GaugeMetricFamily("headgate_queue_items", "Batches and ingest jobs.", labels=["noun", "state"])
        for noun, counts in gate.queue.counts().items():
            for state, count in counts.items():
                items.add_metric([noun, state], count)
        yield items
