"""The queue of a service: each operation as it is declared in `headgate.operations`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from headgate.calls.deadlines import QUEUE_CALLS, Limit, answered_in_time, bulk, within
from headgate.client.asking import USABLE_PART, WaitingThere
from headgate.client.connection import ServiceConnection
from headgate.client.sending import ServicePart, known_by, remote, same_as, send
from headgate.core.daemons import Daemon
from headgate.core.errors import ItemLost
from headgate.core.queue.model import (
    Batch,
    Hold,
    Identifiers,
    IngestJob,
    Item,
    NewJob,
    Place,
    Report,
    Taken,
    is_batch,
)
from headgate.core.tables.machine import Machine
from headgate.core.tables.states import BATCH, INGEST_JOB, MERRITT_BATCH, MERRITT_INGEST_JOB
from headgate.operations import daemons, queue, whole
from headgate.operations.declaring import Operation
from headgate.service.access.identity import owner
from headgate.service.checks import check_span, printable
from headgate.service.leases.clock import steady
from headgate.service.leases.ending import Look
from headgate.service.leases.looking import REST_SECONDS, Looking
from headgate.service.queue.checks import DEFAULT_LEASE, check_document, taken_of
from headgate.service.queue.presence import Presence
from headgate.service.queue.use_cases import Queue

#: Depends on the spelling of the store behind the service.
TABLES = {"design": (BATCH, INGEST_JOB), "mrt-zk": (MERRITT_BATCH, MERRITT_INGEST_JOB)}
#: One request waits for work for at most this long.
LONGEST_WAIT_SECONDS = 20.0


def _waiting(answer_within: float, *_: object, wait: Any = 0, **__: object) -> Limit:
    """For as long as the caller waits, plus the time to renew a result."""
    known = isinstance(wait, int | float) and 0 < wait < float("inf")
    seconds = 2 * answer_within + (wait if known else 0)
    return Limit(seconds, seconds)


def _resting(answer_within: float, _batches: object, _jobs: object, seconds: float) -> Limit:
    return Limit(seconds + answer_within, seconds + answer_within)


CALLS = {
    **QUEUE_CALLS, "create_portion": bulk, "reap": bulk, "acquire_batch": _waiting, "acquire_job": _waiting,
    "await_work": _resting,
}  # fmt: skip


@answered_in_time(CALLS)
@remote("queue", queue.declared, daemons.declared, here=("create_jobs",))
class RemoteQueue(Queue):
    """Batches and ingest jobs behind a service, which checks and records each operation."""

    def __init__(self, connection: ServiceConnection, spelling: str) -> None:
        self.connection, self.options = connection, connection.options
        self._tables = TABLES[spelling]
        self._begin(None, RemotePresence(connection))

    def tables(self) -> tuple[Machine, Machine]:
        return self._tables

    @same_as(Queue.submit)
    def submit(self, *, metadata: Mapping[str, Any], **given: Any) -> Any:
        given["request_id"] = known_by(given["request_id"])
        return send(self.connection, queue.submit, **given, metadata=check_document("metadata", metadata))

    @same_as(Queue.acquire_batch)
    def acquire_batch(self, *, after: Batch | str | None, **asked: Any) -> Any:
        return self._taken(queue.acquire_batch, after=after.id if isinstance(after, Batch) else after, **asked)

    @same_as(Queue.acquire_job)
    def acquire_job(self, *, after: Place | IngestJob | None, **asked: Any) -> Any:
        place = after.place if isinstance(after, IngestJob) else after
        return self._taken(queue.acquire_job, after=None if place is None else place._asdict(), **asked)

    def renew(self, item: Item | Taken, *, lease: float | None = None) -> float:
        taken, began = taken_of(item), steady()
        seconds = float(self._send(taken, "renew", lease=taken.lease if lease is None else lease))
        self._asked.renewed(taken, began)
        return seconds

    def give_back(self, item: Item | Taken, message: str = "") -> None:
        self._send(taken_of(item), "give_back", message=printable(message))

    @same_as(Queue.create_portion)
    def create_portion(self, batch: Batch | Taken, position: int, rows: Sequence[Any], max_crashes: int | None) -> Any:
        del max_crashes  # The service uses its own copy of the profile.
        taken = taken_of(batch)
        asked = {"bid": taken.id, **_proof(taken), "position": position, "jobs": [_row(each) for each in rows]}
        return send(self.connection, queue.create_jobs, **asked)

    @same_as(Queue.fire)
    def fire(self, item: Item | Taken, event_name: str, message: str, report: Report | None, **said: Any) -> Any:
        told = {"failed": report.failed, "successful": report.successful} if isinstance(report, Report) else report
        asked = {"event": event_name, "message": printable(message), "report": told, **_said(**said)}
        return self._send(taken_of(item), "fire", **asked)

    @same_as(Queue.change)
    def change(self, item: Item | Taken, **said: Any) -> Any:
        return self._send(taken_of(item), "change", **_said(**said))

    def await_work(self, batch_states: Sequence[str], job_states: Sequence[str], seconds: float) -> None:
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        send(self.connection, queue.await_work, batch=[*batch_states], job=[*job_states], wait=wait)

    @same_as(Queue.act)
    def act(self, item: str, event_name: str, **why: Any) -> Any:
        return self._send(item, "fire", event=event_name, **why)

    def hold_of(self, profile: str) -> Hold | None:
        return next((hold for hold in self.holds() if hold.profile == profile), None)

    def reap(self, limit: int = 1000) -> int:
        return int(send(self.connection, whole.reap, of="queue", limit=limit))

    def _item(self, item: str, state: str | None, wait: float) -> Item:
        noun, name = ("batch", "bid") if is_batch(item) else ("job", "jid")
        found: Item = send(self.connection, getattr(queue, noun), **{name: item}, state=state, wait=wait)
        return found

    def _looking_at(self, item: str, look: Look[Item]) -> Looking[Item]:
        del item
        return WaitingThere(look, REST_SECONDS)

    def _taken(
        self,
        operation: Operation,
        *,
        worker: str | None,
        wait: float,
        request_id: str | None,
        outlives: bool,
        **asked: Any,
    ) -> Any:
        """The service's result within that time.

        The service may have granted it as soon as the request began. If that was too long ago for its lease, the lease
        is renewed; if it has expired, the next item is requested.
        """

        del outlives  # At a service, every lease outlives the session.
        asked["worker"] = worker or owner()

        def ask(seconds: float) -> Any:
            began = steady()
            with within(seconds + self.options.answer_within):
                item = send(self.connection, operation, **asked, wait=seconds, request_id=known_by(request_id))
            return item if item is not None and self._is_kept(item, began, waited=seconds > 0) else None

        return WaitingThere(ask).within(check_span("wait", wait))

    def _is_kept(self, item: Item, began: float, *, waited: bool) -> bool:
        """Whether its lease is still valid after a waiting request. The earliest time at which it can have begun is
        recorded.
        """
        if waited and steady() - began > (item.lease or DEFAULT_LEASE) * USABLE_PART:
            began = steady()
            try:
                with within(self.options.answer_within):
                    self.renew(item)
            except ItemLost:
                return False
        self._asked.note(item, began)
        return True

    def _send(self, item: Taken | str, act: str, **asked: Any) -> Any:
        """Send the operation for a batch or an ingest job, with the owner's proof if there is one."""
        proof = _proof(item) if isinstance(item, Taken) else {}
        named = item.id if isinstance(item, Taken) else item
        noun, name = ("batch", "bid") if is_batch(str(named)) else ("job", "jid")
        return send(self.connection, getattr(queue, f"{act}_{noun}"), **{name: named}, **proof, **asked)


