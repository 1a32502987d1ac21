"""PostgreSQL, by psycopg."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

from headgate.calls.deadlines import LISTING_SECONDS, Deadline, current
from headgate.core.errors import MissingExtra
from headgate.stores.sql.database.dialect import (
    IS_CURRENT,
    LOCK_WAIT_PART,
    Begun,
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
from headgate.stores.sql.database.sql_text import Row, Statement, from_arrays, to_pyformat, with_lists
from headgate.stores.sql.dialects.answers import read_claimed, read_ended
from headgate.stores.sql.dialects.postgresql import ledger as postgresql_ledger
from headgate.stores.sql.dialects.postgresql import news as postgresql_news
from headgate.stores.sql.dialects.postgresql.ledger import DATASET_SPACE
from headgate.stores.sql.dialects.postgresql.locks import ENQUEUE, GRANT, RELEASE, hand_over
from headgate.stores.sql.dialects.postgresql.session import (
    EPOCH,
    NOW,
    PLANNING,
    PostgresqlSession,
    advice,
    classify,
    limits,
    long_limits,
    open_session,
    set_local,
    target_of,
)
from headgate.stores.sql.fast_paths import NAME, Routine, routine
from headgate.stores.sql.queue import statements as queue

try:
    import psycopg
except ImportError as missing:  # pragma: no cover - the extra is installed in tests
    raise MissingExtra("postgresql", "PostgreSQL needs the library psycopg") from missing

SCHEMA_LOCK = 0x6865616467617465
#: The arrays in which columns of many rows are sent.
ARRAYS: dict[type[object], str] = {str: "text[]", bytes: "bytea[]", int: "bigint[]", bool: "boolean[]"}
TAKE_ITEM = {
    prefix: Statement(
        # A dead owner's item is left to the slow path, which checks the clock first: all columns of the row are then
        # null.
        "Take the first free item, in one statement: other consumers skip it meanwhile.",
        f"""with head as (
              select i.id, i.lease_until is null and {{is_current}} as plain
              from {table} i where {queue.TAKEABLE} order by {order} limit 1 for update skip locked),
            taken as (
              update {table} i set token = nextval('hg_token_number_seq'), {queue.TAKING}
              from head where i.id = head.id and head.plain returning {columns}, {queue.STANDING})
            select taken.* from head left join taken on true""",
    )
    for prefix, table, order, columns in (
        ("bid", "hg_batch", "i.id", queue.BATCH_COLUMNS),
        ("jid", "hg_ingest_job", "i.priority, i.id", queue.JOB_COLUMNS),
    )
}
MOVE_JOB = Statement(
    "Fire an event of a taken, living job: its row, its batch's counters, the history and its news, in one statement.",
    f"""with was as (
          select i.id, i.since, i.worker, {{wall}} as at from hg_ingest_job i
          where i.id = :id and i.state = :state and i.token = :token and i.lease_until > {{now}}
            and {{is_current}} and {{owned}} for update),
        moved as (
          update hg_ingest_job i
          set state = :target, last_successful = coalesce(:step, i.last_successful),
              priority = coalesce(:priority, i.priority), space_needed = coalesce(:space_needed, i.space_needed),
              identifiers = coalesce(:identifiers, i.identifiers), message = :message, since = was.at, crashes = 0,
              former = '', worker = '', lease = null, lease_until = null
          from was where i.id = was.id
          returning {queue.JOB_COLUMNS} as left),
        counted as (
          update hg_batch b set processing = b.processing - 1, failed = b.failed + :failed,
                                completed = b.completed + :completed
          from moved m where :leaves and b.id = m.batch_id),
        told as (
          insert into hg_history (at, noun, event, subject, batch_id, client, token, state_before, state_after,
                                  reason, spent, principal)
          select was.at, 'ingest job', :event, m.id::text, m.batch_id, was.worker, :token, :state, :target, :reason,
                 was.at - was.since, :principal
          from was, moved m)
        select m.*, case when {postgresql_news.LISTENED} then pg_notify(:channel, :number) end from moved m""",
)

ANALYZE = Statement("Analyze the ledger's tables.", "analyze hg_chunk, hg_candidate")
RAISE_TOKEN = Statement(
    "Continue numbers after this one, never going back.",
    "select setval('hg_token_number_seq', greatest(:number, last_value)) from hg_token_number_seq",
)
NEXT_TOKEN = Statement("A new number.", "select nextval('hg_token_number_seq')")
#: Readers go on. Any statement that grants something locks its tables before it reads the floor.
STOP_GRANTS = Statement(
    "Prevent grants and takes until the transaction ends.",
    "lock table hg_resource, hg_chunk, hg_batch, hg_ingest_job in exclusive mode",
)
#: A function, because its plan is kept, and a pooler may run the next transaction on another connection.
LOOK_ROUTINE = routine(
    "hg_look",
    f"""
create or replace function {NAME}(out boolean, out bigint) language plpgsql as $routine$
begin
  select {IS_CURRENT.format(EPOCH)}, {NOW} into $1, $2;
