"""`make bench-queue`: steps of the queue against the bare driver and against a peer, and with many jobs pending.

A step is what a consumer does for each state of a job: acquire it, and report its outcome. Raw is the same work by
the bare driver: one statement that takes the head of an index, passing over what others have, and one that moves it
and writes the history; two commits. Only the ratios mean anything: the rates depend on the machine.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle

import headgate
from benchmarks.harness import ROUNDS, Result, Step, compare, table, verdict
from benchmarks.places import Places, places
from headgate.core.queue.model import forward_event, work_states
from headgate.core.tables.states import INGEST_JOB
from headgate.service.queue.use_cases import Queue

STATES = work_states(INGEST_JOB)
#: Jobs in a store whose steps are counted: more than a run can finish.
JOBS = 6_000
FEW, MANY = 100, 100_000
#: Acquisitions of one round, and the new jobs that replace them.
PORTION = 50
#: Jobs of the peer in one round.
PEER_JOBS = 500

RAW_TARGETS = {"PostgreSQL": 0.5}
PEER_TARGET = 1.3
GROWTH = 1.5


def fill(queue: Queue, count: int) -> None:
    """A batch with this many pending jobs."""
    queue.submit("bench", "bench", "https://example.org/manifest")
    batch = queue.acquire_batch("pending")
    if batch is None:
        raise SystemExit("the batch is not there")
    queue.create_jobs(batch, ({"payload_url": f"https://example.org/{number}"} for number in range(count)))
    queue.fire(batch, "start")


def our_steps(url: str) -> Step:
    """Acquire and move, through the Python API, in one state after the other."""
    queue = headgate.connect(url).queue
    fill(queue, JOBS)
    states = cycle(STATES)

    def step() -> None:
        state = next(states)
        job = queue.acquire_job(state)
        if job is None:
            raise SystemExit(f"no job is left in {state}")
        queue.fire(job, forward_event(INGEST_JOB, state), "done")

    for _ in range(3 * len(STATES)):
        step()
    return step


# ---------------------------------------------------------------- the bare driver

RAW_TABLES = (
    """create table raw_job (id bigint primary key, state text not null, priority int not null, worker text not null,
                             token bigint not null, lease_until bigint, since bigint not null,
                             message text not null)""",
    "create index raw_job_next on raw_job (state, priority, id)",
    """create table raw_history (id bigserial primary key, at bigint not null, job_id bigint not null,
                                 event text not null, state_before text not null, state_after text not null)""",
    "create index raw_history_job on raw_history (job_id, id)",
)
RAW_TAKE = """
    update raw_job set worker = 'bench', token = token + 1, lease_until = 1
    where id = (select id from raw_job where state = %s and lease_until is null order by priority, id limit 1
                for update skip locked)
    returning id, token"""
RAW_MOVE = """
    with moved as (
      update raw_job set state = %s, worker = '', lease_until = null, since = since + 1, message = 'done'
      where id = %s and state = %s and token = %s returning id)
    insert into raw_history (at, job_id, event, state_before, state_after)
    select 1, id, 'finish', %s, %s from moved"""


def raw_postgresql(url: str) -> Step:
    """The same work, without our code. Its plan is asserted: a slow plan with a scan would make our ratio too good."""
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.prepare_threshold = 2
    for statement in RAW_TABLES:
        connection.execute(statement)
    connection.execute("insert into raw_job select n, 'pending', 5, '', 0, null, 0, '' from generate_series(1, 6000) n")
    connection.execute("analyze raw_job")
    connection.execute("set enable_seqscan = off")
    plan = str(connection.execute("explain " + RAW_TAKE, ("pending",)).fetchall())
    if "raw_job_next" not in plan or "Sort" in plan:
        raise SystemExit(f"the raw baseline does not use its index: {plan}")
    cursor, states = connection.cursor(), cycle(STATES)

    def step() -> None:
        state = next(states)
        target = INGEST_JOB.find(state, forward_event(INGEST_JOB, state))[0].target
        job, token = cursor.execute(RAW_TAKE, (state,)).fetchone() or (0, 0)
        cursor.execute(RAW_MOVE, (target, job, state, token, state, target))
        if cursor.rowcount != 1:
            raise SystemExit(f"no job is left in {state}")

    return step


def against_raw(where: Places) -> str:
    """One consumer, step by step, against the bare driver."""
    contestants: dict[str, tuple[Step, Step]] = {
        "PostgreSQL": (our_steps(where.postgresql()), raw_postgresql(where.postgresql())),
    }
    rows: list[Sequence[object]] = []
    for name, (ours, raw) in contestants.items():
        found = compare({"ours": ours, "raw": raw})
        ratio, target = found["ours"].ratio_to(found["raw"]), RAW_TARGETS[name]
        rows.append((name, found["ours"].rate, found["raw"].rate, ratio, target, verdict(ratio, target)))
    return table(
        "Acquire + move, one consumer, steps per second", ("store", "ours", "raw", "ratio", "target", ""), rows
    )


# ---------------------------------------------------------------- the peer


class Procrastinate:
    """A worker of procrastinate's, one job at a time."""

    def __init__(self, url: str) -> None:
        import procrastinate

        self._loop = asyncio.new_event_loop()
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
        self._task = self._app.task(name="step")(_nothing)
        self._loop.run_until_complete(self._app.open_async())
        self._loop.run_until_complete(self._app.schema_manager.apply_schema_async())

    def rate(self) -> float:
        """Jobs per second of its worker; submitting them is not counted."""
        return self._loop.run_until_complete(self._rate())

    def close(self) -> None:
        """Close its connections."""
        self._loop.run_until_complete(self._app.close_async())
        self._loop.close()

    async def _rate(self) -> float:
        await self._task.batch_defer_async(*({} for _ in range(PEER_JOBS)))
        began = time.perf_counter()
        await self._app.run_worker_async(wait=False, concurrency=1, install_signal_handlers=False)
        return PEER_JOBS / (time.perf_counter() - began)