@remote("queue.presence", daemons.declared)
class RemotePresence(ServicePart, Presence):
    """The daemons and consumers of a service, which registers consumers itself."""

    def sign_on(self, daemon: Daemon) -> None:
        """Renew the lease of a registered daemon."""
        asked = {"daemon": daemon.id, "worker": daemon.worker, "steps": daemon.steps, "lease": daemon.lease}
        send(self.connection, daemons.sign_on, **asked)

    def asked(self, worker: str, step: str) -> None:
        """Do nothing: the service registers it."""


def _proof(taken: Taken) -> dict[str, Any]:
    return {"token": taken.token, "state": taken.state, "worker": taken.worker}


def _row(row: Any) -> dict[str, Any]:
    """An object of a batch, in the form of a request."""
    given = asdict(row) if isinstance(row, NewJob) else row
    if isinstance(given, Mapping) and isinstance(named := given.get("identifiers"), Identifiers):
        given = {**given, "identifiers": asdict(named)}
    return check_document("row", given)


def _said(*, identifiers: Any, configuration: Any, **numbers: Any) -> dict[str, Any]:
    """Changes that an owner records."""
    return {
        **numbers, "identifiers": asdict(identifiers) if isinstance(identifiers, Identifiers) else identifiers,
        "configuration": None if configuration is None else check_document("configuration", configuration),
    }  # fmt: skip
