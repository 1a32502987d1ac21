"""The queue of a service: each operation as it is declared in `headgate.operations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from headgate.calls.deadlines import QUEUE_CALLS, Limit, answered_in_time, bulk, within
from headgate.client.asking import USABLE_PART, Asking, WaitingThere
from headgate.client.connection import Connection
from headgate.client.sending import asks, send, sends
from headgate.core.daemons import Daemon
from headgate.core.errors import ItemLost
from headgate.core.faults import Fault
from headgate.core.machine import Machine
from headgate.core.names import check_request_id
from headgate.core.queue import ALL, Batch, Hold, Identifiers, IngestJob, Item, NewJob, Place, Report, Taken, is_batch
from headgate.core.states import BATCH, INGEST_JOB, MERRITT_BATCH, MERRITT_INGEST_JOB
from headgate.core.wire import plain
from headgate.operations import daemons, queue, whole
from headgate.operations.declaring import Operation
from headgate.service.checks import check_span, printable
from headgate.service.clock import steady
from headgate.service.identity import new_request_id, owner
from headgate.service.presence import Presence
from headgate.service.queue import Queue
from headgate.service.queue_checks import DEFAULT_LEASE, check_document, taken_of
from headgate.stores.base import Listening

#: By the spelling of the store behind the service.
TABLES = {"design": (BATCH, INGEST_JOB), "mrt-zk": (MERRITT_BATCH, MERRITT_INGEST_JOB)}
#: One request waits for work no longer.
LONGEST_WAIT_SECONDS = 20.0


def _waiting(answer_within: float, *_: object, wait: Any = 0, **__: object) -> Limit:
    """For as long as the caller waits, and renewing what was found."""
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
class RemoteQueue(Queue):
    """Batches and ingest jobs behind a service, which checks and records what it is asked."""

    def __init__(self, connection: Connection, spelling: str) -> None:
        self.connection, self.options = connection, connection.options
        self._tables = TABLES[spelling]
        self._begin(None, RemotePresence(connection))

    set_priority = asks(Queue.set_priority, queue.set_priority)
    holds = asks(Queue.holds, queue.holds)
    reportable = asks(Queue.reportable, queue.reportable)
    cleanable = asks(Queue.cleanable, queue.cleanable)
    batch = asks(Queue.batch, queue.batch)
    job = asks(Queue.job, queue.job)
    batches = asks(Queue.batches, queue.batches)
    jobs = asks(Queue.jobs, queue.jobs)
    job_ids = asks(Queue.job_ids, queue.job_ids)
    first_free = asks(Queue.first_free, daemons.first_free)
    counts = asks(Queue.counts, queue.counts)
    faults = asks(Queue.faults, queue.faults)

    def tables(self) -> tuple[Machine, Machine]:
        return self._tables

    def submit(
        self,
        profile: str,
        submitter: str,
        payload_url: str,
        *,
        type: str = "object-manifest",  # noqa: A002 - the depositor's word for it
        mode: str = "add",
        request_id: str | None = None,
        **metadata: Any,
    ) -> Batch:
        found: Batch = send(
            self.connection, queue.submit, profile=profile, submitter=submitter, payload_url=payload_url, type=type,
            mode=mode, metadata=check_document("metadata", metadata), request_id=_request_id(request_id),
        )  # fmt: skip
        return found

    def acquire_batch(
        self,
        state: str,
        *,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        wait: float = 0,
        after: Batch | str | None = None,
        request_id: str | None = None,
        outlives: bool = False,
    ) -> Batch | None:
        del outlives  # At a service, every lease does.
        behind = after.id if isinstance(after, Batch) else after
        asked = {"state": state, "worker": worker or owner(), "lease": lease, "after": behind}
        found: Batch | None = self._taken(queue.acquire_batch, wait, request_id, **asked)
        return found

    def acquire_job(
        self,
        state: str,
        *,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        wait: float = 0,
        after: Place | IngestJob | None = None,
        request_id: str | None = None,
        outlives: bool = False,
    ) -> IngestJob | None:
        del outlives  # At a service, every lease does.
        place = after.place if isinstance(after, IngestJob) else after
        behind = None if place is None else place._asdict()
        asked = {"state": state, "worker": worker or owner(), "lease": lease, "after": behind}
        found: IngestJob | None = self._taken(queue.acquire_job, wait, request_id, **asked)
        return found

    def renew(self, item: Item | Taken, *, lease: float | None = None) -> float:
        taken, began = taken_of(item), steady()
        asked = {**_proof(taken), "lease": taken.lease if lease is None else lease}
        seconds = float(self._send(taken.id, queue.renew_batch, queue.renew_job, **asked))
        self._asked.renewed(taken, began)
        return seconds

    def give_back(self, item: Item | Taken, message: str = "") -> None:
        taken = taken_of(item)
        asked = {**_proof(taken), "message": printable(message)}
        self._send(taken.id, queue.give_back_batch, queue.give_back_job, **asked)

    def create_portion(
        self,
        batch: Batch | Taken,
        position: int,
        rows: Sequence[NewJob | Mapping[str, Any]],
        max_crashes: int | None = None,
    ) -> int:
        del max_crashes  # The service asks its own copy of the profile.
        taken = taken_of(batch)
        asked = {"bid": taken.id, **_proof(taken), "position": position, "jobs": [_row(each) for each in rows]}
        return int(send(self.connection, queue.create_jobs, **asked))

    def fire(
        self,
        item: Item | Taken,
        event_name: str,
        message: str = "",
        *,
        priority: int | None = None,
        space_needed: int | None = None,
        identifiers: Identifiers | Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None,
        report: Report | None = None,
    ) -> Item:
        taken, said = taken_of(item), _said(priority, space_needed, identifiers, configuration)
        told = {"failed": report.failed, "successful": report.successful} if isinstance(report, Report) else report
        asked = {**_proof(taken), "event": event_name, "message": printable(message), "report": told, **said}
        found: Item = self._send(taken.id, queue.fire_batch, queue.fire_job, **asked)
        return found

    def change(
        self,
        item: Item | Taken,
        *,
        priority: int | None = None,
        space_needed: int | None = None,
        identifiers: Identifiers | Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None,
    ) -> Item:
        taken, said = taken_of(item), _said(priority, space_needed, identifiers, configuration)
        found: Item = self._send(taken.id, queue.change_batch, queue.change_job, **_proof(taken), **said)
        return found

    def await_work(self, batch_states: Sequence[str], job_states: Sequence[str], seconds: float) -> None:
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        send(self.connection, queue.await_work, batch=[*batch_states], job=[*job_states], wait=wait)

    def act(self, item: str, event_name: str, *, reason: str = "", by: str | None = None, daemon: bool = False) -> Item:
        asked = {"event": event_name, "reason": reason, "by": by, "daemon": daemon}
        found: Item = self._send(item, queue.fire_batch, queue.fire_job, **asked)
        return found

    def set_hold(self, profile: str = ALL, *, reason: str, by: str | None = None) -> Hold:
        found: Hold = send(self.connection, queue.set_hold, profile=profile, reason=reason, by=by)
        return found

    def clear_hold(self, profile: str = ALL, *, by: str | None = None) -> bool:
        return bool(send(self.connection, queue.clear_hold, profile=profile, by=by))

    def hold_of(self, profile: str) -> Hold | None:
        return next((hold for hold in self.holds() if hold.profile == profile), None)

    def reap(self, limit: int = 1000) -> int:
        return int(send(self.connection, whole.reap, of="queue", limit=limit))

    def repair(self, fault: Fault, *, by: str | None = None) -> bool:
        return bool(send(self.connection, queue.repair, **plain(fault), by=by))

    def _listen(self, places: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> Listening:
        del places, wake
        return Asking()

    def _taken(self, operation: Operation, wait: float, request_id: str | None, **asked: Any) -> Any:
        """What the service finds within that time.

        The service may have granted it as soon as the request began. When that was too long ago for its lease, the
        lease is renewed; if it is over, the next item is asked for.
        """

        def ask(seconds: float) -> Any:
            began = steady()
            with within(seconds + self.options.answer_within):
                item = send(self.connection, operation, **asked, wait=seconds, request_id=_request_id(request_id))
            return item if item is not None and self._is_kept(item, began, waited=seconds > 0) else None

        return WaitingThere(ask).within(check_span("wait", wait))

    def _is_kept(self, item: Item, began: float, *, waited: bool) -> bool:
        """Whether its lease still runs after a request that waited. When it began at the earliest is remembered."""
        if waited and steady() - began > (item.lease or DEFAULT_LEASE) * USABLE_PART:
            began = steady()
            try:
                with within(self.options.answer_within):
                    self.renew(item)
            except ItemLost:
                return False
        self._asked.note(item, began)
        return True

    def _send(self, item: str, of_batch: Operation, of_job: Operation, **asked: Any) -> Any:
        """The one of two operations that is for this item."""
        if is_batch(str(item)):
            return send(self.connection, of_batch, bid=item, **asked)
        return send(self.connection, of_job, jid=item, **asked)


class RemotePresence(Presence):
    """Who works on which steps of a service, which notes consumers by itself."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    sign_off = sends(daemons.sign_off)
    living = sends(daemons.daemons)

    def sign_on(self, daemon: Daemon) -> None:
        """A daemon lives: its lease begins anew."""
        asked = {"daemon": daemon.id, "worker": daemon.worker, "steps": daemon.steps, "lease": daemon.lease}
        send(self.connection, daemons.sign_on, **asked)

    def asked(self, worker: str, step: str) -> None:
        """The service notes it."""


def _request_id(given: str | None) -> str:
    return new_request_id() if given is None else check_request_id(given)  # It stands in a header.


def _proof(taken: Taken) -> dict[str, Any]:
    return {"token": taken.token, "state": taken.state, "worker": taken.worker}


def _row(row: Any) -> dict[str, Any]:
    """An object of a batch, as far as it can be sent."""
    given = asdict(row) if isinstance(row, NewJob) else row
    if isinstance(given, Mapping) and isinstance(named := given.get("identifiers"), Identifiers):
        given = {**given, "identifiers": asdict(named)}
    return check_document("row", given)


def _said(
    priority: int | None,
    space_needed: int | None,
    identifiers: Identifiers | Mapping[str, Any] | None,
    configuration: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """What an owner writes down."""
    return {
        "priority": priority, "space_needed": space_needed,
        "identifiers": asdict(identifiers) if isinstance(identifiers, Identifiers) else identifiers,
        "configuration": None if configuration is None else check_document("configuration", configuration),
    }  # fmt: skip
