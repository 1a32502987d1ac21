"""News on MariaDB and MySQL: a listening process keeps an idle connection, and news ends it.

The server notifies no clients, and only its owner can release a named lock. But any process may end a connection of its
own user, and the process at the other end notices at once. So a listening process has an ear: a connection that owns a
named lock, by which others find it. One of the ears owns a second lock, so that a routine can check in a microsecond
whether any process listens. An ear that was ended is reopened after a pause: at busy times waiters poll.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event
from typing import Any

from headgate import chance
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.wires import EVERYTHING
from headgate.stores.sql.dialects.mysql.bells import ERRORS, Pooled, ask
from headgate.stores.sql.dialects.mysql.driver import pymysql
from headgate.stores.sql.fast_paths import NAME, routine

#: Number of processes that may listen; further ones poll.
EARS = 64
#: How often an ear is maintained, and how often it checks whether it should close.
CHECK_SECONDS, STOP_SECONDS = 5.0, 0.5
_FLAG = "concat('headgate-news-', md5(database()))"
_EAR = "concat('headgate-ear-', {}, '-', md5(database()))"
#: Whether somebody listens.
LISTENED = f"is_used_lock({_FLAG}) is not null"

RING_ROUTINE = routine(
    "hg_ring",
    f"""
create procedure if not exists {NAME}()
begin
  declare v_number, v_ear int default 0;
  -- It is gone already, or belongs to another user: then it is not for us to end.
  declare continue handler for sqlexception begin end;
  while v_number < {EARS} do
    set v_ear = is_used_lock({_EAR.format("v_number")});
    if v_ear is not null then kill connection v_ear; end if;
    set v_number = v_number + 1;
  end while;
end""",
)
RING = Statement("Wake every process that listens (see the routine).", f"call {RING_ROUTINE.name}()")


class MysqlNews:
    """The ear of this process, and the means to reach those of others."""

    works = True

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        """Listen until the connection is ended or `stop` is set. Earlier news is unknown, so all waiters check once."""
        del channel  # The names of the locks contain the database.
        try:
            connection = self._connect()
        except Pooled:
            raise pymysql.OperationalError("a pooler does not tell who has which connection") from None
        try:
            _take_ear(connection)
            flag = ask(connection, f"select get_lock({_FLAG}, 0)")[0]
            heard(0)
            heard(EVERYTHING)
            waited, ear = 0.0, select.poll()  # Select knows no more than 1,024 descriptors.
            ear.register(connection._sock, select.POLLIN)  # noqa: SLF001 - PyMySQL has no way to ask for it
            while not stop.is_set() and not ear.poll(STOP_SECONDS * 1000):
                waited += STOP_SECONDS
                if waited >= CHECK_SECONDS:
                    waited = 0.0
                    flag = ask(connection, f"select {flag or f'get_lock({_FLAG}, 0)'}")[0]
            heard(EVERYTHING)
        finally:
            with suppress(*ERRORS):
                connection.close()

    def send(self, runner: Any, channel: str, numbers: Sequence[int]) -> None:
        """All at once, whatever they listen for."""
        del channel, numbers
        runner.single(RING)


def _take_ear(connection: Any) -> None:
    first = int(chance.between(0, EARS))
    for number in range(first, first + EARS):
        if ask(connection, f"select get_lock({_EAR.format(number % EARS)}, 0)")[0]:
            return
    raise pymysql.OperationalError("too many processes listen")
