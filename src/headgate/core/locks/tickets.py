"""What a request for locks returns: its locks, or a ticket for the queue."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.locks.model import Lock, Request

#: The locks of one request, in the order of its resources.
Granted = tuple[Lock, ...]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the queues of all resources of one request."""

    #: Smaller is earlier, over all resources of the store.
    number: int
    #: What is waited for.
    request: Request
