"""Running daemons: one node each, with a stamp that is judged by the leader's clock, like a lock's lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.core.daemons import Daemon
from headgate.stores.zookeeper.ensemble.asking import make, read, remove, write
from headgate.stores.zookeeper.ensemble.clock import Clock, Now, moment
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.queue.tree import QueueTree, Unreadable, decode, encode


@dataclass(eq=False)
class Daemons:
    """The daemons of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree
    _clock: Clock

    def sign_on(self, daemon: Daemon) -> None:
        """Write the daemon's stamp; a new daemon removes those that died."""
        path = self._tree.daemon(daemon.id)
        content = encode({"worker": daemon.worker, "steps": list(daemon.steps), "lease": daemon.lease})
        session = self._sessions.base
        if not isinstance(session.ask(write(path, content))[0], Exception):
            return
        made = session.ask(make(self._tree.daemons), make(path, content))[1]
        if isinstance(made, Exception):
            session.ask(write(path, content))
        found = self._found()
        session.ask(*(remove(self._tree.daemon(name), version) for name, version, daemon in found if daemon is None))

    def sign_off(self, daemon_id: str) -> None:
        """Remove the daemon's node, if it exists."""
        self._sessions.base.ask(remove(self._tree.daemon(daemon_id)))

    def living(self) -> list[Daemon]:
        """Return the daemons with a valid lease, by id."""
        return sorted((daemon for _, _, daemon in self._found() if daemon), key=lambda daemon: daemon.id)

    def _found(self) -> list[tuple[str, int, Daemon | None]]:
        """Every id that has a node, with the node's version; None: the daemon is dead, or it is no daemon's node."""
        session = self._sessions.base
        names = [self._tree.daemon_id(node) for node in session.names(self._tree.daemons)]
        if not names:
            return []
        now, answers = self._clock.ask(session, [read(self._tree.daemon(name)) for name in names])
        return [
            (name, answer[1].version, _daemon(name, answer, now))
            for name, answer in zip(names, answers, strict=True)
            if not isinstance(answer, Exception)
        ]


def _daemon(name: str, answer: Any, now: Now) -> Daemon | None:
    data, stat = answer
    try:
        content = decode(data, "daemon")
        lease = float(content["lease"])
        steps = tuple(str(step) for step in content["steps"])
    except (Unreadable, KeyError, TypeError, ValueError):
        return None
    left = now.left(lease, stat)
    if left <= 0:
        return None
    return Daemon(name, str(content.get("worker", "")), steps, lease, moment(stat.ctime), left)
