"""Problems that a service answers, raised as the errors that they were there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from headgate.core import errors
from headgate.core.claims import Verdict
from headgate.core.errors import BadValue, HeadgateError, NotAllowed, StoreUnavailable
from headgate.core.locks import Blocker, Request
from headgate.core.wire import parse

TYPE = "urn:headgate:"
#: What errors are made of, in the order of their arguments; text unless said otherwise.
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "LockRefused": {"request": Request, "blockers": tuple[Blocker, ...], "cycle": tuple[str, ...]},
    "ClaimRefused": {"job": Any, "dataid": Any, "why": Any, "verdict": Verdict | None},
    "TransitionRefused": {"machine": Any, "state": Any, "event": Any, "allowed": tuple[str, ...]},
    "StoreInUse": {"store": Any, "users": tuple[str, ...]},
    "QueueRefused": {"item": Any, "event": Any, "why": Any},
    "HoldersUnconfirmed": {"holders": tuple[str, ...]},
    "ObjectRefused": {"ark": Any, "why": Any},
    "KeyInUse": {"key": Any},
    "AlreadyDone": {"key": Any, "result": Any, "why": Any},
    "KeyReused": {"key": Any},
    "ServiceRefused": {"service": Any, "why": Any},
    "LockLost": {"lock_id": Any, "token": Any, "why": Any},
    "ClaimLost": {"job": Any, "dataid": Any, "token": Any, "why": Any},
    "ItemLost": {"item": Any, "token": Any, "why": Any},
    "NotOwner": {"what": Any, "owner": Any, "principal": Any},
    "VersionLost": {"object_id": Any, "version": Any},
    "WorkStopped": {"work": Any},
    "StoreUnavailable": {"store": Any, "why": Any, "request_id": Any, "outcome": Any},
    "StoreMisconfigured": {"store": Any, "why": Any, "advice": Any},
    "ServiceUnavailable": {"service": Any, "why": Any, "retry_after": Any},
    "StorageGuardFailed": {"resource": Any, "why": Any},
    "BadValue": {"what": Any, "value": Any, "why": Any},
    "BadPayload": {"what": Any, "why": Any},
    "UnknownName": {"what": Any, "name": Any},
    "BadManifest": {"problems": tuple[tuple[Any, ...], ...]},
    "BadProfiles": {"problems": tuple[tuple[Any, ...], ...]},
    "WrongKey": {"job": Any, "why": Any},
    "NotAllowed": {"why": Any, "scope": Any},
    "MissingExtra": {"extra": Any, "why": Any},
}


def raise_problem(service: str, answer: Any, key: str | None) -> NoReturn:
    """The error that an answer tells of; its text is the service's own."""
    try:
        document = answer.json()
        error = _error(service, document, answer.status_code, key)
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):  # A proxy's, or of another version.
        raise StoreUnavailable(
            service, f"it answers {answer.status_code} without a problem document of Headgate", key
        ) from None
    raise error


def _error(service: str, document: dict[str, Any], status: int, key: str | None) -> HeadgateError:
    name = _class_name(document["type"])
    kind = getattr(errors, name, None)
    if kind is BadValue and "errors" in document:  # It is not what the operation takes.
        first = document["errors"][0]
        error: HeadgateError = BadValue(first["where"].rpartition(".")[2], None, first["why"])
        error.args = (document["detail"],)
        return error
    if isinstance(kind, type) and issubclass(kind, HeadgateError):
        shape = SHAPES.get(name, {})
        given = [parse(each, document.get(field)) for field, each in shape.items()]
        error = kind(*given) if shape else kind(document["detail"])
        error.args = (document["detail"],)
        return error
    if status in (400, 413, 422):
        return BadValue("request", "", document["detail"])
    if status in (401, 403):
        return NotAllowed(document["detail"])
    return StoreUnavailable(service, f"{status}: {document['detail']}", key)


def _class_name(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.removeprefix(TYPE).split("-"))
