"""The history: one table for all nouns, ordered by time."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import DDL, BigInteger, CheckConstraint, Column, Index, Integer, Table, event
from sqlalchemy import text as condition

from headgate.core.history import EVENTS
from headgate.stores.sql.database.columns import MYSQL, Number, metadata, one_of, principal, text

#: Each noun has its own events.
KNOWN = " or ".join(f"(noun = '{noun}' and {one_of('event', events)})" for noun, events in EVENTS.items())
_PAIRS = tuple(f"{noun} {event}" for noun, events in EVENTS.items() for event in events)
#: PostgreSQL parses and plans the conditions of a table again for each statement that writes there, which for this one
#: took longer than the rest of the insert. It keeps the condition of a domain.
KNOWN_DOMAIN = f"create domain hg_known_event as text constraint hg_history_event check ({one_of('value', _PAIRS)})"
IN_DOMAIN = "(noun || ' ' || event)::hg_known_event is not null"
#: Few entries belong to these nouns. Queries about them use exactly these words, by which the index is found.
RARE = "noun not in ('lock', 'chunk')"
OF_A_JOB, OF_A_BATCH = condition("job_id is not null"), condition("batch_id is not null")


def all_but(name: str) -> Callable[..., bool]:
    """Whether an object is created on a database: on all kinds but one."""
    return lambda *_, dialect, **__: bool(dialect.name != name)


history = Table(
    "hg_history",
    metadata,
    # The key is (at, id) where the database can number rows within such a key: see below.
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False, comment="microseconds since 1970"),
    Column("noun", text(10), nullable=False),
    Column("event", text(20), nullable=False),
    # A resource's key as in lock ids, a data id, the number of a batch or ingest job, or a collection on hold.
    Column("subject", text(255), nullable=False, comment="what it happened to"),
    Column("lock_id", text(40), comment="of a lock"),
    Column("job_id", Integer, comment="the ledger's job, of a chunk or job"),
    Column("dataset_id", Integer, comment="of the row that tells a chunk's status"),
    Column("batch_id", BigInteger, comment="the batch, of a batch or ingest job"),
    Column("client", text(255), nullable=False, comment="the name that the caller gave"),
    Column("token", BigInteger, nullable=False),
    Column("state_before", text(40), nullable=False),
    Column("state_after", text(40), nullable=False),
    Column("reason", text(1000), nullable=False),
    Column("count", Integer, comment="refusals within the minute; null: once"),
    Column("spent", BigInteger, comment="microseconds in the state before, of a batch or ingest job"),
    Column("origin", BigInteger, comment="its id in the store that it was copied from; null: it happened here"),
    principal("who did it"),
    CheckConstraint(KNOWN, name="hg_history_event").ddl_if(callable_=all_but("postgresql")),
    CheckConstraint(IN_DOMAIN, name="hg_history_event").ddl_if(dialect="postgresql"),
    Index("hg_history_subject", "subject", "at"),
    Index("hg_history_job", "job_id", "at", postgresql_where=OF_A_JOB, sqlite_where=OF_A_JOB),
    Index("hg_history_batch", "batch_id", "at", postgresql_where=OF_A_BATCH, sqlite_where=OF_A_BATCH),
    Index("hg_history_noun", "noun", "at", postgresql_where=condition(RARE), sqlite_where=condition(RARE)),
    **MYSQL,
)

# Time comes first in the key, so that a page, a span and the oldest entries are each one range of it, and PostgreSQL
# can partition the table by month; an index of ids serves readers that follow the history. SQLite numbers rows only in
# a key of one column: there the two are swapped.
Index("hg_history_at", history.c.at).ddl_if(dialect="sqlite")
Index("hg_history_id", history.c.id).ddl_if(callable_=all_but("sqlite"))
domain = DDL(KNOWN_DOMAIN).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]
event.listen(history, "before_create", domain)
undo = DDL("drop domain if exists hg_known_event").execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]
event.listen(history, "after_drop", undo)
for database, drop in (
    ("postgresql", "constraint hg_history_pkey"),
    ("mysql", "primary key"),
    ("mariadb", "primary key"),
):
    key = DDL(f"alter table hg_history drop {drop}, add primary key (at, id)")  # type: ignore[no-untyped-call]
    event.listen(history, "after_create", key.execute_if(dialect=database))
