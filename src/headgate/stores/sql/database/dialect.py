"""What a dialect must say: how to connect, its clock, its one-trip statements, what its errors mean."""

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
#: Many rows: each parameter with its values, one for each row.
Columns = Mapping[str, Sequence[object]]
#: What a routine answers when the definitions have changed since the caller read them; nothing: the slow path decides.
OUTDATED = ""


#: The database itself waits this part of `answer_within` for another transaction before it says busy: there is time
#: left to answer that nothing happened.
LOCK_WAIT_PART = 0.75
#: Seconds after which a server ends a transaction whose client says nothing; and one of a bulk operation.
IDLE_TRANSACTION_SECONDS, IDLE_BULK_SECONDS = 5, 60
#: Seconds for opening a connection. A caller may give up before; the connection is then kept for the next one.
CONNECT_SECONDS = 10
#: Whether the store follows the server whose epoch this is.
IS_CURRENT = "exists (select 1 from hg_meta e where e.name = 'epoch' and e.value = {})"
#: Whether a row is the acting principal's, or that one is trusted with all rows (core/access/owners.py).
OWNED = f"(principal in ('', {{0}}) or {{0}} = '{LOCAL}')"
#: The name of a resource, if it may be that of a chunk: a lock on it blocks claims.
CHUNK = "case when substr({0}, 1, 4) = 'data' then {0} end"
GIVE_TOKEN = Statement("This number was given.", "insert into hg_token (number) values (:number)")
DROP_TOKEN = Statement("Its row goes; that it was given stays known.", "delete from hg_token where number = :number")


class Trouble(Enum):
    """What a driver's error means for the caller."""

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
    """Wake-ups where each waiter listens to the one before it, and nobody can call a process by its channel."""

    def follow(self, ticket: int, own: str, before: str) -> bool:
        """Hang the waiter's own bell and listen to the one before it. False: it cannot be heard, so poll."""
        ...

    def leave(self, ticket: int, own: str, *, granted: bool) -> None:
        """The wait is over; the bell of a waiter that was granted its lock still hangs."""
        ...

    def ring(self, name: str, *, waited_for: bool) -> None:
        """The owner of this bell has left; `waited_for`: somebody may listen to it."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class DriverConnection(Protocol):
    """The little that is used of a driver's connection."""

    def cursor(self) -> Any: ...

    def close(self) -> None: ...


class Granted(NamedTuple):
    """What the one-trip grant gives."""

    token: int
    since: int


class Freed(NamedTuple):
    """What the one-trip release gives."""

    #: How many wait for the resource now, and were not handed it.
    waiting: int
    #: The resource's key.
    rkey: bytes
    #: True when the first waiter was granted the resource in the same trip.
    handed: bool
    #: The resource, if it may be a chunk's and somebody may listen to news.
    chunk: str | None


class Outdated(Exception):
    """The definition of a job or dataset has changed since it was read. For the stores, never for callers."""


class Begun(NamedTuple):
    """What a transaction learns of the server in its first statement."""

    #: Whether the store's epoch is this server's.
    current: bool
    #: The server's clock.
    now: int
    #: Whether somebody may listen to news.
    listened: bool


class JobParameters(NamedTuple):
    """What fast claims and reports know about a job, and the stamp by which they see that it is still so."""

    #: Another one with each change of any definition.
    stamp: str
    #: Its number.
    job: int
    #: The numbers of its datasets, in the order in which everybody takes them; those that it reads.
    datasets: tuple[int, ...]
    inputs: tuple[int, ...]
    #: The names of its datasets.
    names: tuple[str, ...]
    #: The dataset that its history names, and the status of its chunk when it is made.
    told: int
    made: str
    #: Whether any job reads what it makes.
    read: bool


class Runner(Protocol):
    """What the one-trip operations are given to run on."""

    def single(self, statement: Statement, **params: object) -> list[Row]:
        """One statement, one trip, one commit."""

    def single_once(self, statement: Statement, **params: object) -> list[Row]:
        """The same, but never sent again when the answer was lost."""

    def write(self, work: Any) -> Any:
        """Several statements in one transaction."""


