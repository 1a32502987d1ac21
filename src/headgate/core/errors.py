"""The error tree. Each error carries its data as attributes; its text says what happened and what to do.

HeadgateError
├── Refused                 a rule forbids it now; the same request may succeed later
│   ├── LockRefused             another client holds the resource, or is ahead of you in its queue
│   ├── ClaimRefused            the chunk cannot be claimed or changed now
│   ├── TransitionRefused       the current state does not allow this transition
│   ├── QueueRefused            a condition for the transition of a batch or ingest job is not met
│   ├── HoldersUnconfirmed      jobs would gain access to more secrets; an admin must confirm each
│   ├── ObjectRefused           the names or owner of an object contradict the inventory
│   ├── ServiceRefused          another service (EZID, storage, a callback) refused the request
│   ├── KeyInUse                the first request with this Idempotency-Key is still running
│   ├── AlreadyDone             the request has been completed before, and its answer cannot be repeated
│   └── StoreInUse              a store to be copied or restored is still in use
├── Lost                    another process was first, or it is no longer yours; do not retry
│   ├── LockLost                released, expired, broken, or the token is stale
│   ├── ClaimLost               reported already, reaped, claimed by another worker, or the token is stale
│   ├── ItemLost                you have not taken the batch or ingest job, or no longer hold it
│   ├── NotOwner                another principal holds the lock, claim, batch or ingest job
│   ├── VersionLost             another process has already stored this version of the object
│   └── WorkStopped             work was stopped before it finished
├── Unavailable             cannot be reached now; the outcome is unknown
│   ├── StoreUnavailable        the database or ensemble does not answer
│   ├── ServiceUnavailable      another service (origin, EZID, storage, mail) does not answer, or asks you to wait
│   └── StorageGuardFailed      a guard could not acquire its lock in the storage system
└── Invalid                 the request itself is wrong; nothing was written
    ├── BadValue                a name, mode, number or URL that cannot be used
    ├── KeyReused               an Idempotency-Key that was used for another request
    ├── BadPayload              a downloaded or stored file is not valid
    ├── UnknownName             nothing has that name
    ├── BadManifest             a manifest has errors, all listed with their lines
    ├── BadProfiles             ingest profiles have errors, all listed with their files
    ├── WrongKey                a key does not match the job or the secret
    ├── NotAllowed              the API token is missing, unknown or expired, or lacks the scope
    ├── NoStore                 no store is named or found, or the one that is named was not created yet
    ├── ForeignStore            a database of another program, or a lock id of another store
    ├── StoreMisconfigured      a database, permission, password or file of the store is missing or wrong
    ├── SchemaMismatch          the store was created by an older or newer Headgate
    ├── HalfMoved               copying another store into this one has not finished
    └── MissingExtra            an optional library for this kind of store, or for secrets, is not installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.access.owners import LOCAL
from headgate.core.values.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.core.ledger.verdicts import Verdict
    from headgate.core.locks.model import Blocker, Request


class HeadgateError(Exception):
    """Base class of all errors that Headgate raises."""

    def __str__(self) -> str:
        """Return the text with secrets masked, since it appears in logs, histories and reports."""
        return redact(super().__str__())


class Refused(HeadgateError):
    """A rule forbids it now. Retry later."""


class Lost(HeadgateError):
    """The caller does not hold it, or no longer holds it. Do not retry."""


class Unavailable(HeadgateError):
    """A service or store that is needed does not answer."""


class Invalid(HeadgateError):
    """The request itself is wrong. Correct it before you retry."""


class LockRefused(Refused):
    """Another client holds the resource in a conflicting mode, or is ahead in its queue."""

    def __init__(self, request: Request, blockers: Sequence[Blocker], cycle: Sequence[str] = ()) -> None:
        #: The request that was refused.
        self.request = request
        #: Every lock, waiter or guard that blocks it, in the order of the resources.
        self.blockers = tuple(blockers)
        #: The clients of a deadlock, if this request would have caused one.
        self.cycle = tuple(cycle)
        super().__init__(_refusal_text(request, self.blockers, self.cycle))


class ClaimRefused(Refused):
    """The chunk cannot be claimed or changed in its current state."""

    def __init__(self, job: str, dataid: str, why: str, verdict: Verdict | None = None) -> None:
        self.job = job
        self.dataid = dataid
        self.why = why
        #: Every condition with its answer, if the request was a claim.
        self.verdict = verdict
        super().__init__(why)


class TransitionRefused(Refused):
    """The current state does not allow this transition."""

    def __init__(self, machine: str, state: str, event: str, allowed: Sequence[str]) -> None:
        self.machine = machine
        self.state = state
        self.event = event
        #: The events that the table allows in this state.
        self.allowed = tuple(allowed)
        listed = ", ".join(self.allowed) or "none"
        super().__init__(f"{machine} is {state}: {event} is not possible. Possible from here: {listed}")


class QueueRefused(Refused):
    """The state allows the transition, but another condition is not met."""

    def __init__(self, item: str, event: str, why: str) -> None:
        #: The batch or ingest job.
        self.item = item
        self.event = event
        self.why = why
        super().__init__(f"{item}: {event} is not possible now: {why}")


class HoldersUnconfirmed(Refused):
    """Jobs would gain access to a dataset's secrets, and no admin has confirmed that."""

    def __init__(self, holders: Sequence[str]) -> None:
        #: Each as DATASET/JOB.
        self.holders = tuple(holders)
        pairs = [each.partition("/") for each in self.holders]
        listed = "; ".join(f"job {job} those of dataset {dataset}" for dataset, _, job in pairs)
        flags = " ".join(f"--new-holder {each}" for each in self.holders)
        super().__init__(
            f"these jobs would gain access to secrets that they cannot read yet: {listed}. If you intend this, "
            f"confirm with: {flags}"
        )


