"""Waiting: a place in each queue, the watch that ends the sleep, and the turn itself."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.core.locks import COMPATIBLE, Request, decide, resource_key
from headgate.stores.base import Grant, Ticket
from headgate.stores.zookeeper.multi import Op, first_error, multi
from headgate.stores.zookeeper.records import State, decode_state, moment, place_name, read_handed, read_place, read_queue
from headgate.stores.zookeeper.scene import Held, Scene, Seat, Stale, View
from headgate.stores.zookeeper.session import Interrupted, Session, Sessions
from headgate.stores.zookeeper.transitions import Transitions
from headgate.stores.zookeeper.tree import Tree, name_of

#: Seconds to wait for a grant to be handed over before it is looked what is in the way.
PATIENCE = 0.05


@dataclass(slots=True)
class Wait:
    """A place in queues that this process waits at."""

    request: Request
    mark: str
    session: Session
    #: The nodes, by resource.
    nodes: dict[str, str]
    woken: threading.Event = field(default_factory=threading.Event)
    #: Versions of the nodes that were dealt with.
    seen: dict[str, int] = field(default_factory=dict)
    armed: bool = False

    def wake(self, _event: Any = None) -> None:
        """Called by kazoo's own thread, which must not be kept."""
        self.woken.set()

    def changed(self, _event: Any = None) -> None:
        """The same, by a watch on a node of ours."""
        self.armed = False
        self.woken.set()


class Queue:
    """The waiting half of the port."""

    def __init__(self, sessions: Sessions, tree: Tree, transitions: Transitions) -> None:
        self._sessions = sessions
        self._tree = tree
        self._transitions = transitions
        self._waits: dict[int, Wait] = {}

    # ------------------------------------------------------------------ joining

    def join(self, request: Request) -> Ticket | None:
        """Take the last place in each queue; None: it may be this request's turn already."""
        session = self._sessions.leasing(request.lease)
        wait = Wait(request, secrets.token_hex(4), session, {})
        try:
            number, blocked = self._join(wait)
        except StoreUnavailable:
            session.on_return(lambda: self._clean_up(wait))
            raise
        self._waits[number] = wait
        return Ticket(number, request) if blocked else None
