"""One ingest job, processed and recorded by a process that is killed before its n-th write; or one object, deleted.

Run as a program: URL, settings as JSON, the job or the object's ARK, the number of the write; 0: none. Prints how
many writes it did.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import headgate
from headgate.core.queue import Place
from headgate.daemon_wiring import ingest_handlers
from headgate.daemons.lanes import Lane
from headgate.daemons.reporting import Reporter
from headgate.ingest.deleting import delete_object
from headgate.stores.sql.engine import Database
from headgate.wiring import Gate

#: Every call that changes what a disk holds.
CALLS = ("mkdir", "open", "rename", "replace", "rmdir", "unlink", "write")
LEASE = 4.0
STATES = ("processing", "recording")


class Countdown:
    """Counts writes, of the disk and of the database, and ends the process before one of them."""

    def __init__(self, point: int) -> None:
        self._point = point
        self._numbers = itertools.count(1)
        self.seen = 0

    def step(self) -> None:
        self.seen = next(self._numbers)
        if self.seen == self._point:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return real(*args, **kwargs)

        return call

    def begin(self) -> None:
        for name in CALLS:
            setattr(os, name, self.counted(getattr(os, name)))
        for name in ("write", "single"):
            setattr(Database, name, self.counted(getattr(Database, name)))


def work(gate: Gate, job: str, point: int) -> int:
    steps = ingest_handlers(gate)
    known = gate.queue.job(job)
    before = Place(known.priority, f"jid{int(job[3:]) - 1:010}")
    countdown = Countdown(point)
    countdown.begin()
    for state in STATES:
        found = gate.queue.acquire_job(state, lease=LEASE, after=before)
        assert found is not None
        assert found.id == job
        with gate.queue.kept(found) as hold:
            Reporter(gate.queue, steps[f"job-{state}"], Lane(1.0)).work(found, hold)
    return countdown.seen


def delete(gate: Gate, ark: str, point: int) -> int:
    countdown = Countdown(point)
    countdown.begin()
    delete_object(gate.ingest, "somebody", ark, reason="withdrawn")
    return countdown.seen


def main() -> None:
    url, settings, what, point = sys.argv[1:]
    with headgate.connect(url, **json.loads(settings)) as gate:
        act = delete if what.startswith("ark:") else work
        sys.stdout.write(f"{act(gate, what, int(point))}\n")


if __name__ == "__main__":
    main()
