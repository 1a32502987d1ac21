"""The root of a store in one ZooKeeper ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from headgate.stores.options import DEFAULT_OPTIONS, SIDE_BY_SIDE, StoreOptions
from headgate.stores.ports.history import HistoryKeeper, HistorySource, MergedHistory
from headgate.stores.zookeeper.address import Address, parse
from headgate.stores.zookeeper.ensemble.asking import look
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.ensemble.versions import version_notice
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from headgate.stores.zookeeper.opening import RootNode, open_tree
from headgate.stores.zookeeper.outages import ZookeeperOutages
from headgate.stores.zookeeper.queue.store import ZookeeperQueue
from headgate.stores.zookeeper.repeats import ZkRepeats


def open_zookeeper(url: str, options: StoreOptions = DEFAULT_OPTIONS) -> ZookeeperStore:
    """Open the store of that URL; it is created if it does not exist and the options say so."""
    address = parse(url)
    sessions = ZkSessions(address, options)
    try:
        return ZookeeperStore(address, sessions, open_tree(sessions, address, create=options.create))
    except BaseException:
        sessions.close()
        raise


class ZookeeperStore:
    """Locks and queue in one ensemble. Everything else needs a database."""

    side_by_side = SIDE_BY_SIDE
    ledger, inventory, tokens, sessions, keeper, logs, watches = None, None, None, None, None, None, None
    #: An ensemble confirms a change only when a majority has it, so its tokens need no raising.
    epochs = None

    def __init__(self, address: Address, sessions: ZkSessions, root: RootNode) -> None:
        self.name, self.tag = address.name, root.tag
        self.locks = ZookeeperLocks(address, sessions, root)
        self.history = MergedHistory(self.locks.told)
        self.parts = (self,)
        self.repeats = ZkRepeats(sessions, address.tree)
        self._address, self._sessions, self._root = address, sessions, root

    @cached_property
    def queue(self) -> ZookeeperQueue:
        """Batches and ingest jobs, in the same folder."""
        return ZookeeperQueue(self._address, self._sessions, self.locks.told, self.locks.clock, self._root)

    @cached_property
    def outages(self) -> ZookeeperOutages:
        """The times without a service."""
        tree, locks = self._address.tree, self.locks
        return ZookeeperOutages(self._sessions, tree, locks.clock, locks.questions, lambda: self.queue)

    def keep_history_in(self, keeper: HistoryKeeper) -> None:
        """Old history may be there: read it too."""
        self.locks.told.keeper = keeper

    def history_sources(self) -> Sequence[HistorySource]:
        """Return the history: an ensemble keeps all of its data in memory."""
        return (self.locks.told.movable,)

    def files(self) -> Sequence[Path]:
        """Return nothing: an ensemble's files are its own."""
        return ()

    def notices(self) -> Sequence[str]:
        """Return what others on the network can do with the store, and what its servers can lose."""
        return [*self._address.notices(), *version_notice(self.name, self._sessions.base.member_version())]

    def ping(self) -> None:
        """Ask for the shortest answer there is."""
        self._sessions.base.ask(look(self._address.tree.clients))

    def close(self) -> None:
        """Release the leased locks of this process, and end its sessions."""
        self.locks.close()
