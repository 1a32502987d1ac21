"""`make bench-http`: the service against the bare framework, with shared commits and without, with a thousand who wait,
with a thousand streams of events, with a full store, at its start.

Every contestant is a process of its own, and so is who asks them; rounds are taken in turn, so that noise hits all.
A request is one answer: acquire and release are two. Only the ratios mean anything: the rates depend on the machine.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import headgate
from benchmarks.harness import ROUNDS, table, verdict

CONNECTIONS = 32
WAITERS = 1000
CHUNKS, JOBS = 1_000_000, 100_000
SECONDS = 1.5
#: Streams of events that are open side by side, and the seconds in which nothing happens.
STREAMS, IDLE_SECONDS = 1000, 20.0
#: Percent of a core.
STREAMS_TARGET = 10.0
#: Minimum fraction of the bare framework's rate.
ECHO_TARGET = 0.4
#: Maximum ratios: p99 with waiters to that without; readiness to the import of the framework.
WAITING_TARGET, READY_TARGET = 2.0, 3.0
#: Minimum ratio of calls that share commits to one call at a time.
SHARED_TARGET = 2.0
#: A folder in memory: a file there has no disk to wait for.
MEMORY = "/dev/shm"  # noqa: S108 - a folder with an unpredictable name is made there
#: The pages that are requested when the store is full.
FULL_PATHS = ("/", "/pipeline", "/pipeline/grid", "/locks", "/ingest", "/history", "/v1/status", "/metrics")
#: Limits for the first page, in bytes and seconds; the others are compared with it.
PAGE_BYTES, PAGE_SECONDS = 150_000, 0.2


class Contestant:
    """A server in a separate process."""

    def __init__(self, words: Sequence[str], port: int, **environment: str) -> None:
        self.port, self.token = port, ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words], env=os.environ | environment, stdout=subprocess.PIPE, text=True
        )

    def wait(self, path: str) -> None:
        """Wait until it answers, whatever the answer."""
        while True:
            try:
                urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5).close()
            except HTTPError:
                return
            except OSError:
                time.sleep(0.005)
            else:
                return

    def stop(self) -> None:
        """Stop it, and wait until it has exited."""
        self.process.terminate()
        self.process.communicate()


def up(folder: Path, url: str, *words: str, module: str = "headgate", **environment: str) -> Contestant:
    """`headgate up` on a store."""
    port = free_port()
    listen = (module, "up", "--listen", f"127.0.0.1:{port}", "-q", *words)
    return Contestant(listen, port, HEADGATE_URL=url, HEADGATE_WORK_FOLDER=str(folder / "work"), **environment)


@contextmanager
def service(folder: Path, url: str, module: str = "headgate", **environment: str) -> Iterator[Contestant]:
    """The same, for the first time, with an admin's token for it."""
    found = up(folder, url, "--json", module=module, **environment)
    try:
        if found.process.stdout:
            found.process.stdout.readline()  # It answers.
            with headgate.connect(url) as gate:
                found.token = gate.tokens.new("benchmark", ["admin"]).token
        yield found
    finally:
        found.stop()


@contextmanager
def echo() -> Iterator[Contestant]:
    """The bare framework."""
    port = free_port()
    found = Contestant(["benchmarks.http_echo", str(port)], port)
    found.wait("/nothing")
    try:
        yield found
    finally:
        found.stop()


class Generator:
    """The client: one process for all rounds."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.http_load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, whom: Contestant, kind: str, seconds: float = SECONDS) -> dict[str, float]:
        """One round."""
        order = {
            "port": whom.port, "token": whom.token, "kind": kind, "connections": CONNECTIONS, "seconds": seconds
        }  # fmt: skip
        if not self._process.stdin or not self._process.stdout:
            raise SystemExit("the load generator is not there")
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        found: dict[str, float] = json.loads(self._process.stdout.readline())
        if found["wrong"]:
            raise SystemExit(f"{found['wrong']} answers were not good: {whom.port} {kind}")
        return found

    def close(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()


def free_port() -> int:
    """A free port."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


# ---------------------------------------------------------------- against the bare framework


def against_echo(folder: Path, generator: Generator) -> str:
    """Requests per second and processor time of each: ours over HTTP, the bare framework's, and the store alone."""
    rows: list[Sequence[object]] = []
    with echo() as bare, tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        for name, place in (("SQLite, in memory", memory), ("SQLite, a file", folder)):
            url = f"sqlite:///{place}/echo.db"
            with service(folder, url) as ours:
                generator.ask(ours, "locks", SECONDS / 2)
                generator.ask(bare, "echo", SECONDS / 2)
                rounds = [
                    (*measured(generator, ours, "locks"), *measured(generator, bare, "echo"), store_rate(folder, url))
                    for _ in range(ROUNDS)
                ]
            mine, my_time, theirs, their_time, store = (statistics.median(each) for each in zip(*rounds, strict=True))
            ratio = statistics.median(each[0] / each[2] for each in rounds)
            # A store on a slow disk would be measured instead of the service.
            judged = verdict(ratio, ECHO_TARGET) if place == memory else ""
            rows.append((name, mine, theirs, ratio, ECHO_TARGET, judged, store, my_time, their_time))
    header = ("store", "over HTTP", "bare echo", "ratio", "target", "", "store alone", "our µs CPU", "echo's")
    title = f"Acquire and release over HTTP, one process, {CONNECTIONS} connections, requests per second"
    return table(title, header, rows)


