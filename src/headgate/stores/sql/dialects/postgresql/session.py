"""Connections to PostgreSQL, direct or through a pooler: their settings, their deadlines, what their errors mean."""

from __future__ import annotations

import os
import re
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from headgate.calls.deadlines import LISTING_SECONDS, Deadline
from headgate.core.errors import BadValue, MissingExtra
from headgate.stores.options import StoreOptions
from headgate.stores.sql.database.dialect import (
    CONNECT_SECONDS,
    IDLE_BULK_SECONDS,
    IDLE_TRANSACTION_SECONDS,
    LOCK_WAIT_PART,
    Trouble,
)
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.tls import all_stay_here

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as missing:  # pragma: no cover - the extra is installed in tests
    raise MissingExtra("postgresql", "PostgreSQL needs the library psycopg") from missing

#: Microseconds on the server's clock.
NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
#: The timeline of the current WAL: available at once after a promotion, unlike that of the last checkpoint, and to
#: every user.
EPOCH = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
#: Every statement uses keys and indexes. Plans are kept, so a plan made while the tables were nearly empty must use the
#: indexes too (a claim is 4 x slower otherwise), and one plan serves all values (1.2 x). Before the server has analyzed
#: a newly filled table, a bitmap scan looks cheap: all pending items would be sorted for one job (10 x with 4,000).
#: Unavoidable scans would look so expensive that they are compiled first.
PLANNING = {
    "timezone": "UTC", "enable_seqscan": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}  # fmt: skip
#: Kernel checks by which a dead peer of an idle or waiting connection is noticed within about 11 seconds.
KEEPALIVES: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
#: The pause between two checks for signals to the process.
LOOK_SECONDS = 0.1
#: A moment beyond the life of any process (monotonic).
NEVER = 1e9
#: Settings of libpq for a server on another machine, unless URL or environment override them: its certificate must be
#: valid and name the host. If the user has their own list of authorities, libpq finds it.
VERIFIED = {"sslmode": "verify-full"}
MACHINES_AUTHORITIES = {"sslrootcert": "system"}
OWN_AUTHORITIES = ".postgresql/root.crt"
#: Statements are prepared from their second use on.
PREPARE_FROM = 2

#: The meaning of errors; the first match counts. GONE: the connection is unusable, and the transaction was rolled back.
#: (A server that is read-only was demoted: the next connection may lead to the new primary. A prepared statement that
#: is missing, or exists already, means that a pooler changed the server connection.)
MEANINGS: tuple[tuple[Trouble, tuple[type[psycopg.Error], ...]], ...] = (
    (Trouble.CONFLICT, (pg.DeadlockDetected, pg.SerializationFailure)),
    (Trouble.DUPLICATE, (pg.UniqueViolation,)),
    (Trouble.BUSY, (pg.LockNotAvailable, pg.QueryCanceled)),
    (Trouble.GONE, (
        pg.IdleInTransactionSessionTimeout, pg.ReadOnlySqlTransaction, pg.InvalidSqlStatementName,
        pg.DuplicatePreparedStatement, pg.InFailedSqlTransaction, pg.NoActiveSqlTransaction,
    )),
    (Trouble.SETUP, (
        pg.InsufficientPrivilege, pg.InvalidCatalogName, pg.InvalidSchemaName, pg.UndefinedTable, pg.InvalidPassword,
        pg.InvalidAuthorizationSpecification,
    )),
    (Trouble.GONE, (psycopg.OperationalError, psycopg.InterfaceError)),
    (Trouble.BUG, (psycopg.ProgrammingError, psycopg.DataError, psycopg.IntegrityError)),
)  # fmt: skip
#: The same while connecting, where only the text shows the cause: the texts of PostgreSQL and PgBouncer, and what to
#: do.
SETUP_WORDS = {
    "password authentication failed": "Correct the user or the password in the URL",
    "no password supplied": "Add the password to the URL, or a line to ~/.pgpass",
    "SASL authentication failed": "Correct the user or the password in the URL",
    "no such database": "Add the database to the pooler's configuration",
    "no such user": "Add the user to the pooler's configuration",
    "no pg_hba.conf entry": "Allow this host and user in the server's pg_hba.conf",
    "Peer authentication failed": "Name the right user in the URL, or allow passwords in the server's pg_hba.conf",
    "permission denied for database": "Grant the permission to connect: grant connect on database … to …",
    "does not support SSL": (
        "Enable TLS on the server (ssl = on), or if you trust the network add ?sslmode=disable to the URL"
    ),
    "certificate verify failed": (
        "The certificate has expired, or its authority is unknown here: name the authority with ?sslrootcert=FILE"
    ),
    "does not match host name": "Use the name in the server's certificate in the URL, or correct the certificate",
    "root certificate file": "Correct sslrootcert in the URL",
    'database "': "Create it with: createdb NAME, or correct the URL",
    'role "': "Create the role with: createuser NAME, or correct the URL",
}
RIGHTS = (
    "Grant the permission to the role, or make Headgate's role the owner of the database: alter database … owner to …"
)
TABLES = "Restore the table from a backup, or use another database"


