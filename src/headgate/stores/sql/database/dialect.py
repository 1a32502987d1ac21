"""The contract of a dialect: how to connect, its clock, its one-trip statements, the meaning of its errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from headgate.calls.deadlines import Deadline
from headgate.core.access.owners import LOCAL
from headgate.core.errors import BadValue
from headgate.core.values.redaction import mask
from headgate.stores.options import DEFAULT_OPTIONS, SIDE_BY_SIDE, StoreOptions
from headgate.stores.sql.database.sql_text import Row, Statement, Texts
from headgate.stores.sql.database.wires import Wire
from headgate.stores.sql.fast_paths import Routine, chunk_words, lock_words

Parameters = Mapping[str, object]
#: Many rows: each parameter with its values, one per row.
Columns = Mapping[str, Sequence[object]]
#: The answer of a routine when the definitions have changed since the caller read them; no answer: the slow path
#: decides.
OUTDATED = ""


#: The share of `answer_within` that the database waits for another transaction before it reports busy: the rest is for
#: answering that nothing happened.
LOCK_WAIT_PART = 0.75
#: Seconds after which a server ends a transaction whose client is silent, and the same for a bulk operation.
IDLE_TRANSACTION_SECONDS, IDLE_BULK_SECONDS = 5, 60
#: Seconds for opening a connection. A caller may give up earlier; the connection is then kept for the next one.
CONNECT_SECONDS = 10
#: Whether the store follows the server whose epoch this is.
IS_CURRENT = "exists (select 1 from hg_meta e where e.name = 'epoch' and e.value = {})"
#: Whether a row belongs to the acting principal, or that one is trusted with all rows (core/access/owners.py).
OWNED = f"(principal in ('', {{0}}) or {{0}} = '{LOCAL}')"
#: The name of a resource that may be a chunk's: a lock on it blocks claims.
CHUNK = "case when substr({0}, 1, 4) = 'data' then {0} end"
GIVE_TOKEN = Statement("Record that this number was issued.", "insert into hg_token (number) values (:number)")
DROP_TOKEN = Statement(
    "Remove its row; the number stays recorded as issued.", "delete from hg_token where number = :number"
)


class Trouble(Enum):
    """The meaning of a driver's error for the caller."""

    BUSY = "another process is writing; retry in a moment"
    CONFLICT = "the database rolled back this transaction in favour of another one; retry it"
    GONE = "the connection was lost; the outcome is unknown"
    MOVED = "the file was deleted or replaced; connections to it cannot be used"
    DUPLICATE = "the row already exists"
    FOREIGN = "it is not a database of Headgate"
    SETUP = "a database, permission, password or table is missing; an operator must correct it"
    BUG = "the statement itself is wrong; this is a bug"
    OTHER = "another error, such as a full or failing disk"


class Bells(Protocol):
    """Wake-ups in which each waiter listens to the one before it, for databases that cannot notify a process."""

    def follow(self, ticket: int, own: str, before: str) -> bool:
        """Own the waiter's bell and listen to the one before it. False: it cannot be heard, so the waiter polls."""
        ...

    def leave(self, ticket: int, own: str, *, granted: bool) -> None:
        """The wait is over; the bell of a waiter that was granted its lock stays owned."""
        ...

    def ring(self, name: str, *, waited_for: bool) -> None:
        """The waiter or holder with this bell has left; `waited_for`: another waiter may be listening to it."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class DriverConnection(Protocol):
    """The part of a driver's connection that is used."""

    def cursor(self) -> Any: ...

    def close(self) -> None: ...


class Granted(NamedTuple):
    """The result of the one-trip grant."""

    token: int
    since: int


class Freed(NamedTuple):
    """The result of the one-trip release."""

    #: Number of remaining waiters for the resource.
    waiting: int
    #: The resource's key.
    rkey: bytes
    #: True when the first waiter was granted the resource in the same trip.
    handed: bool
    #: The resource, if it may be a chunk's and another process may be waiting for news.
    chunk: str | None


class Outdated(Exception):
    """The definition of a job or dataset has changed since it was read. For the stores, never for callers."""


class Begun(NamedTuple):
    """What a transaction learns about the server in its first statement."""

    #: Whether the store's epoch is that of this server.
    current: bool
    #: The server's clock.
    now: int
    #: Whether another process may be waiting for news.
    listened: bool