def measured(generator: Generator, whom: Contestant, kind: str) -> tuple[float, float]:
    """Requests per second, and microseconds of processor time for each."""
    before = _processor_seconds(whom.process.pid)
    found = generator.ask(whom, kind)
    spent = _processor_seconds(whom.process.pid) - before
    return found["rate"], spent / found["count"] * 1e6


def _processor_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def store_rate(folder: Path, url: str) -> float:
    """Acquire and release without a service: calls per second."""
    own = url if url == "sqlite://" else f"sqlite:///{folder}/alone.db"
    with headgate.connect(own) as gate:
        for _ in range(20):
            gate.locks.release(gate.locks.acquire("bench", "bench:1", "exclusive"))
        began, count = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < SECONDS / 2:
            gate.locks.release(gate.locks.acquire("bench", "bench:1", "exclusive"))
            count += 2
    return count / passed


# ---------------------------------------------------------------- shared commits


def shared_commits(folder: Path, generator: Generator) -> str:
    """Requests per second on a file: calls that share commits, and one call at a time."""
    rows: list[Sequence[object]] = []
    for mode in ("truncate", "wal"):
        with ExitStack() as stack:
            urls = [f"sqlite:///{folder}/{name}-{mode}.db?journal_mode={mode}" for name in ("shared", "single")]
            shared = stack.enter_context(service(folder, urls[0]))
            single = stack.enter_context(service(folder, urls[1], "benchmarks.http_single"))
            for each in (shared, single):
                generator.ask(each, "locks", SECONDS / 2)
            rounds = [
                (measured(generator, shared, "locks"), measured(generator, single, "locks")) for _ in range(ROUNDS)
            ]
        ours, others = (statistics.median(each[place][0] for each in rounds) for place in (0, 1))
        times = statistics.median(one[0] / other[0] for one, other in rounds)
        spent = [statistics.median(each[place][1] for each in rounds) for place in (0, 1)]
        rows.append((mode, ours, others, times, SHARED_TARGET, verdict(times, SHARED_TARGET), *spent))
    header = ("journal", "shared", "one at a time", "times", "at least", "", "shared, µs CPU", "one at a time")
    return table(f"Acquire and release on a SQLite file, {CONNECTIONS} connections, requests per second", header, rows)


# ---------------------------------------------------------------- with a thousand waiters


def with_waiters(folder: Path, generator: Generator) -> str:
    """p99 of acquire and release, with and without a thousand callers that wait for something else."""
    with ExitStack() as stack:
        quiet = stack.enter_context(service(folder, f"sqlite:///{folder}/quiet.db"))
        busy = stack.enter_context(service(folder, f"sqlite:///{folder}/busy.db"))
        for number in range(10):
            _ask(busy, "POST", "/v1/locks", {"client": "holder", "resource": f"held:{number}"})
        for number in range(WAITERS):
            stack.enter_context(_waiter(busy, number))
        while f"headgate_http_waiting {WAITERS}" not in _ask(busy, "GET", "/metrics").decode():
            time.sleep(0.2)
        for each in (quiet, busy):
            generator.ask(each, "locks", SECONDS / 2)
        rounds = [(generator.ask(quiet, "locks")["p99"], generator.ask(busy, "locks")["p99"]) for _ in range(ROUNDS)]
    without, having = (statistics.median(each) * 1000 for each in zip(*rounds, strict=True))
    times = statistics.median(other / one for one, other in rounds)
    row = (without, having, times, WAITING_TARGET, "ok" if times <= WAITING_TARGET else "MISSED")
    header = ("without, ms", f"with {WAITERS:,}, ms", "times", "at most", "")
    return table(f"p99 of a request, {CONNECTIONS} connections", header, [row])


@contextmanager
def _waiter(whom: Contestant, number: int) -> Iterator[None]:
    body = json.dumps({"client": f"waiter {number}", "resource": f"held:{number % 10}", "wait": 3600}).encode()
    head = f"POST /v1/locks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {whom.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", whom.port)) as connection:
        connection.sendall(head.encode() + body)
        yield


