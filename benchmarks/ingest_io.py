"""Large files: download, digest and store, against curl, sha256sum and one copy on the same disk.

The bytes come from a server of its own process on loopback. Both sides end with their bytes on the disk. The figure
is the ratio within one round, so that the noise of the machine hits both.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import multiprocessing.connection
import os
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import table
from headgate.ingest.sources.download import DownloadOptions, Wanted, download
from headgate.ingest.sources.fetch import Fetcher
from headgate.ingest.sources.guard import Rules
from headgate.ingest.storage.ocfl import OcflStorage
from headgate.ingest.storage.port import NewFile, Note, ObjectChange

MIB = 1 << 20


def main(arguments: list[str]) -> None:
    """Measure, and print a table."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        source = folder / "source"
        _write_random(source, options.mib)
        digest = hashlib.sha256()
        with source.open("rb") as file:
            for block in iter(lambda: file.read(MIB), b""):
                digest.update(block)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = multiprocessing.get_context("fork").Process(target=_serve, args=(listener, source), daemon=True)
            server.start()
            try:
                _measure(folder, listener.getsockname()[1], digest.hexdigest(), options)
            finally:
                server.terminate()
                server.join()


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="size of the file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk that is measured")
    return parser.parse_args(arguments)


def _measure(folder: Path, port: int, digest: str, options: argparse.Namespace) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    peak = 0
    for number in range(options.rounds):
        theirs.append(_timed(lambda: _curl(folder, port, digest)))
        seconds, memory = _in_process(folder / f"round{number}", port, digest)
        ours.append(seconds)
        peak = max(peak, memory)
    ratio = statistics.median(there / here for here, there in zip(ours, theirs, strict=True))
    rows: list[list[object]] = [
        ["curl | sha256sum, and cp", options.mib / statistics.median(theirs), "", ""],
        ["download, digest, OCFL store", options.mib / statistics.median(ours), ratio, f"{peak / 1024:.0f} MiB"],
    ]
    print(table(f"One file of {options.mib} MiB", ["", "MiB/s", "ratio", "memory at most"], rows))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _curl(folder: Path, port: int, digest: str) -> None:
    """To a file and to sha256sum at once; then a copy; all of it synced, as ours is."""
    script = (
        'set -e; curl -sS "http://127.0.0.1:$1/" | tee "$2/fetched" | sha256sum | cut -c1-64; sync "$2/fetched"; '
        'cp --reflink=never "$2/fetched" "$2/copied"; sync "$2/copied"'
    )
    done = subprocess.run(["bash", "-c", script, "bash", str(port), folder], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == digest
    (folder / "fetched").unlink()
    (folder / "copied").unlink()


def _in_process(folder: Path, port: int, digest: str) -> tuple[float, int]:
    """Run in a separate process, whose memory is measured; returns seconds, and the largest size in KiB."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_ours, args=(folder, port, digest, sender))
    child.start()
    seconds, peak = receiver.recv()
    child.join()
    shutil.rmtree(folder)
    return float(seconds), int(peak)


def _ours(folder: Path, port: int, digest: str, sender: multiprocessing.connection.Connection) -> None:
    seconds = _timed(lambda: _ingest(folder, port, digest))
    sender.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def _ingest(folder: Path, port: int, digest: str) -> None:
    rules = Rules(frozenset({"http"}), frozenset({port}), private_networks=("127.0.0.1/32",))
    wanted = [Wanted(f"http://127.0.0.1:{port}/", "file.bin", digests={"sha256": digest})]
    with Fetcher(rules) as fetcher:
        outcome = download(fetcher, wanted, folder / "producer", folder / "parts", options=DownloadOptions())
    (fetched,) = outcome.fetched
    storage = OcflStorage(folder / "storage")
    file = NewFile(folder / "producer" / fetched.name, fetched.size, fetched.digests)
    storage.put_version("ark:/99999/bench", ObjectChange({fetched.name: file}), Note("bench", datetime.now(UTC)))


def _serve(listener: socket.socket, source: Path) -> None:
    """The cheapest possible server: the kernel copies the data."""
    while True:
        connection, _ = listener.accept()
        with connection, source.open("rb") as file:
            connection.recv(65536)
            size = source.stat().st_size
            connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n".encode())
            connection.sendfile(file)


def _write_random(path: Path, mib: int) -> None:
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
