"""Who acts: the principal on whose behalf a store is asked.

The service names the caller in a context variable for each request. Whatever else asks a store (commands and daemons
on the store itself, background threads) is the principal `local`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headgate.core.owners import Actor
from headgate.telemetry import event

_NOBODY_ELSE = Actor()
_current: ContextVar[Actor] = ContextVar("headgate_actor", default=_NOBODY_ELSE)


def actor() -> Actor:
    """Return who acts now."""
    return _current.get()


def must_own(what: str, owner: str) -> None:
    """NotOwner when the acting principal may not change what this owner holds. An override is logged."""
    who = actor()
    who.must_own(what, owner)
    if who.override and owner not in ("", who.principal):
        log_override(what, owner)


def log_override(what: str, owner: str) -> None:
    """Log that the acting principal changes what this owner holds, and why it may."""
    who = actor()
    event("owner.overridden", logging.WARNING, what=what, owner=owner, by=who.principal, reason=who.override)


def act_as(who: Actor) -> None:
    """From now on, within this request, this caller acts."""
    _current.set(who)


@contextmanager
def acting(who: Actor | None = None) -> Iterator[None]:
    """Within this, that caller acts (None: whoever acted before), and after it whoever acted before."""
    before = _current.set(_current.get() if who is None else who)
    try:
        yield
    finally:
        _current.reset(before)
