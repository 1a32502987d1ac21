"""Expectations over HTTP."""

from __future__ import annotations

from headgate.http.api.handlers import Handlers
from headgate.operations import expectations

handlers = Handlers(expectations.declared)