class NoAnswer(psycopg.OperationalError):
    """No answer came before the deadline. The connection is closed: the answer might still come."""


class PostgresqlSession(psycopg.Connection[Row]):
    """A connection with a deadline, and with one cursor for single statements: a new one costs half a trip."""

    #: Every request must be answered by then (monotonic).
    until: float = NEVER
    #: The call is a bulk operation.
    long: bool = False
    #: It leads to a pooler, which may use another server connection for each transaction.
    pooled: bool = True

    @cached_property
    def single(self) -> psycopg.Cursor[Row]:
        """That cursor. Through a pooler, settings and statement are sent in one message that contains the values."""
        return psycopg.ClientCursor(self) if self.pooled else self.cursor()

    def wait(self, gen: Any, interval: float = LOOK_SECONDS, timeout: float | None = None) -> Any:
        """Like psycopg's own wait, but not beyond the deadline."""
        left = max(self.until - time.monotonic(), 0.0)
        try:
            return super().wait(gen, interval, left if timeout is None else min(timeout, left))
        except psycopg.OperationalError:
            if timeout is not None or self.closed or time.monotonic() < self.until:
                raise
            self.close()
            raise NoAnswer("no answer arrived in time") from None


def open_session(target: str, options: StoreOptions) -> PostgresqlSession:
    """A connection in autocommit. A direct one gets our settings; a pooler's connections are shared, so they stay
    unchanged.
    """
    session = PostgresqlSession.connect(
        target, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="headgate", **KEEPALIVES
    )
    session.until = time.monotonic() + CONNECT_SECONDS
    settings = {**PLANNING, **limits(options)}
    # A pooler invents the process number, because it has no server process yet.
    changed = " || ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    found = session.execute(
        f"select case when pg_backend_pid() = %s then {changed} end",
        (session.info.backend_pid,),
        prepare=False,
    ).fetchone()
    session.pooled = found is None or found[0] is None
    session.prepare_threshold = None if session.pooled else PREPARE_FROM
    return session


def target_of(url: str, name: str) -> str:
    """The connection string for libpq: the URL, with certificates verified for other machines. BadValue when libpq
    cannot read it.
    """
    try:
        asked = conninfo_to_dict(re.sub(r"^[^:]+://", "postgresql://", url))
    except psycopg.Error as error:
        raise BadValue("url", name, f"cannot be read: {error}") from None
    chosen: dict[str, Any] = {**_verified(asked), **asked}
    return make_conninfo(**chosen)


def _verified(asked: dict[str, Any]) -> dict[str, str]:
    """The parameters to add so that certificates are verified."""
    if "service" in asked or "sslmode" in asked or "PGSSLMODE" in os.environ or "PGSERVICE" in os.environ:
        return {}
    # An address determines the target, whatever host name is given with it.
    named = (str(asked.get(word) or os.environ.get(f"PG{word.upper()}", "")) for word in ("host", "hostaddr"))
    if all_stay_here(host for hosts in named for host in hosts.split(",")):
        return {}
    told = "sslrootcert" in asked or "PGSSLROOTCERT" in os.environ or (Path.home() / OWN_AUTHORITIES).exists()
    return VERIFIED if told else {**VERIFIED, **MACHINES_AUTHORITIES}


def limits(options: StoreOptions) -> dict[str, str]:
    """The server's limits for waiting for a lock, for a statement, and for a transaction whose client is silent."""
    answer = options.answer_within
    return {
        "lock_timeout": _milliseconds(answer * LOCK_WAIT_PART),
        "statement_timeout": _milliseconds(LISTING_SECONDS),
        "idle_in_transaction_session_timeout": _milliseconds(max(IDLE_TRANSACTION_SECONDS, answer)),
    }


def long_limits(deadline: Deadline) -> dict[str, str]:
    """The same for a bulk operation, if they differ."""
    return {
        "statement_timeout": _milliseconds(deadline.left),
        "idle_in_transaction_session_timeout": _milliseconds(IDLE_BULK_SECONDS),
    }


def set_local(settings: dict[str, str]) -> str:
    """Statements that set these until the transaction ends."""
    return " ".join(f"set local {name} = '{value}';" for name, value in settings.items())


def classify(error: BaseException) -> Trouble:
    """The meaning of a psycopg error."""
    found = next((trouble for trouble, kinds in MEANINGS if isinstance(error, kinds)), Trouble.OTHER)
    return Trouble.SETUP if found is Trouble.GONE and _advice_by_text(error) else found


def advice(error: BaseException) -> str:
    """What an operator has to do about an error that means SETUP."""
    if isinstance(error, pg.InsufficientPrivilege):
        return RIGHTS
    return TABLES if isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName) else _advice_by_text(error) or RIGHTS


def _advice_by_text(error: BaseException) -> str:
    text = str(error)
    for words, what in SETUP_WORDS.items():
        if words in text and (not words.endswith('"') or "does not exist" in text):
            return what
    return ""


def _milliseconds(seconds: float) -> str:
    return str(max(int(seconds * 1000), 1))
