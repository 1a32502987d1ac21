"""Consumers of a tree that two sides share: ours by Headgate, theirs by Merritt's public descriptions."""

import os
import time
from typing import Any

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from headgate import HeadgateError
from headgate.core.queue.model import forward_event, work_states
from headgate.service.queue.use_cases import Queue
from tests.faults.consumer import open_gate
from tests.faults.processes import Channel
from tests.merritt.other_side import NEXT, OtherSide

PAUSE_SECONDS = 0.02
#: The shortest session of the tests' servers, so that items of a dead consumer are soon free.
LEASE = 1.0
#: Longer, since nothing guards the other side's writes after its session was lost.
SESSION_SECONDS = 4.0


class Steps:
    """Finished steps, one line each, written at once: item, state, and side."""

    def __init__(self, path: str, side: str) -> None:
        self._by = f"{side}-{os.getpid()}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, item: str, state: str) -> None:
        os.write(self._file, f"{item} {state.lower()} {self._by} {time.time():.3f}\n".encode())


def ours(channel: Channel, url: str, steps: str) -> None:
    """Headgate's side, until it is killed or asked to stop."""
    gate, noted = open_gate(url), Steps(steps, "ours")
    channel.send("ready")
    while not channel.read_all()[0]:
        try:
            worked = work(gate.queue, noted)
        except HeadgateError:
            worked = False
        time.sleep(0 if worked else PAUSE_SECONDS)
    gate.close()


def work(queue: Queue, noted: Steps) -> bool:
    batches, jobs = queue.tables()
    worked = False
    for state in reversed(work_states(jobs)):
        job = queue.acquire_job(state, lease=LEASE)
        if job:
            queue.fire(job, forward_event(jobs, state), "by ours")
            noted.note(job.id, state)
            worked = True
    queue.report_finished()
    batch = queue.acquire_batch("reporting", lease=LEASE)
    if batch:
        queue.fire(batch, forward_event(batches, batch.state), "by ours")
        noted.note(batch.id, batch.state)
    return worked or batch is not None


def theirs(channel: Channel, url: str, steps: str) -> None:
    """The other side, until it is killed or asked to stop."""
    address, noted = url.partition("?")[0], Steps(steps, "theirs")
    side = open_side(address)
    channel.send("ready")
    while not channel.read_all()[0]:
        try:
            worked = work_there(side, noted)
        except (KazooException, KazooTimeoutError):  # It leaves its work as it was, and starts again.
            side.close()
            side, worked = open_side(address), False
        time.sleep(0 if worked else PAUSE_SECONDS)
    side.close()


def open_side(address: str) -> OtherSide:
    return OtherSide(address.split("/")[2], "/" + address.rpartition("/")[2], timeout=SESSION_SECONDS)


def work_there(side: OtherSide, noted: Steps) -> bool:
    worked = [act(side, state, noted) for state in reversed(NEXT)]
    batch = side.take_batch_to_report()
    if batch:
        side.end_batch(batch)
        noted.note(batch, "reporting")
    return any(worked) or batch is not None


def act(side: OtherSide, state: str, noted: Steps) -> bool:
    """One job of a state, under the lock of its object where that state has one."""
    job = side.take_job(state)
    if job is None:
        return False
    ark = side.content(f"/jobs/{job}/identifiers")["primary_id"]
    kind: Any = {"Storing": "storage", "Recording": "inventory"}.get(state)
    try:
        while kind and not side.lock_object(kind, ark):  # As Merritt's services: they keep the job meanwhile.
            time.sleep(PAUSE_SECONDS)
        side.set_job(job, NEXT[state], "Success")
        noted.note(job, state)
        if kind:
            side.unlock_object(kind, ark)
    finally:
        side.unlock(f"/jobs/{job}")
    return True
