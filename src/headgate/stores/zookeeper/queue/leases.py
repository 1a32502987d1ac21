"""Leases of items that are not bound to a session: taken through the service, renewed by any process, judged like a
lock's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.queue.model import Taken
from headgate.stores.zookeeper.ensemble.asking import read, write
from headgate.stores.zookeeper.ensemble.clock import Clock
from headgate.stores.zookeeper.ensemble.multi import Op, first_error, multi
from headgate.stores.zookeeper.ensemble.session import ZkSession, ZkSessions
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.records import ItemNodes, judged, owner_content
from headgate.stores.zookeeper.queue.tree import QueueTree, decode, encode


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item that this process has taken."""

    #: The item when it was taken; None: it may have changed since.
    record: ItemNodes | None
    token: int
    session: ZkSession
    #: The session's number: if it changes, the item was lost; 0: it is not bound to a session.
    number: int
    request_id: str
    #: On the monotonic clock: its lease is valid until then, unless another process renews it.
    until: float


@dataclass(eq=False)
class ItemLeases:
    """Renews and ends the leases of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree
    _questions: ItemQuestions
    _clock: Clock

    def left(self, record: ItemNodes) -> float:
        """The remaining seconds of a lease by the newest stamp of its owner's node; 0: it has expired."""
        owner = read(self._tree.owner(record.item.id))
        now, (answer,) = self._clock.ask(self._sessions.base, [owner])
        return judged(record, answer, now).left or 0.0

    def renew_in_one_trip(self, taken: Taken, lease: float, record: ItemNodes) -> bool:
        """Renew a lease that is certainly alive. False: something has changed."""
        content = owner_content(record.item, lease, record.mark)
        ops = [
            Op("check", self._tree.status(taken.id), version=record.version),
            Op("set", self._tree.owner(taken.id), content),
        ]
        results = self._sessions.base.ask(multi(ops))[0]
        return first_error(results) is None

    def renew(self, taken: Taken, lease: float, owned: Callable[[], ItemNodes]) -> None:
        """Write the stamp again. `owned` returns the item, or raises ItemLost once its lease has expired."""
        path, tries = self._tree.owner(taken.id), Tries(self._sessions.name)
        while True:
            record = owned()
            answer = self._sessions.base.ask(read(path))[0]
            if isinstance(answer, Exception):
                if not record.owned:
                    return  # Another tool's, which lives by a session of its own.
                tries.again(f"{path} is missing, although {taken.id} is taken")
                continue
            content = {**decode(answer[0], "owner"), "lease": lease}
            content.pop("left", None)
            written = self._sessions.base.ask(write(path, encode(content), answer[1].version))[0]
            if not isinstance(written, Exception):
                return
            tries.again(f"{path} was always written by others first")

    def move_on(self, outage: float) -> None:
        """Give leases that had not expired at the service's last sign of life their remaining time from then."""
        session = self._sessions.base
        for record in self._questions.records(self._questions.owned(), judge=False):
            if record.lock != 0:
                continue
            path = self._tree.owner(record.item.id)
            now, (answer,) = self._clock.ask(session, [read(path)])
            if isinstance(answer, Exception):
                continue
            content, stat = decode(answer[0], "owner"), answer[1]
            span = float(content.get("left", content.get("lease", 0)))
            if left := now.left_before(outage, span, stat):
                session.ask(write(path, encode({**content, "left": round(left, 3)}), stat.version))
