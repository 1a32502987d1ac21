"""MariaDB and MySQL, by PyMySQL."""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headgate.calls.deadlines import BULK_SECONDS, LISTING_SECONDS, Deadline
from headgate.core.errors import BadValue
from headgate.stores.sql.database.dialect import (
    CONNECT_SECONDS,
    DROP_TOKEN,
    IDLE_BULK_SECONDS,
    IDLE_TRANSACTION_SECONDS,
    LOCK_WAIT_PART,
    Begun,
    Bells,
    Columns,
    Dialect,
    DriverConnection,
    Freed,
    Granted,
    JobParameters,
    Parameters,
    Runner,
    Trouble,
    check_server_url,
)
from headgate.stores.sql.database.sql_text import Statement, for_many, to_pyformat
from headgate.stores.sql.dialects.answers import read_claimed, read_ended
from headgate.stores.sql.dialects.mysql import ledger as mysql_ledger
from headgate.stores.sql.dialects.mysql import locks as mysql_locks
from headgate.stores.sql.dialects.mysql.driver import pymysql
from headgate.stores.sql.dialects.mysql.ledger import EPOCH
from headgate.stores.sql.dialects.mysql.ledger import NOW as MICROSECONDS
from headgate.stores.sql.dialects.mysql.news import RING_ROUTINE, MysqlNews
from headgate.stores.sql.fast_paths import Routine
from headgate.stores.tls import OFF, VERIFY, stays_here, take_options
from headgate.stores.tls import OPTIONS as TLS_OPTIONS

#: Number of rows in one insert.
ROWS_AT_ONCE = 500
#: Missing rights, passwords, databases or tables, and what an operator has to do.
_LOGIN = "Correct the user or the password in the URL, or create the user"
_RIGHTS = "Grant the permissions: grant all on DATABASE.* to USER, including execute and create routine"
_CERTIFICATE = (
    "Name the authority that signed the server's certificate (?tls_ca=FILE in the URL), and use the host name in "
    "the certificate"
)
SETUP = {
    1044: _RIGHTS,
    1045: _LOGIN,
    1049: "Create it: create database NAME character set utf8mb4; or correct the URL",
    1130: "Allow this host for the user on the server",
    1142: _RIGHTS,
    1143: _RIGHTS,
    1146: "Restore the table from a backup, or use another database",
    1227: _RIGHTS,
    1305: "Install the routines with: headgate migrate",
    1370: _RIGHTS,
    1449: "Create the user that owns the routines, or migrate again",
    1698: _LOGIN,
    2026: "Enable TLS on the server (ssl_cert, ssl_key), or if you trust the network add ?tls=off to the URL",
}
#: The meaning of the server's and the driver's error codes. GONE: this connection cannot be used any more (a server
#: that is read-only was demoted: the next connection may lead to the new primary).
MEANINGS: dict[Trouble, set[int]] = {
    Trouble.CONFLICT: {1213, 1020},
    Trouble.BUSY: {1205, 1969, 3024},
    Trouble.DUPLICATE: {1062},
    Trouble.SETUP: set(SETUP),
    Trouble.GONE: {
        1040, 1053, 1129, 1152, 1153, 1156, 1158, 1159, 1160, 1161, 1184, 1290, 1792, 1836, 1927, 2002, 2003, 2006,
        2013, 2014, 2055,
    },
    Trouble.BUG: {1054, 1064, 1109, 3819, 4025},
}  # fmt: skip
BY_CODE = {code: trouble for trouble, codes in MEANINGS.items() for code in codes}

SHOW_GALERA = Statement("Whether the server is one of a Galera cluster.", "show global variables like 'wsrep_on'")
#: A row violates a CHECK: MariaDB's error number, and MySQL's.
FAILED_CHECKS = (4025, 3819)
NEXT_TOKEN = Statement("A new number.", "insert into hg_token () values ()")


