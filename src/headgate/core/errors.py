"""The error tree. Each error carries its data as attributes, and its text says what to do.

HeadgateError
├── Refused                 a rule says no; the same request may pass later
│   ├── LockRefused             somebody holds the resource, or stands before you in its queue
│   ├── ClaimRefused            the chunk may not be claimed, or changed, now
│   ├── TransitionRefused       the table has no such move from the present state
│   ├── QueueRefused            a move of a batch or ingest job whose condition is not met
│   ├── HoldersUnconfirmed      jobs would hold secrets that they did not hold before; an admin confirms each
│   ├── ObjectRefused           what an object is said to be contradicts what is known of it
│   ├── ServiceRefused          another service (EZID, storage, a callback) answered no
│   ├── KeyInUse                the first request with this Idempotency-Key is still running
│   ├── AlreadyDone             the request was carried out before, and its answer cannot be repeated
│   └── StoreInUse              a store that should move is still worked on
├── Lost                    somebody else was first, or it is no longer yours; never retry
│   ├── LockLost                released, expired, broken, or the token is stale
│   ├── ClaimLost               reported already, reaped, taken by another, or the token is stale
│   ├── ItemLost                a batch or ingest job that is not taken by you (any more)
│   ├── NotOwner                another principal holds the lock, claim, batch or ingest job
│   ├── VersionLost             somebody else stored a version of the object meanwhile
│   └── WorkStopped             work was told to stop before its end
├── Unavailable             cannot be reached now; nothing is known about the answer
│   ├── StoreUnavailable        the database or ensemble does not answer
│   ├── ServiceUnavailable      another service (origin, EZID, storage, mail) does not answer, or asks to wait
│   └── StorageGuardFailed      a guard could not put its own lock under ours
└── Invalid                 the request itself is wrong; nothing was written
    ├── BadValue                a name, mode, number or URL that cannot be used
    ├── KeyReused               an Idempotency-Key that was used for another request
    ├── BadPayload              what was fetched or stored is not what it should be
    ├── UnknownName             nothing of that name is here
    ├── BadManifest             a manifest with mistakes, all of them with their lines
    ├── BadProfiles             ingest profiles with mistakes, all of them with their files
    ├── WrongKey                a key that does not open what it should
    ├── NotAllowed              the API token is missing, unknown or ended, or does not reach that far
    ├── ForeignStore            a database that is not Headgate's, or a lock id of another store
    ├── StoreMisconfigured      a database, right, password or file of the store is missing or wrong
    ├── SchemaMismatch          a store of an older or newer Headgate
    ├── HalfMoved               a store into which another one is being moved, or was, and not to the end
    └── MissingExtra            a library for this kind of store, or for secrets, is not installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.core.claims import Verdict
    from headgate.core.locks import Blocker, Request


class HeadgateError(Exception):
    """Everything that Headgate raises on purpose."""

    def __str__(self) -> str:
        """Its text, which goes to logs, histories, reports and people: no secret is in it."""
        return redact(super().__str__())


class Refused(HeadgateError):
    """A rule says no. Try again later."""


class Lost(HeadgateError):
    """It is not yours (any more)."""


class Unavailable(HeadgateError):
    """Something that is needed does not answer."""


class Invalid(HeadgateError):
    """The request is wrong as it stands."""


class LockRefused(Refused):
    """Somebody holds the resource in a mode that does not agree, or waits for it already."""

    def __init__(self, request: Request, blockers: Sequence[Blocker], cycle: Sequence[str] = ()) -> None:
        #: What was asked.
        self.request = request
        #: Every lock, waiter or guard that stands in the way, in the order of the resources.
        self.blockers = tuple(blockers)
        #: Clients that wait for each other in a ring, if this request closed one.
        self.cycle = tuple(cycle)
        super().__init__(_refusal_text(request, self.blockers, self.cycle))


class ClaimRefused(Refused):
    """The chunk may not be claimed, or changed, as it stands."""

    def __init__(self, job: str, dataid: str, why: str, verdict: Verdict | None = None) -> None:
        self.job = job
        self.dataid = dataid
        self.why = why
        #: Every condition with its answer, where a claim was asked for.
        self.verdict = verdict
        super().__init__(why)


class TransitionRefused(Refused):
    """The table has no row for this event in this state."""

    def __init__(self, machine: str, state: str, event: str, allowed: Sequence[str]) -> None:
        self.machine = machine
        self.state = state
        self.event = event
        #: The events that the table allows in this state.
        self.allowed = tuple(allowed)
        listed = ", ".join(self.allowed) or "none"
        super().__init__(f"{machine} is {state}: {event} is not possible. Possible from here: {listed}")


class QueueRefused(Refused):
    """The table has the move, and something else stands in the way."""

    def __init__(self, item: str, event: str, why: str) -> None:
        #: The batch or ingest job.
        self.item = item
        self.event = event
        self.why = why
        super().__init__(f"{item}: {event} is not possible now: {why}")


class HoldersUnconfirmed(Refused):
    """Jobs would become holders of a dataset's secrets, and nobody has confirmed that."""

    def __init__(self, holders: Sequence[str]) -> None:
        #: Each as DATASET/JOB.
        self.holders = tuple(holders)
        pairs = [each.partition("/") for each in self.holders]
        listed = "; ".join(f"job {job} those of dataset {dataset}" for dataset, _, job in pairs)
        flags = " ".join(f"--new-holder {each}" for each in self.holders)
        super().__init__(
            f"these jobs would get secrets that they do not hold yet: {listed}. If that is meant, confirm it: {flags}"
        )


