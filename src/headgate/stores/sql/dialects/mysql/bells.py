"""Wake-ups between processes on MariaDB and MySQL: named locks of the server serve as bells.

A waiter has a bell: a named lock with the id of the lock that it waits for. One connection of its process, the keeper,
owns the bell from the first check until the waiter has released what it waited for. A waiter behind it requests the
same named lock from the server, on another connection, and blocks there. Releasing the bell wakes exactly that waiter,
and so does the end of the process that owns it. Bells only save polling: a lost one costs a second.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headgate.stores.sql.dialects.mysql.driver import pymysql

#: Number of bells that one process owns at once: each makes the server search a little longer.
MOST_BELLS = 100
#: Number of connections on which one process waits for other waiters' bells; further waiters poll.
MOST_EARS = 8
#: Seconds that the server waits for a bell before the query is repeated.
EAR_SECONDS = 1
#: Extra seconds for the answer to arrive.
ANSWER_SECONDS = 2.0
#: Seconds before the next attempt after a connection failed, or a bell had no owner or could not be owned.
AGAIN_SECONDS = 1.0
TAKE_AGAIN_SECONDS = 0.1
#: A connection that is not needed is closed after this many seconds.
IDLE_SECONDS = 10.0
PREFIX = "headgate-"
ERRORS = (pymysql.MySQLError, OSError)


class Pooled(Exception):
    """Connections lead to a pooler, where a named lock would belong to an arbitrary client."""


@dataclass(eq=False, slots=True)
class _Following:
    """A waiter, and the bell that it listens for."""

    ticket: int
    before: str
    #: Whether the bell will be heard, as far as is known.
    heard: bool = True
    #: When to request the bell (monotonic).
    due: float = -math.inf
    #: The waiter has left, or waits for another bell.
    over: bool = False


class Keeper:
    """Owns the bells of this process, in its own thread: callers do not wait until a bell is owned or released."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._change = threading.Condition()
        #: In the order in which they were requested.
        self._bells: dict[str, None] = {}
        self._running = self._urgent = self._closed = False

    def hang(self, name: str) -> None:
        """Own this bell from now on."""
        with self._change:
            if name in self._bells or self._closed:
                return
            self._bells[name] = None
            while len(self._bells) > MOST_BELLS:
                del self._bells[next(iter(self._bells))]
            self._hurry()

    def ring(self, name: str) -> None:
        """Release the bell, which wakes the waiter that listens for it."""
        with self._change:
            if name in self._bells:
                del self._bells[name]
                self._hurry()

    def drop(self, name: str) -> None:
        """The same if no waiter listens for it: with the next change."""
        with self._change:
            self._bells.pop(name, None)

    def owns(self, name: str) -> bool:
        """Whether this process owns the bell."""
        return name in self._bells

    def close(self) -> None:
        """Close the connection, which rings all bells."""
        with self._change:
            self._closed = True
            self._bells.clear()
            self._change.notify_all()

    def _hurry(self) -> None:
        self._urgent = True
        if self._running:
            self._change.notify_all()
        else:
            self._running = True
            threading.Thread(target=self._run, name="headgate-bells", daemon=True).start()

    def _run(self) -> None:
        while not self._ended():
            try:
                self._keep()
            except (Pooled, *ERRORS):
                with self._change:
                    self._change.wait_for(lambda: self._closed, AGAIN_SECONDS)

    def _ended(self) -> bool:
        with self._change:
            self._running = bool(self._bells) and not self._closed
            return not self._running

    def _keep(self) -> None:
        """Own and release bells as requested, until no bell is requested any more."""
        connection = self._connect()
        owned: set[str] = set()
        try:
            while True:
                with self._change:
                    pause = IDLE_SECONDS if owned >= self._bells.keys() else TAKE_AGAIN_SECONDS
                    self._change.wait_for(lambda: self._urgent or self._closed, pause)
                    self._urgent = False
                    wanted = list(self._bells)
                if not wanted and (self._closed or not owned):
                    return
                old, new = sorted(owned.difference(wanted)), [name for name in wanted if name not in owned]
                owned -= set(old)
                owned |= _change_bells(connection, old, new)
        finally:
            with suppress(*ERRORS):
                connection.close()


def _change_bells(connection: Any, old: Sequence[str], new: Sequence[str]) -> set[str]:
    """Release the old bells, own the new ones. Returns the bells that are owned now."""
    if not old and not new:
        return set()
    calls = [*("release_lock(%s)" for _ in old), *("get_lock(%s, 0)" for _ in new)]
    row = ask(connection, f"select {', '.join(calls)}", [PREFIX + name for name in (*old, *new)])
    return {name for name, got in zip(new, row[len(old) :], strict=True) if got}


def _wait_for_bell(connection: Any, name: str) -> tuple[bool, bool]:
    """Whether the bell had an owner, and whether it is free now, which means that it rang."""
    # The parts of a SELECT without a table are evaluated from left to right.
    text = f"select is_used_lock(%s), get_lock(%s, {EAR_SECONDS}), release_lock(%s)"
    owner, got, _ = ask(connection, text, [PREFIX + name] * 3, EAR_SECONDS)
    return owner is not None, bool(got)


