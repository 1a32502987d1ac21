"""`make bench-ingest`: objects through all states, from a web server on loopback to storage, inventory and report.

Small objects: jobs a second, and where the time goes. One large file: the memory that it takes, and its speed beside
`curl | sha256sum` and one copy. The rates depend on the machine; the ratios do not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import headgate
from benchmarks import ingest_io
from benchmarks.harness import table
from benchmarks.places import Places, places
from headgate.core.queue.model import Batch
from headgate.gate import Gate

REGISTRY = "http://uc3.cdlib.org/registry/ingest/manifest"
#: Memory limit while a file of five gigabytes is ingested.
MOST_MEMORY_MIB = 200
IO_TARGET = 0.5
PROFILE = """collection = "bench"
owner = "bench"
[sources]
schemes = ["http"]
ports = [{port}]
private_addresses = true
[limits]
downloads = 8
"""


@dataclass(frozen=True, slots=True)
class Busy:
    """The load of the machine meanwhile, as fractions of the time."""

    seconds: float
    idle: float
    disk: float


def main(arguments: list[str]) -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="small objects in one batch")
    parser.add_argument("--workers", type=int, default=8, help="threads of each state, in each process")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--memory-mib", type=int, default=5120, help="the file whose memory is looked at")
    parser.add_argument("--io-mib", type=int, default=512, help="the file whose speed is looked at")
    parser.add_argument("--stores", default="SQLite,PostgreSQL")
    options = parser.parse_args(arguments)
    with places() as where:
        if options.jobs:
            _small(where, options)
        if options.memory_mib:
            _large(where, options.memory_mib)
    if options.io_mib:
        ingest_io.main(["--mib", str(options.io_mib)])


# ---------------------------------------------------------------- small objects


def _small(where: Places, options: argparse.Namespace) -> None:
    stores = {"SQLite": lambda: where.sqlite("wal"), "PostgreSQL": where.postgresql}
    rows: list[list[object]] = []
    for name in options.stores.split(","):
        with _site(stores[name]()) as (folder, gate, settings, port):
            _write_objects(folder / "origin", port, options.jobs)
            busy, spent, _ = _ingested(gate, settings, f"http://127.0.0.1:{port}/all.checkm", "batch-manifest", options)
            shares = [spent["store"] / spent["handlers"], spent["cpu"] / busy.seconds, 1 - busy.idle, busy.disk]
            rows.append([name, options.jobs / busy.seconds, *(f"{share:.0%}" for share in shares)])
    title = f"{options.jobs} objects of one small file, {options.processes} processes with {options.workers} threads"
    header = ["", "jobs/s", "in the store", "our cores", "cores busy", "disk busy"]
    print(table(title, header, rows))


def _write_objects(origin: Path, port: int, count: int) -> None:
    rows = []
    for number in range(count):
        (origin / f"{number}.txt").write_text(f"{number}\n" * 100)
        row = f"http://127.0.0.1:{port}/{number}.txt |  |  |  |  | page.txt"
        (origin / f"{number}.checkm").write_text(_manifest("mrt-ingest-manifest", [row]))
        rows.append(f"http://127.0.0.1:{port}/{number}.checkm |  |  |  |  | {number}.checkm |  | local-{number}")
    (origin / "all.checkm").write_text(_manifest("mrt-batch-manifest", rows))


def _manifest(kind: str, rows: list[str]) -> str:
    return "\n".join(["#%checkm_0.7", f"#%profile | {REGISTRY}/{kind}", *rows, "#%eof"])


# ---------------------------------------------------------------- one large file


def _large(where: Places, mib: int) -> None:
    options = argparse.Namespace(processes=1, workers=2)
    with _site(where.sqlite("wal")) as (folder, gate, settings, port):
        with (folder / "origin" / "large.bin").open("wb") as file:
            file.truncate(mib << 20)
        busy, _, memory = _ingested(gate, settings, f"http://127.0.0.1:{port}/large.bin", "file", options)
    peak = memory / 1024
    told = "ok" if peak <= MOST_MEMORY_MIB else "MISSED"
    row = [mib / busy.seconds, f"{peak:.0f} MiB", f"at most {MOST_MEMORY_MIB} MiB", told]
    print(table(f"One file of {mib} MiB through all states", ["MiB/s", "memory", "target", ""], [row]))


# ---------------------------------------------------------------- running


@contextmanager
def _site(url: str) -> Iterator[tuple[Path, Gate, dict[str, str], int]]:
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as listener:
        folder, port = Path(name), listener.getsockname()[1]
        for each in ("origin", "profiles"):
            (folder / each).mkdir()
        (folder / "profiles" / "bench.toml").write_text(PROFILE.format(port=port))
        settings = {
            "profiles_folder": str(folder / "profiles"), "storage_root": str(folder / "storage"),
            "work_folder": str(folder / "work"), "space_threshold": "0",
        }  # fmt: skip
        fork = multiprocessing.get_context("fork")
        server = fork.Process(target=_serve, args=(listener, folder / "origin"), daemon=True)
        server.start()
        try:
            with headgate.connect(url, **settings) as gate:
                yield folder, gate, {"url": url, **settings}, port
        finally:
            server.kill()
            server.join()
            shutil.rmtree(folder / "storage", ignore_errors=True)


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Log nothing."""

    def copyfile(self, source: object, outputfile: object) -> None:
        """The kernel copies."""
        del outputfile
        self.connection.sendfile(source)


def _serve(listener: socket.socket, folder: Path) -> None:
    os.chdir(folder)
    server = ThreadingHTTPServer(listener.getsockname(), _Handler, bind_and_activate=False)
    server.socket = listener
    server.serve_forever()


def _ingested(
    gate: Gate, settings: dict[str, str], payload: str, kind: str, options: argparse.Namespace
) -> tuple[Busy, Counter[str], int]:
    """Submit it and wait for its report. Returns the load of the machine, processor seconds, and the peak in KiB."""
    url = settings["url"]
    rest = json.dumps({name: value for name, value in settings.items() if name != "url"})
    words = [sys.executable, "-m", "benchmarks.ingest_worker", url, rest, str(options.workers)]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(options.processes)]
    before = _machine()
    batch = gate.queue.submit("bench", "bench", payload, type=kind)
    found = _ended(gate, batch)
    after = _machine()
    memory = max(_peak(each.pid) for each in processes)
    spent: Counter[str] = Counter()
    for process in processes:
        process.terminate()
        out, _ = process.communicate()
        spent.update(json.loads(out))
    if found.state != "completed":
        raise SystemExit(f"{found.id} is {found.state}: {found.message}")
    seconds, idle, disk = (now - then for now, then in zip(after, before, strict=True))
    return Busy(seconds, idle / seconds / (os.cpu_count() or 1), disk / seconds), spent, memory


def _ended(gate: Gate, batch: Batch) -> Batch:
    while (found := gate.queue.batch(batch.id)).state not in ("completed", "failed"):
        time.sleep(0.1)
    return found


def _machine() -> tuple[float, float, float]:
    """Seconds: elapsed, of idle cores, and of the busiest disk."""
    ticks = os.sysconf("SC_CLK_TCK")
    idle = int(Path("/proc/stat").read_text().split()[4]) / ticks
    disks = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    return time.monotonic(), idle, max(int(fields[12]) for fields in disks) / 1000


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main(sys.argv[1:])