async def _nothing() -> None:
    """A job that does nothing."""


def against_peer(where: Places) -> str:
    """Our steps, and the jobs of procrastinate's worker, in turns."""
    ours, peer = our_steps(where.postgresql()), Procrastinate(where.postgresql())
    peer.rate()
    rates: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        theirs = peer.rate()
        began = time.perf_counter()
        for _ in range(PEER_JOBS):
            ours()
        rates.append((PEER_JOBS / (time.perf_counter() - began), theirs))
    peer.close()
    mine, other = (Result(statistics.median(each), each) for each in zip(*rates, strict=True))
    ratio = mine.ratio_to(other)
    row = ("procrastinate", mine.rate, other.rate, ratio, PEER_TARGET, verdict(ratio, PEER_TARGET))
    return table("The same against a peer's jobs", ("peer", "ours", "peer", "ratio", "target", ""), [row])


# ---------------------------------------------------------------- many pending


def acquire_portion(queue: Queue) -> float:
    """Acquisitions per second; moving the acquired jobs on, and replacing them, is not counted."""
    spent = 0.0
    for _ in range(PORTION):
        began = time.perf_counter()
        job = queue.acquire_job("pending")
        spent += time.perf_counter() - began
        if job is None:
            raise SystemExit("no job is left")
        queue.fire(job, "accept")
    fill(queue, PORTION)
    return PORTION / spent


def with_many_pending(where: Places) -> str:
    """Acquiring where a hundred thousand jobs are pending, against a hundred."""
    rows: list[Sequence[object]] = []
    kinds = {"SQLite": lambda: where.sqlite("truncate"), "PostgreSQL": where.postgresql, "MariaDB": where.mariadb}
    for name, new in kinds.items():
        queues = [headgate.connect(new()).queue for _ in range(2)]
        for queue, count in zip(queues, (FEW, MANY), strict=True):
            fill(queue, count)
        for queue in queues:
            acquire_portion(queue)
        rates = [tuple(acquire_portion(queue) for queue in queues) for _ in range(ROUNDS * 2)]
        few, many = (Result(statistics.median(each), each) for each in zip(*rates, strict=True))
        times = few.ratio_to(many)
        rows.append((name, few.rate, many.rate, times, GROWTH, "ok" if times <= GROWTH else "MISSED"))
    header = ("store", f"of {FEW}", f"of {MANY:,}", "times slower", "at most", "")
    return table("Acquiring a pending job, per second", header, rows)


PARTS: dict[str, Callable[[Places], str]] = {"raw": against_raw, "peer": against_peer, "pending": with_many_pending}


def main(arguments: Sequence[str]) -> None:
    """Print the requested tables, or all."""
    with places() as where:
        for name in arguments or PARTS:
            print(PARTS[name](where), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
