"""Sealed secrets and check values of keys over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from typing import Any

from headgate.core.access.credentials import Custody, CustodyChange, MasterWrap
from headgate.core.errors import BadValue
from headgate.core.values.wire import parse
from headgate.http.api.handlers import ApiCall, Handlers
from headgate.operations import secrets
from headgate.operations.declaring import Page

handlers = Handlers(secrets.declared)


@handlers.of(secrets.change_custody)
def change_custody(call: ApiCall, *, known: Any, change: Any) -> bool:
    """If everything still matches."""
    before, after = _parsed(Custody, known, "known"), _parsed(CustodyChange, change, "change")
    return call.gate.ledger.custody.change_custody(before, after)


@handlers.of(secrets.rewrap)
def rewrap(call: ApiCall, *, pairs: Any) -> int:
    """Those that still match."""
    return call.gate.ledger.custody.rewrap(_parsed(list[tuple[MasterWrap, MasterWrap]], pairs, "pairs"))


@handlers.of(secrets.masters)
def masters(call: ApiCall) -> Page[secrets.MasterKnown]:
    """By number."""
    return Page([secrets.MasterKnown(*each) for each in sorted(call.gate.ledger.custody.masters().items())])


def _parsed(shape: Any, value: Any, name: str) -> Any:
    """A part of the body, in the form of the responses."""
    try:
        return parse(shape, value)
    except (TypeError, KeyError, ValueError, AttributeError, StopIteration):
        raise BadValue(name, "in the body", "is missing, or does not have the format of the responses") from None
