"""One process of ingest's daemons that measures its time: in handlers, in the store, on a core.

Run as a program: URL, settings as JSON, workers for each state. At SIGTERM it prints its figures as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import headgate
from headgate.core.queue.model import work_states
from headgate.daemon_wiring import daemon_rounds, ingest_handlers
from headgate.daemons.consumers import Consumers, Pace, Post
from headgate.daemons.names import CONSUMERS
from headgate.daemons.rounds import run_together
from headgate.gate import Gate
from headgate.stores.sql.database.engine import Database

CALLS = ("write", "write_through", "read", "single", "single_once")


class Clock:
    """Seconds by activity; a call within a call of its kind counts once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._guard = threading.Lock()
        self._inside = threading.local()

    def counted(self, what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """The same, counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, what, False):
                return real(*args, **kwargs)
            setattr(self._inside, what, True)
            began = time.perf_counter()
            try:
                return real(*args, **kwargs)
            finally:
                setattr(self._inside, what, False)
                with self._guard:
                    self.seconds[what] += time.perf_counter() - began

        return call


def posts_of(gate: Gate, clock: Clock, workers: int) -> list[Post]:
    """The mailbox of every consumer."""
    known = {(table.name, state) for table in gate.queue.tables() for state in work_states(table)}
    found = [Post(*CONSUMERS[name], handler, workers) for name, handler in ingest_handlers(gate).items()]
    return [
        replace(each, handler=clock.counted("handlers", each.handler))
        for each in found
        if (each.noun, each.state) in known
    ]


def main() -> None:
    url, settings, workers = sys.argv[1:]
    clock, stop = Clock(), threading.Event()
    for name in CALLS:
        setattr(Database, name, clock.counted("store", getattr(Database, name)))
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with headgate.connect(url, **json.loads(settings)) as gate:
        consumer = Consumers(gate.queue, posts_of(gate, clock, int(workers)), Pace(60.0, 0.2, 10.0), stop)
        rounds = daemon_rounds(gate, ["batch-watcher", "messenger"], 0.5)
        consumer.start()
        run_together(rounds, stop)
        consumer.stop()
    sys.stdout.write(json.dumps({**clock.seconds, "cpu": time.process_time()}) + "\n")


if __name__ == "__main__":
    main()
