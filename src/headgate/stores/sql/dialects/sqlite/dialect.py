"""SQLite: one file, many processes on one machine, nothing to install."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headgate.core.errors import BadValue, StoreUnavailable
from headgate.core.ledger.model import chunk_resource
from headgate.core.locks.model import resource_digest
from headgate.stores.sql.database.dialect import (
    Columns,
    Dialect,
    DriverConnection,
    Freed,
    Granted,
    Outdated,
    Parameters,
    Runner,
    Trouble,
)
from headgate.stores.sql.database.facts import READ_FACTS, READ_VERSION
from headgate.stores.sql.database.sql_text import Row, Statement, positional, with_lists
from headgate.stores.sql.dialects.sqlite import ledger as sqlite_ledger
from headgate.stores.sql.dialects.sqlite import locks as sqlite_locks
from headgate.stores.sql.dialects.sqlite.gate import Turn, WriterGate
from headgate.stores.sql.dialects.sqlite.news import SqliteNews
from headgate.stores.sql.dialects.sqlite.place import (
    RIGHTS,
    Identity,
    check_place,
    companions,
    describe_writer,
    identify,
    make_database,
    missing_right,
    warn_of_network_filesystem,
)

if TYPE_CHECKING:
    from threading import Event

    from headgate.stores.sql.dialects.sqlite.wake import WakeFolder

#: Before this version two connections in WAL mode can corrupt the file (sqlite.org/wal.html#walresetbug).
WAL_IS_SAFE = (3, 51, 3)
#: Seconds that a long read waits for a locked file.
PATIENCE = 30.0

#: The meaning of SQLite's error codes. A file or folder that this user may not write to needs an operator.
TROUBLES = {
    sqlite3.SQLITE_BUSY: Trouble.BUSY,
    sqlite3.SQLITE_LOCKED: Trouble.BUSY,
    sqlite3.SQLITE_NOTADB: Trouble.FOREIGN,
    sqlite3.SQLITE_READONLY: Trouble.SETUP,
    sqlite3.SQLITE_PERM: Trouble.SETUP,
    sqlite3.SQLITE_CANTOPEN: Trouble.SETUP,
    sqlite3.SQLITE_AUTH: Trouble.SETUP,
    sqlite3.SQLITE_ERROR: Trouble.BUG,
    sqlite3.SQLITE_CONSTRAINT: Trouble.BUG,
}

READ_CLOCK = Statement("The starting point of the lease clock.", "select value from hg_meta where name = 'clock'")
WRITE_CLOCK = Statement(
    "Record the starting point of the lease clock.",
    "insert into hg_meta (name, value) values ('clock', :value) on conflict (name) do update set value = :value",
)
LATEST_LEASE = Statement(
    "The end of the longest lease. A claim that was set by hand never ends, and is not counted.",
    """select max(lease_until) from (
         select max(lease_until) as lease_until from hg_lock
         union all select max(lease_until) from hg_chunk where lease_until < 1 << 60
         union all select max(lease_until) from hg_batch
         union all select max(lease_until) from hg_ingest_job)""",
)
NEXT_TOKEN = Statement(
    "A new number, from SQLite's record of the numbers issued to a table's rows.",
    "update sqlite_sequence set seq = seq + 1 where name = 'hg_token' returning seq",
)
FIRST_TOKEN = Statement("The first number.", "insert into sqlite_sequence (name, seq) values ('hg_token', 1)")


class FileMoved(sqlite3.OperationalError):
    """The file was deleted or replaced: the open one is no longer the store."""


class FileConnection(sqlite3.Connection):
    """A connection that knows which file it has open."""

    identity: Identity | None = None


class _Tx:
    """Statements on a connection that the engine does not know yet."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, statement: Statement, **params: object) -> list[Row]:
        return self._connection.execute(statement.text, params).fetchall()

    def one(self, statement: Statement, **params: object) -> Any:
        return self._connection.execute(statement.text, params).fetchone()

    def run(self, statement: Statement, **params: object) -> None:
        self._connection.execute(statement.text, params)


class _Known(NamedTuple):
    """The store that was opened: its file, its tag, and the version of its schema."""

    identity: Identity | None
    tag: str
    version: str


