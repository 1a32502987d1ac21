"""The inventory over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from headgate.calls.actor import must_own
from headgate.core.errors import QueueRefused
from headgate.core.inventory import InventoryFile, Recording
from headgate.core.queue.model import PENDING
from headgate.http.api.handlers import ApiCall, Handlers
from headgate.operations import inventory
from headgate.operations.declaring import Page
from headgate.service.queue.work_folder import is_known

handlers = Handlers(inventory.declared)


@handlers.of(inventory.files)
def files(call: ApiCall, *, ark: str, version: int, after: str | None, limit: int) -> Page[InventoryFile]:
    """The cursor is a position."""
    start = int(after or 0)
    found = call.gate.inventory.files(ark, version, start=start, limit=limit + 1)
    return Page(found[:limit], str(start + limit) if len(found) > limit else None)


@handlers.of(inventory.record)
def record(call: ApiCall, *, recording: Recording, by: str) -> bool:
    """The service adds the callback that the profile defines."""
    from headgate.ingest.steps.recording import record as write_down

    return write_down(call.gate.ingest, recording, by=by)


@handlers.of(inventory.set_problem)
def set_problem(call: ApiCall, *, bid: str, problem: str) -> None:
    """Only its owner may do this, and only for a pending batch."""
    batch = call.gate.queue.batch(bid)
    if batch.state != PENDING or not batch.worker:
        raise QueueRefused(bid, "report a problem", f"it is {batch.state}, and no consumer has taken it as pending")
    must_own(bid, batch.principal)
    call.gate.inventory.set_problem(bid, problem)


@handlers.of(inventory.forget)
def forget(call: ApiCall, *, item: str) -> None:
    """For an item that has left the queue."""
    if is_known(call.gate.queue, item):
        raise QueueRefused(item, "forget", "it is still in the queue")
    call.gate.inventory.forget(item)


@handlers.of(inventory.announce)
def announce(call: ApiCall, *, item: str, notice: str) -> bool:
    """The profile determines the recipients."""
    from headgate.ingest.notices.messages import announce as put

    return put(call.gate.ingest, item, notice)
