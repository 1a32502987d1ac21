"""Processes and records one ingest job, or deletes one object, in a process that is killed before its n-th write."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import headgate
from headgate.core.queue.model import Place
from headgate.daemon_wiring import ingest_handlers
from headgate.daemons.lanes import Lane
from headgate.daemons.reporting import Reporter
from headgate.gate import Gate
from headgate.ingest.objects.deleting import delete_object
from headgate.stores.sql.database.engine import Database
from tests.faults.processes import Channel, Zygote

if TYPE_CHECKING:
    from tests.ingest.site import Site

#: Every call that changes files.
CALLS = ("mkdir", "open", "rename", "replace", "rmdir", "unlink", "write")
LEASE = 4.0
STATES = ("processing", "recording")


class Countdown:
    """Counts writes, of files and of the database, and ends the process before one of them."""

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


def act(channel: Channel, url: str, settings: dict[str, Any], what: str, point: int) -> None:
    """Print the number of writes, unless the process was killed."""
    with headgate.connect(url, **settings) as gate:
        channel.send("done", writes=(delete if what.startswith("ark:") else work)(gate, what, point))


def die(processes: Zygote, site: Site, what: str, point: int) -> str:
    """Run this for a job, or for the object of an ARK, in another process; 0: count its writes without killing it."""
    child = processes.spawn("tests.ingest.dying:act", url=site.url, settings=site.settings, what=what, point=point)
    told = child.channel.receive(120)
    child.wait()
    if told is None:
        return "killed"
    assert told["kind"] == "done", told
    return str(told["writes"])