class ObjectRefused(Refused):
    """The names or the owner of an object are not those that the inventory knows."""

    def __init__(self, ark: str, why: str) -> None:
        self.ark = ark
        self.why = why
        super().__init__(f"{ark}: {why}")


class ServiceRefused(Refused):
    """Another service answered, and its answer is no."""

    def __init__(self, service: str, why: str) -> None:
        #: Which one, for people.
        self.service = service
        self.why = why
        super().__init__(f"{service} says no: {why}")


class KeyInUse(Refused):
    """The first request with this Idempotency-Key is still running."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the first request with the Idempotency-Key {key!r} is still running; send it again later")


class AlreadyDone(Refused):
    """The request was carried out before, and its answer cannot be repeated."""

    def __init__(self, key: str, result: object, why: str) -> None:
        self.key = key
        #: What it returned, as far as it is kept: an API token's id, a count, a list of changes.
        self.result = result
        self.why = why
        shown = f" Its result: {result}." if isinstance(result, str | int) and result != "" else ""
        super().__init__(f"the request with the Idempotency-Key {key!r} was carried out before; {why}.{shown}")


class StoreInUse(Refused):
    """A store that should move is still worked on."""

    def __init__(self, store: str, users: Sequence[str]) -> None:
        self.store = store
        #: Who: "2 running claims", …
        self.users = tuple(users)
        super().__init__(
            f"{store} is worked on: {', '.join(self.users)}. Stop what uses it, or wait until its leases have run out; "
            "with --force it is copied as it stands, and whoever holds something goes on with it in the new place"
        )


class LockLost(Lost):
    """The lock is gone, or the token is an old one."""

    def __init__(self, lock_id: str, token: int | None, why: str) -> None:
        self.lock_id = lock_id
        self.token = token
        self.why = why
        shown = "" if token is None else f" (token {token})"
        super().__init__(f"lock {lock_id}{shown} is not yours: {why}")


class ClaimLost(Lost):
    """The claim is over, or the token is an old one. Nothing was recorded."""

    def __init__(self, job: str, dataid: str, token: int | None, why: str) -> None:
        self.job = job
        self.dataid = dataid
        self.token = token
        self.why = why
        shown = "" if token is None else f" (token {token})"
        super().__init__(f"the claim of {job} on {dataid}{shown} is not yours: {why}")


class ItemLost(Lost):
    """A batch or ingest job is not taken by you (any more). Nothing was recorded."""

    def __init__(self, item: str, token: int | None, why: str) -> None:
        #: The batch or ingest job.
        self.item = item
        self.token = token
        self.why = why
        shown = "" if token is None else f" (token {token})"
        super().__init__(f"{item}{shown} is not yours: {why}")


class NotOwner(Lost):
    """Another principal holds it. Nothing was changed."""

    def __init__(self, what: str, owner: str, principal: str) -> None:
        #: The lock, claim, batch or ingest job.
        self.what = what
        #: The principal that holds it.
        self.owner = owner
        #: The principal that asked.
        self.principal = principal
        from headgate.core.owners import LOCAL  # It raises this error.

        where = "Work on the store itself, where it was taken" if owner == LOCAL else f"Use an API token of {owner!r}"
        super().__init__(
            f"{what} belongs to the principal {owner!r}, not to {principal!r}. {where}, ask for a hand-over, or "
            "override with the scope admin:force and a reason"
        )


class VersionLost(Lost):
    """Another process stored a version of the object meanwhile. Nothing of yours was stored."""

    def __init__(self, object_id: str, version: int) -> None:
        self.object_id = object_id
        #: The version that was to be yours.
        self.version = version
        super().__init__(f"{object_id}: another process stored version {version} meanwhile; nothing was stored")


class WorkStopped(Lost):
    """Work was told to stop. What was done so far is kept where a restart can go on, else removed."""

    def __init__(self, work: str) -> None:
        self.work = work
        super().__init__(f"{work} was told to stop")


class StoreUnavailable(Unavailable):
    """The store does not answer.

    `outcome` is "unknown" when the last request may have taken effect, "none" when it certainly did not.
    Repeating an acquire with the same `request_id` returns the same grant, so that nothing is taken twice.
    """

    def __init__(self, store: str, why: str, request_id: str | None = None, outcome: str = "unknown") -> None:
        self.store = store
        self.why = why
        self.request_id = request_id
        self.outcome = outcome
        super().__init__(f"{store} does not answer: {why}. Try again when it is back")


class ServiceUnavailable(Unavailable):
    """Another service does not answer, breaks off, or says later. Whether the last request took effect is not known."""

    def __init__(self, service: str, why: str, retry_after: float | None = None) -> None:
        #: Which one, for people: its name or address, without secrets.
        self.service = service
        self.why = why
        #: Seconds that it asks us to wait.
        self.retry_after = retry_after
        super().__init__(f"{service}: {why}. Try again later")


class StorageGuardFailed(Unavailable):
    """A storage guard broke (it did not say busy). What had been taken was given back."""

    def __init__(self, resource: str, why: str) -> None:
        self.resource = resource
        self.why = why
        super().__init__(f"the storage guard of {resource} failed: {why}")


class BadValue(Invalid):
    """A value that cannot be used, with the reason."""

    def __init__(self, what: str, value: object, why: str) -> None:
        #: Which argument: "client", "resource", "mode", "wait", …
        self.what = what
        self.value = value
        self.why = why
        super().__init__(f"{what} {_shown(value)} {why}")


class KeyReused(Invalid):
    """An Idempotency-Key that was used for another request."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the Idempotency-Key {key!r} was used for another request; use a new key for each request")


class BadPayload(Invalid):
    """A file, container or stored object is not what it should be. Trying again gives the same."""

    def __init__(self, what: str, why: str) -> None:
        #: The file's name or address, without secrets.
        self.what = what
        self.why = why
        super().__init__(f"{what}: {why}")


class UnknownName(Invalid):
    """Nothing of that name is here."""

    def __init__(self, what: str, name: str, hint: str = "") -> None:
        self.what = what
        self.name = name
        super().__init__(f"there is no {what} {_shown(name)}" + (f". {hint}" if hint else ""))


class BadManifest(Invalid):
    """A manifest that cannot be used, with every mistake in it."""

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        #: Each mistake: its line (0: the manifest as a whole) and what is wrong there.
        self.problems = tuple(problems)
        lines = [f"line {line}: {what}" if line else what for line, what in self.problems]
        super().__init__(_listed("the manifest cannot be used", lines))


class BadProfiles(Invalid):
    """Ingest profiles that cannot be used, with every mistake in them."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        #: Each mistake: its file, and what is wrong there.
        self.problems = tuple(problems)
        super().__init__(_listed("ingest profiles cannot be used", [f"{file}: {what}" for file, what in self.problems]))


class WrongKey(Invalid):
    """A key that does not open what it should. Nothing was claimed, and nothing was changed."""

    def __init__(self, job: str, why: str = "the key is not that of the job") -> None:
        self.job = job
        self.why = why
        super().__init__(f"job {job}: {why}" if job else why)


class NotAllowed(Invalid):
    """The service knows no such API token, or the token does not reach that far. Nothing was changed."""

    def __init__(self, why: str, scope: str = "") -> None:
        self.why = why
        #: What the token would have to have; empty: there is no good token at all.
        self.scope = scope
        super().__init__(why)


class ForeignStore(Invalid):
    """It belongs to another program, or to another store of ours."""


class StoreMisconfigured(Invalid):
    """The store cannot be used until an operator changes something. Trying again does not help; nothing was written."""

    def __init__(self, store: str, why: str, advice: str) -> None:
        self.store = store
        #: What is wrong, as the database says it.
        self.why = why
        #: What to do about it.
        self.advice = advice
        super().__init__(f"{store} cannot be used: {why.rstrip('.')}. {advice}")


class SchemaMismatch(Invalid):
    """The store was made by an older or newer Headgate."""


class HalfMoved(Invalid):
    """Another store is being moved into this one, or was, and not to the end. Nobody works with it until it is."""


class MissingExtra(Invalid):
    """A library that this kind of store, or secrets, need is not installed."""

    def __init__(self, extra: str, why: str) -> None:
        self.extra = extra
        super().__init__(f'{why}. Install it with: pip install "headgate[{extra}]"')


def _shown(value: object) -> str:
    # Before it is cut: the end of a signature is a secret too.
    text = redact(repr(value))
    return text if len(text) <= 80 else text[:60] + "…" + text[-15:]


def _listed(what: str, lines: Sequence[str], most: int = 20) -> str:
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([f"{what}:", *(f"  {line}" for line in [*lines[:most], *more])])


def _refusal_text(request: Request, blockers: Sequence[Blocker], cycle: Sequence[str]) -> str:
    wanted = ", ".join(f"{want.mode} on {want.resource}" for want in request.wants)
    lines = [f"{request.client} may not have {wanted} now:"]
    lines += [f"  {blocker.sentence()}" for blocker in blockers]
    if cycle:
        lines.append("  these clients wait for each other: " + " → ".join(cycle))
    return "\n".join(lines)