class JobParameters(NamedTuple):
    """What fast claims and reports know about a job, and the stamp that shows whether it is current."""

    #: Changes with every change of any definition.
    stamp: str
    #: Its number.
    job: int
    #: The numbers of its datasets, in the order in which all transactions lock them; those that it reads.
    datasets: tuple[int, ...]
    inputs: tuple[int, ...]
    #: The names of its datasets.
    names: tuple[str, ...]
    #: The dataset that its history names, and the status of its chunk when it is finished.
    told: int
    made: str
    #: Whether any job reads its outputs.
    read: bool


class Runner(Protocol):
    """The environment in which one-trip operations run."""

    def single(self, statement: Statement, **params: object) -> list[Row]:
        """One statement, one trip, one commit."""

    def single_once(self, statement: Statement, **params: object) -> list[Row]:
        """The same, but never repeated when the answer was lost."""

    def write(self, work: Any) -> Any:
        """Several statements in one transaction."""


class Dialect(ABC):
    """One kind of database."""

    #: The word in its URLs.
    kind: str
    #: The name of the SQLAlchemy dialect and driver.
    sqlalchemy_name: str
    #: Microseconds on the clock of leases. It never steps back, on databases that have such a clock.
    now: str
    #: Microseconds since 1970, for display.
    wall: str
    #: Whole minutes since 1970.
    minute: str
    #: The beginning and end of an insert that leaves an existing row with the same key unchanged.
    insert_once: str = "insert into"
    or_leave: str = "on conflict do nothing"
    #: Makes a SELECT lock its rows.
    for_update: str = "for update"
    #: Makes a SELECT prevent changes of its rows.
    for_share: str = "for share"
    #: Makes a SELECT lock its rows, skipping rows that another transaction has locked.
    skip_locked: str = "for update skip locked"
    #: Lock datasets `d` until the transaction ends: shared (claims), or exclusively (locks on chunks, definitions). A
    #: column of the SELECT, and its end.
    share_dataset: str = "0"
    share_rows: str = ""
    own_dataset: str = "0"
    own_rows: str = ""
    #: An insert into hg_candidate that updates an existing row with the same key, and its syntax for a new value.
    or_change: str = "on conflict (job_id, dataid) do update set"
    new_value: str = "excluded.{}"
    #: Starts a transaction that will write, and one that only reads.
    begin_write: str = "begin"
    begin_read: str = "begin"
    #: Lists the tables.
    list_tables: Statement
    #: Lists the columns of a table.
    list_columns: Statement
    #: Return those of the stored routines that exist, if the one-trip operations need any.
    list_routines: Statement
    #: True if a schema change ends the transaction that contains it.
    schema_commits: bool = False
    #: True: look only. Opening without creating must not make or change a file.
    read_only: bool = False
    #: Number of connections that one process may have open.
    connections: int = 20
    #: True if connecting involves no other process: there is no server.
    local: bool = False
    #: True if only one transaction at a time may write: the threads of a process then take turns.
    one_writer: bool = False
    #: Number of calls that a process should make at a time.
    side_by_side: int = SIDE_BY_SIDE
    #: True if a process can be woken: by the database, or by other processes of its machine.
    listens: bool = False
    #: True if it cannot, although databases of this kind can: waiters then poll at most once a second.
    polls_slowly: bool = False
    #: After the position `:priority`, `:after`, by the index.
    behind: str = "(i.priority, i.id) > (:priority, :after)"
    #: One-trip operations, where available: take the first free item (by the ids' prefix), and fire an event of a taken
    #: job.
    take_item: Mapping[str, Statement] = MappingProxyType({})
    move_job: Statement | None = None
    #: True if the data is lost with the connection.
    in_memory: bool = False
    #: The last token issued to a claim.
    last_token: Statement
    #: Identifies the server whose commits these are: it changes with a failover. Empty: no other server can take over.
    epoch: str = ""
    #: The type to which whole numbers are cast.
    integer: str = "bigint"
    #: Prevent grants by other transactions until this one ends, where locking the epoch's row is not enough.
    stop_grants: Statement | None = None
    #: Starts a read that sees one state of all tables, however long it takes.
    begin_still: tuple[str, ...] = ("begin",)

    def __init__(self, url: str) -> None:
        self.url = url
        #: The URL without its password, for display.
        self.name = mask(url)
        #: Set by the database that this dialect is for.
        self.options: StoreOptions = DEFAULT_OPTIONS
        self._texts = Texts(self.words, self.spell)

    @property
    def token_floor(self) -> str:
        """Only tokens greater than this are issued: it is read by the statement that issues one, never cached."""
        return f"coalesce((select cast(f.value as {self.integer}) from hg_meta f where f.name = 'token_floor'), 0)"

    @abstractmethod
    def connect(self) -> DriverConnection:
        """A new connection in autocommit mode: transactions begin explicitly."""

    @abstractmethod
    def classify(self, error: BaseException) -> Trouble:
        """The meaning of a driver's error."""

    def refuses_row(self, error: BaseException) -> bool:
        """Whether an error reports that a row violates a constraint of its table."""
        return any(kind.__name__ == "IntegrityError" for kind in type(error).__mro__)

    @abstractmethod
    def errors(self) -> tuple[type[BaseException], ...]:
        """The driver's error classes; all of them pass through classify."""

    def advice(self, error: BaseException) -> str:
        """What an operator has to do about an error that means SETUP."""
        del error
        return "Correct the URL or the database as the error says"

    @property
    def lock_wait(self) -> float:
        """Seconds for which the database waits for another transaction before it reports busy; 0: it does not wait."""
        return 0.0

    def limit(self, connection: DriverConnection, deadline: Deadline) -> None:
        """Everything asked on the connection from now on must be answered by the deadline."""
        del connection, deadline

    def works(self, connection: DriverConnection, until: float) -> bool:
        """Whether an idle connection answers by that time (monotonic)."""
        del connection, until
        return True

    def closed(self, connection: DriverConnection) -> bool:
        """Whether the connection was closed on this side."""
        del connection
        return False

    @contextmanager
    def unlimited(self, connection: DriverConnection) -> Iterator[None]:
        """In this context, the server sets no time limit: for migrations, copies and backups."""
        del connection
        yield

    @abstractmethod
    def grant(self, runner: Runner, params: Parameters) -> Granted | None:
        """A free resource becomes held, in one trip; None when something may block it."""

    @abstractmethod
    def release(self, runner: Runner, params: Parameters, *, contended: bool) -> Freed | None:
        """Release a live lock that is held once, in one trip; None: the slow path must decide.

        If another client is likely to be waiting (`contended`), the resource may be granted to the first waiter in the
        same trip.
        """

    def as_parameters(self, known: JobParameters) -> Parameters:
        """The known facts about a job, as parameters of the next two."""
        return known._asdict()

    def claim_next(self, runner: Runner, params: Parameters) -> tuple[str, int] | None:
        """The first chunk in order becomes RUNNING, in one trip, if it was never claimed and nothing blocks it.

        Returns its data id and token; None: the slow path must decide. Outdated: nothing was changed.
        """
        del runner, params
        return None

    def succeed(self, runner: Runner, params: Parameters) -> bool | None:
        """A running claim becomes READY and DONE, in one trip. Returns whether a process may be waiting for news.

        None: the slow path must decide. Outdated: nothing was changed.
        """
        del runner, params
        return None

    def raise_mark(self, runner: Runner, job: str) -> None:
        """Let claim_next start where chunks may be claimable, if it would otherwise skip removed entries each time."""
        del runner, job

    @abstractmethod
    def next_token(self, tx: Any) -> int:
        """A number that was never issued before, and is greater than all that were issued in committed transactions."""

    def learn_sizes(self, runner: Runner) -> None:
        """Inform the planner that the ledger's tables are no longer empty, if it would not notice in time."""
        del runner

    def enqueue(self, runner: Runner, params: Parameters) -> int | None:
        """Join the queue of a busy resource, in one trip. Returns the number; None: the slow path must decide."""
        del runner, params
        return None

    @contextmanager
    def still(self, connection: DriverConnection) -> Iterator[DriverConnection]:
        """A connection with an unchanging view of the data, while others work."""
        cursor = connection.cursor()
        for text in self.begin_still:
            cursor.execute(text)
        yield connection
        cursor.execute("rollback")

    def streaming(self, connection: DriverConnection) -> Any:
        """A cursor whose rows stay in the database until they are fetched."""
        return connection.cursor()

    def raise_token(self, tx: Any, number: int) -> None:
        """Tokens of claims continue after this number."""
        tx.run(GIVE_TOKEN, number=number)
        tx.run(DROP_TOKEN, number=number)

    def number_on(self, tx: Any, table: str, column: str) -> None:
        """Where the database numbers rows: continue after those that were written with explicit numbers."""
        del tx, table, column

    @contextmanager
    def patient(self, connection: DriverConnection) -> Iterator[None]:
        """In this context, wait for other transactions instead of reporting busy."""
        del connection
        yield

    def schema_lock(self, execute: Any) -> None:
        """Prevent others from changing the schema until the transaction ends."""
        del execute

    def schema_unlock(self, connection: DriverConnection) -> None:
        """Allow schema changes again, if the end of the transaction does not."""
        del connection

    def routines(self) -> Sequence[Routine]:
        """The stored routines that the one-trip operations need, for the tables of this store."""
        return ()

    def opened(self, runner: Runner) -> None:
        """The schema exists: do what is needed once before the first use."""
        del runner

    def notices(self) -> Sequence[str]:
        """Warnings for an operator about the connection to this database, each with advice."""
        return ()

    def files(self) -> Sequence[Path]:
        """The files and folders on this machine that the database consists of."""
        return ()

    def notify(self, runner: Runner, channels: Iterable[tuple[str, int]]) -> None:
        """Wake waiting processes: (channel, ticket). If the database cannot, they poll."""
        del runner, channels

    def listen(self, channel: str, heard: Any, stop: Any) -> None:
        """If the database `listens`: call `heard(number)` for each wake-up on the channel until `stop` is set."""
        raise NotImplementedError

    def wire(self) -> Wire | None:
        """The news between processes; None: they cannot."""
        return None

    def bells(self, heard: Callable[[int], None]) -> Bells | None:
        """Bells, if they replace `listen` and `notify`: `heard(ticket)` is called for each one that rings."""
        del heard
        return None

    def changed(self, connection: DriverConnection) -> object:
        """A value that changes when another process has written; None if that is unknown."""
        del connection
        return None

    def turn(self, seconds: float) -> AbstractContextManager[None]:
        """Context of a transaction that writes, if writers take turns; StoreUnavailable when that takes too long."""
        del seconds
        return nullcontext()

    def why_busy(self, seconds: float | None = None) -> str:
        """The process that has blocked other writers for that many seconds, if only one at a time may write."""
        raise NotImplementedError

    def begin(self, cursor: Any, *, write: bool) -> None:
        """Start a transaction."""
        cursor.execute(self.begin_write if write else self.begin_read)

    def begin_looking(self, cursor: Any, *, write: bool) -> Begun | None:
        """Start a transaction and, in the same trip, read what its caller has to know about the server.

        Returns None if no other server can take over and the clock never jumps.
        """
        self.begin(cursor, write=write)
        return None

    def verify(self, connection: DriverConnection) -> None:
        """After a transaction: raise a driver's error if it was not executed on the current store."""
        del connection

    def why(self, error: BaseException) -> str:
        """A readable explanation of why the store is unavailable because of this error."""
        text = " ".join(str(part) for part in error.args).strip() or type(error).__name__
        return text.splitlines()[0]

    def close(self) -> None:  # noqa: B027 - most have nothing else
        """Close everything that is open besides the connections."""

    def ask(self, connection: Any, statement: Statement, params: Parameters) -> list[Row]:
        """One statement on its own: all its rows."""
        cursor = connection.cursor()
        try:
            cursor.execute(*self.prepare(statement, params))
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def prepare(self, statement: Statement, params: Parameters) -> tuple[str, Parameters]:
        """The statement in this driver's form, and its parameters."""
        return self._texts.write(statement, params)

    def words(self) -> dict[str, str]:
        """The replacements for the words in braces."""
        return {
            "now": self.now,
            "wall": self.wall,
            "minute": self.minute,
            "for_update": self.for_update,
            "for_share": self.for_share,
            "insert_once": self.insert_once,
            "or_leave": self.or_leave,
            "skip_locked": self.skip_locked,
            "share_dataset": self.share_dataset,
            "share_rows": self.share_rows,
            "own_dataset": self.own_dataset,
            "own_rows": self.own_rows,
            "or_change": self.or_change,
            "behind": self.behind,
            "token_floor": self.token_floor,
            "owned": OWNED.format(":principal"),
            "epoch": self.epoch or "''",
            **lock_words(self.options.lock_rules),
            **chunk_words(self.options.chunk_rules),
            "is_current": IS_CURRENT.format(self.epoch) if self.epoch else "1 = 1",
            **{f"new_{column}": self.new_value.format(column) for column in ("missing", "place", "not_before")},
        }

    @abstractmethod
    def insert_many(self, cursor: Any, statement: Statement, columns: Columns, fixed: Parameters) -> None:
        """Insert many rows, given by their columns; `fixed` is the same in all rows."""

    @abstractmethod
    def spell(self, text: str) -> str:
        """`:name` in the driver's parameter style."""


def check_server_url(url: str) -> None:
    """Refuse URLs that a driver would misread, because its errors would then show parts of the password."""
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise BadValue("url", mask(url), "has an @ or a / in its password; write %40 for @ and %2F for /")