class Sqlite(Dialect):
    """A file, or memory."""

    kind = "sqlite"
    sqlalchemy_name = "sqlite"
    integer = "integer"
    now = "hg_now()"
    wall = "hg_wall()"
    minute = f"({wall} / 60000000)"
    for_update = ""
    for_share = ""
    skip_locked = ""
    begin_write = "begin immediate"
    last_token = Statement("The last issued number.", "select seq from sqlite_sequence where name = 'hg_token'")
    begin_read = "begin"
    list_tables = Statement(
        "The tables of this file.",
        "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'",
    )
    list_columns = Statement("The columns of a table.", "select name from pragma_table_info(:table)")

    one_writer = True
    side_by_side = 32
    listens = hasattr(os, "O_PATH")
    local = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._clock_base: int | None = None
        #: The store, once it is open: a different one is refused.
        self._known: _Known | None = None
        self._listed: dict[Statement, str] = {}
        self.path, options = _parse(url)
        self.journal_mode = options.pop("journal_mode", _default_journal_mode()).lower()
        if self.journal_mode not in ("wal", "truncate"):
            raise BadValue("journal_mode", self.journal_mode, "is neither wal nor truncate")
        if options:
            raise BadValue("url option", next(iter(options)), "is unknown; the option for SQLite is journal_mode")
        self._gate = WriterGate(self.path)
        if self.path is None:
            self.connections, self.side_by_side, self.in_memory, self.listens = 1, 1, True, False
        else:
            warn_of_network_filesystem(self.path)

    def connect(self) -> DriverConnection:
        before = None if self.path is None else self._look_at_place(self.path)
        connection = sqlite3.connect(
            self._target(),
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
            factory=FileConnection,
            uri=self.path is not None,
        )
        try:
            if self.path is not None and not self.read_only:
                connection.identity = before or identify(self.path)
                self.verify(connection)
                self._recognise(connection)
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _look_at_place(self, path: Path) -> Identity | None:
        """The existing file. A new store's file is created here, with the right permissions."""
        found = identify(path)
        if found is None and self._known is not None:
            raise FileMoved(f"{path} was deleted or moved")
        check_place(self.name, path)
        if found is None and not self.read_only:
            make_database(self.name, path, self.options)
        return found

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.create_function("hg_wall", 0, _wall_microseconds)
        connection.create_function("hg_now", 0, self._lease_clock)
        connection.create_function("hg_chunk_key", 2, _chunk_key, deterministic=True)
        # A brief busy time-out here only: later on we wait by ourselves, since SQLite's own handler starves.
        connection.execute("pragma busy_timeout = 5000")
        if self.path is not None and not self.read_only:
            self._choose_journal(connection)
        connection.execute("pragma synchronous = full")
        # A transaction that does not fit into the cache is written out half-way, with an extra synchronisation of the
        # journal.
        connection.execute("pragma cache_size = -32000")
        connection.execute("pragma busy_timeout = 0")

    def _recognise(self, connection: FileConnection) -> None:
        """A file that replaced the opened one must be the same store; cached facts are read again."""
        known = self._known
        if known is None or connection.identity == known.identity:
            return
        if self.journal_mode == "wal":
            # Its write-ahead log belongs to the old file, and would be read as part of the new one.
            raise FileMoved(
                f"{self.path} was replaced while it was in use. Stop all processes that use it, and connect again"
            )
        tx = _Tx(connection)
        facts: dict[str, str] = {}
        with suppress(sqlite3.Error):
            facts = dict(tx.all(READ_FACTS))
        if facts.get("tag") != known.tag:
            raise FileMoved(f"{self.path} was replaced by another store or another file. Connect again to use it")
        if tx.one(READ_VERSION) != (known.version,) or "arriving" in facts:
            raise FileMoved(f"{self.path} was replaced and is being migrated or restored. Connect again afterwards")
        boot = _boot_id()
        if boot:
            connection.execute("pragma busy_timeout = 1000")
            connection.execute("begin immediate")
            self._clock_base = _agree_on_clock(tx, boot)
            connection.execute("commit")
            connection.execute("pragma busy_timeout = 0")
        self._known = known._replace(identity=connection.identity)

    def turn(self, seconds: float) -> AbstractContextManager[None]:
        return Turn(self._gate, seconds, self._refuse_turn)

    def _refuse_turn(self, seconds: float) -> StoreUnavailable:
        return StoreUnavailable(self.name, self.why_busy(seconds), outcome="none")

    def begin(self, cursor: Any, *, write: bool) -> None:
        """Start a transaction. Writing to a replaced file would damage the journal of the new one."""
        if write:
            self.verify(cursor.connection)
        cursor.execute(self.begin_write if write else self.begin_read)

    def verify(self, connection: Any) -> None:
        if self.path is None or connection.identity is None:
            return
        try:
            found = os.stat(self.path)  # noqa: PTH116 - each transaction does it
        except OSError as error:
            raise FileMoved(f"{self.path} was deleted or moved: {error.strerror}") from None
        if (found.st_dev, found.st_ino) != connection.identity:
            raise FileMoved(f"{self.path} was replaced by another file")

    def ask(self, connection: Any, statement: Statement, params: Parameters) -> list[Row]:
        rows = super().ask(connection, statement, params)
        self.verify(connection)
        return rows

    def why(self, error: BaseException) -> str:
        trouble = self.classify(error)
        if trouble is Trouble.BUSY:
            return self.why_busy()
        if trouble is Trouble.SETUP and self.path is not None:
            return missing_right(self.path) or super().why(error)
        return super().why(error)

    def why_busy(self, seconds: float | None = None) -> str:
        files = () if self.path is None else (self._gate.path, self.path, Path(f"{self.path}-shm"))
        who = describe_writer(*(path for path in files if path))
        waited = "" if seconds is None else f" for {seconds:.1f} s"
        return f"{who or ('another thread' if self.path is None else 'another process')} has kept it locked{waited}"

    def close(self) -> None:
        self._gate.close()

    @contextmanager
    def still(self, connection: DriverConnection) -> Iterator[DriverConnection]:
        """A copy of the current file: a long read of the file itself would block writers.

        SQLite keeps a database without a name in memory and, if it is large, in an unnamed temporary file: a killed
        process leaves nothing behind.
        """
        copy = sqlite3.connect("", isolation_level=None)
        deadline = time.monotonic() + PATIENCE

        def give_up(status: int, _left: int, _total: int) -> None:
            if status == sqlite3.SQLITE_BUSY and time.monotonic() > deadline:
                raise StoreUnavailable(self.name, f"its file was locked for {PATIENCE:.0f} s", outcome="none")

        try:
            cast("sqlite3.Connection", connection).backup(copy, progress=give_up)
            yield copy
        finally:
            copy.close()

    @contextmanager
    def patient(self, connection: DriverConnection) -> Iterator[None]:
        cursor = connection.cursor()
        cursor.execute(f"pragma busy_timeout = {PATIENCE * 1000:.0f}").fetchall()
        try:
            yield
        finally:
            cursor.execute("pragma busy_timeout = 0").fetchall()

    def opened(self, runner: Runner) -> None:
        """Leases use the time since boot, which does not change with the wall clock.

        All processes that can share a file share a kernel, and so that clock. Its starting point is stored in the file,
        updated after each boot, and later than every earlier lease.
        """
        boot = _boot_id()

        def learn(tx: Any) -> tuple[str, str]:
            if boot:
                self._clock_base = _agree_on_clock(tx, boot)
            return dict(tx.all(READ_FACTS))["tag"], str(tx.one(READ_VERSION)[0])

        tag, version = runner.write(learn)
        self._known = _Known(None if self.path is None else identify(self.path), tag, version)

    def files(self) -> list[Path]:
        return [] if self.path is None else companions(self.path)

    def notify(self, runner: Runner, channels: Iterable[tuple[str, int]]) -> None:
        del runner
        if self._wake is not None:
            self._wake.send(channels)

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        if self._wake is not None:
            try:
                self._wake.listen(channel, heard, stop)
            except OSError as error:
                raise sqlite3.OperationalError(f"no wake-ups: {error}") from error

    def wire(self) -> SqliteNews | None:
        return None if self.path is None else SqliteNews(self.path)

    @property
    def _wake(self) -> WakeFolder | None:
        """Imported when a caller waits: most commands never do."""
        from headgate.stores.sql.dialects.sqlite.wake import WakeFolder

        return None if self.path is None else WakeFolder(self.path)

    def _target(self) -> str:
        if self.path is None:
            return ":memory:"
        if self.read_only:
            return f"{self.path.as_uri()}?mode=ro" if self.path.exists() else "file::memory:"
        # A store that was open is never created again: an empty file would be taken for it.
        return self.path.as_uri() + ("?mode=rwc" if self._known is None else "?mode=rw")

    def _lease_clock(self) -> int:
        return _wall_microseconds() if self._clock_base is None else self._clock_base + _since_boot()

    def _choose_journal(self, connection: sqlite3.Connection) -> None:
        tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
        if tables and "hg_schema" not in tables:
            return  # The file is not ours: setting WAL would write to it.
        present = connection.execute("pragma journal_mode").fetchone()[0]
        if present != self.journal_mode:
            connection.execute(f"pragma journal_mode = {self.journal_mode}")

    def errors(self) -> tuple[type[BaseException], ...]:
        return (sqlite3.Error,)

    def classify(self, error: BaseException) -> Trouble:
        code = getattr(error, "sqlite_errorcode", 0)
        if isinstance(error, FileMoved) or code == sqlite3.SQLITE_READONLY_DBMOVED:
            return Trouble.MOVED
        if isinstance(error, sqlite3.IntegrityError) and "UNIQUE" in str(error):
            return Trouble.DUPLICATE
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
            return Trouble.BUG
        return TROUBLES.get(code & 0xFF, Trouble.OTHER)

    def advice(self, error: BaseException) -> str:
        del error
        return RIGHTS

    def spell(self, text: str) -> str:
        return text

    def prepare(self, statement: Statement, params: Parameters) -> tuple[str, Parameters]:
        """A list is passed as one JSON text: as parameters, their names would be looked up one by one."""
        if statement in self._texts.plain:
            return self._texts.plain[statement], params
        lists = {name: cast("list[object]", params[name]) for name in self._texts.lists(statement)}
        if not lists or any(isinstance(each, bytes) for value in lists.values() for each in value[:1]):
            return self._texts.write(statement, params)
        if statement not in self._listed:
            text = with_lists(statement.text, "in (select value from json_each(:{}))")
            self._listed[statement] = text.format(**self.words())
        return self._listed[statement], {**params, **{name: json.dumps(value) for name, value in lists.items()}}

    def insert_many(self, cursor: Any, statement: Statement, columns: Columns, fixed: Parameters) -> None:
        # By position: looking up each value by name takes longer than the insert.
        listed, names = positional(statement)
        values = (columns[name] if name in columns else repeat(fixed[name]) for name in names)
        cursor.executemany(self.prepare(listed, {})[0], zip(*values, strict=False))

    def grant(self, runner: Runner, params: Parameters) -> Granted | None:
        granted: Granted | None = runner.write(lambda tx: sqlite_locks.grant(tx, params))
        return granted

    def release(self, runner: Runner, params: Parameters, *, contended: bool) -> Freed | None:
        freed: Freed | None = None if contended else runner.write(lambda tx: sqlite_locks.release(tx, params))
        return freed

    def next_token(self, tx: Any) -> int:
        row = tx.one(NEXT_TOKEN)
        if row is None:
            tx.run(FIRST_TOKEN)
        return 1 if row is None else int(row[0])

    def claim_next(self, runner: Runner, params: Parameters) -> tuple[str, int] | None:
        claimed: tuple[str, int] | None = _if_current(runner.write(lambda tx: sqlite_ledger.claim_next(tx, params)))
        return claimed

    def succeed(self, runner: Runner, params: Parameters) -> bool | None:
        return bool(_if_current(runner.write(lambda tx: sqlite_ledger.succeed(tx, params)))) or None

    def changed(self, connection: DriverConnection) -> object:
        cursor = connection.cursor()
        try:
            self.verify(connection)
            cursor.execute("pragma data_version")
            return connection, cursor.fetchone()  # Each connection has numbers of its own.
        except sqlite3.OperationalError:
            return object()  # Busy means that another process is writing right now, so something has changed.