class ObjectRefused(Refused):
    """The names or the owner of an object differ from those in the inventory."""

    def __init__(self, ark: str, why: str) -> None:
        self.ark = ark
        self.why = why
        super().__init__(f"{ark}: {why}")


class ServiceRefused(Refused):
    """Another service refused the request."""

    def __init__(self, service: str, why: str) -> None:
        #: Its name, for messages.
        self.service = service
        self.why = why
        super().__init__(f"{service} refused the request: {why}")


class KeyInUse(Refused):
    """The first request with this Idempotency-Key is still running."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the first request with the Idempotency-Key {key!r} is still running; repeat it later")


class AlreadyDone(Refused):
    """The request has been completed before, and its answer cannot be repeated."""

    def __init__(self, key: str, result: object, why: str) -> None:
        self.key = key
        #: Its result, if it is kept: an API token's id, a count, a list of changes.
        self.result = result
        self.why = why
        shown = f" Its result: {result}." if isinstance(result, str | int) and result != "" else ""
        super().__init__(f"the request with the Idempotency-Key {key!r} has already been completed; {why}.{shown}")


class StoreInUse(Refused):
    """A store to be copied or restored is still in use."""

    def __init__(self, store: str, users: Sequence[str]) -> None:
        self.store = store
        #: What uses it: "2 running claims", …
        self.users = tuple(users)
        super().__init__(
            f"{store} is in use: {', '.join(self.users)}. Stop its clients, or wait until their leases expire. With "
            "--force it is copied as it is, and current holders continue in the new store"
        )


class LockLost(Lost):
    """The lock was released, expired or broken, or the token is stale."""

    def __init__(self, lock_id: str, token: int | None, why: str) -> None:
        self.lock_id = lock_id
        self.token = token
        self.why = why
        shown = "" if token is None else f" (token {token})"
        super().__init__(f"lock {lock_id}{shown} is not yours: {why}")


class ClaimLost(Lost):
    """The claim has ended, or the token is stale. Nothing was recorded."""

    def __init__(self, job: str, dataid: str, token: int | None, why: str) -> None:
        self.job = job
        self.dataid = dataid
        self.token = token
        self.why = why
        shown = "" if token is None else f" (token {token})"
        super().__init__(f"the claim of {job} on {dataid}{shown} is not yours: {why}")


class ItemLost(Lost):
    """You have not taken the batch or ingest job, or no longer hold it. Nothing was recorded."""

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
        #: The principal of the caller.
        self.principal = principal
        where = "Use the store directly, as its holder does" if owner == LOCAL else f"Use an API token of {owner!r}"
        super().__init__(
            f"{what} belongs to the principal {owner!r}, not to {principal!r}. {where}, ask the owner to hand it "
            "over, or override with the scope admin:force and a reason"
        )


class VersionLost(Lost):
    """Another process has already stored this version of the object. Nothing was stored."""

    def __init__(self, object_id: str, version: int) -> None:
        self.object_id = object_id
        #: The number of the version.
        self.version = version
        super().__init__(f"{object_id}: another process has already stored version {version}; nothing was stored")


class WorkStopped(Lost):
    """Work was stopped. Its results so far are kept where a restart can continue from them, else removed."""

    def __init__(self, work: str) -> None:
        self.work = work
        super().__init__(f"{work} was stopped before it finished")


class StoreUnavailable(Unavailable):
    """The store does not answer.

    `outcome` is "unknown" when the last request may have taken effect, "none" when it certainly did not.
    Repeating an acquire with the same `request_id` returns the same grant, so nothing is acquired twice.
    """

    def __init__(self, store: str, why: str, request_id: str | None = None, outcome: str = "unknown") -> None:
        self.store = store
        self.why = why
        self.request_id = request_id
        self.outcome = outcome
        super().__init__(f"{store} does not answer: {why}. Retry when it is available again")


class ServiceUnavailable(Unavailable):
    """Another service does not answer, disconnects, or asks to wait."""

    def __init__(self, service: str, why: str, retry_after: float | None = None, outcome: str = "unknown") -> None:
        #: Its name or address, without secrets.
        self.service = service
        self.why = why
        #: Seconds that it asks us to wait.
        self.retry_after = retry_after
        #: Of the request: `none`, it changed nothing; `unknown`, it may have taken effect.
        self.outcome = outcome
        super().__init__(f"{service}: {why}. Retry later")


class StorageGuardFailed(Unavailable):
    """A storage guard failed (it did not report busy). Everything acquired so far was released."""

    def __init__(self, resource: str, why: str) -> None:
        self.resource = resource
        self.why = why
        super().__init__(f"the storage guard of {resource} failed: {why}")


class BadValue(Invalid):
    """A value is not valid; `why` is the reason."""

    def __init__(self, what: str, value: object, why: str) -> None:
        #: Which argument: "client", "resource", "mode", "wait", …
        self.what = what
        self.value = value
        self.why = why
        super().__init__(f"{what} {_shown(value)} {why}")


class KeyReused(Invalid):
    """The Idempotency-Key was used for another request."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the Idempotency-Key {key!r} was used for another request; use a new key for each request")


