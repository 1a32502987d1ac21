"""The result of a lock request: its locks, or a ticket for the queue."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.locks.model import Lock, Request

#: The locks of one request, in the order of its resources.
Granted = tuple[Lock, ...]


@dataclass(frozen=True, slots=True)
class Ticket:
    """The positions of one request in the queues of all its resources."""

    #: Smaller is earlier, across all resources of the store.
    number: int
    #: The locks that it waits for.
    request: Request
