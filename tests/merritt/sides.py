"""Operations on a queue with the same interface for both sides: Headgate, Merritt's programs, or both in turn."""

from __future__ import annotations

from typing import Any, Protocol

from headgate import Batch, Gate, IngestJob
from headgate.core.queue.model import ALL, Identifiers, forward_event
from tests.contract.steps import LONG
from tests.merritt.other_side import NEXT, OtherSide

PAYLOAD = "https://example.org/a.txt"
SUBMITTED = {"profile": "demo", "submitter": "ann", "filename": PAYLOAD, "type": "file", "update": False}
PRIMARY_ID, LOCAL_IDS = "ark:/99999/fk4x", ("l1", "l2")
#: What processing leaves for the services of storage and inventory.
STORE = {"manifest_url": "https://ingest/mrt-manifest.txt", "mode": "add/1/ark%3A%2F99999%2Ffk4x", "delete": ""}
INVENTORY = {"manifest_url": "https://store/manifest/1/ark%3A%2F99999%2Ffk4x", "mode": ""}
#: The locks of an object by the state in which it is worked on.
LOCKS = {"storing": "storage", "recording": "inventory"}


class Side(Protocol):
    """Each operation leaves no lock behind, unless it says so."""

    def submit(self) -> str:
        """Create a batch."""

    def read(self, batch: str) -> str:
        """The submitter of a batch; empty: there is none."""

    def take_batch(self) -> None:
        """Take the first pending batch, and keep it."""

    def touch_batch(self, batch: str) -> None:
        """Lock a pending batch, and unlock it."""

    def fill(self, *jobs: dict[str, Any], end: bool = True) -> None:
        """Take the first pending batch, and create jobs from it; `end`: and release it, since those are all."""

    def take(self, state: str) -> str:
        """Take the first job in a state, and keep it."""

    def step(self, state: str, **changes: Any) -> str:
        """Take the first job in a state, and complete that step."""

    def fail(self, state: str) -> None:
        """Take the first job in a state, and let it fail."""

    def resume(self, job: str) -> None:
        """Resume a failed job after its last successful step."""

    def hold(self, job: str) -> None:
        """Take a pending job, and hold it."""

    def release(self, job: str) -> None:
        """Release a held job to pending."""

    def delete(self, item: str) -> None:
        """Mark a batch or job as deleted."""

    def report(self) -> str:
        """Take the batch whose report is due, and finish it."""

    def report_again(self, batch: str) -> None:
        """Request one more report of a failed batch."""

    def clean(self) -> None:
        """Remove batches that are completed or deleted."""

    def clean_job(self, job: str) -> None:
        """Remove a deleted job."""

    def lock(self, *collections: str) -> None:
        """Lock these collections; none: the whole queue."""


class Ours:
    """Headgate."""

    def __init__(self, gate: Gate) -> None:
        self._queue = gate.queue
        self._batch: Batch | None = None

    def submit(self) -> str:
        return self._queue.submit("demo", "ann", PAYLOAD, type="file").id

    def read(self, batch: str) -> str:
        found = {each.id: each for each in self._queue.batches()}
        return found[batch].submission.submitter if batch in found else ""

    def take_batch(self) -> None:
        self._batch = self._queue.acquire_batch("pending", lease=LONG)
        assert self._batch

    def touch_batch(self, batch: str) -> None:
        self.take_batch()
        assert self._batch
        assert self._batch.id == batch
        self._queue.give_back(self._batch)

    def fill(self, *jobs: dict[str, Any], end: bool = True) -> None:
        self.take_batch()
        assert self._batch
        rows = [{"payload_url": PAYLOAD, "payload_type": "file", **each} for each in jobs]
        assert self._queue.create_jobs(self._batch, rows) == len(jobs)
        if end:
            self._queue.fire(self._batch, "start")

    def take(self, state: str) -> str:
        return self._take(state).id

    def _take(self, state: str) -> IngestJob:
        job = self._queue.acquire_job(state, lease=LONG)
        assert job, state
        return job

    def step(self, state: str, **changes: Any) -> str:
        job = self._take(state)
        self._queue.fire(job, forward_event(self._queue.tables()[1], state), **changes)
        return job.id

    def fail(self, state: str) -> None:
        self._queue.fire(self._take(state), "fail")

    def resume(self, job: str) -> None:
        self._queue.resume(job)

    def hold(self, job: str) -> None:
        taken = self._take("pending")
        assert taken.id == job
        self._queue.fire(taken, "hold")

    def release(self, job: str) -> None:
        self._queue.release(job)

    def delete(self, item: str) -> None:
        self._queue.delete(item, reason="given up")

    def report(self) -> str:
        self._queue.report_finished()
        batch = self._queue.acquire_batch("reporting", lease=LONG)
        batch = batch or self._queue.acquire_batch("update-reporting", lease=LONG)
        assert batch
        return self._queue.fire(batch, "finish").id

    def report_again(self, batch: str) -> None:
        self._queue.update_report(batch)

    def clean(self) -> None:
        self._queue.clean(0)

    def clean_job(self, job: str) -> None:
        assert self._queue.clean(0) == [job]

    def lock(self, *collections: str) -> None:
        for each in collections or (ALL,):
            self._queue.set_hold(each, reason="it is moved")


