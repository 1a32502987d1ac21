"""Registered clients: one node each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.errors import UnknownName
from headgate.core.locks.work import forget_client
from headgate.stores.zookeeper.ensemble.asking import catch_up, children, look, make, remove
from headgate.stores.zookeeper.ensemble.clock import moment
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.locks.questions import Questions
from headgate.stores.zookeeper.tree import Tree, client_name


@dataclass(eq=False)
class Clients:
    """The registered clients of one store."""

    _sessions: ZkSessions
    _tree: Tree
    _questions: Questions

    def register(self, client: str) -> datetime:
        """Register a client, unless it is registered. Returns when it was registered."""
        path = self._tree.client(client)
        _, stat = self._sessions.base.ask(make(path), look(path))
        return moment(stat.ctime) if stat else self.register(client)

    def all(self) -> Sequence[tuple[str, datetime]]:
        """Return every client and when it was registered, by name."""
        _, nodes = self._sessions.base.ask(catch_up(self._tree.clients), children(self._tree.clients))
        names = [client_name(node) for node in nodes]
        stats = self._sessions.base.ask(*(look(self._tree.client(name)) for name in names))
        return sorted((name, moment(stat.ctime)) for name, stat in zip(names, stats, strict=True) if stat)

    def forget(self, client: str) -> None:
        """Make a client unknown. Refused while it holds a lock, UnknownName when there is none."""
        forget_client(client, self._questions.holds(client))
        if isinstance(self._sessions.base.ask(remove(self._tree.client(client)))[0], Exception):
            raise UnknownName("client", client)
