"""Leases of items that no session keeps: taken through the service, renewed by any process, judged like a lock's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.core.queue import Taken
from headgate.stores.zookeeper.asking import read, write
from headgate.stores.zookeeper.clock import Clock
from headgate.stores.zookeeper.multi import Op, first_error, multi
from headgate.stores.zookeeper.queue_questions import QueueQuestions
from headgate.stores.zookeeper.queue_records import Record, judged, owner_content
from headgate.stores.zookeeper.queue_tree import QueueTree, decode, encode
from headgate.stores.zookeeper.session import Session, Sessions


@dataclass(frozen=True, slots=True)
class Kept:
    """An item that this process has."""

    #: As it was when it was taken; None: it may have changed since.
    record: Record | None
    token: int
    session: Session
    #: The session's number: another one means that the item was lost; 0: no session keeps it.
    number: int
    request_id: str
    #: On the monotonic clock: its lease runs until then, unless another process renews it.
    until: float


class ItemLeases:
    """Renews and ends the leases of one queue."""

    def __init__(self, sessions: Sessions, tree: QueueTree, questions: QueueQuestions, clock: Clock) -> None:
        self._sessions = sessions
        self._tree = tree
        self._questions = questions
        self._clock = clock

    def left(self, record: Record) -> float:
        """Seconds that are left of a lease by the newest stamp of its owner's node; 0: it has run out."""
        owner = read(self._tree.owner(record.item.id))
        now, (answer,) = self._clock.ask(self._sessions.base, [owner])
        return judged(record, answer, now).left or 0.0

    def renew_in_one_trip(self, taken: Taken, lease: float, record: Record) -> bool:
        """Renew what is alive for certain. False: something has changed."""
        content = owner_content(record.item, lease, record.mark)
        ops = [
            Op("check", self._tree.status(taken.id), version=taken.token),
            Op("set", self._tree.owner(taken.id), content),
        ]
        results = self._sessions.base.ask(multi(ops))[0]
        return not isinstance(results, Exception) and first_error(results) is None

    def renew(self, taken: Taken, lease: float, owned: Callable[[], Record]) -> None:
        """Write the stamp anew. `owned`: the item as it is, while its lease has not run out; ItemLost otherwise."""
        path = self._tree.owner(taken.id)
        while True:
            record = owned()
            answer = self._sessions.base.ask(read(path))[0]
            if isinstance(answer, Exception):
                if not record.owned:
                    return  # Another tool's, which lives by a session of its own.
                continue
            content = {**decode(answer[0], "owner"), "lease": lease}
            content.pop("left", None)
            written = self._sessions.base.ask(write(path, encode(content), answer[1].version))[0]
            if not isinstance(written, Exception):
                return

    def move_on(self, outage: float) -> None:
        """What had not run out when the service was last heard of has again what it had then."""
        session = self._sessions.base
        for record in self._questions.records(self._questions.owned(), judge=False):
            if record.lock != 0:
                continue
            path = self._tree.owner(record.item.id)
            now, (answer,) = self._clock.ask(session, [read(path)])
            if isinstance(answer, Exception):
                continue
            content, stat = decode(answer[0], "owner"), answer[1]
            age = now.age(stat.mtime, stat.mzxid)
            left = float(content.get("left", content.get("lease", 0))) - max(age - outage, 0.0)
            if left > 0 and age > 0:
                session.ask(write(path, encode({**content, "left": round(left, 3)}), stat.version))