def _ask(whom: Contestant, method: str, path: str, body: Any = None) -> bytes:
    headers = {"Authorization": f"Bearer {whom.token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"http://127.0.0.1:{whom.port}{path}", data, headers, method=method)) as answer:
        found: bytes = answer.read()
        return found


# ---------------------------------------------------------------- a thousand streams of events


def with_streams(folder: Path, _generator: Generator) -> str:
    """Processor time of a service at which a thousand streams of events are open and nothing happens."""
    with ExitStack() as stack:
        served = stack.enter_context(service(folder, f"sqlite:///{folder}/streams.db"))
        spent = [_idle_load(served)]
        for _ in range(STREAMS):
            stack.enter_context(_stream(served))
        while f"headgate_http_streams {STREAMS}" not in _ask(served, "GET", "/metrics").decode():
            time.sleep(0.2)
        spent.append(_idle_load(served))
    row = (spent[0], spent[1], STREAMS_TARGET, "ok" if spent[1] < STREAMS_TARGET else "MISSED")
    header = ("without, % of a core", f"with {STREAMS:,}, %", "less than", "")
    return table(f"Processor time over {IDLE_SECONDS:g} idle seconds", header, [row])


def _idle_load(whom: Contestant) -> float:
    before = _processor_seconds(whom.process.pid)
    time.sleep(IDLE_SECONDS)
    return (_processor_seconds(whom.process.pid) - before) / IDLE_SECONDS * 100


@contextmanager
def _stream(whom: Contestant) -> Iterator[None]:
    head = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {whom.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", whom.port)) as connection:
        connection.sendall(head.encode())
        yield


# ---------------------------------------------------------------- a full store


def full_store(folder: Path, _generator: Generator) -> str:
    """The pages, the status and the metrics, with a million chunks and a hundred thousand ingest jobs."""
    url = f"sqlite:///{folder}/full.db"
    _fill(url)
    rows: list[Sequence[object]] = []
    with service(folder, url) as ours:
        for path in FULL_PATHS:
            try:
                _ask(ours, "GET", path)
            except HTTPError as error:
                rows.append((path, f"answers {error.code}", "", ""))
                continue
            seconds, size = statistics.median(_timed(ours, path) for _ in range(ROUNDS)), len(_ask(ours, "GET", path))
            good = size <= PAGE_BYTES and seconds <= PAGE_SECONDS
            rows.append((path, size, seconds * 1000, "ok" if good else "MISSED"))
    title = f"With {CHUNKS:,} chunks and {JOBS:,} ingest jobs (at most {PAGE_BYTES:,} bytes, 200 ms)"
    return table(title, ("path", "bytes", "ms", ""), rows)


def _timed(whom: Contestant, path: str) -> float:
    began = time.perf_counter()
    _ask(whom, "GET", path)
    return time.perf_counter() - began


def _fill(url: str) -> None:
    with headgate.connect(url) as gate:
        gate.ledger.define_dataset("raw")
        gate.ledger.define_dataset("tidy")
        gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
        for start in range(0, CHUNKS, 50_000):
            gate.ledger.publish("raw", [str(number) for number in range(start, start + 50_000)])
        gate.queue.submit("bench", "bench", "https://example.org/manifest")
        batch = gate.queue.acquire_batch("pending", lease=3600)
        if batch is None:
            raise SystemExit("the batch is not there")
        gate.queue.create_jobs(batch, ({"payload_url": f"https://example.org/{number}"} for number in range(JOBS)))


# ---------------------------------------------------------------- the start


def start(folder: Path, _generator: Generator) -> str:
    """From the start of `headgate up` to its first good answer, against importing the framework alone."""
    url = f"sqlite:///{folder}/start.db"
    headgate.connect(url).close()
    rounds = [(_start_up(folder, url), _import()) for _ in range(ROUNDS)]
    ours, bare = (statistics.median(each) * 1000 for each in zip(*rounds, strict=True))
    times = statistics.median(one / other for one, other in rounds)
    row = (ours, bare, times, READY_TARGET, "ok" if times <= READY_TARGET else "MISSED")
    return table("Ready", ("headgate up, ms", "import fastapi and uvicorn, ms", "times", "at most", ""), [row])


def _start_up(folder: Path, url: str) -> float:
    began = time.perf_counter()
    found = up(folder, url)
    found.wait("/readyz")
    passed = time.perf_counter() - began
    found.stop()
    return passed


def _import() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, uvicorn"], check=True)
    return time.perf_counter() - began


PARTS: dict[str, Callable[[Path, Generator], str]] = {
    "echo": against_echo,
    "commits": shared_commits,
    "waiters": with_waiters,
    "streams": with_streams,
    "full": full_store,
    "start": start,
}


def main(arguments: Sequence[str]) -> None:
    """Print the requested tables, or all."""
    generator = Generator()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name in arguments or PARTS:
                print(PARTS[name](Path(folder), generator), flush=True)
    finally:
        generator.close()


if __name__ == "__main__":
    main(sys.argv[1:])
