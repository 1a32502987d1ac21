"""The queue of a service: the port over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from headgate.client.connection import Connection
from headgate.core.daemons import Daemon
from headgate.core.faults import Fault
from headgate.core.machine import By, Machine
from headgate.core.queue import (
    MAX_CRASHES,
    Batch,
    Changes,
    Folder,
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
from headgate.core.wire import parse, plain
from headgate.stores.base import Asker
from headgate.stores.deadlines import QUEUE_CALLS, answered_in_time
from headgate.stores.queue_port import BatchFilter, JobFilter

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
        self._connection = connection
        self.options = connection.options

    def submit(self, submission: Submission, who: str) -> Batch:
        del who  # The submitter's name is in it.
        body = {name: value for name, value in asdict(submission).items() if name != "request_id"}
        found: Batch = parse(
            Batch, self._connection.send("POST", "batches", body=body, request_id=submission.request_id)
        )
        return found

    def take_batch(self, state: str, asker: Asker, after: str | None = None) -> Batch | None:
        found: Batch | None = self._take(Batch, "batches", state, asker, after)
        return found

    def take_job(self, state: str, asker: Asker, after: Place | None = None) -> IngestJob | None:
        place = None if after is None else after._asdict()
        found: IngestJob | None = self._take(IngestJob, "ingest-jobs", state, asker, place)
        return found

    def renew(self, taken: Taken, lease: float) -> float:
        return float(self._send(taken.id, "renew", {**_proof(taken), "lease": lease})["lease"])

    def give_back(self, taken: Taken, message: str) -> None:
        self._send(taken.id, "give-back", {**_proof(taken), "message": message}, once=True)

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        del work_folder  # The service's own: its daemons work there.
        # How many workers may die on a job the service takes from its own copy of the profile.
        own = [{name: value for name, value in job.settings.items() if name != MAX_CRASHES} for job in jobs]
        said = [replace(job, settings=settings) for job, settings in zip(jobs, own, strict=True)]
        body = {**_proof(taken), "position": position, "jobs": plain(said)}
        return int(self._send(taken.id, "jobs", body)["count"])

    def fire(self, taken: Taken, event: str, message: str, changes: Changes) -> Item:
        return self._item(
            taken.id, self._send(taken.id, event, {**_proof(taken), "message": message, **_said(changes)}, once=True)
        )

    def change(self, taken: Taken, changes: Changes) -> Item:
        body = {**_proof(taken), **_said(changes)}
        return self._item(taken.id, self._connection.send("PATCH", _folder(taken.id), taken.id, body=body))

    def act(self, item_id: str, event: str, by: By, reason: str, who: str) -> Item:
        body = {"reason": reason, "by": who, "daemon": by is By.DAEMON}
        return self._item(item_id, self._send(item_id, event, body, once=True))

    def set_priority(self, job_id: str, priority: int, reason: str, who: str) -> IngestJob:
        body = {"priority": priority, "reason": reason, "by": who}
        found: IngestJob = parse(IngestJob, self._connection.send("PUT", "ingest-jobs", job_id, "priority", body=body))
        return found

    def set_hold(self, hold: Hold) -> Hold:
        body = {"reason": hold.reason, "by": hold.who}
        found: Hold = parse(Hold, self._connection.send("PUT", "holds", hold.profile, body=body))
        return found

    def clear_hold(self, profile: str, who: str) -> bool:
        return bool(self._connection.send("DELETE", "holds", profile, by=who, again=False)["cleared"])

    def holds(self) -> Sequence[Hold]:
        return [parse(Hold, each) for each in self._connection.pages("holds")]

    def batch(self, batch_id: str) -> Batch:
        found: Batch = parse(Batch, self._connection.get("batches", batch_id))
        return found

    def job(self, job_id: str) -> IngestJob:
        found: IngestJob = parse(IngestJob, self._connection.get("ingest-jobs", job_id))
        return found

    def batches(self, which: BatchFilter) -> Sequence[Batch]:
        query = {**asdict(which), "taken": which.taken or None}
        return [parse(Batch, each) for each in self._connection.pages("batches", **query)]

    def jobs(self, which: JobFilter) -> Sequence[IngestJob]:
        query = {**asdict(which), "taken": which.taken or None}
        return [parse(IngestJob, each) for each in self._connection.pages("ingest-jobs", **query)]

    def job_ids(self, batch_id: str, folder: Folder) -> Sequence[str]:
        return [str(each) for each in self._connection.pages("batches", batch_id, "jobs", folder=folder.value)]

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        found: dict[str, dict[str, int]] = self._connection.get("queue", "counts")
        return found

    def reportable(self, limit: int) -> Sequence[str]:
        return [str(each) for each in self._connection.pages("queue", "reportable", limit=limit)]

    def cleanable(self, machine: Machine, seconds: float, limit: int) -> Sequence[str]:
        found = self._connection.pages("queue", "cleanable", noun=machine.name, seconds=seconds, limit=limit)
        return [str(each) for each in found]

    def await_work(self, states: Sequence[tuple[Machine, str]], seconds: float) -> None:
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        batches = [state for machine, state in states if machine.name == self.batch_table.name]
        jobs = [state for machine, state in states if machine.name == self.job_table.name]
        self._connection.get("queue", "work", batch=batches, job=jobs, wait=wait)

    def expire(self, limit: int) -> int:
        return int(self._connection.send("POST", "reap", of="queue", limit=limit)["count"])

    def first_free(self, machine: Machine, state: str) -> Item | None:
        kind = Batch if machine.name == self.batch_table.name else IngestJob
        found = self._connection.get("queue", "first-free", noun=machine.name, state=state)
        return None if found is None else parse(kind, found)

    def sign_on(self, daemon: Daemon) -> None:
        body = {"worker": daemon.worker, "steps": list(daemon.steps), "lease": daemon.lease}
        self._connection.send("PUT", "daemons", daemon.id, body=body)

    def sign_off(self, daemon_id: str) -> None:
        self._connection.send("DELETE", "daemons", daemon_id)

    def daemons(self) -> Sequence[Daemon]:
        return [parse(Daemon, each) for each in self._connection.pages("daemons")]

    def faults(self) -> Sequence[Fault]:
        return [parse(Fault, each) for each in self._connection.pages("queue", "faults")]

    def repair(self, fault: Fault, who: str) -> bool:
        body = {**plain(fault), "by": who}
        return bool(self._connection.once("queue", "repair", body=body)["repaired"])

    def _take(self, kind: Any, folder: str, state: str, asker: Asker, after: Any) -> Any:
        body = {"worker": asker.worker, "lease": asker.lease, "after": after}
        found = self._connection.send("POST", folder, "next", state=state, body=body, request_id=asker.request_id)
        return None if found is None else parse(kind, found)

    def _send(self, item: str, act: str, body: Mapping[str, Any], *, once: bool = False) -> Any:
        if once:
            return self._connection.once(_folder(item), item, act, body=body)
        return self._connection.send("POST", _folder(item), item, act, body=body)

    def _item(self, item: str, document: Any) -> Item:
        found: Item = parse(Batch if is_batch(item) else IngestJob, document)
        return found


def _folder(item: str) -> str:
    return "batches" if is_batch(item) else "ingest-jobs"


def _proof(taken: Taken) -> dict[str, Any]:
    return {"token": taken.token, "state": taken.state, "worker": taken.worker}


def _said(changes: Changes) -> dict[str, Any]:
    """What an owner writes down, as far as it says something."""
    said = {name: value for name, value in plain(changes).items() if value is not None}
    if "report" in said:
        del said["report"]["at"]
    return said
