"""The acting principal of a store call.

The service names the caller in a context variable for each request. Other callers (commands and daemons on the store
itself, background threads) are the principal `local`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headgate.core.access import principals
from headgate.core.access.owners import Actor
from headgate.telemetry import event

_NOBODY_ELSE = Actor()
_current: ContextVar[Actor] = ContextVar("headgate_actor", default=_NOBODY_ELSE)


def actor() -> Actor:
    """Return the acting principal."""
    return _current.get()


def must_own(what: str, owner: str) -> None:
    """NotOwner when the acting principal may not change what this owner holds. An override is logged."""
    for override in principals.must_own(actor(), what, owner):
        log_override(override.what, override.owner)


def log_override(what: str, owner: str) -> None:
    """Log that the acting principal changes what this owner holds, and why it is allowed to."""
    who = actor()
    event("owner.overridden", logging.WARNING, what=what, owner=owner, by=who.principal, reason=who.override)


def act_as(who: Actor) -> None:
    """Act for this caller for the rest of the request."""
    _current.set(who)


@contextmanager
def acting(who: Actor | None = None) -> Iterator[None]:
    """Act for this caller within the block (None: unchanged), and for the previous one after it."""
    before = _current.set(_current.get() if who is None else who)
    try:
        yield
    finally:
        _current.reset(before)