class Theirs:
    """Merritt's programs."""

    def __init__(self, other: OtherSide) -> None:
        self._other = other
        self._batch = ""

    def submit(self) -> str:
        return self._other.create_batch(**SUBMITTED)

    def read(self, batch: str) -> str:
        there = self._other.exists(f"/batches/{batch}/submission")
        return str(self._other.content(f"/batches/{batch}/submission")["submitter"]) if there else ""

    def take_batch(self) -> None:
        self._batch = self._other.take_pending_batch() or ""
        assert self._batch

    def touch_batch(self, batch: str) -> None:
        assert self._other.lock(f"/batches/{batch}")
        self._other.unlock(f"/batches/{batch}")

    def fill(self, *jobs: dict[str, Any], end: bool = True) -> None:
        self.take_batch()
        name = self._other.content(f"/batches/{self._batch}/submission")["batchID"]
        for each in jobs:
            said = {"batchID": name, "jobID": "jid-11111111-2222-3333-4444-555555555555", **SUBMITTED}
            names = each.get("identifiers") or Identifiers()
            if names.primary:
                said |= {"objectID": names.primary}
            if names.local:
                said |= {"localID": ";".join(names.local)}
            settings: dict[str, Any] = dict(each.get("settings") or {})
            erc = {key: value for key, value in settings.items() if key.startswith("erc_")}
            words = {"erc_who": "creator", "erc_what": "title", "erc_when": "date"}
            said |= {words.get(key, key): value for key, value in settings.items() if key != "erc_where"}
            identifiers = {"primary_id": names.primary, "local_id": list(names.local)}
            priority = each.get("priority", 5)
            self._other.create_job(self._batch, said, priority=priority, identifiers=identifiers, metadata=erc)
        if end:
            self._other.unlock(f"/batches/{self._batch}")

    def take(self, state: str) -> str:
        job = self._other.take_job(state.capitalize())
        assert job, state
        if lock := self._object_lock(job, state):
            assert self._other.lock_object(*lock)
        return job

    def _object_lock(self, job: str, state: str) -> tuple[str, str] | None:
        name = self._other.content(f"/jobs/{job}/identifiers")["primary_id"]
        return (LOCKS[state], name) if state in LOCKS and name else None

    def step(self, state: str, **changes: Any) -> str:
        job = self.take(state)
        if lock := self._object_lock(job, state):
            self._other.unlock_object(*lock)
        nodes = {**changes.get("configuration", {})}
        if "space_needed" in changes:
            nodes["space_needed"] = str(changes["space_needed"])
        if identifiers := changes.get("identifiers"):
            nodes["identifiers"] = {"primary_id": identifiers.primary, "local_id": list(identifiers.local)}
        for name, content in nodes.items():
            self._other.put(f"/jobs/{job}/{name}", content)
        if "priority" in changes:
            self._other.set_priority(job, changes["priority"])
        self._set(job, NEXT[state.capitalize()])
        return job

    def _set(self, job: str, status: str, *, retry: bool = False) -> None:
        self._other.set_job(job, status, retry=retry)
        self._other.unlock(f"/jobs/{job}")

    def fail(self, state: str) -> None:
        job = self.take(state)
        if lock := self._object_lock(job, state):
            self._other.unlock_object(*lock)
        self._set(job, "Failed")

    def resume(self, job: str) -> None:
        good = self._other.content(f"/jobs/{job}/status")["last_successful_status"]
        self._set(job, NEXT[good], retry=True)

    def hold(self, job: str) -> None:
        self._set(job, "Held")

    def release(self, job: str) -> None:
        self._set(job, "Pending")

    def delete(self, item: str) -> None:
        if item.startswith("bid"):
            self._other.set_batch(item, "Deleted")
        else:
            self._set(item, "Deleted")

    def report(self) -> str:
        batch = self._other.take_batch_to_report() or self._other.take_batch_to_report_again()
        assert batch
        self._other.end_batch(batch)
        return batch

    def report_again(self, batch: str) -> None:
        self._other.set_batch(batch, "UpdateReporting")

    def clean(self) -> None:
        self._other.delete_completed()

    def clean_job(self, job: str) -> None:
        self._other.delete_job(job)

    def lock(self, *collections: str) -> None:
        for each in [f"collections/{each}" for each in collections] or ["queue/ingest"]:
            self._other.create(f"/locks/{each}")


class Both:
    """Each operation by the other of two sides."""

    def __init__(self, *sides: Side) -> None:
        self._sides = list(sides)

    def __getattr__(self, name: str) -> Any:
        self._sides.reverse()
        return getattr(self._sides[0], name)
