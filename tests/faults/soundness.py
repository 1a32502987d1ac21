"""Whether a store is consistent: its history with its locks, and on SQL its tables with each other.

Each function returns a sentence for each inconsistency.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from headgate import Gate
from headgate.core.history import Entry
from headgate.core.locks.model import resource_key
from headgate.core.tables.states import LOCK
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Row, Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.dialects import dialect_for
from tests.fresh import scheme

#: Events that end a lock.
ENDS = ("release", "expire", "break")
#: Events with their own token.
NEW_TOKENS = ("grant", "upgrade")
ALL = 1_000_000


def check_store(gate: Gate, url: str) -> list[str]:
    """Everything that can be checked on any store."""
    found = list(check_history(gate))
    return found if scheme(url) == "zookeeper" else found + check_tables(url)


# ------------------------------------------------------------------ history


def check_history(gate: Gate) -> Iterator[str]:
    """Each grant ends exactly once or is held; each event follows from the one before; tokens only grow."""
    # A running claim is listed with the locks; it was not requested as a lock, and the ledger reports it.
    held = {lock.id: lock for lock in gate.locks.list() if lock.request_id}
    lives: dict[str, list[Entry]] = defaultdict(list)
    tokens: dict[str, list[Entry]] = defaultdict(list)
    for entry in whole_history(gate):
        if entry.event != "refuse":
            lives[entry.lock_id].append(entry)
        if entry.event in NEW_TOKENS:
            tokens[entry.resource].append(entry)
    for lock_id, entries in lives.items():
        yield from check_life(entries, held.get(lock_id))
    for resource, entries in tokens.items():
        for one, other in pairwise(entries):
            if one.token >= other.token:
                yield f"{resource}: token {other.token} of {other} came after {one.token} of {one}"
    yield from (
        f"{lock} is held, and its grant is not recorded" for lock_id, lock in held.items() if lock_id not in lives
    )


def whole_history(gate: Gate) -> list[Entry]:
    """Oldest first."""
    return list(reversed(gate.history(noun="lock", limit=ALL)))


def check_life(entries: Sequence[Entry], held: Any) -> Iterator[str]:
    """One lock id: grant, changes, end; possibly granted again after its end."""
    state, token = "", 0
    for entry in entries:
        before = entry.before if state == "" and entry.before in ("new", "waiting") else state
        if entry.before != before or not any(row.target == entry.after for row in LOCK.find(before, entry.event)):
            yield f"{entry.event} in state {state or 'none'!r} (recorded: {entry.before}): {entry}"
        if entry.event in NEW_TOKENS:
            token = entry.token
        elif entry.token != token:
            yield f"{entry.event} with token {entry.token} and not {token}: {entry}"
        state = "" if entry.event in ENDS else entry.after
    if state and (held is None or (held.mode, held.token) != (state, token)):
        yield f"the history leaves it {state} with token {token}, the store has {held}: {entries[-1]}"
    if not state and held is not None:
        yield f"the history says it has ended, the store holds {held}"


# ------------------------------------------------------------------ tables

DISAGREEMENTS = {
    "holders is not the number of locks": """
        select r.uri, r.holders, count(l.id) from hg_resource r left join hg_lock l on l.rkey = r.rkey
        group by r.rkey, r.uri, r.holders having r.holders <> count(l.id)""",
    "waiting is not the number of places": """
        select r.uri, r.waiting, count(w.ticket) from hg_resource r left join hg_wait w on w.rkey = r.rkey
        group by r.rkey, r.uri, r.waiting having r.waiting <> count(w.ticket)""",
    "the mode is not that of the locks": """
        select r.uri, r.mode, l.mode from hg_resource r join hg_lock l on l.rkey = r.rkey where l.mode <> r.mode""",
    "a writer is not alone": """
        select l.rkey, count(*) from hg_lock l group by l.rkey
        having count(*) > 1 and sum(case when l.mode = 'exclusive' then 1 else 0 end) > 0""",
    "a lock has a token that was never given": """
        select r.uri, r.token, l.token from hg_resource r join hg_lock l on l.rkey = r.rkey where l.token > r.token""",
    "a lock stands on no resource": """
        select l.id from hg_lock l left join hg_resource r on r.rkey = l.rkey where r.rkey is null""",
    "a place has no ticket": """
        select w.rkey, w.ticket from hg_wait w left join hg_ticket t on t.number = w.ticket where t.number is null""",
    "a ticket has no place": """
        select t.number, t.client from hg_ticket t left join hg_wait w on w.ticket = t.number where w.ticket is null""",
    "a request waits twice": """
        select t.request_id, count(*) from hg_ticket t group by t.request_id having count(*) > 1""",
    "a granted request still waits": """
        select t.number, l.id from hg_ticket t join hg_lock l on l.request_id = t.request_id and l.client = t.client""",
}

RESOURCES = Statement("Resources and the newest token of each.", "select uri, token from hg_resource")
GRANTED = Statement(
    "The newest token that was granted, by resource.",
    """select subject, max(token) from hg_history where noun = 'lock' and event in ('grant', 'upgrade')
       group by subject""",
)
SUBJECTS = Statement("What events of locks happened to.", "select distinct subject from hg_history where noun = 'lock'")


def check_tables(url: str) -> list[str]:
    """The tables of a SQL store compared with each other, as of one moment."""
    database = Database(dialect_for(url))
    try:
        found = database.read(disagreements)
    finally:
        database.close()
    return found + (check_file(url) if scheme(url) == "sqlite" else [])


def disagreements(tx: Transaction) -> list[str]:
    rows: list[tuple[str, Row]] = [
        (name, row) for name, question in DISAGREEMENTS.items() for row in tx.all(Statement(name, question))
    ]
    return [f"{name}: {row}" for name, row in rows] + untrue_tokens(tx)


def untrue_tokens(tx: Transaction) -> list[str]:
    """Resources whose newest token is not that of their newest grant, and events of resources that do not exist."""
    given = {resource_key(str(uri)): (str(uri), int(token)) for uri, token in tx.all(RESOURCES)}
    granted = {str(subject): int(token) for subject, token in tx.all(GRANTED)}
    wrong = [each for key, each in given.items() if each[1] != granted.get(key, 0)]
    found = [f"the newest token is not that of the newest grant: {uri} {token}" for uri, token in wrong]
    return found + [f"an event is of no resource: {row}" for row in tx.all(SUBJECTS) if str(row[0]) not in given]


def check_file(url: str) -> list[str]:
    """SQLite's own check of its file."""
    with sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30) as connection:
        answer = [str(row[0]) for row in connection.execute("pragma integrity_check")]
    connection.close()
    return [] if answer == ["ok"] else answer
