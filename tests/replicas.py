"""A primary and its standby: real replication, which a test may cut, and a standby that it may promote.

with PostgreSQLPair() as pair:
    url = pair.fresh()            # replicated as everything is
    pair.catch_up()               # what was committed up to now is at the standby
    pair.cut()                    # what is committed from now on is lost
    pair.fail_over()              # the primary dies, the standby takes over
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import psycopg
from sqlalchemy import make_url

from tests.fresh import mariadb_cursor
from tests.servers import MariaDB, PostgreSQL, PrivateServer, Throwaway
from tests.waiting import until


class Standby(PostgreSQL):
    """A copy of a primary that follows it."""

    def __init__(self, primary: PrivateServer) -> None:
        super().__init__()
        self._primary = primary

    def _prepare(self) -> None:
        source = f"--dbname=postgresql://postgres@127.0.0.1:{self._primary.port}/?application_name=standby"
        options = ["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"]
        self._run([self._program("pg_basebackup"), f"--pgdata={self.data}", source, *options])


class Numbered(MariaDB):
    """A server with its own number, and a log that others can follow."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def _command(self) -> list[str]:
        return [*super()._command(), f"--server-id={self.number}", "--log-bin=log", "--log-slave-updates=ON"]


class Replica(Numbered):
    """It gets all of its data from its primary."""

    def __init__(self, number: int, primary: PrivateServer) -> None:
        super().__init__(number)
        self._primary = primary

    def _first_started(self) -> None:
        with mariadb_cursor(make_url(self.url).set(database=None)) as cursor:
            cursor.execute(
                f"change master to master_host='127.0.0.1', master_port={self._primary.port}, master_user='root', "
                "master_use_gtid=slave_pos"
            )
            cursor.execute("start slave")


class Pair(Throwaway):
    """Two servers of one kind."""

    kind: ClassVar[str]

    def __init__(self, primary: PrivateServer) -> None:
        self.primary = primary
        self.standby: PrivateServer | None = None

    def start(self) -> Self:
        self.primary.start()
        self.standby = self._make_standby().start()
        return self

    def discard(self) -> None:
        for server in (self.primary, self.standby):
            if server is not None:
                server.discard()

    def fail_over(self) -> str:
        """The primary dies, and the standby takes over. Returns the URL of its server."""
        self.primary.kill()
        self._promote()
        assert self.standby is not None
        return self.standby.url

    def fresh(self) -> str:
        """The URL of a new database on the primary, as its clients use it."""
        return self.primary.fresh()

    @abstractmethod
    def _make_standby(self) -> PrivateServer:
        """A standby that has not been started."""

    @abstractmethod
    def catch_up(self) -> None:
        """Wait until the standby has everything that was committed."""

    @abstractmethod
    def cut(self) -> None:
        """The standby receives no commit from now on."""

    @abstractmethod
    def _promote(self) -> None:
        """The standby takes over."""


class PostgreSQLPair(Pair):
    """Streaming replication, asynchronous by default."""

    kind = "postgresql"

    def __init__(self) -> None:
        super().__init__(PostgreSQL())

    def _make_standby(self) -> PrivateServer:
        return Standby(self.primary)

    def fresh(self) -> str:
        url = super().fresh()
        _ask(self.primary, "create role plain login")
        _ask(self.primary, f'alter database "{make_url(url).database}" owner to plain')
        return make_url(url).set(username="plain").render_as_string(hide_password=False)

    def make_synchronous(self) -> None:
        """From now on a commit is answered when the standby has it."""
        _ask(self.primary, "alter system set synchronous_standby_names = 'standby'")
        _ask(self.primary, "select pg_reload_conf()")
        until(
            lambda: _ask(self.primary, "select sync_state from pg_stat_replication") == "sync", "a synchronous standby"
        )

    def catch_up(self) -> None:
        written = _ask(self.primary, "select pg_current_wal_lsn()::text")
        replayed = f"select pg_last_wal_replay_lsn() >= '{written}'"
        until(lambda: self.standby and _ask(self.standby, replayed), "the standby to catch up")

    def cut(self) -> None:
        assert self.standby is not None
        _ask(self.standby, "alter system set primary_conninfo = ''")
        _ask(self.standby, "select pg_reload_conf()")
        until(lambda: not _ask(self.primary, "select count(*) from pg_stat_replication"), "the standby to be cut off")

    def _promote(self) -> None:
        assert self.standby is not None
        assert _ask(self.standby, "select pg_promote()")


class MariaDBPair(Pair):
    """Asynchronous replication."""

    kind = "mariadb"

    def __init__(self) -> None:
        super().__init__(Numbered(1))

    def _make_standby(self) -> PrivateServer:
        return Replica(2, self.primary)

    def catch_up(self) -> None:
        assert self.standby is not None
        with mariadb_cursor(make_url(self.primary.url)) as cursor:
            cursor.execute("select @@gtid_binlog_pos")
            written = str(_first(cursor))
        with mariadb_cursor(make_url(self.standby.url).set(database=None)) as cursor:
            cursor.execute("select master_gtid_wait(%s, 30)", (written,))
            assert _first(cursor) == 0, "waited for the replica to catch up"

    def cut(self) -> None:
        self._tell("stop slave")

    def _promote(self) -> None:
        self._tell("stop slave", "reset slave all")

    def _tell(self, *orders: str) -> None:
        assert self.standby is not None
        with mariadb_cursor(make_url(self.standby.url).set(database=None)) as cursor:
            for order in orders:
                cursor.execute(order)


PAIRS: dict[str, Callable[[], Pair]] = {"postgresql": PostgreSQLPair, "mariadb": MariaDBPair}


def _ask(server: PrivateServer, question: str) -> Any:
    """The first value of the answer; None when there is none."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        answer = connection.execute(question.encode())
        row = answer.fetchone() if answer.description else None
    return row[0] if row else None


def _first(cursor: Any) -> Any:
    row = cursor.fetchone()
    return row[0] if row else None