class MysqlConnection(pymysql.connections.Connection):
    """A connection with a deadline. Without `tls` it is encrypted if the server supports that, without checking the
    certificate.
    """

    ctx: ssl.SSLContext  # An internal of PyMySQL, missing from its types.
    #: Every request must be answered by then (monotonic).
    until: float = math.inf
    #: The server's time limits are currently those of a long call.
    long: bool = False
    #: The limits that MariaDB has and MySQL does not are set.
    is_mariadb: bool = False

    def _write_bytes(self, data: bytes) -> None:
        """Each request may take the remaining time: to be sent, and for the next part of its answer."""
        if self.until < math.inf:
            self._read_timeout = self._write_timeout = max(self.until - time.monotonic(), 0.001)
        super()._write_bytes(data)  # type: ignore[misc] # an internal of PyMySQL, missing from its types

    def _create_ssl_ctx(self, asked: Any) -> ssl.SSLContext:
        """PyMySQL itself reads all of the machine's certificate authorities (20 ms), and then checks no certificate."""
        if asked:
            context: ssl.SSLContext = super()._create_ssl_ctx(asked)  # type: ignore[misc] # the same
            return context
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


class Mysql(Dialect):
    """A MariaDB (10.6 or later) or MySQL (8 or later) server."""

    kind = "mysql"
    epoch = EPOCH
    integer = "signed"
    sqlalchemy_name = "mysql+pymysql"
    now = MICROSECONDS
    wall = MICROSECONDS
    minute = f"({wall} div 60000000)"
    insert_once = "insert ignore into"
    or_leave = ""
    for_share = "lock in share mode"
    share_rows = "lock in share mode"
    own_rows = "for update"
    or_change = "on duplicate key update"
    new_value = "values({})"
    behind = "(i.priority > :priority or (i.priority = :priority and i.id > :after))"
    begin_write = "start transaction"
    last_token = Statement(
        "The last issued number.",
        """select auto_increment - 1 from information_schema.tables
           where table_schema = database() and table_name = 'hg_token'""",
    )
    begin_read = "start transaction read only"
    list_tables = Statement(
        "The tables of this database.",
        "select table_name from information_schema.tables where table_schema = database()",
    )
    list_routines = Statement(
        "Which of these routines this database has.",
        """select routine_name from information_schema.routines
           where routine_schema = database() and routine_name in (:names*)""",
    )
    list_columns = Statement(
        "The columns of a table.",
        """select column_name from information_schema.columns
           where table_schema = database() and table_name = :table""",
    )
    schema_commits = True
    begin_still = (
        "set transaction isolation level repeatable read",
        "start transaction with consistent snapshot, read only",
    )

    def __init__(self, url: str) -> None:
        super().__init__(url)
        check_server_url(url)
        parts = urlsplit(url)
        if not parts.path.strip("/"):
            raise BadValue("url", self.name, "does not name a database; write mysql://user:password@host/database")
        options = dict(parse_qsl(parts.query))
        self._arguments: dict[str, Any] = {
            "host": parts.hostname or "127.0.0.1",
            "port": self._port(parts),
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path.strip("/")),
            "unix_socket": options.pop("unix_socket", None),
        }
        tls = take_options(options, self.name)
        if not self._arguments["unix_socket"] and not stays_here(self._arguments["host"]):
            tls = tls.or_else(VERIFY)
        if tls.mode:
            self._arguments |= {"ssl": tls.context(), "ssl_disabled": tls.mode == OFF}
        if options:
            known = ", ".join(("unix_socket", *TLS_OPTIONS))
            raise BadValue("url option", next(iter(options)), f"is unknown; options for MariaDB: {known}")

    def _port(self, parts: SplitResult) -> int:
        try:
            return parts.port or 3306
        except ValueError:
            raise BadValue("url", self.name, "has a port that is not a number up to 65535") from None

    @property
    def lock_wait(self) -> float:
        """Whole seconds, at least one."""
        return float(max(int(self.options.answer_within * LOCK_WAIT_PART), 1))

    def connect(self) -> DriverConnection:
        connection: Any = MysqlConnection(
            **self._arguments,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=CONNECT_SECONDS,
            write_timeout=CONNECT_SECONDS,
            init_command="set session time_zone = '+00:00'",
        )
        connection.is_mariadb = "mariadb" in str(connection.get_server_info()).lower()
        _keep_alive(connection)
        with connection.cursor() as cursor:
            # No gap locks, so that first uses of neighbouring resources do not block each other.
            cursor.execute("set session transaction isolation level read committed")
        self._set_limits(connection, statement=LISTING_SECONDS, idle=IDLE_TRANSACTION_SECONDS)
        made: DriverConnection = connection
        return made

    def wire(self) -> MysqlNews:
        return MysqlNews(self.connect_directly)

    def bells(self, heard: Callable[[int], None]) -> Bells:
        from headgate.stores.sql.dialects.mysql.bells import NamedLocks

        return NamedLocks(self.connect_directly, heard)

    def connect_directly(self) -> Any:
        """A connection that may be silent for long. Raises Pooled if its server thread is not always the same."""
        from headgate.stores.sql.dialects.mysql.bells import Pooled

        connection: Any = self.connect()
        self._set_limits(connection, statement=0, idle=0)
        with connection.cursor() as cursor:
            cursor.execute("select connection_id() + 0")  # Some poolers answer the bare function themselves.
            thread = int(cursor.fetchone()[0])
        if (thread - connection.thread_id()) % 2**32:
            connection.close()
            raise Pooled
        return connection

    def limit(self, connection: Any, deadline: Deadline) -> None:
        """A bulk operation changes the server's limits: one extra trip, and another one before the next call."""
        connection.until = deadline.until
        long = deadline.left > LISTING_SECONDS
        if long and not connection.long:
            self._set_limits(connection, statement=BULK_SECONDS, idle=IDLE_BULK_SECONDS)
        elif connection.long and not long:
            self._set_limits(connection, statement=LISTING_SECONDS, idle=IDLE_TRANSACTION_SECONDS)
        connection.long = long

    @contextmanager
    def unlimited(self, connection: Any) -> Iterator[None]:
        self._set_limits(connection, statement=0, idle=0, locks=60)
        try:
            yield
        finally:
            connection.long = False
            with suppress(*self.errors()):
                self._set_limits(connection, statement=LISTING_SECONDS, idle=IDLE_TRANSACTION_SECONDS)

    def _set_limits(self, connection: Any, *, statement: float, idle: int, locks: float | None = None) -> None:
        """The server's limits for a statement, a silent transaction, and waiting for a row (0: no limit)."""
        wait = int(locks or self.lock_wait)
        words = [f"innodb_lock_wait_timeout = {wait}"]
        if connection.is_mariadb:
            words += [f"max_statement_time = {statement:.3f}", f"idle_transaction_timeout = {idle}"]
        else:  # MySQL can only end silent connections, whether or not they have a transaction.
            words += [f"wait_timeout = {idle or 86_400}", f"lock_wait_timeout = {max(wait, 1)}"]
        with connection.cursor() as cursor:
            cursor.execute("set session " + ", ".join(words))

    def works(self, connection: Any, until: float) -> bool:
        connection.until = until
        connection.ping()
        return True

    def closed(self, connection: Any) -> bool:
        return not connection.open

    def errors(self) -> tuple[type[BaseException], ...]:
        return (pymysql.MySQLError,)

    def classify(self, error: BaseException) -> Trouble:
        code = _code(error)
        if isinstance(getattr(error, "original_exception", None), ssl.SSLCertVerificationError):
            return Trouble.SETUP
        if code in BY_CODE:
            return BY_CODE[code]
        if isinstance(error, pymysql.err.InterfaceError):
            return Trouble.GONE
        wrong = pymysql.err.ProgrammingError if code < 1000 else (pymysql.err.DataError, pymysql.err.IntegrityError)
        return Trouble.BUG if isinstance(error, wrong) else Trouble.OTHER

    def advice(self, error: BaseException) -> str:
        return SETUP.get(_code(error), _CERTIFICATE)

    def spell(self, text: str) -> str:
        return to_pyformat(text)

    def insert_many(self, cursor: Any, statement: Statement, columns: Columns, fixed: Parameters) -> None:
        count = len(next(iter(columns.values())))
        for start in range(0, count, ROWS_AT_ONCE):
            parts = {name: values[start : start + ROWS_AT_ONCE] for name, values in columns.items()}
            flat = {f"{name}_{row}": value for name, part in parts.items() for row, value in enumerate(part)}
            rows = for_many(statement, min(ROWS_AT_ONCE, count - start), tuple(columns))
            cursor.execute(*self.prepare(rows, {**fixed, **flat}))

    def opened(self, runner: Runner) -> None:
        """Refuse a Galera cluster: its servers commit concurrently, and each has its own number."""
        rows = runner.single(SHOW_GALERA)
        if rows and str(rows[0][1]).upper() in ("ON", "1"):
            raise BadValue(
                "url", self.name, ("is a Galera cluster, which is not supported; use a primary with replicas")
            )

    def begin_looking(self, cursor: Any, *, write: bool) -> Begun | None:
        cursor.execute(mysql_locks.BEGIN_WRITE if write else mysql_locks.BEGIN_READ)
        current, now, listened = cursor.fetchone()
        return Begun(bool(current), int(now), bool(listened))

    def streaming(self, connection: Any) -> Any:
        return connection.cursor(pymysql.cursors.SSCursor)

    def grant(self, runner: Runner, params: Parameters) -> Granted | None:
        row = runner.single(mysql_locks.grant(self.options.lock_rules)[0], **params)[0]
        return None if row[0] is None else Granted(*row)

    def release(self, runner: Runner, params: Parameters, *, contended: bool) -> Freed | None:
        if contended:
            return None
        waiting, rkey, chunk = runner.single_once(mysql_locks.release(self.options.lock_rules)[0], **params)[0]
        return None if rkey is None else Freed(waiting, rkey, handed=False, chunk=chunk)

    def as_parameters(self, known: JobParameters) -> Parameters:
        """The routines look the lists up, because each passed parameter is written into the statement."""
        return {name: getattr(known, name) for name in ("stamp", "job", "told", "made", "read")}

    def claim_next(self, runner: Runner, params: Parameters) -> tuple[str, int] | None:
        return read_claimed(runner.single_once(mysql_ledger.claim_next(self.options.chunk_rules)[0], **params))

    def succeed(self, runner: Runner, params: Parameters) -> bool | None:
        rows = runner.single_once(mysql_ledger.succeed(self.options.chunk_rules)[0], **params)
        return read_ended(rows) if rows else False

    def refuses_row(self, error: BaseException) -> bool:
        """The driver reports a failed CHECK as an operational error."""
        return super().refuses_row(error) or bool(error.args and error.args[0] in FAILED_CHECKS)

    def next_token(self, tx: Any) -> int:
        tx.run(NEXT_TOKEN)
        number: int = tx.last_id()
        tx.run(DROP_TOKEN, number=number)
        return number

    def schema_lock(self, execute: Any) -> None:
        execute("select get_lock('headgate-schema', 60)")

    def schema_unlock(self, connection: DriverConnection) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select release_lock('headgate-schema')")

    def routines(self) -> Sequence[Routine]:
        rules, chunk_rules = self.options.lock_rules, self.options.chunk_rules
        return (
            mysql_locks.LOOK_ROUTINE, mysql_locks.grant(rules)[1], mysql_locks.release(rules)[1],
            mysql_ledger.claim_next(chunk_rules)[1], mysql_ledger.succeed(chunk_rules)[1], RING_ROUTINE,
        )  # fmt: skip


def _code(error: BaseException) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _keep_alive(connection: Any) -> None:
    """Let the kernel notice a dead peer within about 11 seconds."""
    for name, value in (("KEEPIDLE", 5), ("KEEPINTVL", 2), ("KEEPCNT", 3), ("USER_TIMEOUT", 10_000)):
        with suppress(AttributeError, OSError):  # A Unix socket, or a system without the option.
            connection._sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"), value)  # noqa: SLF001 - PyMySQL has no way to ask for it
