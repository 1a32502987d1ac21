"""The whole: status, history, state tables, known clients and resources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from headgate.core.access.scopes import SCOPES
from headgate.core.counts import Counts
from headgate.core.errors import BadValue, Refused, UnknownName
from headgate.core.faults import Fault
from headgate.core.history import Entry, Happened
from headgate.operations.arguments import MOST, USUAL, After, By, Caller, Count, Limit, Repaired
from headgate.operations.declaring import About, AsTuple, Declarations, Idempotency, Limited, Named, Page

declared = Declarations("whole", "locks")
#: The scopes with which any caller may use it.
ANYONE = tuple(word for word in SCOPES if word != "admin")
REGISTRARS = ("lock:acquire", "define")
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
_EXAMPLE = "2026-11-15T04:50:00Z"
Since = Annotated[str | None, About("Earliest time (RFC 3339).", pattern=_TIME, example=_EXAMPLE, parsed=datetime)]
Until = Annotated[str | None, About("Latest time (RFC 3339).", pattern=_TIME, example=_EXAMPLE, parsed=datetime)]
Resource = Annotated[str, About("URI of the resource; compared exactly.", min_length=1, max_length=2048, place="query")]


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A registered client."""

    name: str
    #: When it was registered.
    since: datetime


@declared.get("/about", *ANYONE, answer="Version, store and caller.")
def about() -> dict[str, Any]:
    """Return the version, the store's tag, the spelling of its tables, and the caller."""


@declared.get("/status", "read", answer="opsQueue, lockCount, locks, failures.", call="status")
def status(rich: bool = False) -> dict[str, Any]:
    """Return what is running, locked and failed. `rich` adds holders, waiters and counts of the queue."""


@declared.get("/counts", "read", answer="Each by its name.", call="counts")
def counts() -> Counts:
    """Every number that the command and the dashboard show: what runs, waits, failed and is held."""


@declared.get("/store/faults", "read", answer="Each fault with its repair.")
def faults() -> Page[Fault]:
    """Find damage to locks, chunks, counters, history and clock. Changes nothing."""


@declared.post(
    "/store/repair", "operate", repeat=Idempotency.KEY, answer="Whether it was repaired.", packed={"fault": Fault}
)
def repair(kind: str, item: str, what: str, repair: str = "", by: By = None) -> Repaired:
    """Repair a fault that `/store/faults` reported, if it still exists."""


@declared.get("/machines", *ANYONE, answer="Each table.")
def machines() -> Page[dict[str, Any]]:
    """List the state tables in force: the states, the events, and who may fire them."""


@declared.get("/history", "read", answer="Newest first.", errors=(BadValue,))
def history(
    noun: str | None = None, event: str | None = None, resource: str | None = None, lock_id: str | None = None,
    job: str | None = None, dataid: str | None = None, item: str | None = None, client: str | None = None,
    since: Since = None, until: Until = None, after: After = None, limit: Limit = USUAL,
) -> Page[Entry]:  # fmt: skip
    """List the history of locks, chunks, jobs, batches, ingest jobs and holds."""


@declared.get("/history/counts", "read", answer="By noun, event and hour.")
def history_counts(
    event: Annotated[list[str], About("Only these events.", min_length=1, max_length=100)], since: Since = None
) -> Page[Happened]:
    """Count events by hour (default: the last day)."""


# ---------------------------------------------------------------- known names


@declared.get("/clients", "read", answer="By name.", whole=True, cursor="name")
def clients(after: After = None, limit: Limit = USUAL) -> Page[AsTuple[KnownClient]]:
    """List registered clients."""


@declared.put("/clients/{name}", *REGISTRARS, answer="When it was registered.")
def register_client(name: str) -> Annotated[datetime, Named("since")]:
    """Register a client, if it is new."""


@declared.delete("/clients/{name}", "operate", errors=(Refused, UnknownName))
def forget_client(name: str) -> None:
    """Remove a client. 409 while it holds a lock."""


@declared.get("/resources", "read", answer="Sorted.", whole=True, cursor="")
def resources(after: After = None, limit: Limit = USUAL) -> Page[str]:
    """List known resources: registered or ever locked, and not removed."""


@declared.put("/resources", *REGISTRARS, limit=Limited("lock:acquire", "resource"))
def register_resource(resource: Resource) -> None:
    """Register a resource, if it is new."""


@declared.delete("/resources", "operate", errors=(Refused, UnknownName))
def forget_resource(resource: Resource) -> None:
    """Remove a resource; its token counter is kept. 409 while it is held or has waiters."""


@declared.post(
    "/reap", "queue:work", "operate", repeat=Idempotency.SAFE, answer="How many were released.",
)  # fmt: skip
def reap(
    of: Annotated[Literal["locks", "ledger", "queue"], About("locks, ledger or queue.", place="query")],
    limit: Annotated[int, About("Largest number of results.", ge=1, le=MOST, place="query")] = MOST,
    by: Caller = None,
) -> Count:
    """Release what crashed processes left behind: locks, claims or items whose lease has expired. This also happens
    automatically.
    """
