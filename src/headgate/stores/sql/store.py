"""The root of a store in one SQL database. Its parts are imported on first use: a command needs few of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.calls.deadlines import answered_in_time
from headgate.stores.ports.history import MergedHistory
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.facts import READ_TAG
from headgate.stores.sql.database.parts import Parts
from headgate.stores.sql.locks.store import SqlLocks

if TYPE_CHECKING:
    from headgate.stores.ports.history import HistoryKeeper, HistorySource
    from headgate.stores.ports.inventory import InventoryStore
    from headgate.stores.ports.queue import QueueStore
    from headgate.stores.sql.access.browser_sessions import SqlSessions
    from headgate.stores.sql.access.tokens import SqlTokens
    from headgate.stores.sql.history import SqlHistory
    from headgate.stores.sql.ledger.watches import SqlWatches
    from headgate.stores.sql.logs import SqlLogs
    from headgate.stores.sql.repeats import SqlRepeats
    from headgate.stores.sql.server.epochs import SqlEpochs
    from headgate.stores.sql.server.outages import SqlOutages


@answered_in_time({})
class SqlStore:
    """Everything in one SQL database."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self.options = database.options
        self.side_by_side = database.dialect.side_by_side
        self.locks = SqlLocks(database)
        #: A claim in it acts as a lock, and vice versa.
        self.ledger = self.locks.ledger
        self.tag = self.locks.tag
        self.parts = (self,)
        self._database = database
        self._built = Parts()

    @property
    def queue(self) -> QueueStore:
        """The queue in the same database."""
        from headgate.stores.sql.queue.store import SqlQueue

        return self._built.only(SqlQueue, self._database, self.locks.news)

    @property
    def watches(self) -> SqlWatches:
        """Watchers beside the ledger, so that recording a file and publishing its chunk are one transaction."""
        from headgate.stores.sql.ledger.watches import SqlWatches

        return self._built.only(SqlWatches, self._database, self.locks.news)

    @property
    def inventory(self) -> InventoryStore:
        """The inventory beside the ledger, so that recording an object and publishing its chunk are one transaction."""
        from headgate.stores.sql.inventory.store import SqlInventory

        return self._built.only(SqlInventory, self._database, self.locks.news)

    @property
    def tokens(self) -> SqlTokens:
        """API tokens."""
        from headgate.stores.sql.access.tokens import SqlTokens

        return self._built.only(SqlTokens, self._database)

    @property
    def sessions(self) -> SqlSessions:
        """Browser sessions and sign-in codes."""
        from headgate.stores.sql.access.browser_sessions import SqlSessions

        return self._built.only(SqlSessions, self._database)

    @property
    def repeats(self) -> SqlRepeats:
        """Records of requests with an idempotency key."""
        from headgate.stores.sql.repeats import SqlRepeats

        return self._built.only(SqlRepeats, self._database)

    @property
    def outages(self) -> SqlOutages:
        """The last sign of life of a service."""
        from headgate.stores.sql.server.outages import SqlOutages

        return self._built.only(SqlOutages, self._database)

    @property
    def epochs(self) -> SqlEpochs:
        """The server of the store, and its tokens."""
        from headgate.stores.sql.server.epochs import SqlEpochs

        return self._built.only(SqlEpochs, self._database)

    @property
    def history(self) -> MergedHistory:
        """The history of this database."""
        return self._built.only(MergedHistory, self.keeper)

    @property
    def logs(self) -> SqlLogs:
        """The logs of attempts and of ingest steps."""
        from headgate.stores.sql.logs import SqlLogs

        return self._built.only(SqlLogs, self._database)

    @property
    def keeper(self) -> SqlHistory:
        """Storage for the history of another store."""
        from headgate.stores.sql.history import SqlHistory

        return self._built.only(SqlHistory, self._database)

    def keep_history_in(self, keeper: HistoryKeeper) -> None:
        """Nothing to do: history stays in this database."""

    def history_sources(self) -> Sequence[HistorySource]:
        """Return None: history can stay here."""
        return ()

    def files(self) -> Sequence[Path]:
        """Return the files and folders on this machine that belong to the store."""
        return self._database.dialect.files()

    def notices(self) -> Sequence[str]:
        """Return warnings for an operator about the connection to this store."""
        return self._database.notices()

    def ping(self) -> None:
        """Send the shortest possible query."""
        self._database.read(lambda tx: tx.one(READ_TAG))

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._built.close()
        self.locks.close()
        self._database.close()
