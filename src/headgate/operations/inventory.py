"""Stored objects, the records that ingest steps keep about them, and the outbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from headgate.core.errors import NotOwner, ObjectRefused, QueueRefused, UnknownName
from headgate.core.inventory import (
    Delivery,
    Intake,
    InventoryFile,
    Message,
    ObjectVersion,
    Recipient,
    Recording,
    StoredObject,
)
from headgate.core.logs import Log, LogStream, LogText
from headgate.core.queue.model import DOWNLOADING
from headgate.operations.arguments import USUAL, After, By, Limit, Reason, Token
from headgate.operations.declaring import About, AsTuple, Declarations, Idempotency, Named, Page

declared = Declarations("inventory")
KEY, PROVEN = Idempotency.KEY, Idempotency.PROVEN
READERS = ("read", "queue:work")
Ark = Annotated[str, About("ARK of the object.", min_length=1, max_length=2048, example="ark:/99999/fk4")]
BodyArk = Annotated[str, About("ARK of the object.", example="ark:/99999/fk4")]
IsNew = Annotated[bool, Named("new")]
Recipients = Annotated[list[Recipient] | None, About("The final state of each recipient.")]
Problem = Annotated[str, About("What went wrong.", kept=True)]
NO_OBJECT = "There is no such object."


@dataclass(frozen=True, slots=True)
class OwnerAndVersion:
    """The owner of an object, and its newest version."""

    owner: str
    #: Number of the newest version.
    version: int


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """The version of an object that an ingest job has recorded."""

    #: ARK of the object.
    ark: str
    #: Number of the version.
    version: int


# ---------------------------------------------------------------- stored objects


@declared.get("/objects", *READERS, answer="By ARK.", cursor="ark")
def objects(
    owner: str | None = None, collection: str | None = None,
    local: Annotated[str | None, About("Local id given by the depositor.")] = None, ark: str | None = None,
    after: After = None, limit: Limit = USUAL,
) -> Page[StoredObject]:  # fmt: skip
    """List stored objects."""


@declared.get("/objects/versions", *READERS, answer="Oldest first.", whole=True, cursor="number", errors=(UnknownName,))
def versions(ark: Ark, after: After = None, limit: Limit = USUAL) -> Page[ObjectVersion]:
    """List the versions of an object."""


@declared.get("/objects/files", *READERS, answer="The files of that version.", errors=(UnknownName,))
def files(
    ark: Ark, version: Annotated[int, About(ge=1, lt=2**31)],
    after: Annotated[str | None, About("The `next` of the previous page.", pattern=r"^\d{1,9}$")] = None,
    limit: Limit = USUAL,
) -> Page[InventoryFile]:  # fmt: skip
    """List the files of a version, each with its size and digest."""


@declared.get("/objects/owner", *READERS, answer="Its owner and version.", nothing=NO_OBJECT)
def owner_and_version(ark: Ark) -> AsTuple[OwnerAndVersion] | None:
    """Return the owner of an object and its newest version."""


# ---------------------------------------------------------------- records of ingest steps


@declared.get("/inventory/local-ids", *READERS, answer="The ARK of each known local id.", renamed={"local": "ids"})
def known_local_ids(owner: str, local: Annotated[list[str], About(max_length=1000)]) -> dict[str, str]:
    """Look up which local ids of an owner are known."""


@declared.post(
    "/inventory/local-ids", "queue:work", repeat=PROVEN, answer="The ARK that they belong to.",
    errors=(ObjectRefused,),
)  # fmt: skip
def claim_local_ids(
    owner: str, ids: Annotated[list[str], About(min_length=1, max_length=1000)], ark: BodyArk
) -> Annotated[str, Named("ark")]:
    """Assign local ids of an owner to an object; ids that are assigned already stay as they are. 409 if they belong
    to different objects.
    """


@declared.post(
    "/inventory/recordings", "queue:work", repeat=KEY, answer="Whether it was new.",
    errors=(ObjectRefused, QueueRefused),
)  # fmt: skip
def record(recording: Recording, by: By = None) -> IsNew:
    """Record a stored version with its files, names and callback, and publish it in the ledger, in one transaction.
    409 if it contradicts the ingest job or its profile.
    """


@declared.post("/inventory/removals", "admin:force", repeat=KEY, answer="Whether it existed.")
def remove(
    ark: BodyArk, reason: str,
    dataids: Annotated[list[str] | None, About("Prefix of its versions in the ledger.", max_length=10_000)] = None,
    by: By = None,
) -> Annotated[bool, Named("removed")]:  # fmt: skip
    """Remove an object with its versions, files and names from the inventory, and its chunks from the ledger, in one
    transaction.
    """


@declared.get("/inventory/recordings", *READERS, answer="Its ARK and version.", nothing=NO_OBJECT)
def recorded(job: str) -> AsTuple[RecordedVersion] | None:
    """Return the object and version that an ingest job has recorded."""


@declared.get("/ingest-jobs/{job}/logs", "read", answer="Newest step first.", errors=(UnknownName,))
def logs(job: str, limit: Limit = USUAL) -> Page[Log]:
    """List the stored logs of an ingest job: for each step the end of the output of its handler or command. There are
    no further pages.
    """


@declared.put("/ingest-jobs/{job}/logs", "queue:work")
def keep_log(
    job: str, token: Token, attempt: Annotated[int, About("Number of the attempt at the step.", ge=1)],
    step: Annotated[str, About("State of the job.", example=DOWNLOADING)],
    texts: Annotated[list[LogText], About("The end of each stream.", min_length=1, max_length=len(LogStream))],
    ended: Annotated[bool, About("The log is complete.")] = False,
) -> None:  # fmt: skip
    """Store the end of the output of one step of an ingest job; a text replaces the one before. The token ensures that
    each log belongs to one consumer only.
    """


@declared.get("/inventory/intakes/{bid}", "queue:work", answer="The profile at that time.", nothing="Not started.")
def intake(bid: str) -> Intake | None:
    """Return the profile that a batch started with."""


@declared.put("/inventory/intakes/{bid}/problem", "queue:work", errors=(QueueRefused, NotOwner, UnknownName))
def set_problem(bid: str, problem: Problem) -> None:
    """Record why a batch's payload produced no jobs. 409 unless the batch was taken as pending, 403 if another
    principal has taken it.
    """


@declared.delete("/inventory/items/{item}", "queue:work", repeat=Idempotency.SAFE, errors=(QueueRefused,))
def forget(item: str) -> None:
    """Remove the intake and the messages of a batch or job that has left the queue. 409 while it is in the queue."""


# ---------------------------------------------------------------- the outbox


@declared.get("/messages", *READERS, answer="By id, without their bodies.")
def messages(
    item: Annotated[str | None, About("The batch or ingest job.", example="bid0000000001")] = None,
    failed: Annotated[bool, About("Only messages that were tried but not delivered.")] = False,
    after: After = None, limit: Limit = USUAL,
) -> Page[Message]:  # fmt: skip
    """List mails and callbacks: waiting, delivered or abandoned."""


@declared.post("/messages", "queue:work", repeat=KEY, answer="Whether it was new.", errors=(UnknownName,))
def announce(
    item: Annotated[str, About("A batch or ingest job.", example="bid0000000001")],
    notice: Annotated[
        Literal["queued", "report", "failed", "recorded"],
        About(
            "`queued`: a batch was accepted. `report`: the report of a batch. `failed`: a failed job. `recorded`: a "
            "job in `notify` whose object another service has recorded."
        ),
    ],
) -> IsNew:
    """Create a message about a batch or ingest job and put it into the outbox. The profile alone determines its
    recipients; `new` is false if the profile wants no message, or if it exists already.
    """


@declared.get("/messages/due", "queue:work", answer="Earliest first.")
def due(limit: Limit = USUAL) -> Page[Message]:
    """List the messages that the messenger should send now: the first `limit`. Repeat it when these are sent."""


@declared.get("/messages/{message}", *READERS, answer="The message.", nothing="No such message.")
def message(message: str) -> Message | None:
    """Return one message."""


@declared.post("/messages/{message}/settle", "queue:work", repeat=PROVEN)
def settle(
    message: str,
    state: Annotated[Delivery, About(example="delivered")],
    problem: Problem = "",
    recipients: Recipients = None,
) -> None:
    """Report that a message was delivered or abandoned."""


@declared.post("/messages/{message}/delay", "queue:work", repeat=KEY)
def delay(
    message: str, problem: Problem, seconds: Annotated[float, About("Seconds until it is retried.", ge=0, le=1e9)],
    recipients: Recipients = None,
) -> None:  # fmt: skip
    """Report that a message could not be delivered. It is retried after the given time."""


@declared.post(
    "/messages/{message}/resend",
    "operate",
    repeat=KEY,
    answer="The message, waiting to be sent.",
    errors=(UnknownName,),
)
def resend(message: str) -> Message:
    """Send a message again under the same id: at once, with as many retries as a new one."""


@declared.post(
    "/messages/{message}/discard",
    "operate",
    repeat=KEY,
    answer="The message that was discarded.",
    errors=(UnknownName,),
)
def discard(message: str, reason: Reason) -> Message:
    """Discard a message: give it up and remove it from the outbox."""
