"""Resources as they were read from the ensemble: nodes, children, and the stamps that show whether leases are valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kazoo.exceptions import NoNodeError

from headgate.core.locks.model import Lock
from headgate.stores.zookeeper.ensemble.clock import Now, moment
from headgate.stores.zookeeper.locks.records import NEVER, Holder, Stamp, State, WaitNode, decode_state, read_queue


class Unclear(Exception):
    """The times of nodes are needed too. Internal to this store; callers never see it."""


@dataclass(frozen=True, slots=True)
class View:
    """A resource's node and its children as they were seen."""

    path: str
    state: State
    version: int
    children: frozenset[str]
    #: The stamps of the children that were read (at least of all that may have expired), and the time before that.
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    now: Now | None = None
    #: True: every child was read.
    whole: bool = False

    def left(self, holder: Holder) -> float | None:
        """The remaining seconds of a lease, or of a dead holder's lock-delay; None: it has no end, or it is unknown."""
        if self.now is None or (holder.lease is None and not holder.dead):
            return None
        stamp = self.stamps.get(holder.node)
        if stamp is None:
            return 0.0 if holder.dead else None
        if holder.dead:
            return holder.delay - self.now.age(stamp.made, stamp.number)
        span = stamp.span if stamp.span is not None else holder.lease or 0.0
        return self.now.left(span, stamp)

    def over(self, holder: Holder) -> bool:
        """Whether its lease or lock-delay has expired."""
        left = self.left(holder)
        return left is not None and left <= 0

    def lives(self, holder: Holder) -> bool:
        """Whether a grant is alive, as far as this view shows."""
        if holder.dead or holder.node not in self.children:
            return False
        asked = self.whole or (self.now is not None and holder.lease is not None)
        return not (asked and holder.node not in self.stamps) and not self.over(holder)

    def time(self, node: str) -> tuple[int, int]:
        """Number and time of a child; Unclear when they were not read."""
        if not self.whole:
            raise Unclear
        stamp = self.stamps.get(node)
        return (stamp.number, stamp.made) if stamp else (0, 0)

    def lock(self, holder: Holder) -> Lock:
        """A grant in the form for the rest of the program, with its times as far as they were read."""
        stamp = self.stamps.get(holder.node)
        return holder.lock(self.state.uri, since=moment(stamp.made) if stamp else NEVER, left=self.left(holder))

    def places(self) -> list[WaitNode]:
        """The queue, earliest first."""
        return read_queue(self.children, self.state.holders)


def read_view(path: str, answer: Any, names: Any) -> View | None:
    """Convert the answers about a resource to a view; None: there is no such resource."""
    if isinstance(answer, NoNodeError) or isinstance(names, NoNodeError):
        return None
    data, stat = answer
    return View(path, decode_state(data, path), stat.version, frozenset(names))


def supposed_view(path: str, state: State, version: int, names: Sequence[str]) -> View:
    """A view that assumes that every holder is alive, and that knows only part of the queue."""
    return View(path, state, version, frozenset([*(holder.node for holder in state.holders), *names]))