def _if_current(found: tuple[bool, Any]) -> Any:
    """The result of a fast path; Outdated when its cached definitions were not current."""
    current, result = found
    if not current:
        raise Outdated
    return result


def _parse(url: str) -> tuple[Path | None, dict[str, str]]:
    rest = url.partition("://")[2]
    path, _, query = rest.partition("?")
    if "?" in rest or "%" in rest:
        from urllib.parse import parse_qsl, unquote

        path, options = unquote(path), dict(parse_qsl(query))
    else:
        options = {}
    if path in ("", "/:memory:"):
        return None, options
    if not path.startswith("/"):
        raise BadValue("url", url, "has a host; write sqlite:///file, or sqlite:////absolute/file")
    return Path(path[1:]).absolute(), options


def _chunk_key(dataset: str, dataid: str) -> bytes:
    """The key of the resource of locks on a chunk."""
    return resource_digest(chunk_resource(dataset, dataid))


def _default_journal_mode() -> str:
    return "wal" if sqlite3.sqlite_version_info >= WAL_IS_SAFE else "truncate"


def _agree_on_clock(tx: Any, boot: str) -> int:
    row = tx.one(READ_CLOCK)
    if row is not None and row[0].partition(" ")[0] == boot:
        return int(row[0].partition(" ")[2])
    latest = tx.one(LATEST_LEASE)[0] or 0
    base = max(_wall_microseconds(), latest) - _since_boot()
    tx.run(WRITE_CLOCK, value=f"{boot} {base}")
    return base


def _wall_microseconds() -> int:
    return time.time_ns() // 1000


def _boot_id() -> str:
    """An identifier of this boot; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # pragma: no cover - Linux has it
        return ""


def _since_boot() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
