"""The open connections of a process: lent, checked, and discarded when they are dead. Writers of a file take turns."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from headgate.calls.deadlines import Deadline
from headgate.stores.sql.database.dialect import Dialect, DriverConnection

#: A connection that was idle for longer is checked before use: it may be half-open. Before a call that may take long,
#: every connection is checked.
IDLE_SECONDS = 3.0
#: Seconds for that check, if the call has at least twice as much left.
CHECK_SECONDS = 0.5
#: Connections of a parent process: kept untouched, because closing them would end the parent's.
_inherited: list[list[tuple[DriverConnection, float]]] = []


class NoConnection(Exception):
    """No connection could be opened in time, or all are in use. For the engine, never for callers."""


class _Opening:
    """A connection opened in a thread, so that its caller can stop waiting: resolving a name has no time-out."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._done = threading.Event()
        self._guard = threading.Lock()
        self._given_up = False
        self._connection: DriverConnection | None = None
        self._error: BaseException | None = None

    def begin(self, pool: Pool) -> None:
        """Open the connection in a thread."""
        threading.Thread(target=self._run, args=(pool,), name="headgate-connect", daemon=True).start()

    def result(self, deadline: Deadline) -> DriverConnection:
        """The connection. NoConnection when the deadline comes first: the thread keeps its position in the pool."""
        self._done.wait(min(deadline.left, deadline.busy_left, self._dialect.options.answer_within))
        with self._guard:
            self._given_up = not self._done.is_set()
        if self._connection is not None:
            return self._connection
        if self._error is not None:
            raise self._error
        raise NoConnection("no connection could be opened in time")

    def _run(self, pool: Pool) -> None:
        try:
            self._connection = self._dialect.connect()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        with self._guard:
            self._done.set()
            late = self._given_up
        if not late:
            return
        if self._connection is not None:
            pool.give(self._connection)
        else:
            pool.leave()


class Pool:
    """Open connections that are not in use, last used first. Safe for threads and forks."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        #: With the time since which they have been idle (monotonic).
        self._idle: list[tuple[DriverConnection, float]] = []
        self._pid = os.getpid()
        self._places = threading.BoundedSemaphore(dialect.connections)
        self._closed = False

    def take(self, deadline: Deadline) -> DriverConnection:
        """An idle connection that works, or a new one. NoConnection when there is none in time."""
        if self._pid != os.getpid():
            self._disown()
        patience = min(deadline.left, deadline.busy_left)
        if not self._places.acquire(blocking=False) and not self._places.acquire(timeout=patience):
            raise NoConnection(f"all {self._dialect.connections} connections of this process are in use")
        try:
            return self._take_idle(deadline) or self._open(deadline)
        except NoConnection:
            raise
        except BaseException:
            self.leave()
            raise

    def give(self, connection: DriverConnection) -> None:
        """The connection is no longer needed, and works. A thread may be late: after the end nothing is kept."""
        self._idle.append((connection, time.monotonic()))
        self.leave()
        if self._closed:
            self.empty()

    def drop(self, connection: DriverConnection) -> None:
        """The connection is no longer needed, and must not be used again (but a database in memory lives in its only
        connection).
        """
        if self._dialect.in_memory:
            self.give(connection)
            return
        self.leave()
        with suppress(Exception):
            connection.close()

    def leave(self) -> None:
        """One connection less is in use."""
        self._places.release()

    def empty(self) -> None:
        """Close all idle connections."""
        while self._idle:
            with suppress(Exception):
                self._idle.pop()[0].close()

    def close(self) -> None:
        """Close idle connections now, and those in use when they are returned."""
        self._closed = True
        self.empty()

    def _take_idle(self, deadline: Deadline) -> DriverConnection | None:
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:  # Another thread was first.
                return None
            is_fresh = time.monotonic() - since < IDLE_SECONDS and not deadline.slow
            if is_fresh or self._works(connection, deadline):
                return connection
            with suppress(Exception):
                connection.close()
            self.empty()  # The others are no younger.
        return None

    def _works(self, connection: DriverConnection, deadline: Deadline) -> bool:
        seconds = min(CHECK_SECONDS, deadline.left / 2)
        try:
            return self._dialect.works(connection, time.monotonic() + seconds)
        except self._dialect.errors():
            return False

    def _open(self, deadline: Deadline) -> DriverConnection:
        if self._dialect.local:
            return self._dialect.connect()
        opening = _Opening(self._dialect)
        opening.begin(self)
        return opening.result(deadline)

    def _disown(self) -> None:
        _inherited.append(self._idle)
        self._idle = []
        self._places = threading.BoundedSemaphore(self._dialect.connections)
        self._pid = os.getpid()
