"""The root of a store: everything that a store has, in one place. Each kind of store declares all of it; nothing is
looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # Imported by the parts of a store that are used: the command starts faster without the others.
    from pathlib import Path

    from headgate.stores.ports.epochs import EpochStore
    from headgate.stores.ports.history import HistoryKeeper, HistorySource, HistoryStore
    from headgate.stores.ports.inventory import InventoryStore
    from headgate.stores.ports.ledger import LedgerStore
    from headgate.stores.ports.locks import LockStore
    from headgate.stores.ports.logs import LogBook
    from headgate.stores.ports.queue import QueueStore
    from headgate.stores.ports.repeats import RepeatStore
    from headgate.stores.ports.tokens import SessionStore, TokenStore
    from headgate.stores.ports.watches import WatchStore


class Outages(Protocol):
    """The times without a service, as recorded in a store."""

    def report_alive(self) -> None:
        """Record that a service is running."""

    def bridge(self) -> float:
        """Extend leases by the time without a service. Returns that time, in seconds."""


class Root(Protocol):
    """The base of a gate: a store, or a service that represents one."""

    @property
    def name(self) -> str:
        """Its name in error messages: the URL without a password."""

    @property
    def tag(self) -> str:
        """The four-letter prefix of every lock id of this store."""

    def files(self) -> Sequence[Path]:
        """The files and folders on this machine that belong to the store."""

    def notices(self) -> Sequence[str]:
        """Warnings for an operator about the connection to this store."""

    def ping(self) -> None:
        """Send the shortest possible query. Raises StoreUnavailable when there is no answer."""

    def close(self) -> None:
        """Close connections. On ZooKeeper leased locks of this process end; nothing else changes."""


class Store(Root, Protocol):
    """One store, or two that act as one: the storage of each noun. None: it has none."""

    @property
    def side_by_side(self) -> int:
        """Number of calls that one process should send at a time."""

    @property
    def parts(self) -> Sequence[Store]:
        """The stores that it consists of, each with its own entry ids in the history: itself, or both of a pair."""

    @property
    def locks(self) -> LockStore:
        """Locks and their wait queues, clients and resources."""

    @property
    def queue(self) -> QueueStore:
        """Batches and ingest jobs."""

    @property
    def ledger(self) -> LedgerStore | None:
        """Datasets, jobs and chunks. Claims in it act as locks."""

    @property
    def watches(self) -> WatchStore | None:
        """Watchers of datasets, and the files that they have counted."""

    @property
    def inventory(self) -> InventoryStore | None:
        """Stored objects, and the outbox."""

    @property
    def tokens(self) -> TokenStore | None:
        """API tokens. A store that keeps API tokens also keeps sessions."""

    @property
    def sessions(self) -> SessionStore | None:
        """Browser sessions and sign-in codes."""

    @property
    def repeats(self) -> RepeatStore | None:
        """Records of requests with an idempotency key."""

    @property
    def epochs(self) -> EpochStore | None:
        """The server of the store, and its tokens. None: its tokens need no raising."""

    @property
    def outages(self) -> Outages | None:
        """The times without a service."""

    @property
    def history(self) -> HistoryStore:
        """The history of everything that is kept here."""

    @property
    def logs(self) -> LogBook | None:
        """The logs of attempts and of ingest steps."""

    @property
    def keeper(self) -> HistoryKeeper | None:
        """Storage for the history of other stores."""

    def keep_history_in(self, keeper: HistoryKeeper) -> None:
        """Old history may be stored there: read it too. Called before any other call."""

    def history_sources(self) -> Sequence[HistorySource]:
        """The histories that should move to a keeper when they are old; none if they can stay."""