class Dialect(ABC):
    """One kind of database."""

    #: The word in its URLs.
    kind: str
    #: SQLAlchemy's name for it and its driver.
    sqlalchemy_name: str
    #: Micro-seconds on the clock by which leases run. Never steps back where the database has such a clock.
    now: str
    #: Micro-seconds since 1970 for people.
    wall: str
    #: Minutes since 1970, whole.
    minute: str
    #: An insert that leaves a row of the same key as it is: its beginning and its end.
    insert_once: str = "insert into"
    or_leave: str = "on conflict do nothing"
    #: What makes a SELECT lock its rows.
    for_update: str = "for update"
    #: What makes a SELECT keep others from changing its rows.
    for_share: str = "for share"
    #: What makes a SELECT lock its rows, passing over rows that somebody else has locked.
    skip_locked: str = "for update skip locked"
    #: Hold datasets `d` still until the transaction ends: together with others (claims), or alone (locks on
    #: chunks, definitions). A column of the SELECT, and its end.
    share_dataset: str = "0"
    share_rows: str = ""
    own_dataset: str = "0"
    own_rows: str = ""
    #: An insert into hg_candidate that changes a row of the same key, and how it names a new value.
    or_change: str = "on conflict (job_id, dataid) do update set"
    new_value: str = "excluded.{}"
    #: Starts a transaction that will write; one that only reads.
    begin_write: str = "begin"
    begin_read: str = "begin"
    #: What tables there are.
    list_tables: Statement
    #: What columns a table has.
    list_columns: Statement
    #: Return those of the stored routines that exist, where the one-trip operations need any.
    list_routines: Statement
    #: True where a change of the schema ends the transaction that it is made in.
    schema_commits: bool = False
    #: True: look only. Looking must not make a file, nor change one.
    read_only: bool = False
    #: Connections that one process may have open.
    connections: int = 20
    #: True where connecting asks nobody else: there is no server.
    local: bool = False
    #: True where one transaction at a time may write: the threads of a process then take turns.
    one_writer: bool = False
    #: Calls that one process does well to make at a time.
    side_by_side: int = SIDE_BY_SIDE
    #: True where a process can be woken: by the database, or by other processes of its machine.
    listens: bool = False
    #: True where it cannot, though databases of this kind can: waiters then poll at most once a second.
    polls_slowly: bool = False
    #: Behind the place `:priority`, `:after`, by the index.
    behind: str = "(i.priority, i.id) > (:priority, :after)"
    #: Where it can be one trip: take the first item that nobody has (by the ids' prefix), move a job that is taken.
    take_item: Mapping[str, Statement] = MappingProxyType({})
    move_job: Statement | None = None
    #: True where the data is gone with the connection.
    in_memory: bool = False
    #: The last token that was given to a claim.
    last_token: Statement
    #: Names the server whose commits these are: another one after a failover. Empty: nobody can take over.
    epoch: str = ""
    #: What whole numbers are cast to.
    integer: str = "bigint"
    #: Keep others from granting anything until the transaction ends, where holding the epoch's row does not.
    stop_grants: Statement | None = None
    #: Starts a reading that sees one state of all tables, however long it takes.
    begin_still: tuple[str, ...] = ("begin",)

    def __init__(self, url: str) -> None:
        self.url = url
        #: The URL without its password, for people.
        self.name = mask(url)
        #: Set by the database that this dialect is for.
        self.options: StoreOptions = DEFAULT_OPTIONS
        self._texts = Texts(self.words, self.spell)

    @property
    def token_floor(self) -> str:
        """No token is given up to this one: read by the statement that gives one, never remembered."""
        return f"coalesce((select cast(f.value as {self.integer}) from hg_meta f where f.name = 'token_floor'), 0)"

    @abstractmethod
    def connect(self) -> DriverConnection:
        """A new connection in autocommit: transactions begin where we say begin."""

    @abstractmethod
    def classify(self, error: BaseException) -> Trouble:
        """What a driver's error means."""

    def refuses_row(self, error: BaseException) -> bool:
        """Whether an error says that a row breaks a condition of its table."""
        return any(kind.__name__ == "IntegrityError" for kind in type(error).__mro__)

    @abstractmethod
    def errors(self) -> tuple[type[BaseException], ...]:
        """The driver's error classes; all of them pass through classify."""

    def advice(self, error: BaseException) -> str:
        """What an operator does about an error that means SETUP."""
        del error
        return "Correct the URL or the database as the error says"

    @property
    def lock_wait(self) -> float:
        """Seconds for which the database waits for another transaction before it says busy; 0: it does not wait."""
        return 0.0

    def limit(self, connection: DriverConnection, deadline: Deadline) -> None:
        """What is asked on the connection from now on must be answered by the deadline."""
        del connection, deadline

    def works(self, connection: DriverConnection, until: float) -> bool:
        """Whether a connection that was idle answers, by that time (monotonic)."""
        del connection, until
        return True

    def closed(self, connection: DriverConnection) -> bool:
        """Whether the connection was closed at this end."""
        del connection
        return False

    @contextmanager
    def unlimited(self, connection: DriverConnection) -> Iterator[None]:
        """Within this, the server sets no time limit: for migrations, copies and backups."""
        del connection
        yield

    @abstractmethod
    def grant(self, runner: Runner, params: Parameters) -> Granted | None:
        """A free resource becomes held, in one trip; None when something may block it."""

    @abstractmethod
    def release(self, runner: Runner, params: Parameters, *, contended: bool) -> Freed | None:
        """A live lock that is held once ends, in one trip; None: the slow path must decide.

        Where somebody is likely to wait (`contended`), the resource may be handed to the first in the same trip.
        """

    def as_parameters(self, known: JobParameters) -> Parameters:
        """What is known of a job as parameters of the two that follow."""
        return known._asdict()

    def claim_next(self, runner: Runner, params: Parameters) -> tuple[str, int] | None:
        """The first chunk in order becomes RUNNING, in one trip, if it was never claimed and nobody is near it.

        Returns its data id and token; None: the slow path must decide. Outdated: nothing was done.
        """
        del runner, params
        return None

    def succeed(self, runner: Runner, params: Parameters) -> bool | None:
        """A claim that runs becomes READY and DONE, in one trip. Returns whether anybody may listen to its news.

        None: the slow path must decide. Outdated: nothing was done.
        """
        del runner, params
        return None

    def raise_mark(self, runner: Runner, job: str) -> None:
        """Let claim_next begin where something may be claimable, where it would pass over what is gone each time."""
        del runner, job

    @abstractmethod
    def next_token(self, tx: Any) -> int:
        """A number that was never given before, and greater than all that were given in committed transactions."""

    def learn_sizes(self, runner: Runner) -> None:
        """Let the planner know that the ledger's tables are no longer empty, where it would not notice in time."""
        del runner

    def enqueue(self, runner: Runner, params: Parameters) -> int | None:
        """Join the queue of a busy resource, in one trip. Returns the number; None: the slow path must decide."""
        del runner, params
        return None

    @contextmanager
    def still(self, connection: DriverConnection) -> Iterator[DriverConnection]:
        """A connection on which everything stays as it is now, while others work."""
        cursor = connection.cursor()
        for text in self.begin_still:
            cursor.execute(text)
        yield connection
        cursor.execute("rollback")

    def streaming(self, connection: DriverConnection) -> Any:
        """A cursor that leaves its rows with the database until they are fetched."""
        return connection.cursor()

    def raise_token(self, tx: Any, number: int) -> None:
        """Tokens of claims go on behind this number."""
        tx.run(GIVE_TOKEN, number=number)
        tx.run(DROP_TOKEN, number=number)

    def number_on(self, tx: Any, table: str, column: str) -> None:
        """Where the database numbers rows: it goes on behind those that were written with their numbers."""
        del tx, table, column

    @contextmanager
    def patient(self, connection: DriverConnection) -> Iterator[None]:
        """Within this, wait for others instead of saying busy."""
        del connection
        yield

    def schema_lock(self, execute: Any) -> None:
        """Keep others from changing the schema until the transaction ends."""
        del execute

    def schema_unlock(self, connection: DriverConnection) -> None:
        """Let others change the schema, where the end of the transaction does not say so."""
        del connection

    def routines(self) -> Sequence[Routine]:
        """The stored routines that the one-trip operations need, for the tables of this store."""
        return ()

    def opened(self, runner: Runner) -> None:
        """The schema is there: do what must be done once before the first use."""
        del runner

    def notices(self) -> Sequence[str]:
        """What an operator should know about how this database is reached, each with advice."""
        return ()

    def files(self) -> Sequence[Path]:
        """The files and folders on this machine that the database is made of."""
        return ()

    def notify(self, runner: Runner, channels: Iterable[tuple[str, int]]) -> None:
        """Wake waiting processes: (channel, ticket). Where the database cannot, they look for themselves."""
        del runner, channels

    def listen(self, channel: str, heard: Any, stop: Any) -> None:
        """Where the database `listens`: call `heard(number)` for each wake-up on the channel until `stop` is set."""
        raise NotImplementedError

    def wire(self) -> Wire | None:
        """How processes send each other news; None: they cannot."""
        return None

    def bells(self, heard: Callable[[int], None]) -> Bells | None:
        """Bells, where they take the place of `listen` and `notify`: `heard(ticket)` is called for each that rings."""
        del heard
        return None

    def changed(self, connection: DriverConnection) -> object:
        """Something that differs when another process wrote since; None where that is unknown."""
        del connection
        return None

    def turn(self, seconds: float) -> AbstractContextManager[None]:
        """Around a transaction that writes, where writers take turns; StoreUnavailable when it takes longer."""
        del seconds
        return nullcontext()

    def why_busy(self, seconds: float | None = None) -> str:
        """The process that has blocked other writers for that many seconds, where only one at a time may write."""
        raise NotImplementedError

    def begin(self, cursor: Any, *, write: bool) -> None:
        """Start a transaction."""
        cursor.execute(self.begin_write if write else self.begin_read)

    def begin_looking(self, cursor: Any, *, write: bool) -> Begun | None:
        """Start a transaction and, in the same trip, read what its caller has to know of the server.

        Returns None where no other server can take over and the clock never jumps.
        """
        self.begin(cursor, write=write)
        return None

    def verify(self, connection: DriverConnection) -> None:
        """After a transaction: raise one of the driver's errors when it was not on the store that is there now."""
        del connection

    def why(self, error: BaseException) -> str:
        """What is wrong, for people, when the store is unavailable because of this error."""
        text = " ".join(str(part) for part in error.args).strip() or type(error).__name__
        return text.splitlines()[0]

    def close(self) -> None:  # noqa: B027 - most have nothing else
        """Close what is open beside the connections."""

    def ask(self, connection: Any, statement: Statement, params: Parameters) -> list[Row]:
        """One statement on its own: every row."""
        cursor = connection.cursor()
        try:
            cursor.execute(*self.prepare(statement, params))
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def prepare(self, statement: Statement, params: Parameters) -> tuple[str, Parameters]:
        """The statement as this driver wants it, and its parameters."""
        return self._texts.write(statement, params)

    def words(self) -> dict[str, str]:
        """What stands for the words in braces."""
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
        """Insert many rows, given by their columns; `fixed` is the same in all of them."""

    @abstractmethod
    def spell(self, text: str) -> str:
        """`:name` as the driver spells parameters."""


def check_server_url(url: str) -> None:
    """Refuse URLs that a driver would misread, since its errors would then show parts of the password."""
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise BadValue("url", mask(url), "has an @ or a / in its password; write %40 for @ and %2F for /")
