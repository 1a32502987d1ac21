"""The inventory over HTTP: what is stored, and what the steps of ingest write down beside it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from headgate.core.errors import QueueRefused
from headgate.core.inventory import Intake, InventoryFile, Message, ObjectVersion, StoredObject
from headgate.http import direct
from headgate.http.auth import Caller, Forcer, Operator, TheGate, needs
from headgate.http.queue_schemas import (
    Announced,
    LocalIds,
    MessageDelayed,
    MessageSettled,
    ProblemTold,
    Recorded,
    Removed,
)
from headgate.http.repeats import NOTHING, RESULT, under
from headgate.http.schemas import Acted, After, Limit, Page, answer, documented, listing, nothing, page, page_after
from headgate.service.work_folder import is_known
from headgate.stores.acting import must_own

router = direct.router("inventory")
InventoryReader = Annotated[Caller, needs("read", "queue:work")]
Consumer = Annotated[Caller, needs("queue:work")]
Ark = Annotated[
    str, Query(min_length=1, max_length=2048, description="ARK of the object.", examples=["ark:/99999/fk4"])
]
IS_NEW = documented(200, dict[str, bool], "Whether it was new.")
NAMED = documented(200, dict[str, Any], "Its ARK or owner, and version.", nothing="No object is known.")


# ---------------------------------------------------------------- what is stored


@router.get("/objects", responses=documented(200, Page[StoredObject], "By ARK."))
def objects(
    gate: TheGate,
    _who: InventoryReader,
    owner: str | None = None,
    collection: str | None = None,
    local: Annotated[str | None, Query(description="Local id given by the depositor.")] = None,
    ark: str | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List stored objects."""
    found = gate.inventory.objects(
        owner=owner, collection=collection, local=local, ark=ark, after=after, limit=limit + 1
    )
    return page(found, limit, lambda each: each.ark)


@router.get("/objects/versions", responses=documented(200, Page[ObjectVersion], "Oldest first."))
def versions(gate: TheGate, _who: InventoryReader, ark: Ark, after: After = None, limit: Limit = 100) -> Response:
    """List the versions of an object."""
    return page_after(gate.inventory.versions(ark), after, limit, lambda each: f"{each.number:010}")


@router.get("/objects/files", responses=documented(200, Page[InventoryFile], "The files of that version."))
def files(
    gate: TheGate,
    _who: InventoryReader,
    ark: Ark,
    version: Annotated[int, Query(ge=1, lt=2**31)],
    after: Annotated[str | None, Query(pattern=r"^\d{1,9}$", description="The `next` of the previous page.")] = None,
    limit: Limit = 100,
) -> Response:
    """List the files of a version, each with its size and digest."""
    start = int(after or 0)
    found = gate.inventory.files(ark, version, start=start, limit=limit + 1)
    return listing(found[:limit], str(start + limit) if len(found) > limit else None)


@router.get("/objects/owner", responses=NAMED)
def owner_and_version(gate: TheGate, _who: InventoryReader, ark: Ark) -> Response:
    """Return the owner of an object and its newest version."""
    found = gate.inventory.owner_and_version(ark)
    return nothing() if found is None else answer({"owner": found[0], "version": found[1]})


# ---------------------------------------------------------------- what a step of ingest writes down


@router.get("/inventory/local-ids", responses=documented(200, dict[str, str], "The ARK of each known local id."))
def known_local_ids(
    gate: TheGate, _who: InventoryReader, owner: str, local: Annotated[list[str], Query(max_length=1000)]
) -> Response:
    """Look up which local ids of an owner are known."""
    return answer(gate.inventory.known_local_ids(owner, local))


@router.post(
    "/inventory/local-ids", under("ark"), responses=documented(200, dict[str, str], "The ARK that they belong to.")
)
def claim_local_ids(gate: TheGate, _who: Consumer, given: LocalIds) -> Response:
    """Assign local ids of an owner to an object; ids that are assigned already stay as they are. 409 if they belong
    to different objects.
    """
    return answer({"ark": gate.inventory.claim_local_ids(given.owner, given.ids, given.ark)})


@router.post("/inventory/recordings", under("new"), responses=IS_NEW)
def record(gate: TheGate, who: Consumer, given: Recorded) -> Response:
    """Record a stored version with its files, names and callback, and publish it in the ledger, in one transaction.
    409 if it contradicts the ingest job or its profile.
    """
    from headgate.ingest.recording import record as write_down

    return answer({"new": write_down(gate.ingest, given.recording, by=who.by(given.by))})


@router.post("/inventory/removals", under("removed"), responses=documented(200, dict[str, bool], "Whether it existed."))
def remove(gate: TheGate, who: Forcer, given: Removed) -> Response:
    """Remove an object with its versions, files and names from the inventory, and its chunks from the ledger, in one
    transaction.
    """
    removed = gate.inventory.remove(given.ark, given.dataids, reason=given.reason, by=who.by(given.by))
    return answer({"removed": removed})


