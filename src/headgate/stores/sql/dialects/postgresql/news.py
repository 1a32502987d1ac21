"""News on PostgreSQL: by notifications, and only while a process listens.

A transaction that notifies waits for all others that do, so none should notify in vain. An advisory lock shows that a
process listens: one of the listeners holds it, and the first statement of a writing transaction fails to acquire it.
Another lock determines which listener that is; every listener tries to be the next.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, Protocol

from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.dialects.postgresql.session import NEVER, PostgresqlSession

#: The advisory lock space of both.
NEWS_SPACE = 0x68676E77
#: Whether a process listens, in a writing transaction: writers share the lock.
LISTENED = f"not pg_try_advisory_xact_lock_shared({NEWS_SPACE}, 0)"
STAND = f"select pg_try_advisory_lock({NEWS_SPACE}, 1)"
SHOW = f"select pg_advisory_lock({NEWS_SPACE}, 0)"
#: How often a listening connection checks whether it should stop, and whether it still works, and how long that check
#: may take.
LISTEN_SECONDS, LISTEN_CHECK_SECONDS, LISTEN_ANSWER_SECONDS = 0.5, 5.0, 2.0
NOTIFY = Statement(
    "Wake the processes whose turn may have come.",
    """select pg_notify(c.value ->> 0, c.value ->> 1) from json_array_elements(:channels::json) as c""",
)


def notify(runner: Any, messages: Sequence[tuple[str, int]]) -> None:
    """Send each number to its channel."""
    runner.single(NOTIFY, channels=json.dumps([[channel, str(number)] for channel, number in messages]))


def listen(
    session: PostgresqlSession, channel: str, heard: Callable[[int], None], stop: Event, check: Callable[[], object]
) -> None:
    """Call `heard` for each number on the channel; `check` occasionally: a half-open connection would be silent
    forever.
    """
    session.execute(f'listen "{channel}"')
    check()
    heard(0)
    checked = time.monotonic()
    while not stop.is_set():
        session.until = NEVER
        for notice in session.notifies(timeout=LISTEN_SECONDS):
            if notice.payload.isdecimal():  # Any user of the database may notify, with any text.
                heard(int(notice.payload))
        if time.monotonic() - checked > LISTEN_CHECK_SECONDS:
            check()
            checked = time.monotonic()


class Notifier(Protocol):
    """A server that may send notifications."""

    @property
    def listens(self) -> bool:
        """Whether notifications reach this process."""

    def open_listening(self) -> PostgresqlSession:
        """Return a connection that receives them."""


class PostgresqlNews:
    """Notifications on one channel."""

    def __init__(self, server: Notifier) -> None:
        self._server = server

    @property
    def works(self) -> bool:
        """A pooler does not forward notifications."""
        return self._server.listens

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        """Listen, and announce it to writers."""
        with self._server.open_listening() as session:
            shows = False

            def check() -> None:
                nonlocal shows
                session.until = time.monotonic() + LISTEN_ANSWER_SECONDS
                stood = session.execute(STAND if not shows else "select false").fetchone()
                if stood and stood[0]:
                    session.execute(SHOW)  # Transactions that write at this moment end soon.
                    shows = True

            listen(session, channel, heard, stop, check)

    def send(self, runner: Any, channel: str, numbers: Sequence[int]) -> None:
        """In a transaction of its own."""
        notify(runner, [(channel, number) for number in numbers])
