"""Several processes at once: ours, raw, and procrastinate's no-op jobs, on one PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import headgate
from benchmarks import ledger_raw

#: Counts what it did until the time is over.
Runner = Callable[[float], int]
SECONDS = 4.0
ROUNDS = 3


def ours(url: str) -> Runner:
    """find_next and success."""
    ledger = headgate.connect(url).ledger

    def step() -> None:
        claim = ledger.find_next("clean")
        assert claim, "the benchmark ran out of chunks"
        ledger.success(claim)

    return _stepping(step)


def raw(url: str) -> Runner:
    """The bare driver."""
    return _stepping(ledger_raw.postgresql_pair(url))


def _stepping(step: Callable[[], None]) -> Runner:
    def run(seconds: float) -> int:
        until = time.monotonic() + seconds
        count = 0
        while time.monotonic() < until:
            step()
            count += 1
        return count

    return run


def procrastinate(url: str) -> Runner:
    """A worker of procrastinate's, with its defaults, on jobs that do nothing."""
    return lambda seconds: asyncio.run(_work(url, seconds))


async def _work(url: str, seconds: float) -> int:
    app, counts = _app(url)
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async(install_signal_handlers=False))
        await asyncio.sleep(seconds)
        done = counts[0]
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return done


def procrastinate_fill(url: str, count: int) -> None:
    """Its tables, with that many jobs to do."""

    async def fill() -> None:
        app, _ = _app(url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            for _ in range(0, count, 1000):
                await app.tasks["nothing"].batch_defer_async(*({} for _ in range(1000)))

    asyncio.run(fill())


def _app(url: str) -> tuple[Any, list[int]]:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url))
    counts = [0]

    @app.task(name="nothing")
    async def nothing() -> None:
        counts[0] += 1

    return app, counts


def together(make: Callable[[str], Runner], url: str, workers: int) -> float:
    """Chunks per second of this many processes."""
    context = get_context("spawn")
    barrier, counts = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=_one_of_many, args=(make, url, barrier, counts), daemon=True) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    total: int = sum(counts.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    return total / SECONDS


def _one_of_many(make: Callable[[str], Runner], url: str, barrier: Any, counts: Any) -> None:
    run = make(url)
    barrier.wait()
    counts.put(run(SECONDS))