@router.get("/inventory/recordings", responses=NAMED)
def recorded(gate: TheGate, _who: InventoryReader, job: str) -> Response:
    """Return the object and version that an ingest job has recorded."""
    found = gate.inventory.recorded(job)
    return nothing() if found is None else answer({"ark": found[0], "version": found[1]})


@router.get(
    "/inventory/intakes/{bid}", responses=documented(200, Intake, "The profile at that time.", nothing="Not started.")
)
def intake(gate: TheGate, _who: Consumer, bid: str) -> Response:
    """Return the profile that a batch started with."""
    found = gate.inventory.intake(bid)
    return nothing() if found is None else answer(found)


@router.put("/inventory/intakes/{bid}/problem", status_code=204)
def set_problem(gate: TheGate, _who: Consumer, bid: str, given: ProblemTold) -> Response:
    """Record why a batch's payload produced no jobs. 409 unless the batch was taken as pending, 403 if another
    principal has taken it.
    """
    batch = gate.queue.batch(bid)
    if batch.state != "pending" or not batch.worker:
        raise QueueRefused(bid, "report a problem", f"it is {batch.state}, and no consumer has taken it as pending")
    must_own(bid, batch.principal)
    gate.inventory.set_problem(bid, given.problem)
    return nothing()


@router.delete("/inventory/items/{item}", status_code=204)
def forget_item(gate: TheGate, _who: Consumer, item: str) -> Response:
    """Remove what a batch or job that has left the queue started with, and its messages. 409 while it is in the
    queue.
    """
    if is_known(gate.queue, item):
        raise QueueRefused(item, "forget", "it is still in the queue")
    gate.inventory.forget(item)
    return nothing()


# ---------------------------------------------------------------- the outbox


@router.get("/messages", responses=documented(200, Page[Message], "By id, without their bodies."))
def messages(
    gate: TheGate,
    _who: InventoryReader,
    item: Annotated[str | None, Query(description="The batch or ingest job.", examples=["bid0000000001"])] = None,
    failed: Annotated[bool, Query(description="Only messages that were tried but not delivered.")] = False,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List mails and callbacks: waiting, delivered or given up."""
    found = gate.inventory.messages(item, failed=failed, after=after, limit=limit + 1)
    return page(found, limit, lambda each: each.id)


@router.post("/messages", under("new"), responses=IS_NEW)
def announce(gate: TheGate, _who: Consumer, given: Announced) -> Response:
    """Create a message about a batch or ingest job and put it into the outbox. The profile alone determines its
    recipients; `new` is false if the profile wants no message, or if it exists already.
    """
    from headgate.ingest.messages import announce as put

    return answer({"new": put(gate.ingest, given.item, given.notice)})


@router.get("/messages/due", responses=documented(200, Page[Message], "Earliest first."))
def due(gate: TheGate, _who: Consumer, limit: Limit = 100) -> Response:
    """List the messages that the messenger should send now: the first `limit`. Ask again when these are sent."""
    return listing(gate.inventory.due(limit))


@router.get("/messages/{message}", responses=documented(200, Message, "The message.", nothing="No such message."))
def message(gate: TheGate, _who: InventoryReader, message: str) -> Response:
    """Return one message."""
    found = gate.inventory.message(message)
    return nothing() if found is None else answer(found)


@router.post("/messages/{message}/settle", NOTHING, status_code=204)
def settle(gate: TheGate, _who: Consumer, message: str, given: MessageSettled) -> Response:
    """Report that a message was delivered, or given up."""
    gate.inventory.settle(message, given.state, given.problem, given.recipients)
    return nothing()


@router.post("/messages/{message}/delay", NOTHING, status_code=204)
def delay(gate: TheGate, _who: Consumer, message: str, given: MessageDelayed) -> Response:
    """Report that a message could not be delivered. It is retried after the given time."""
    gate.inventory.delay(message, given.problem, given.seconds, given.recipients)
    return nothing()


@router.post("/messages/{message}/resend", RESULT, responses=documented(200, Message, "It is waiting to be sent."))
def resend(gate: TheGate, _who: Operator, message: str) -> Response:
    """Send a message again under the same id: at once, then as often as a new one."""
    return answer(gate.inventory.resend(message))


@router.post(
    "/messages/{message}/discard", RESULT, responses=documented(200, Message, ("The message that was discarded."))
)
def discard(gate: TheGate, _who: Operator, message: str, act: Acted) -> Response:
    """Discard a message: give it up and remove it from the outbox."""
    return answer(gate.inventory.discard(message, reason=act.reason))
