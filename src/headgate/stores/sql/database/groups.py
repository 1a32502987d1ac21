"""Threads of one process share commits where a database admits one writer at a time.

The first thread that wants to write becomes the leader: it begins a transaction, runs all calls that have queued by
then, each under a savepoint, and commits once. Every call returns after that commit. Calls that arrive meanwhile form
the next group, led by the first of them; no call waits for others to arrive. A call without others is its own
transaction.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from headgate.calls.deadlines import Deadline
from headgate.core.errors import StoreUnavailable
from headgate.stores.sql.database.dialect import Dialect, Trouble
from headgate.telemetry import report_store_call

if TYPE_CHECKING:
    from headgate.stores.sql.database.transaction import Transaction

T = TypeVar("T")
#: Maximum number of calls in one group, and the seconds after which a group takes no further call.
MOST_TOGETHER, LONGEST_SECONDS = 64, 0.1
#: How often a thread whose deadline passed while its call was in a group checks whether the call was put back.
PAST_SECONDS = 0.05


class Write(Protocol):
    """One transaction, retried as the database demands."""

    def __call__(self, work: Callable[[Transaction], None], deadline: Deadline, *, again: bool) -> None: ...


class QueuedWrite(Generic[T]):
    """A writing call, and its outcome."""

    __slots__ = ("_context", "_error", "_result", "_signal", "again", "alone", "deadline", "leads", "work")

    def __init__(self, work: Callable[[Transaction], T], deadline: Deadline, *, again: bool) -> None:
        self.work = work
        self.deadline = deadline
        #: An earlier attempt was interrupted, so that it may have taken effect.
        self.again = again
        #: It runs as a separate transaction, because its group failed or because it may take long.
        self.alone = deadline.slow
        #: Its thread leads: it writes for all queued calls.
        self.leads = False
        self._result: T | None = None
        self._error: BaseException | None = None
        #: For a call whose thread waits: its context, and the lock that is released when it leads or has returned.
        self._context: Context | None = None
        self._signal: threading.Lock | None = None

    @property
    def fits_group(self) -> bool:
        """Whether it can share a commit. A call whose deadline has passed is withdrawn by its own thread."""
        return not self.alone and self.deadline.busy_left > 0

    def run(self, tx: Transaction) -> None:
        """Run in its own thread; an exception ends the transaction."""
        self._error = None
        self._result = self.work(tx)

    def run_in_group(self, tx: Transaction) -> None:
        """Run under a savepoint, in any thread. Its exceptions are its own; a driver's error is the whole group's."""
        self._error = None
        try:
            with tx.part(again=self.again) as part:
                self._result = self._context.run(self.work, part) if self._context else self.work(part)
        except tx.driver_errors:
            raise
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def queue(self) -> None:
        """From now on another thread may run it, in this thread's context."""
        self._context = copy_context()
        self._signal = threading.Lock()
        self._signal.acquire()

    def wait(self, seconds: float) -> bool:
        """Wait for `tell`. Returns False after that many seconds."""
        return self._signal is None or self._signal.acquire(timeout=seconds)

    def finish(self, error: BaseException | None = None) -> None:
        """Let its thread continue: it leads now, or has its result."""
        self._error = error or self._error
        if self._signal is not None:
            self._signal.release()

    def answer(self) -> T:
        """Return its result, or raise its error."""
        if self._error is not None:
            raise self._error
        return cast("T", self._result)


