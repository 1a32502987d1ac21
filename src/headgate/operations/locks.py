"""Locks, and the queues for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headgate.core.errors import BadValue, LockLost, LockRefused, NotOwner, UnknownName
from headgate.core.locks.model import Lock, Mode, Waiter
from headgate.operations.arguments import (
    USUAL,
    After,
    By,
    Lease,
    Limit,
    OptionalReason,
    Reason,
    RequestId,
    Token,
    Wait,
)
from headgate.operations.declaring import About, Declarations, Idempotency, Limited, Named, Page, Seen

declared = Declarations("locks")
#: The resource of a lock that is named by its id; see `http/routes/locks.py`.
OWN = Limited("lock:acquire", "lock_id")

Client = Annotated[str, About("Name of the client: a process or a person.", example="copy-core")]
Resource = Annotated[str | None, About("URI of the resource; compared exactly.", example="mysql://db1/core")]
LockMode = Annotated[str, About("shared or exclusive (read or write), for `resource`.")]
Resources = Annotated[dict[str, str] | None, About("Instead of `resource`: several resources, each with a mode.")]
Reentrant = Annotated[bool, About("Count holds of the same client instead of refusing them.")]
Note = Annotated[str, About("Note for people: why it is held.", kept=True)]
Owner = Annotated[str, About("Name of the requesting process, for people.")]
LockDelay = Annotated[float, About("Seconds that the resource stays locked if the holder dies.", ge=0)]
Place = Annotated[str, About("The Headgate-Request (or Idempotency-Key) that joined the queue.")]
Granted = Annotated[tuple[Lock, ...], Named("locks")]
GRANT_ERRORS = (LockRefused, NotOwner, BadValue)


@declared.post(
    "/locks", "lock:acquire", repeat=Idempotency.REQUEST, status=201, answer="Granted, with a new token.",
    errors=GRANT_ERRORS,
)  # fmt: skip
def acquire(
    client: Client, resource: Resource = None, mode: LockMode = Mode.EXCLUSIVE, resources: Resources = None,
    wait: Wait = 0, lease: Lease | None = None, reentrant: Reentrant = False, note: Note = "", owner: Owner = "",
    lock_delay: LockDelay = 0, request_id: RequestId = None,
) -> Granted:  # fmt: skip
    """Acquire locks: all that are named, or none. With `wait`, wait in the queue up to that many seconds.

    409 names the blocking clients and says when to retry.
    """


@declared.get("/locks", "read", "lock:acquire", answer="Locks that are held, by id.", call="locks.list")
def list_locks(
    resource: str | None = None, client: str | None = None, mode: str | None = None,
    claims: Annotated[bool, About("Only claims of chunks.")] = False, after: After = None, limit: Limit = USUAL,
) -> Page[Seen[Lock]]:  # fmt: skip
    """List locks with their holders. Running claims of chunks are included."""


@declared.get("/locks/{lock_id}", "read", "lock:acquire", answer="The lock.", errors=(UnknownName,))
def get(lock_id: str) -> Seen[Lock]:
    """Return one lock that is held."""


@declared.delete("/locks/{lock_id}", "lock:acquire", limit=OWN, errors=(LockLost, NotOwner), quick=True)
def release(lock_id: str, token: Token) -> None:
    """Release a lock. 409, without any change, if it is not yours."""


@declared.post(
    "/locks/{lock_id}/renew", "lock:acquire", repeat=Idempotency.PROVEN, limit=OWN, errors=(LockLost, NotOwner),
    quick=True, answer="The lease restarts.",
)  # fmt: skip
def renew(lock_id: str, token: Token, lease: Lease | None = None) -> Lock:
    """Renew the lease of a lock. 409 if it has expired: an expired lease cannot be renewed."""


@declared.post(
    "/locks/{lock_id}/check", "lock:acquire", repeat=Idempotency.SAFE, limit=OWN, errors=(LockLost, NotOwner),
    answer="The lock is still held.",
)  # fmt: skip
def check(lock_id: str, token: Token) -> Lock:
    """Check whether a lock is still yours."""


@declared.post(
    "/locks/{lock_id}/upgrade", "lock:acquire", repeat=Idempotency.KEY, limit=OWN,
    errors=(LockRefused, LockLost, NotOwner), answer="Exclusive, with a new token.",
)  # fmt: skip
def upgrade(lock_id: str, token: Token) -> Lock:
    """Upgrade a lock from shared to exclusive, for the sole holder. Never waits."""


@declared.post(
    "/locks/{lock_id}/downgrade", "lock:acquire", repeat=Idempotency.KEY, limit=OWN, errors=(LockLost, NotOwner),
    answer="Shared, with the same token.",
)  # fmt: skip
def downgrade(lock_id: str, token: Token) -> Lock:
    """Downgrade a lock from exclusive to shared, in one step."""


@declared.post(
    "/locks/{lock_id}/hand-over", "lock:acquire", "admin:force", repeat=Idempotency.KEY, limit=OWN,
    errors=(LockLost, NotOwner), answer="The lock of the new owner, with a new token.",
)  # fmt: skip
def hand_over(
    lock_id: str, to: Annotated[str, About("The principal.", example="nightly")], reason: OptionalReason = ""
) -> Seen[Lock]:
    """Hand a lock over to another principal. It gets a new token, which only the new owner can read; the former
    holder can no longer use it.
    """


@declared.post(
    "/locks/{lock_id}/break", "admin:force", repeat=Idempotency.KEY, errors=(LockLost,),
    call="locks.break_lock", answer="The lock that was broken.",
)  # fmt: skip
def break_lock(lock_id: str, reason: Reason, by: By = None) -> Seen[Lock]:
    """Break a lock: its token becomes stale, and the reason is recorded."""


# ---------------------------------------------------------------- waiting, step by step


@declared.get("/waiters", "read", answer="Earliest first.", whole=True, cursor="since ticket client")
def waiters(resource: str | None = None, after: After = None, limit: Limit = USUAL) -> Page[Waiter]:
    """List waiters with the resources they wait for."""


@declared.post(
    "/waiters", "lock:acquire", repeat=Idempotency.REQUEST, status=202, answer="A queue position.",
    or_answers=((201, Granted, "Granted at once."),), like=acquire, errors=GRANT_ERRORS,
)  # fmt: skip
def queue_up() -> Annotated[int, Named("ticket")]:
    """Acquire locks, or join the queue for them. Poll at least every few seconds, or the queue position is lost.

    `POST /locks` with `wait` does all of this in one request.
    """


@declared.post(
    "/waiters/{ticket}/turn", "lock:acquire", repeat=Idempotency.SAFE, like=acquire, answer="Granted.",
    nothing="Still waiting.", errors=GRANT_ERRORS,
)  # fmt: skip
def take_turn(ticket: int, request_id: Place) -> Granted | None:
    """Poll a queue position for up to `wait` seconds, which also keeps it. A position that was lost is replaced by
    one at the end of the queue.
    """


@declared.post(
    "/waiters/{ticket}/give-up", "lock:acquire", repeat=Idempotency.PROVEN, like=acquire, answer="Granted meanwhile.",
    errors=GRANT_ERRORS, quick=True,
)  # fmt: skip
def give_up(ticket: int, request_id: Place) -> Granted:
    """Leave the queue. 409 names the blocking clients."""


@declared.post("/waiters/{ticket}/withdraw", "lock:acquire", repeat=Idempotency.PROVEN, like=acquire)
def withdraw(ticket: int, request_id: Place) -> None:
    """Leave the queue in any case; a lock that was granted meanwhile is released."""


# ---------------------------------------------------------------- storage guards


@dataclass(frozen=True, slots=True)
class Unguarded:
    """A lock without its storage guard."""

    #: Id of the lock.
    lock: str
    #: What is wrong.
    what: str


@declared.get("/guards/missing", "read", answer="By lock id.")
def unguarded(after: After = None, limit: Limit = USUAL) -> Page[Unguarded]:
    """List persistent locks whose storage guard is missing. The service retries every few seconds."""
