"""The port of the logs of attempts and ingest steps: removed when they are old."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class LogBook(Protocol):
    """All logs of one store."""

    def oldest(self) -> datetime | None:
        """Return when the oldest log was written; None: there is none."""

    def forget(self, until: datetime, limit: int) -> int:
        """Remove about `limit` logs from before that time, oldest first. Returns how many."""