end $routine$""",
)
LOOK = f"select *, false from {LOOK_ROUTINE.name}()"
LOOK_WRITING = f"select *, {postgresql_news.LISTENED} from {LOOK_ROUTINE.name}()"


class Postgresql(Dialect):
    """A PostgreSQL server."""

    kind = "postgresql"
    sqlalchemy_name = "postgresql+psycopg"
    now = NOW
    wall = NOW
    minute = f"({wall} / 60000000)"
    begin_write = "begin"
    epoch = EPOCH
    stop_grants = STOP_GRANTS
    share_dataset = f"pg_advisory_xact_lock_shared({DATASET_SPACE}, d.id)"
    own_dataset = f"pg_advisory_xact_lock({DATASET_SPACE}, d.id)"
    take_item = TAKE_ITEM
    move_job = MOVE_JOB
    last_token = Statement("The last issued number.", "select last_value from hg_token_number_seq")
    begin_read = "begin read only"
    begin_still = (
        "begin isolation level repeatable read read only",
        "set local enable_seqscan = on; set local enable_bitmapscan = on",
    )
    list_tables = Statement(
        "The tables of this schema.",
        "select tablename from pg_tables where schemaname = any(current_schemas(false))",
    )
    list_routines = Statement(
        "Which of these functions this schema has.",
        "select proname from pg_proc where pronamespace = current_schema()::regnamespace and proname in (:names*)",
    )
    list_columns = Statement(
        "The columns of a table.",
        """select column_name from information_schema.columns
           where table_schema = any(current_schemas(false)) and table_name = :table""",
    )

    def __init__(self, url: str) -> None:
        super().__init__(url)
        check_server_url(url)
        self._target = target_of(url, self.name)
        #: Whether the last connection led to a pooler.
        self.pooled = False
        self._listed: dict[Statement, str] = {}

    @property
    def listens(self) -> bool:  # type: ignore[override] # here it depends on the connection
        """A pooler does not forward notifications."""
        return not self.pooled or bool(self.options.listen_url)

    @property
    def polls_slowly(self) -> bool:  # type: ignore[override] # the same
        """A pooler's few server connections must not be used for polling."""
        return self.pooled

    @property
    def lock_wait(self) -> float:
        return self.options.answer_within * LOCK_WAIT_PART

    def connect(self) -> DriverConnection:
        session = open_session(self._target, self.options)
        self.pooled = session.pooled
        return session

    def limit(self, connection: Any, deadline: Deadline) -> None:
        connection.until = deadline.until
        connection.long = deadline.left > LISTING_SECONDS

    def works(self, connection: Any, until: float) -> bool:
        connection.until = until
        connection.execute("select 1", prepare=False)
        return True

    def closed(self, connection: Any) -> bool:
        return bool(connection.closed)

    @contextmanager
    def unlimited(self, connection: Any) -> Iterator[None]:
        """On a direct connection; through a pooler nothing is set outside a transaction."""
        if connection.pooled:
            yield
            return
        connection.execute(
            "set statement_timeout = 0; set lock_timeout = 0; set idle_in_transaction_session_timeout = 0"
        )
        try:
            yield
        finally:
            if not connection.closed:
                words = "; ".join(f"set {name} = '{value}'" for name, value in limits(self.options).items())
                connection.execute(words)

    def begin(self, cursor: Any, *, write: bool) -> None:
        cursor.execute(self._opening(cursor.connection, write=write))

    def _opening(self, session: PostgresqlSession, *, write: bool) -> str:
        """The message that starts a transaction, with the settings that the connection lacks."""
        settings = {**PLANNING, **limits(self.options)} if session.pooled else {}
        if session.long:
            settings |= long_limits(current(self.options.answer_within))
        begin = self.begin_write if write else self.begin_read
        return f"{begin}; {set_local(settings)}" if settings else begin

    def errors(self) -> tuple[type[BaseException], ...]:
        return (psycopg.Error,)

    def classify(self, error: BaseException) -> Trouble:
        return classify(error)

    def advice(self, error: BaseException) -> str:
        return advice(error)

    def spell(self, text: str) -> str:
        return to_pyformat(text)

    def begin_looking(self, cursor: Any, *, write: bool) -> Begun | None:
        look = LOOK_WRITING if write else LOOK
        cursor.execute(f"{self._opening(cursor.connection, write=write).rstrip('; ')}; {look}")
        while cursor.nextset():
            pass
        return Begun(*cursor.fetchone())

    def ask(self, connection: PostgresqlSession, statement: Statement, params: Parameters) -> list[Row]:
        cursor = connection.single
        text, values = self.prepare(statement, params)
        if not connection.pooled:
            cursor.execute(text, values)
            return cursor.fetchall()
        # Several statements in one message are one transaction, and one trip.
        cursor.execute(f"{set_local({**PLANNING, **limits(self.options)})} {text}", values)
        cursor.set_result(-1)
        return cursor.fetchall()

    def prepare(self, statement: Statement, params: Parameters) -> tuple[str, Parameters]:
        """A list is sent as one binary array: the statement is the same for any number of values."""
        if statement not in self._listed:
            text = with_lists(statement.text, "= any(%({})b)")
            self._listed[statement] = self.spell(text.format(**self.words()))
        return self._listed[statement], params

    def insert_many(self, cursor: Any, statement: Statement, columns: Columns, fixed: Parameters) -> None:
        types = tuple((name, _array_of(values)) for name, values in columns.items())
        cursor.execute(*self.prepare(from_arrays(statement, types), {**fixed, **columns}))

    def grant(self, runner: Runner, params: Parameters) -> Granted | None:
        row = next(iter(runner.single(GRANT, **params)), None)
        return None if row is None else Granted(*row)

    def release(self, runner: Runner, params: Parameters, *, contended: bool) -> Freed | None:
        # A waiter that is granted the resource learns of it by a notification, or not at all.
        way = hand_over(self.options.lock_rules)[0] if contended and self.listens else RELEASE
        row = next(iter(runner.single_once(way, **params)), None)
        return None if row is None else Freed(*row)

    def as_parameters(self, known: JobParameters) -> Parameters:
        """Lists as text, rendered once: the driver would render each element in every call."""
        lists = {"datasets": known.datasets, "inputs": known.inputs, "names": known.names}
        return {**known._asdict(), **{name: _array(values) for name, values in lists.items()}}

    def claim_next(self, runner: Runner, params: Parameters) -> tuple[str, int] | None:
        return read_claimed(runner.single_once(postgresql_ledger.claim_next(self.options.chunk_rules)[0], **params))

    def succeed(self, runner: Runner, params: Parameters) -> bool | None:
        return read_ended(runner.single_once(postgresql_ledger.succeed(self.options.chunk_rules)[0], **params))

    def raise_mark(self, runner: Runner, job: str) -> None:
        runner.single(postgresql_ledger.RAISE_MARK, job=job)

    def learn_sizes(self, runner: Runner) -> None:
        runner.write(lambda tx: tx.run(ANALYZE))

    def next_token(self, tx: Any) -> int:
        return int(tx.one(NEXT_TOKEN)[0])

    def raise_token(self, tx: Any, number: int) -> None:
        tx.one(RAISE_TOKEN, number=number)

    def number_on(self, tx: Any, table: str, column: str) -> None:
        tx.one(
            Statement(
                "Continue numbers after the greatest existing one.",
                f"""select setval(pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 0) + 1, false)
                    from {table}""",
            )
        )

    def streaming(self, connection: Any) -> Any:
        return connection.cursor(name="headgate")

    def enqueue(self, runner: Runner, params: Parameters) -> int | None:
        row = next(iter(runner.single_once(ENQUEUE, **params)), None)
        return None if row is None else int(row[0])

    def routines(self) -> Sequence[Routine]:
        chunk_rules = self.options.chunk_rules
        return (
            LOOK_ROUTINE, hand_over(self.options.lock_rules)[1], postgresql_ledger.claim_next(chunk_rules)[1],
            postgresql_ledger.succeed(chunk_rules)[1], postgresql_ledger.RAISE_MARK_ROUTINE,
        )  # fmt: skip

    def schema_lock(self, execute: Any) -> None:
        execute(f"select pg_advisory_xact_lock({SCHEMA_LOCK})")

    def notify(self, runner: Runner, channels: Iterable[tuple[str, int]]) -> None:
        if listed := [(channel, ticket) for channel, ticket in channels if channel]:
            postgresql_news.notify(runner, listed)

    def notices(self) -> Sequence[str]:
        if not self.pooled:
            return ()
        why = "is reached through a pooler"
        if url := self.options.listen_url:
            with open_session(target_of(url, "listen_url"), self.options) as session:
                if not session.pooled:
                    return ()
            why = "is reached through a pooler, and so is listen_url"
        return (f"{self.name} {why}: waiters poll once a second. Set listen_url to a direct connection",)

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        with self.open_listening() as session:
            answered = postgresql_news.LISTEN_ANSWER_SECONDS
            postgresql_news.listen(
                session, channel, heard, stop, lambda: self.works(session, time.monotonic() + answered)
            )

    def wire(self) -> postgresql_news.PostgresqlNews:
        return postgresql_news.PostgresqlNews(self)

    def open_listening(self) -> PostgresqlSession:
        """A connection that receives notifications."""
        url = self.options.listen_url
        session = open_session(target_of(url, "listen_url") if url else self._target, self.options)
        if session.pooled:
            session.close()
            raise psycopg.OperationalError(
                "listen_url is reached through a pooler, which does not forward notifications"
            )
        return session


def _array_of(values: Sequence[object]) -> str:
    """The array for a column of many rows. An array of nulls may have any type that can be assigned to others."""
    return ARRAYS[type(next((each for each in values if each is not None), ""))]


def _array(values: Iterable[object]) -> str:
    """An array in PostgreSQL's text format."""
    written = (str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{each}"' for each in written) + "}"