def ask(connection: Any, text: str, names: Iterable[str] = (), seconds: float = 0) -> Any:
    """The only row of an answer."""
    connection.until = time.monotonic() + seconds + ANSWER_SECONDS
    with connection.cursor() as cursor:
        cursor.execute(text, tuple(names))
        return cursor.fetchone()


class NamedLocks:
    """The bells of this process, and those that it listens to."""

    def __init__(self, connect: Callable[[], Any], heard: Callable[[int], None]) -> None:
        self._connect = connect
        self._heard = heard
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._change = threading.Condition()
        self._keeper = Keeper(self._connect_directly)
        self._following: dict[int, _Following] = {}
        #: Those that no ear listens for at the moment.
        self._pending: list[_Following] = []
        self._ears = self._idle = 0
        self._closed = False

    def follow(self, ticket: int, own: str, before: str) -> bool:
        """Own the waiter's bell, and call `heard(ticket)` when the bell before it rings. False: poll."""
        self._be_at_home()
        if self._closed:
            return False
        self._keeper.hang(own)
        with self._change:
            if not before or self._keeper.owns(before):  # A waiter that leaves in this process wakes the next one.
                self._end(ticket)
                return bool(before)
            following = self._following.get(ticket)
            if following is None or following.before != before:
                self._end(ticket)
                following = self._begin(ticket, before)
            return following.heard

    def leave(self, ticket: int, own: str, *, granted: bool) -> None:
        """The wait is over. The waiter's bell stays owned while it holds what it waited for."""
        self._be_at_home()
        with self._change:
            self._end(ticket)
        if not granted:
            self._keeper.ring(own)

    def ring(self, name: str, *, waited_for: bool) -> None:
        """The waiter or holder that this bell belongs to has left."""
        self._be_at_home()
        (self._keeper.ring if waited_for else self._keeper.drop)(name)

    def close(self) -> None:
        """Close all connections. The bells of this process ring."""
        self._be_at_home()
        with self._change:
            self._closed = True
            self._change.notify_all()
        self._keeper.close()

    def _be_at_home(self) -> None:
        """A forked child has none of the threads and owns none of the bells."""
        if self._pid != os.getpid():
            self._reset()

    def _begin(self, ticket: int, before: str) -> _Following:
        following = self._following[ticket] = _Following(ticket, before)
        self._pending.append(following)
        now = time.monotonic()
        if self._idle < sum(each.due <= now for each in self._pending):
            if self._ears < MOST_EARS:
                self._ears += 1
                threading.Thread(target=self._listen, name="headgate-ear", daemon=True).start()
            else:
                following.heard = False  # Until an ear has time for it.
        self._change.notify()
        return following

    def _end(self, ticket: int) -> None:
        following = self._following.pop(ticket, None)
        if following is not None:
            following.over = True
            if following in self._pending:
                self._pending.remove(following)

    # ---------------------------------------------------------------- ears

    def _connect_directly(self) -> Any:
        try:
            return self._connect()
        except Pooled:
            self.close()
            raise

    def _listen(self) -> None:
        """Listen for one waiter after another, on a connection that is opened for the first one."""
        connection: Any = None
        while (following := self._next()) is not None:
            try:
                connection = connection or self._connect_directly()
                while not self._listen_once(following, connection):
                    pass
            except (Pooled, *ERRORS):
                _close(connection)
                connection = None
                self._say(following, owned=False)
        _close(connection)

    def _next(self) -> _Following | None:
        """The next waiter to listen for; None: this ear is no longer needed."""
        with self._change:
            self._idle += 1
            until = time.monotonic() + IDLE_SECONDS
            following = None
            while not self._closed:
                following = min(self._pending, key=lambda each: each.due, default=None)
                pause = (until if following is None else following.due) - time.monotonic()
                if pause <= 0:
                    break
                self._change.wait(pause)
            self._idle -= 1
            if following is None or self._closed:
                self._ears -= 1
                return None
            self._pending.remove(following)
            return following

    def _listen_once(self, following: _Following, connection: Any) -> bool:
        """Listen for a while. True: the bell rang, it has no owner, or no waiter listens for it any more."""
        if following.over or self._closed:
            return True
        owned, rang = _wait_for_bell(connection, following.before)
        if rang:
            self._say(following, owned=owned)
        else:
            following.heard = True
        return rang

    def _say(self, following: _Following, *, owned: bool) -> None:
        """Let the waiter check. If the same one is still before it, the waiter polls until that bell has an owner."""
        with self._change:
            if following.over:
                return
            news = following.heard or owned
            following.heard = False
            following.due = time.monotonic() + AGAIN_SECONDS
            self._pending.append(following)
        if news:
            self._heard(following.ticket)


def _close(connection: Any) -> None:
    if connection is not None:
        with suppress(*ERRORS):
            connection.close()
