"""Sealed secrets and check values of keys over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from headgate.http.api.handlers import ApiCall, Handlers
from headgate.operations import secrets
from headgate.operations.declaring import Page

handlers = Handlers(secrets.declared)


@handlers.of(secrets.masters)
def masters(call: ApiCall) -> Page[secrets.MasterKnown]:
    """By number."""
    return Page([secrets.MasterKnown(*each) for each in sorted(call.gate.ledger.custody.masters().items())])
