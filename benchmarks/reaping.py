"""`make bench-reaping`: how fast expired locks and claims are freed, and how long others wait meanwhile.

A second process acquires and releases locks on other resources all the time: its slowest pair is the longest that
one step of the reaper blocks others.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any

import headgate
from benchmarks.harness import table, verdict
from benchmarks.places import places
from headgate.core.locks.model import lock_id, resource_digest
from headgate.stores.sql.database.dialect import Columns
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.opening import open_database

EXPIRED = 100_000
AT_ONCE = 5000
#: Freed per second.
TARGET = 10_000.0

ADD_RESOURCE = Statement(
    "A resource that somebody holds.",
    """insert into hg_resource (rkey, uri, token, holders, mode, waiting, known)
       values (:rkey, :uri, 1, 1, 'exclusive', 0, :known)""",
)
ADD_LOCK = Statement(
    "A lock whose lease expired long ago.",
    """insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count, request_id,
                            owner, note)
       values (:id, :rkey, 'dead', 'exclusive', 1, 1, 1, 1, 0, 1, :id, '', '')""",
)
ADD_CHUNK = Statement(
    "A claim whose lease expired long ago.",
    """insert into hg_chunk (dataset_id, dataid, job_id, kind, order_key, status, former, attempt, failures, crashes,
                             token, worker, request_id, lease, lease_until, forced, retry_after, since, started,
                             message)
       values (:dataset, :dataid, :job, :kind, :order_key, 'RUNNING', '', 1, 0, 0, 1, 'dead', '', 1, 1, :forced, null,
               1, 1, '')""",
)
READ_DATASET = Statement("A dataset's number.", "select id from hg_dataset where name = :name")
READ_JOB = Statement("A job's number.", "select id from hg_job where name = :name")


def leave_locks(database: Database) -> None:
    """Locks of a holder that died."""

    def work(tx: Transaction, start: int) -> None:
        uris = [f"dead:{number}" for number in range(start, start + AT_ONCE)]
        keys = [resource_digest(uri) for uri in uris]
        ids = [lock_id("dead", uri, "request") for uri in uris]
        tx.many(ADD_RESOURCE, {"rkey": keys, "uri": uris}, known=True)
        tx.many(ADD_LOCK, {"id": ids, "rkey": keys})

    for start in range(0, EXPIRED, AT_ONCE):
        database.write(lambda tx: work(tx, start))  # noqa: B023 - run at once


def leave_claims(database: Database) -> None:
    """Claims of a worker that died."""

    def work(tx: Transaction, start: int) -> None:
        job = int(tx.one(READ_JOB, name="refine")[0])
        dataids = [f"{number:07}" for number in range(start, start + AT_ONCE)]
        for name, kind in (("raw", "INPUT"), ("fine", "OUTPUT")):
            dataset = int(tx.one(READ_DATASET, name=name)[0])
            columns: Columns = {"dataid": dataids, "order_key": [each.encode() for each in dataids]}
            tx.many(ADD_CHUNK, columns, dataset=dataset, job=job, kind=kind, forced=False)

    for start in range(0, EXPIRED, AT_ONCE):
        database.write(lambda tx: work(tx, start))  # noqa: B023 - run at once
    # As publishing many does.
    database.dialect.learn_sizes(database)


def neighbour(url: str, stop: Any, found: Any) -> None:
    """A client that uses other resources meanwhile: sends its slowest pair, in seconds."""
    locks = headgate.connect(url).locks
    longest = 0.0
    while not stop.is_set():
        began = time.perf_counter()
        locks.release(locks.acquire("neighbour", f"other:{secrets.token_hex(2)}", "exclusive", lease=30))
        longest = max(longest, time.perf_counter() - began)
    found.put(longest)


def reap(url: str, act: Callable[[], int]) -> tuple[float, float, float]:
    """Freed per second; the slowest step; the neighbour's slowest pair."""
    context = get_context("spawn")
    stop, found = context.Event(), context.Queue()
    process = context.Process(target=neighbour, args=(url, stop, found), daemon=True)
    process.start()
    began, slowest, total = time.perf_counter(), 0.0, 0
    while True:
        asked = time.perf_counter()
        count = act()
        slowest = max(slowest, time.perf_counter() - asked)
        total += count
        if not count:
            break
    rate = total / (time.perf_counter() - began)
    stop.set()
    if total != EXPIRED:
        raise SystemExit(f"{total} of {EXPIRED} were freed")
    return rate, slowest, float(found.get(timeout=60))


def main(arguments: Sequence[str]) -> None:
    """Print the table, of these stores or of all."""
    rows: list[Sequence[object]] = []
    with places() as where:
        kinds = {
            "SQLite": lambda: where.sqlite("truncate"), "PostgreSQL": where.postgresql, "MariaDB": where.mariadb,
        }  # fmt: skip
        for name in arguments or kinds:
            rows += _reap_both(name, kinds[name]())
    header = ("store", "what", "freed/s", "slowest call, s", "neighbour's slowest pair, s", "target", "")
    print(table(f"Freeing {EXPIRED:,} that expired", header, rows))


def _reap_both(name: str, url: str) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    with headgate.connect(url) as gate:
        for dataset in ("raw", "fine"):
            gate.ledger.define_dataset(dataset)
        gate.ledger.define_job("refine", inputs=["raw"], outputs=["fine"])
        database = open_database(url)
        for what, leave, act in (
            ("locks", leave_locks, gate.locks.expire),
            ("claims", leave_claims, gate.ledger.reap),
        ):
            leave(database)
            rate, slowest, pair = reap(url, act)
            rows.append((name, what, rate, slowest, pair, TARGET, verdict(rate, TARGET)))
        database.close()
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
