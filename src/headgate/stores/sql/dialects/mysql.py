"""MariaDB and MySQL, by PyMySQL."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headgate.core.errors import BadValue, MissingExtra
from headgate.stores.sql.dialects import mysql_ledger
from headgate.stores.sql.dialects.base import (
    DROP_TOKEN,
    Columns,
    Connection,
    Dialect,
    Freed,
    Granted,
    Known,
    Parameters,
    Runner,
    Trouble,
    check_server_url,
    read_answer,
    read_claimed,
)
from headgate.stores.sql.dialects.mysql_ledger import NOW as MICROSECONDS
from headgate.stores.sql.statement import Statement, for_many, to_pyformat

try:
    import pymysql
except ImportError as missing:  # pragma: no cover - the extra is installed in tests
    raise MissingExtra("mysql", "MariaDB and MySQL need the library PyMySQL") from missing

#: Rows that one insert takes.
ROWS_AT_ONCE = 500
DEADLOCK, LOCK_WAIT_TIMEOUT, DUPLICATE, RECORD_CHANGED = 1213, 1205, 1062, 1020
#: A statement that the server does not understand.
SYNTAX = {1054, 1064, 1109}
#: Errors of the server that mean: this connection is of no use any more.
CONNECTION_ENDED = {
    1040,
    1053,
    1152,
    1153,
    1156,
    1158,
    1159,
    1160,
    1161,
    1184,
    1927,
    2002,
    2003,
    2006,
    2013,
    2014,
    2055,
}

GRANT = Statement(
    "A resource that is free for this mode becomes held (see the routine).",
    """call hg_grant_2(:rkey, :uri, :mode, :id, :client, :lease, :lock_delay, :request_id, :owner, :note,
                      {token_floor})""",
)
#: A row breaks a CHECK: MariaDB's number, and MySQL's.
FAILED_CHECKS = (4025, 3819)
NEXT_TOKEN = Statement("A new number.", "insert into hg_token () values ()")
RELEASE = Statement("A live lock that is held once goes (see the routine).", "call hg_release_1(:id, :token)")

#: Stored routines make one trip of it. They are code: migrate installs them, and a change gets a new number.
ROUTINES = (
    f"""
create procedure if not exists hg_grant_2(
  in a_rkey binary(32), in a_uri varchar(2048) character set utf8mb4, in a_mode varchar(9) character set utf8mb4,
  in a_id varchar(40) character set utf8mb4, in a_client varchar(255) character set utf8mb4, in a_lease bigint,
  in a_lock_delay bigint, in a_request varchar(200) character set utf8mb4,
  in a_owner varchar(255) character set utf8mb4, in a_note varchar(1000) character set utf8mb4, in a_floor bigint)
begin
  declare v_token, v_now bigint;
  declare v_granted int;
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  update hg_resource set token = last_insert_id(token + 1), holders = holders + 1, mode = a_mode, known = 1
  where rkey = a_rkey and waiting = 0 and (holders = 0 or (mode = 'shared' and a_mode = 'shared'));
  set v_granted = row_count();
  if v_granted = 0 then
    insert ignore into hg_resource (rkey, uri, token, holders, mode, waiting, known)
    values (a_rkey, a_uri, last_insert_id(a_floor + 1), 1, a_mode, 0, 1);
    set v_granted = row_count();
  end if;
  if v_granted = 0 then
    rollback;
    select null, null;
  else
    set v_token = last_insert_id(), v_now = {MICROSECONDS};
    insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count,
                         request_id, owner, note)
    values (a_id, a_rkey, a_client, a_mode, v_token, v_now, a_lease, v_now + a_lease, a_lock_delay, 1,
            a_request, a_owner, a_note);
    insert into hg_history (at, noun, event, rkey, client, lock_id, token, state_before, state_after, reason)
    values (v_now, 'lock', 'grant', a_rkey, a_client, a_id, v_token, 'new', a_mode, '');
    commit;
    select v_token, v_now;
  end if;
end""",
    f"""
create procedure if not exists hg_release_1(in a_id varchar(40) character set utf8mb4, in a_token bigint)
begin
  declare v_rkey binary(32);
  declare v_client varchar(255) character set utf8mb4;
  declare v_mode varchar(9) character set utf8mb4;
  declare v_waiting int;
  declare v_now bigint default {MICROSECONDS};
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  select rkey, client, mode into v_rkey, v_client, v_mode from hg_lock
  where id = a_id and token = a_token and count = 1 and (lease_until is null or lease_until > v_now) for update;
  if v_rkey is null then
    rollback;
    select null, null;
  else
    delete from hg_lock where id = a_id;
    update hg_resource set holders = holders - 1 where rkey = v_rkey;
    select waiting into v_waiting from hg_resource where rkey = v_rkey;
    insert into hg_history (at, noun, event, rkey, client, lock_id, token, state_before, state_after, reason)
    values (v_now, 'lock', 'release', v_rkey, v_client, a_id, a_token, v_mode, 'released', '');
    commit;
    select v_waiting, v_rkey;
  end if;