class BadPayload(Invalid):
    """A file, container or stored object is not valid. Retrying does not help."""

    def __init__(self, what: str, why: str) -> None:
        #: The file's name or address, without secrets.
        self.what = what
        self.why = why
        super().__init__(f"{what}: {why}")


class UnknownName(Invalid):
    """Nothing has that name."""

    def __init__(self, what: str, name: str, hint: str = "") -> None:
        self.what = what
        self.name = name
        super().__init__(f"there is no {what} {_shown(name)}" + (f". {hint}" if hint else ""))


class BadManifest(Invalid):
    """A manifest has errors; all are listed."""

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        #: Each error: its line (0: the whole manifest) and its description.
        self.problems = tuple(problems)
        lines = [f"line {line}: {what}" if line else what for line, what in self.problems]
        super().__init__(_listed("the manifest has errors", lines))


class BadProfiles(Invalid):
    """Ingest profiles have errors; all are listed."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        #: Each error: its file and its description.
        self.problems = tuple(problems)
        super().__init__(
            _listed("the ingest profiles have errors", [f"{file}: {what}" for file, what in self.problems])
        )


class WrongKey(Invalid):
    """A key does not match the job or the secret. Nothing was claimed or changed."""

    def __init__(self, job: str, why: str = "the key does not belong to this job") -> None:
        self.job = job
        self.why = why
        super().__init__(f"job {job}: {why}" if job else why)


class NotAllowed(Invalid):
    """The API token is missing, unknown or expired, or lacks the scope. Nothing was changed."""

    def __init__(self, why: str, scope: str = "") -> None:
        self.why = why
        #: The scope that is required; empty if there is no valid token.
        self.scope = scope
        super().__init__(why)


class NoStore(Invalid):
    """No store is named or found, or the one that is named was never created: `headgate init` creates one."""


class ForeignStore(Invalid):
    """A database of another program, or an id of another Headgate store."""


class StoreMisconfigured(Invalid):
    """The store cannot be used until an operator corrects its configuration. Nothing was written."""

    def __init__(self, store: str, why: str, advice: str) -> None:
        self.store = store
        #: The database's own error message.
        self.why = why
        #: How to correct it.
        self.advice = advice
        super().__init__(f"{store} cannot be used: {why.rstrip('.')}. {advice}")


class SchemaMismatch(Invalid):
    """The store was created by an older or newer Headgate."""


class HalfMoved(Invalid):
    """Copying another store into this one has not finished. It cannot be used until then."""


class MissingExtra(Invalid):
    """An optional library for this kind of store, or for secrets, is not installed."""

    def __init__(self, extra: str, why: str) -> None:
        self.extra = extra
        super().__init__(f'{why}. Install it with: pip install "headgate[{extra}]"')


def _shown(value: object) -> str:
    # Mask before truncating: the end of a signature is a secret too.
    text = redact(repr(value))
    return text if len(text) <= 80 else text[:60] + "…" + text[-15:]


def _listed(what: str, lines: Sequence[str], most: int = 20) -> str:
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([f"{what}:", *(f"  {line}" for line in [*lines[:most], *more])])


def _refusal_text(request: Request, blockers: Sequence[Blocker], cycle: Sequence[str]) -> str:
    wanted = ", ".join(f"{want.mode} on {want.resource}" for want in request.wants)
    lines = [f"{request.client} cannot acquire {wanted} now:"]
    lines += [f"  {blocker.sentence()}" for blocker in blockers]
    if cycle:
        lines.append("  these clients wait for each other (a deadlock): " + " → ".join(cycle))
    return "\n".join(lines)