class Groups:
    """The threads of one process that write to one database."""

    def __init__(self, dialect: Dialect, write: Write) -> None:
        self._dialect = dialect
        self._write = write
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._queue: deque[QueuedWrite[Any]] = deque()
        self._has_leader = False
        #: The calls of the current transaction, the leader's first.
        self._group: list[QueuedWrite[Any]] = []

    def write(self, work: Callable[[Transaction], T], deadline: Deadline, *, again: bool) -> T:
        """Run it in a transaction, alone or with others. Returns or raises after that transaction has ended."""
        if self._pid != os.getpid():  # A forked process has no thread that could lead.
            self._reset()
        call = QueuedWrite(work, deadline, again=again)
        try:
            self._join(call)
            if not call.leads:
                self._wait(call)
            if call.leads:
                self._lead(call)
        finally:
            self._leave(call)
        return call.answer()

    # ---------------------------------------------------------------- in the queue

    def _join(self, call: QueuedWrite[Any]) -> None:
        with self._guard:
            call.leads, self._has_leader = not self._has_leader, True
            if not call.leads:
                call.queue()
                self._queue.append(call)

    def _wait(self, call: QueuedWrite[Any]) -> None:
        """Wait until the call leads or has its result. When its time is over, StoreUnavailable, and it never runs."""
        began = time.perf_counter()
        patience = call.deadline.busy_left
        while not call.wait(max(call.deadline.busy_left, PAST_SECONDS)):
            self._withdraw(call, patience)
        if call.leads and not call.deadline.busy_left:
            self._withdraw(call, patience)
        if not call.leads:  # The leader's transaction reports itself.
            report_store_call(time.perf_counter() - began)

    def _withdraw(self, call: QueuedWrite[Any], patience: float) -> None:
        """StoreUnavailable, unless a leader is running it now."""
        with self._guard:
            if call not in self._queue:
                return
            self._queue.remove(call)
        raise StoreUnavailable(self._dialect.name, self._dialect.why_busy(patience), outcome="none")

    def _leave(self, call: QueuedWrite[Any]) -> None:
        """The call is removed completely, and some thread leads as long as calls are queued."""
        with self._guard:
            if call in self._queue:
                self._queue.remove(call)
            if not call.leads:
                return
            call.leads = False
            self._has_leader = bool(self._queue)
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].finish()

    # ---------------------------------------------------------------- leading

    def _lead(self, leader: QueuedWrite[Any]) -> None:
        """One transaction for the group; after a failure one for the leader alone, and the others lead their own."""
        while True:
            try:
                self._write(partial(self._run, leader), leader.deadline, again=leader.again)
            except BaseException as error:
                if not self._scatter(leader, error):
                    raise
            else:
                break
        for call in self._group[1:]:
            call.finish()
        self._group = []

    def _run(self, leader: QueuedWrite[Any], tx: Transaction) -> None:
        """Run all calls of the group. The transaction has begun: whatever has queued by now takes part."""
        if len(self._group) > 1:  # An earlier attempt at the same transaction failed.
            self._put_back(self._group[1:], alone=True)
            leader.alone = True
        self._group = [leader, *self._take_followers(leader)]
        if len(self._group) == 1:
            leader.run(tx)
            return
        until = time.monotonic() + LONGEST_SECONDS
        for place, call in enumerate(self._group):
            if place and time.monotonic() > until:
                self._put_back(self._group[place:], alone=False)
                del self._group[place:]
                break
            call.run_in_group(tx)

    def _take_followers(self, leader: QueuedWrite[Any]) -> Sequence[QueuedWrite[Any]]:
        if not self._queue:
            return ()
        with self._guard:
            if leader in self._queue:
                self._queue.remove(leader)
            if leader.alone:
                return ()
            taken = [call for call in self._queue if call.fits_group][: MOST_TOGETHER - 1]
            self._queue = deque(call for call in self._queue if call not in taken)
            return taken

    def _scatter(self, leader: QueuedWrite[Any], error: BaseException) -> bool:
        """After a failed transaction: whether its leader retries, on its own like the others."""
        others, self._group = self._group[1:], []
        if not others:
            return False
        cause = error.__cause__
        moved = cause is not None and self._dialect.classify(cause) is Trouble.MOVED
        if moved or not isinstance(error, Exception):  # It may have been committed.
            why = "the thread that wrote for it was interrupted" if cause is None else self._dialect.why(cause)
            for call in others:
                call.finish(StoreUnavailable(self._dialect.name, why, outcome="unknown"))
            return False
        self._put_back(others, alone=True)
        leader.alone = True
        return True

    def _put_back(self, calls: Sequence[QueuedWrite[Any]], *, alone: bool) -> None:
        """Return to the front of the queue, in the same order."""
        for call in calls:
            call.alone = alone
        with self._guard:
            self._queue.extendleft(reversed(calls))