end""",
)


class MysqlConnection(pymysql.connections.Connection):
    """A connection that is encrypted where the server can do that, though without `tls` to anybody who answers."""

    ctx: ssl.SSLContext  # PyMySQL's own; its types leave it out.

    def _create_ssl_ctx(self, asked: Any) -> ssl.SSLContext:
        """PyMySQL's own way reads all of the machine's authorities (20 ms), and then looks at no certificate."""
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
    sqlalchemy_name = "mysql+pymysql"
    now = MICROSECONDS
    wall = MICROSECONDS
    minute = f"({wall} div 60000000)"
    insert_once = "insert ignore into"
    or_leave = ""
    share_rows = "lock in share mode"
    own_rows = "for update"
    or_change = "on duplicate key update"
    new_value = "values({})"
    behind = "(i.priority > :priority or (i.priority = :priority and i.id > :after))"
    begin_write = "start transaction"
    begin_read = "start transaction read only"
    list_tables = Statement(
        "The tables of this database.",
        "select table_name from information_schema.tables where table_schema = database()",
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
            raise BadValue("url", self.name, "names no database; write mysql://user:password@host/database")
        options = dict(parse_qsl(parts.query))
        self._arguments: dict[str, Any] = {
            "host": parts.hostname or "127.0.0.1",
            "port": self._port(parts),
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path.strip("/")),
            "unix_socket": options.pop("unix_socket", None),
        }
        if options.pop("tls", "") in ("1", "true", "required"):
            self._arguments["ssl"] = ssl.create_default_context()
        if options:
            raise BadValue("url option", next(iter(options)), "is unknown; MariaDB takes unix_socket and tls")

    def _port(self, parts: SplitResult) -> int:
        try:
            return parts.port or 3306
        except ValueError:
            raise BadValue("url", self.name, "has a port that is no number up to 65535") from None

    def connect(self) -> Connection:
        connection: Connection = MysqlConnection(
            **self._arguments,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
            read_timeout=60,
            write_timeout=60,
            init_command="set session time_zone = '+00:00', innodb_lock_wait_timeout = 20",
        )
        with connection.cursor() as cursor:
            # No gap locks, so that first uses of neighbouring resources do not meet.
            cursor.execute("set session transaction isolation level read committed")
        return connection

    def errors(self) -> tuple[type[BaseException], ...]:
        return (pymysql.MySQLError,)

    def classify(self, error: BaseException) -> Trouble:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if code in (DEADLOCK, RECORD_CHANGED):
            return Trouble.CONFLICT
        if code == LOCK_WAIT_TIMEOUT:
            return Trouble.BUSY
        if code == DUPLICATE:
            return Trouble.DUPLICATE
        if code in CONNECTION_ENDED or isinstance(error, pymysql.err.InterfaceError):
            return Trouble.GONE
        if code in SYNTAX or (isinstance(error, pymysql.err.ProgrammingError) and code < 1000):
            return Trouble.BUG
        return Trouble.OTHER

    def spell(self, text: str) -> str:
        return to_pyformat(text)

    def insert_many(self, cursor: Any, statement: Statement, columns: Columns, fixed: Parameters) -> None:
        count = len(next(iter(columns.values())))
        for start in range(0, count, ROWS_AT_ONCE):
            parts = {name: values[start : start + ROWS_AT_ONCE] for name, values in columns.items()}
            flat = {f"{name}_{row}": value for name, part in parts.items() for row, value in enumerate(part)}
            rows = for_many(statement, min(ROWS_AT_ONCE, count - start), tuple(columns))
            cursor.execute(*self.prepare(rows, {**fixed, **flat}))

    def streaming(self, connection: Any) -> Any:
        return connection.cursor(pymysql.cursors.SSCursor)

    def grant(self, runner: Runner, params: Parameters) -> Granted | None:
        row = runner.single(GRANT, **params)[0]
        return None if row[0] is None else Granted(*row)

    def release(self, runner: Runner, params: Parameters, *, contended: bool) -> Freed | None:
        if contended:
            return None
        waiting, rkey = runner.single_once(RELEASE, **params)[0]
        return None if rkey is None else Freed(waiting, rkey, handed=False)

    def as_parameters(self, known: Known) -> Parameters:
        """The routines look the lists up; each parameter that is given is written into the statement."""
        return {name: getattr(known, name) for name in ("stamp", "job", "told", "made", "read")}

    def claim_next(self, runner: Runner, params: Parameters) -> tuple[str, int] | None:
        return read_claimed(runner.single_once(mysql_ledger.CLAIM_NEXT, **params))

    def succeed(self, runner: Runner, params: Parameters) -> bool:
        rows = runner.single_once(mysql_ledger.SUCCEED, **params)
        return not rows or read_answer(rows) is not None

    def refuses_row(self, error: BaseException) -> bool:
        """The driver takes a failed CHECK for an error of operation."""
        return super().refuses_row(error) or bool(error.args and error.args[0] in FAILED_CHECKS)

    def next_token(self, tx: Any) -> int:
        tx.run(NEXT_TOKEN)
        number: int = tx.last_id()
        tx.run(DROP_TOKEN, number=number)
        return number

    def schema_lock(self, execute: Any) -> None:
        execute("select get_lock('headgate-schema', 60)")

    def schema_unlock(self, connection: Connection) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select release_lock('headgate-schema')")

    def install_routines(self, execute: Any) -> None:
        for body in (*ROUTINES, *mysql_ledger.ROUTINES):
            execute(body)
