"""SQLite: one file, many processes of one machine, nothing to install."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

from headgate.core.errors import BadValue, StoreMisconfigured
from headgate.core.ledger import chunk_resource
from headgate.core.locks import resource_digest
from headgate.stores.sql.dialects import sqlite_ledger
from headgate.stores.sql.dialects.base import (
    Columns,
    Connection,
    Dialect,
    Freed,
    Granted,
    Outdated,
    Parameters,
    Runner,
    Trouble,
)
from headgate.stores.sql.statement import Statement, positional, with_lists

#: Before this version two connections in WAL mode can corrupt the file (sqlite.org/wal.html#walresetbug).
WAL_IS_SAFE = (3, 51, 3)
NETWORK_FILESYSTEMS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "fuse.sshfs",
    "lustre",
    "gpfs",
    "beegfs",
    "9p",
    "afs",
)

#: Errors that do not pass by themselves: a file or a folder that this user may not write or open.
SETUP = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}
#: Errors that mean a wrong statement.
WRONG = (sqlite3.ProgrammingError, sqlite3.InterfaceError)
RIGHTS = "Give this user the right to read and write the file and its folder, or use another file"

GRANT_RESOURCE = Statement(
    "Count one more holder of a resource that is free for this mode, and give the new token.",
    """insert into hg_resource (rkey, uri, token, holders, mode, waiting, known)
       values (:rkey, :uri, {token_floor} + 1, 1, :mode, 0, 1)
       on conflict (rkey) do update
         set token = token + 1, holders = holders + 1, mode = excluded.mode, known = 1
         where waiting = 0 and (holders = 0 or (mode = 'shared' and excluded.mode = 'shared'))
       returning token, {wall}""",
)
GRANT_LOCK = Statement(
    "Write the lock.",
    """insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count,
                            request_id, owner, note)
       values (:id, :rkey, :client, :mode, :token, :since, :lease, {now} + :lease, :lock_delay, 1,
               :request_id, :owner, :note)""",
)
GRANT_HISTORY = Statement(
    "Tell of the grant.",
    """insert into hg_history (at, noun, event, rkey, client, lock_id, token, state_before, state_after, reason)
       values (:since, 'lock', 'grant', :rkey, :client, :id, :token, 'new', :mode, '')""",
)
RELEASE_LOCK = Statement(
    "Remove a live lock that is held once.",
    """delete from hg_lock
       where id = :id and token = :token and count = 1 and (lease_until is null or lease_until > {now})
       returning rkey, client, mode""",
)
RELEASE_RESOURCE = Statement(
    "Count one holder less, and see whether anybody waits.",
    "update hg_resource set holders = holders - 1 where rkey = :rkey returning waiting, rkey",
)
RELEASE_HISTORY = Statement(
    "Tell of the release.",
    """insert into hg_history (at, noun, event, rkey, client, lock_id, token, state_before, state_after, reason)
       values ({wall}, 'lock', 'release', :rkey, :client, :id, :token, :mode, 'released', '')""",
)
READ_CLOCK = Statement("What the lease clock counts from.", "select value from hg_meta where name = 'clock'")
WRITE_CLOCK = Statement(
    "Remember what the lease clock counts from.",
    "insert into hg_meta (name, value) values ('clock', :value) on conflict (name) do update set value = :value",
)
LATEST_LEASE = Statement(
    "The end of the longest lease. A claim that was set by hand ends never, and counts as none.",
    """select max(lease_until) from (
         select max(lease_until) as lease_until from hg_lock
         union all select max(lease_until) from hg_chunk where lease_until < 1 << 60
         union all select max(lease_until) from hg_batch
         union all select max(lease_until) from hg_ingest_job)""",
)
NEXT_TOKEN = Statement(
    "A new number: what SQLite keeps of the numbers that it gave to the rows of a table.",
    "update sqlite_sequence set seq = seq + 1 where name = 'hg_token' returning seq",
)
FIRST_TOKEN = Statement("The first number.", "insert into sqlite_sequence (name, seq) values ('hg_token', 1)")


class Sqlite(Dialect):
    """A file, or memory."""

    kind = "sqlite"
    sqlalchemy_name = "sqlite"
    now = "hg_now()"
    wall = "hg_wall()"
    minute = f"({wall} / 60000000)"
    for_update = ""
    skip_locked = ""
    begin_write = "begin immediate"
    begin_read = "begin"
    list_tables = Statement(
        "The tables of this file.",
        "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'",
    )
    list_columns = Statement("The columns of a table.", "select name from pragma_table_info(:table)")

    one_writer = True
    local = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._clock_base: int | None = None
        self._listed: dict[Statement, str] = {}
        self.path, options = _parse(url)
        self.journal_mode = options.pop("journal_mode", _default_journal_mode()).lower()
        if self.journal_mode not in ("wal", "truncate"):
            raise BadValue("journal_mode", self.journal_mode, "is neither wal nor truncate")
        if options:
            raise BadValue("url option", next(iter(options)), "is unknown; SQLite takes journal_mode")
        if self.path is None:
            self.connections, self.in_memory = 1, True
        else:
            _warn_of_network_filesystem(self.path)

    def connect(self) -> Connection:
        if self.path is not None:
            self._check_place(self.path)
        connection = sqlite3.connect(
            self._target(),
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
            uri=self.read_only,
        )
        connection.create_function("hg_wall", 0, _wall_microseconds)
        connection.create_function("hg_now", 0, self._lease_clock)
        connection.create_function("hg_chunk_key", 2, _chunk_key, deterministic=True)
        # A brief busy time-out here only: later on we wait by ourselves, since SQLite's own handler starves.
        connection.execute("pragma busy_timeout = 5000")
        if self.path is not None and not self.read_only:
            self._choose_journal(connection)
        connection.execute("pragma synchronous = full")
        # A transaction that does not fit is written out half-way, and the journal synchronised once more for it.
        connection.execute("pragma cache_size = -32000")
        connection.execute("pragma busy_timeout = 0")
        return connection

    @contextmanager
    def still(self, connection: Connection) -> Iterator[Connection]:
        """A copy of the file as it is now: a long reading of the file itself would keep writers out."""
        import tempfile

        with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
            path = str(Path(folder) / "still.db")
            with self.patient(connection):
                connection.cursor().execute("vacuum into ?", (path,))
            copy = sqlite3.connect(path, isolation_level=None)
            try:
                yield copy
            finally:
                copy.close()

    @contextmanager
    def patient(self, connection: Connection) -> Iterator[None]:
        cursor = connection.cursor()
        cursor.execute("pragma busy_timeout = 30000").fetchall()
        try:
            yield
        finally:
            cursor.execute("pragma busy_timeout = 0").fetchall()

    def opened(self, runner: Runner) -> None:
        """Leases run on the time since boot, which no change of the wall clock moves.

        All processes that can share a file share a kernel, and so that clock. What it counts from is kept in
        the file, made anew after each start of the machine and later than every lease of before.
        """
        boot = _boot_id()
        if boot:
            self._clock_base = runner.write(lambda tx: _agree_on_clock(tx, boot))

    def _target(self) -> str:
        if self.path is None or (self.read_only and not self.path.exists()):
            return ":memory:"
        return f"{self.path.as_uri()}?mode=ro" if self.read_only else str(self.path)

    def _lease_clock(self) -> int:
        return _wall_microseconds() if self._clock_base is None else self._clock_base + _since_boot()

    def _choose_journal(self, connection: sqlite3.Connection) -> None:
        tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
        if tables and "hg_schema" not in tables:
            return  # Not ours: nothing is written, and WAL would be.
        present = connection.execute("pragma journal_mode").fetchone()[0]
        if present != self.journal_mode:
            connection.execute(f"pragma journal_mode = {self.journal_mode}")

    def errors(self) -> tuple[type[BaseException], ...]:
        return (sqlite3.Error,)

    def _check_place(self, path: Path) -> None:
        """Say what SQLite only calls "unable to open database file"."""
        folder, is_there = path.parent, os.path.exists(path)  # noqa: PTH110 - a Path raises where it may not look
        if not os.path.isdir(folder):  # noqa: PTH112 - the same
            why = f"the folder {folder} does not exist, or this user may not enter it"
            raise StoreMisconfigured(self.name, why, "Create the folder, or correct the URL")
        if not is_there and not os.access(folder, os.W_OK | os.X_OK):
            raise StoreMisconfigured(self.name, f"this user may not create files in {folder}", RIGHTS)
        if is_there and not os.access(path, os.R_OK):
            raise StoreMisconfigured(self.name, f"this user may not read {path}", RIGHTS)

    def classify(self, error: BaseException) -> Trouble:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Trouble.BUSY
        if code == sqlite3.SQLITE_NOTADB:
            return Trouble.FOREIGN
        if code in SETUP:
            return Trouble.SETUP
        if isinstance(error, sqlite3.IntegrityError) and "UNIQUE" in str(error):
            return Trouble.DUPLICATE
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT) or isinstance(error, WRONG):
            return Trouble.BUG
        return Trouble.OTHER

    def advice(self, error: BaseException) -> str:
        del error
        return RIGHTS

    def spell(self, text: str) -> str:
        return text

    def prepare(self, statement: Statement, params: Parameters) -> tuple[str, Parameters]:
        """A list goes as one JSON text: written out, its names are looked up one after the other, each time."""
        lists = {name: value for name, value in params.items() if isinstance(value, list)}
        if not lists or any(isinstance(each, bytes) for value in lists.values() for each in value[:1]):
            return super().prepare(statement, params)
        if statement not in self._listed:
            text = with_lists(statement.text, "in (select value from json_each(:{}))")
            self._listed[statement] = text.format(**self.words())
        return self._listed[statement], {**params, **{name: json.dumps(value) for name, value in lists.items()}}

    def insert_many(self, cursor: Any, statement: Statement, columns: Columns, fixed: Parameters) -> None:
        # By place: looking each value up by its name takes longer than the insert.
        listed, names = positional(statement)
        values = (columns[name] if name in columns else repeat(fixed[name]) for name in names)
        cursor.executemany(self.prepare(listed, {})[0], zip(*values, strict=False))

    def grant(self, runner: Runner, params: Parameters) -> Granted | None:
        def work(tx: Any) -> Granted | None:
            row = tx.one(GRANT_RESOURCE, **params)
            if row is None:
                return None
            granted = Granted(*row)
            tx.run(GRANT_LOCK, **params, token=granted.token, since=granted.since)
            tx.run(GRANT_HISTORY, **params, token=granted.token, since=granted.since)
            return granted

        result: Granted | None = runner.write(work)
        return result

    def release(self, runner: Runner, params: Parameters, *, contended: bool) -> Freed | None:
        if contended:
            return None

        def work(tx: Any) -> Freed | None:
            gone = tx.one(RELEASE_LOCK, **params)
            if gone is None:
                return None
            rkey, client, mode = gone
            waiting, _ = tx.one(RELEASE_RESOURCE, rkey=rkey)
            tx.run(RELEASE_HISTORY, **params, rkey=rkey, client=client, mode=mode)
            return Freed(waiting, rkey, handed=False)

        result: Freed | None = runner.write(work)
        return result

    def next_token(self, tx: Any) -> int:
        row = tx.one(NEXT_TOKEN)
        if row is None:
            tx.run(FIRST_TOKEN)
        return 1 if row is None else int(row[0])

    def claim_next(self, runner: Runner, params: Parameters) -> tuple[str, int] | None:
        claimed: tuple[str, int] | None = self._while_current(runner, sqlite_ledger.claim_next, params)
        return claimed

    def succeed(self, runner: Runner, params: Parameters) -> bool:
        done: bool = self._while_current(runner, sqlite_ledger.succeed, params)
        return done

    def _while_current(self, runner: Runner, work: Callable[[Any, Parameters], object], params: Parameters) -> Any:
        current, result = runner.write(
            lambda tx: (True, work(tx, params)) if tx.one(sqlite_ledger.IS_CURRENT, **params) else (False, None)
        )
        if not current:
            raise Outdated
        return result

    def changed(self, connection: Connection) -> object:
        cursor = connection.cursor()
        try:
            cursor.execute("pragma data_version")
            return cursor.fetchone()
        except sqlite3.OperationalError:
            return object()  # Busy means that somebody writes right now: something changed.


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
    """The key of the resource that locks on a chunk are taken on."""
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
    """A name for this start of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # pragma: no cover - Linux has it
        return ""


def _since_boot() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def _warn_of_network_filesystem(path: Path) -> None:
    kind = _filesystem(path.parent)
    if kind in NETWORK_FILESYSTEMS:
        warnings.warn(
            f"{path} is on {kind}: SQLite's locks cannot be trusted there. "
            "Put it on a local disk, or use PostgreSQL or MariaDB.",
            RuntimeWarning,
            stacklevel=2,
        )


def _filesystem(folder: Path) -> str:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:  # pragma: no cover - no /proc
        return ""
    best, kind = "", ""
    for line in mounts:
        point, found = line.split()[1:3]
        inside = str(folder) == point or str(folder).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind
