"""History: what happened, kept with the change that it tells of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened."""

    #: Grows with time in one store; the place from which to read on.
    id: int
    #: When, by the store's clock.
    at: datetime
    #: What it happened to: lock (later also chunk, batch, job).
    noun: str
    #: An event of the noun's table.
    event: str
    #: The resource.
    resource: str
    #: Who did it, or to whom it happened.
    client: str
    #: The lock's id.
    lock_id: str
    #: The token at that moment.
    token: int
    #: The state before and after.
    before: str
    after: str
    #: Why, where a reason is asked or known.
    reason: str = ""
    #: How many times within the minute (refusals).
    count: int = 1
