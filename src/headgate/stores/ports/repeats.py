"""The port of idempotency keys: records of requests that took effect."""

from __future__ import annotations

from typing import Protocol

from headgate.calls.idempotency import Kept, Keyed


class RepeatStore(Protocol):
    """Storage of these records."""

    def find(self, record_id: str) -> Kept | None:
        """Return the record of a request."""

    def answered(self, keyed: Keyed, status: int, answer: str) -> None:
        """Add the answer to the request's record; make the record if there is none."""

    def drop(self, record_id: str) -> None:
        """Remove the record of a request whose effect was undone."""

    def clean(self, limit: int = 1000) -> int:
        """Remove up to `limit` records that are older than KEPT_SECONDS. Return how many were removed."""
