"""The other side of a shared tree: the behaviour of Merritt's programs, by the public descriptions of the tree.

It uses kazoo alone and none of Headgate's code. Like the originals it uses no transactions: each change of a state is
several writes, one after another, and a process that is killed leaves what it had written by then.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

JOB_STATES = (
    "Pending", "Held", "Estimating", "Provisioning", "Downloading", "Processing", "Storing", "Recording", "Notify",
    "Failed", "Completed", "Deleted",
)  # fmt: skip
#: The state after a consumer's work.
NEXT = {
    "Pending": "Estimating", "Estimating": "Provisioning", "Provisioning": "Downloading", "Downloading": "Processing",
    "Processing": "Storing", "Storing": "Recording", "Recording": "Notify", "Notify": "Completed",
}  # fmt: skip
#: States of batches whose report is not due.
REPORTED = ("Completed", "Failed", "UpdateReporting", "Deleted")
FOLDERS = {"Failed": "batch-failed", "Completed": "batch-completed", "Deleted": "batch-deleted"}


class OtherSide:
    """A process of Merritt's: its library, over one session."""

    def __init__(self, hosts: str, root: str = "", *, timeout: float = 10.0) -> None:
        """`root`: the folder in which the tree begins."""
        self.zk = KazooClient(hosts=hosts, timeout=timeout)
        self.zk.start(timeout=30)
        self.root = root

    def close(self) -> None:
        self.zk.stop()
        self.zk.close()

    # ------------------------------------------------------------------ nodes

    def path(self, path: str) -> str:
        return f"{self.root}{path}"

    def create(self, path: str, data: Any = None, *, ephemeral: bool = False) -> None:
        self.zk.create(self.path(path), written(data), ephemeral=ephemeral)

    def create_if_needed(self, path: str) -> None:
        if not self.exists(path):
            with contextlib.suppress(NodeExistsError):
                self.create(path)

    def put(self, path: str, data: Any) -> None:
        if self.exists(path):
            self.zk.set(self.path(path), written(data))
        else:
            self.create(path, data)

    def exists(self, path: str) -> bool:
        return self.zk.exists(self.path(path)) is not None

    def delete(self, path: str) -> None:
        with contextlib.suppress(NoNodeError):
            self.zk.delete(self.path(path), recursive=True)

    def text(self, path: str) -> str:
        return (self.zk.get(self.path(path))[0] or b"").decode()

    def content(self, path: str) -> dict[str, Any]:
        found = json.loads(self.text(path) or "{}")
        assert isinstance(found, dict)
        return found

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self.zk.get_children(self.path(path)))
        except NoNodeError:
            return []

    def init_nodes(self) -> None:
        states = [f"/jobs/states/{state.lower()}" for state in JOB_STATES]
        locks = [f"/locks/{name}" for name in ("queue", "storage", "inventory", "collections", "localid")]
        self.zk.ensure_path(self.root or "/")
        for path in ("/batches", "/batch-uuids", "/jobs", "/jobs/states", *states, "/locks", *locks):
            self.create_if_needed(path)

    # ------------------------------------------------------------------ batches

    def create_batch(self, **submission: Any) -> str:
        """A new batch: number, name, submission, status."""
        content = {"batchID": f"bid-{uuid.uuid4()}", **submission}
        batch = self.zk.create(self.path("/batches/bid"), None, sequence=True).rpartition("/")[2]
        self.create(f"/batch-uuids/{content['batchID']}", batch)
        self.create(f"/batches/{batch}/submission", content)
        self.set_batch(batch, "Pending")
        return str(batch)

    def set_batch(self, batch: str, status: str, message: str = "") -> None:
        self.put(f"/batches/{batch}/status", {"status": status, "last_modified": now(), "message": message})

    def batch_status(self, batch: str) -> str:
        return str(self.content(f"/batches/{batch}/status")["status"])

    def take_pending_batch(self) -> str | None:
        """Take a batch without states, which is then processing; it stays locked."""
        for batch in self.names("/batches"):
            if self.exists(f"/batches/{batch}/states") or not self.lock(f"/batches/{batch}"):
                continue
            self.create(f"/batches/{batch}/states")
            self.set_batch(batch, "Processing")
            return batch
        return None

    def take_batch_to_report(self) -> str | None:
        """Take a batch without jobs in processing, which is then reporting; it stays locked."""
        batch = self._take_batch(lambda status: status not in REPORTED)
        if batch:
            self.set_batch(batch, "Reporting")
        return batch

    def take_batch_to_report_again(self) -> str | None:
        """Take such a batch for which another report was requested; it stays locked, and its state is the same."""
        return self._take_batch(lambda status: status == "UpdateReporting")

    def _take_batch(self, fits: Callable[[str], bool]) -> str | None:
        for batch in self.names("/batches"):
            folder = f"/batches/{batch}/states/batch-processing"
            if not self.exists(folder) or self.names(folder):
                continue
            if not fits(self.batch_status(batch)) or not self.lock(f"/batches/{batch}"):
                continue
            # The batch may have been reported between the first check and the lock.
            if fits(self.batch_status(batch)):
                return batch
            self.unlock(f"/batches/{batch}")
        return None

    def end_batch(self, batch: str) -> None:
        failed = self.names(f"/batches/{batch}/states/batch-failed")
        self.set_batch(batch, "Failed" if failed else "Completed")
        self.unlock(f"/batches/{batch}")

    def delete_completed(self) -> list[str]:
        """Completed batches, with their jobs and names."""
        done = [batch for batch in self.names("/batches") if self.batch_status(batch) in ("Completed", "Deleted")]
        for batch in done:
            self.delete_batch(batch)
        return done

    def delete_batch(self, batch: str) -> None:
        for folder in self.names(f"/batches/{batch}/states"):
            for job in self.names(f"/batches/{batch}/states/{folder}"):
                self.delete_job(job)
        self.delete(f"/batch-uuids/{self.content(f'/batches/{batch}/submission')['batchID']}")
        self.delete(f"/batches/{batch}")

    # ------------------------------------------------------------------ jobs

    def create_job(
        self, batch: str, configuration: dict[str, Any], *, priority: int = 5,
        identifiers: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None,
    ) -> str:  # fmt: skip
        """A new job: number, its nodes, and at last its entries in the queue and in its batch."""
        job = str(self.zk.create(self.path("/jobs/jid"), None, sequence=True).rpartition("/")[2])
        self.lock(f"/jobs/{job}")
        nodes = {
            "bid": batch, "priority": str(priority), "space_needed": "0", "configuration": configuration,
            "identifiers": identifiers, "metadata": metadata,
        }  # fmt: skip
        for name, data in nodes.items():
            if data:
                self.create(f"/jobs/{job}/{name}", data)
        status = {
            "status": "Pending", "last_successful_status": None, "last_modified": now(), "retry_count": 0,
            "message": "",
        }  # fmt: skip
        self.create(f"/jobs/{job}/status", status)
        self.create(f"/jobs/states/pending/{priority:02d}-{job}")
        self._into_batch(batch, "batch-processing", job)
        self.unlock(f"/jobs/{job}")
        return job

    def _into_batch(self, batch: str, folder: str, job: str) -> None:
        self.create_if_needed(f"/batches/{batch}/states")
        self.create_if_needed(f"/batches/{batch}/states/{folder}")
        self.create_if_needed(f"/batches/{batch}/states/{folder}/{job}")

    def job_status(self, job: str) -> str:
        return str(self.content(f"/jobs/{job}/status")["status"])

    def set_job(self, job: str, status: str, message: str = "", *, retry: bool = False) -> None:
        """Set its status; then remove its old entry in the queue and create the new one; then the same in its batch."""
        old = self.content(f"/jobs/{job}/status")
        good = old["last_successful_status"]
        if old["status"] not in ("Failed", "Deleted") and status not in ("Failed", "Deleted"):
            good = old["status"]
        new = {
            **old, "status": status, "last_successful_status": good, "last_modified": now(), "message": message,
            "retry_count": int(old["retry_count"]) + retry,
        }  # fmt: skip
        self.zk.set(self.path(f"/jobs/{job}/status"), written(new))
        priority = int(self.text(f"/jobs/{job}/priority"))
        self.delete(f"/jobs/states/{old['status'].lower()}/{priority:02d}-{job}")
        self.create_if_needed(f"/jobs/states/{status.lower()}/{priority:02d}-{job}")
        batch = self.text(f"/jobs/{job}/bid")
        before, after = (FOLDERS.get(each, "batch-processing") for each in (old["status"], status))
        if before != after:
            self.delete(f"/batches/{batch}/states/{before}/{job}")
            self._into_batch(batch, after, job)

    def set_priority(self, job: str, priority: int) -> None:
        """Set its priority, and its entry in the queue accordingly."""
        old, state = int(self.text(f"/jobs/{job}/priority")), self.job_status(job).lower()
        self.put(f"/jobs/{job}/priority", str(priority))
        self.delete(f"/jobs/states/{state}/{old:02d}-{job}")
        self.create_if_needed(f"/jobs/states/{state}/{priority:02d}-{job}")

    def take_job(self, state: str) -> str | None:
        """The first job in that state that is not locked and still in it."""
        for name in self.names(f"/jobs/states/{state.lower()}"):
            job = name[3:]
            if not self.lock(f"/jobs/{job}"):
                continue
            try:
                if self.job_status(job) == state:
                    return job
            except NoNodeError:
                pass
            self.unlock(f"/jobs/{job}")
        return None

    def delete_job(self, job: str) -> None:
        status, batch = self.job_status(job), self.text(f"/jobs/{job}/bid")
        priority = int(self.text(f"/jobs/{job}/priority"))
        self.delete(f"/jobs/states/{status.lower()}/{priority:02d}-{job}")
        self.delete(f"/batches/{batch}/states/{FOLDERS.get(status, 'batch-processing')}/{job}")
        self.delete(f"/jobs/{job}")

    # ------------------------------------------------------------------ locks

    def lock(self, item: str) -> bool:
        """Lock a batch or job. False: it is locked, or gone."""
        try:
            self.create(f"{item}/lock", ephemeral=True)
        except (NodeExistsError, NoNodeError):
            return False
        return True

    def unlock(self, item: str) -> None:
        self.delete(f"{item}/lock")

    def lock_object(self, kind: str, name: str, *, ephemeral: bool = True) -> bool:
        """Lock an object for storage or inventory, or a local id. Its Java services lock storage persistently."""
        try:
            self.create(f"/locks/{kind}/{lock_name(name)}", ephemeral=ephemeral)
        except NodeExistsError:
            return False
        return True

    def unlock_object(self, kind: str, name: str) -> None:
        self.delete(f"/locks/{kind}/{lock_name(name)}")


def lock_name(name: str) -> str:
    return re.sub(":?/", "_", name)


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())


def written(data: Any) -> bytes | None:
    if isinstance(data, dict):
        return json.dumps(data).encode()
    return None if data is None else str(data).encode()
