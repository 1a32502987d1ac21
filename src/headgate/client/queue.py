"""The queue of a service: each operation as it is declared in `headgate.operations`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from headgate.calls.deadlines import QUEUE_CALLS, answered_in_time
from headgate.client.asking import Asking
from headgate.client.connection import Connection
from headgate.client.sending import of_asker, send, sends
from headgate.core.daemons import Daemon
from headgate.core.faults import Fault
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.ledger import Asker
from headgate.core.machine import By, Machine
from headgate.core.queue import (
    MAX_CRASHES,
    Batch,
    Changes,
    Hold,
    IngestJob,
    Item,
    NewJob,
    Place,
    Submission,
    Taken,
    is_batch,
)
from headgate.core.states import BATCH, INGEST_JOB, MERRITT_BATCH, MERRITT_INGEST_JOB
from headgate.core.wire import plain
from headgate.operations import daemons, queue, whole
from headgate.operations.declaring import Operation

#: By the spelling of the store behind the service.
TABLES = {"design": (BATCH, INGEST_JOB), "mrt-zk": (MERRITT_BATCH, MERRITT_INGEST_JOB)}
#: One request waits for work no longer.
LONGEST_WAIT_SECONDS = 20.0


@answered_in_time(QUEUE_CALLS)
class ServiceQueue:
    """Batches and ingest jobs behind a service."""

    def __init__(self, connection: Connection, spelling: str) -> None:
        self.name = connection.name
        self.batch_table, self.job_table = TABLES[spelling]
        self.connection = connection
        self.options = connection.options

    def submit(self, submission: Submission, who: str) -> Batch:
        del who  # The submitter's name is in it.
        found: Batch = send(self.connection, queue.submit, **asdict(submission))
        return found

    def take_batch(self, state: str, asker: Asker, after: str | None = None) -> Batch | None:
        found: Batch | None = send(self.connection, queue.acquire_batch, state=state, after=after, **of_asker(asker))
        return found

    def take_job(self, state: str, asker: Asker, after: Place | None = None) -> IngestJob | None:
        place = None if after is None else after._asdict()
        found: IngestJob | None = send(self.connection, queue.acquire_job, state=state, after=place, **of_asker(asker))
        return found

    def renew(self, taken: Taken, lease: float) -> float:
        return float(self._send(taken.id, queue.renew_batch, queue.renew_job, **_proof(taken), lease=lease))

    def give_back(self, taken: Taken, message: str) -> None:
        self._send(taken.id, queue.give_back_batch, queue.give_back_job, **_proof(taken), message=message)

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        del work_folder  # The service's own: its daemons work there.
        # How many workers may die on a job the service takes from its own copy of the profile.
        own = [{name: value for name, value in job.settings.items() if name != MAX_CRASHES} for job in jobs]
        said = [replace(job, settings=settings) for job, settings in zip(jobs, own, strict=True)]
        asked = {"bid": taken.id, **_proof(taken), "position": position, "jobs": said}
        return int(send(self.connection, queue.create_jobs, **asked))

    def fire(self, taken: Taken, event: str, message: str, changes: Changes) -> Item:
        said = {**_proof(taken), "message": message, **_said(changes)}
        found: Item = self._send(taken.id, queue.fire_batch, queue.fire_job, event=event, **said)
        return found

    def change(self, taken: Taken, changes: Changes) -> Item:
        said = {**_proof(taken), **_said(changes)}
        found: Item = self._send(taken.id, queue.change_batch, queue.change_job, **said)
        return found

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        asked = {"event": event, "reason": reason, "by": who, "daemon": by is By.DAEMON}
        found: Item = self._send(item_id, queue.fire_batch, queue.fire_job, **asked)
        return found

    def set_hold(self, hold: Hold) -> Hold:
        found: Hold = send(self.connection, queue.set_hold, profile=hold.profile, reason=hold.reason, by=hold.who)
        return found

    set_priority = sends(queue.set_priority)
    clear_hold = sends(queue.clear_hold)
    holds = sends(queue.holds)
    batch = sends(queue.batch)
    job = sends(queue.job)
    job_ids = sends(queue.job_ids)
    counts = sends(queue.counts)
    reportable = sends(queue.reportable)
    faults = sends(queue.faults)
    sign_off = sends(daemons.sign_off)
    daemons = sends(daemons.daemons)

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        found: Sequence[Batch] = send(self.connection, queue.batches, **asdict(which))
        return found

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        found: Sequence[IngestJob] = send(self.connection, queue.jobs, **asdict(which))
        return found

    def cleanable(self, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
        asked = {"noun": machine.name, "seconds": seconds, "limit": limit}
        found: Sequence[str] = send(self.connection, queue.cleanable, **asked)
        return found

    def await_work(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        batches = [state for machine, state in states if machine.name == self.batch_table.name]
        jobs = [state for machine, state in states if machine.name == self.job_table.name]
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        send(self.connection, queue.await_work, batch=batches, job=jobs, wait=wait)

    def listen(self, states: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> Asking:
        del states, wake
        return Asking()

    def expire(self, limit: int) -> int:
        return int(send(self.connection, whole.reap, of="queue", limit=limit))

    def first_free(self, machine: Machine, state: str) -> Item | None:
        found: Item | None = send(self.connection, daemons.first_free, noun=machine.name, state=state)
        return found

    def sign_on(self, daemon: Daemon) -> None:
        asked = {"daemon": daemon.id, "worker": daemon.worker, "steps": daemon.steps, "lease": daemon.lease}
        send(self.connection, daemons.sign_on, **asked)

    def repair(self, fault: Fault, who: str) -> bool:
        return bool(send(self.connection, queue.repair, **plain(fault), by=who))

    def _send(self, item: str, of_batch: Operation, of_job: Operation, **asked: Any) -> Any:
        """The one of two operations that is for this item."""
        if is_batch(item):
            return send(self.connection, of_batch, bid=item, **asked)
        return send(self.connection, of_job, jid=item, **asked)


def _proof(taken: Taken) -> dict[str, Any]:
    return {"token": taken.token, "state": taken.state, "worker": taken.worker}


def _said(changes: Changes) -> dict[str, Any]:
    """What an owner writes down, as far as it says something."""
    said = {name: value for name, value in plain(changes).items() if value is not None}
    if "report" in said:
        del said["report"]["at"]
    return said
