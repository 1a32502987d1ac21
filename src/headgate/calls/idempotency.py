"""Idempotency keys: the request that is being answered, and the record that its effect leaves in the store.

The HTTP layer names the request in a context variable. A store that makes a change for it writes the record in the
transaction of that change, so that either both exist or neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import HeadgateError
from headgate.core.values.names import REQUEST_ID_LENGTH
from headgate.core.values.wire import plain

#: Minimum number of seconds that a record is kept.
KEPT_SECONDS = 24 * 3600.0
#: Maximum number of characters of a stored result or answer.
MOST_KEPT = 1_000_000
#: The result of a transaction that is known only after its commit.
UNKNOWN = ""
_current: ContextVar[Keyed | None] = ContextVar("headgate_keyed", default=None)


@dataclass(slots=True)
class Keyed:
    """A request with an idempotency key."""

    #: The key of its record: `record_id` of principal and key.
    id: str
    #: Who sent it.
    principal: str
    #: SHA-256 of the request: method, path, query and body.
    digest: str
    #: Identifies this attempt: a record with it was written by this call.
    nonce: str
    #: True when a call that returns nothing has changed nothing.
    finds: bool = False
    #: True once the record is in the store.
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """The record of a request that took effect."""

    digest: str
    nonce: str
    #: The result of the transaction, as JSON; empty: it is too long, or was not known before the commit.
    result: str
    #: The answer: status and JSON; None and empty: it was not stored (yet).
    status: int | None = None
    answer: str = ""


class Repeated(HeadgateError):
    """Another attempt at this request took effect first. For the HTTP layer, never for callers."""


class Unfinished:
    """Base of results that say how to continue: their transaction had no effect yet."""


def record_id(principal: str, key: str) -> str:
    """Return the id of a request's record. Different principals never share one."""
    return hashlib.sha256(f"{principal}\0{key}".encode()).hexdigest()


def scoped_id(principal: str, given: str) -> str:
    """Return the request id under which the store recognises a principal's request: `PRINCIPAL:ID`, or a digest of a
    long one. Different principals never share one.
    """
    whole = f"{principal}:{given}"
    return whole if len(whole) <= REQUEST_ID_LENGTH else f"{principal}:#{record_id(principal, given)}"


def own_ids(principal: str, value: Any) -> Any:
    """Return a request id, or a JSON value containing request ids, with the principal's own in their original form."""
    if isinstance(value, str):
        return value.removeprefix(f"{principal}:")
    if isinstance(value, dict):
        return {name: each if _is_other(name, each) else own_ids(principal, each) for name, each in value.items()}
    return (
        [each if _is_other("", each) else own_ids(principal, each) for each in value]
        if isinstance(value, list)
        else value
    )


def _is_other(name: str, value: Any) -> bool:
    """Whether a value with that name is text rather than a request id: a resource may look like one."""
    return isinstance(value, str) and name != "request_id"


def pending() -> Keyed | None:
    """Return the request whose record must be written with the next change; None: there is none."""
    keyed = _current.get()
    return None if keyed is None or keyed.kept else keyed


def is_keyed() -> bool:
    """Return whether a request with an idempotency key is being answered."""
    return _current.get() is not None


@contextmanager
def answering(keyed: Keyed | None) -> Iterator[None]:
    """Within this block, changes are the effect of that request; None: of none."""
    token = _current.set(keyed)
    try:
        yield
    finally:
        _current.reset(token)


def effect(keyed: Keyed, result: Any) -> str | None:
    """Return the result of a transaction in its stored form; None when the transaction was not the effect."""
    if isinstance(result, BaseException | Unfinished) or (keyed.finds and result in (None, ())):
        return None
    if result == UNKNOWN:
        return ""
    text = json.dumps(plain(result), ensure_ascii=False, default=str)
    return text if len(text) <= MOST_KEPT else ""
