"""A real `headgate up` on SQLite, with data that the tests put into its store."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2

import headgate
from headgate import Gate, LogStream, LogText
from headgate.cli.service.found import SERVICE
from headgate.core.inventory import InventoryFile, Message, MessageKind, Recording
from headgate.core.queue.model import IngestJob
from headgate.daemons.names import CONSUMERS
from tests.announced import announced
from tests.waiting import until

COMMAND = [sys.executable, "-m", "headgate", "up", "--json", "-q", "--listen"]
#: Locks of the full store: more than one page.
MANY = 130
RESOURCE = "s3://raw/2026-11"
#: A stored object of the full store.
ARK = "ark:/99999/fk4abc"
#: Tables that signing in needs; without the others, every page of the store fails.
KEPT = ("hg_api_token", "hg_session", "hg_meta", "hg_version")


class Site:
    """A service, the store behind it, and its waiting clients."""

    def __init__(self, folder: Path, *more: str, store: str = "headgate.sqlite") -> None:
        self.folder = folder
        #: Additional options of the command line.
        self._more = more
        self._store = f"sqlite:///{folder}/{store}"
        self._process: subprocess.Popen[str] | None = None
        self._waiting: list[threading.Thread] = []
        said = self._start("127.0.0.1:0")
        self.url: str = said["url"]
        #: The store itself, without the service.
        self.gate: Gate = headgate.connect(self._store)

    def token(self, *scopes: str) -> str:
        """A new token with these scopes; without any: an admin's."""
        return self.gate.tokens.new("a test", scopes or ["admin"]).token

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self._process
        self._process.kill()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()

    def start_again(self) -> None:
        """Start it again on the same address and the same store."""
        self._start(self.url.removeprefix("http://"))

    def wait_for(self, client: str, resource: str, mode: str = "exclusive") -> None:
        """A client waits for a lock, and sends signs of life as the service does for callers."""
        asked = {"client": client, "resource": resource, "mode": mode, "wait": 600}
        headers = {"Authorization": f"Bearer {self.token()}"}

        def ask() -> None:
            try:
                httpx2.post(f"{self.url}/v1/locks", json=asked, headers=headers, timeout=700, trust_env=False)
            except httpx2.HTTPError:
                return  # The service was ended.

        self._waiting.append(threading.Thread(target=ask, daemon=True))
        before = len(self.gate.locks.waiters())
        self._waiting[-1].start()
        while len(self.gate.locks.waiters()) == before:
            assert self._waiting[-1].is_alive(), f"{client} did not wait for {resource}"
            threading.Event().wait(0.01)

    def close(self) -> None:
        """Stop everything that was started."""
        self.gate.close()
        if self._process and self._process.poll() is None:
            self.kill()
        for thread in self._waiting:
            thread.join(10)

    def _start(self, listen: str) -> dict[str, Any]:
        environment = {**os.environ, "HEADGATE_URL": self._store}
        self._process = subprocess.Popen(
            [*COMMAND, listen, *self._more], stdout=subprocess.PIPE, text=True, cwd=self.folder, env=environment
        )
        return announced(self._process)


def working_site(folder: Path) -> Site:
    """A site whose daemons process submissions with commands; downloads fail until there is a file `repaired`."""
    (folder / "split.sh").write_text("""echo '{"jobs": [{"payload_url": "https://example.org/1"}]}'\n""")
    (folder / "fetch.sh").write_text(f"test -e {folder}/repaired || {{ echo 'the disk is full' >&2; exit 1; }}\n")
    commands = {name: "true" for name in CONSUMERS if name != "job-storing"}
    commands |= {"batch-pending": f"sh {folder}/split.sh", "job-downloading": f"sh {folder}/fetch.sh"}
    return Site(folder, "--interval", "1s", *(f"--exec={name}={words}" for name, words in commands.items()))


def fill(site: Site) -> None:
    """One or more items of every kind."""
    gate = site.gate
    parts = {f"file:/data/part-{number:03}": "shared" for number in range(MANY)}
    gate.locks.acquire_all("reader", parts, note="nightly copy")
    gate.locks.acquire("etl-7", RESOURCE, "exclusive", lease=3600, note="reload")
    site.wait_for("etl-9", RESOURCE)
    site.wait_for("report", RESOURCE, "shared")
    _fill_ledger(gate)
    _fill_queue(gate)


def _fill_ledger(gate: Gate) -> None:
    gate.ledger.define_dataset("raw", uri="s3://raw/")
    gate.ledger.define_dataset("tidy", uri="s3://tidy/")
    gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], retry_delay=3600)
    gate.ledger.publish("raw", [f"2026-11-{day:02}" for day in range(1, 21)])
    for _ in range(6):
        claim = gate.ledger.find_next("clean", worker="node1")
        assert claim
        gate.ledger.success(claim)
    failing = gate.ledger.find_next("clean", worker="node2")
    assert failing
    gate.ledger.keep_log(failing, [LogText(LogStream.STDERR, "writing\ndisk <b>full</b>\n", 26)], ended=True)
    gate.ledger.fail(failing, message="disk <b>full</b> on node2")
    assert gate.ledger.find_next("clean", worker="node3", lease=3600)
    gate.ledger.hold("clean", "2026-11-20", reason="bad source")
    expect = {"ids": ["2026-11-07", "2026-11-21"], "from": "2026-11-08", "at": "06:00", "zone": "Europe/Berlin"}
    gate.ledger.define_dataset("tidy", uri="s3://tidy/", expect=expect)


def _fill_queue(gate: Gate) -> None:
    for number in range(3):
        gate.queue.submit("demo", "ann", f"https://example.org/manifest-{number}.checkm", erc_what="A <b>book</b>")
    batch = gate.queue.acquire_batch("pending", worker="intake-1")
    assert batch
    gate.queue.create_jobs(batch, [{"payload_url": f"https://example.org/{number}"} for number in range(24)])
    gate.queue.fire(batch, "start")
    for _ in range(8):
        move_job(gate, "pending", "accept", space_needed=5_000_000)
    for state in ("estimating", "provisioning"):
        for _ in range(6):
            move_job(gate, state, "finish")
    why = (
        "2 files could not be downloaded: a.tif: status 503 (tries: 3); b.tif: it has 12 bytes; expected 40 (tries: 1)"
    )
    files = [{"name": "a.tif", "why": "status 503", "tries": 3}, {"name": "b.tif", "why": "12 bytes", "tries": 1}]
    move_job(gate, "downloading", "fail", why, configuration={"failed_files": files})
    for state in ("downloading", "processing", "recording", "notify"):
        move_job(gate, state, "finish")
    assert gate.queue.acquire_job("downloading", worker="fetcher-2 on node1", lease=3600)
    gate.queue.submit("other", "ann", "https://example.org/other.checkm")
    gate.queue.set_hold("other", reason="quota", by="ann")
    stored = tuple(InventoryFile(f"producer/page-{number}.tif", 5_000_000, "a" * 64, 1) for number in range(3))
    made = datetime(2026, 11, 15, tzinfo=UTC)
    told = Recording(ARK, "library", "maps", 1, "ark_99999_fk4abc.v1", made, stored, "Ann", "A <b>map</b>", "1900",
                     (), ("map-1",), "jid0000000002", "bid0000000001", "demo", "ann")  # fmt: skip
    gate.inventory.record(told, [Message("jid0000000002.mail", MessageKind.MAIL, "bid0000000001", "Dear Ann")])


def move_job(gate: Gate, state: str, event: str, message: str = "", **changes: Any) -> IngestJob:
    """Move the first job in a state on, as a consumer would."""
    job = gate.queue.acquire_job(state, worker="a test")
    assert job
    moved = gate.queue.fire(job, event, message, **changes)
    assert isinstance(moved, IngestJob)
    return moved


def break_store(site: Site) -> None:
    """Every page fails to read its data, but signing in works. The service has started by then: what it cannot read at
    its start ends it.
    """
    import sqlite3

    until(lambda: any(each.steps != (SERVICE,) for each in site.gate.queue.presence.living()), "its daemons to start")
    store = sqlite3.connect(site.folder / "headgate.sqlite")
    with store:
        for (name,) in store.execute("select name from sqlite_master where type = 'table'").fetchall():
            if name.startswith("hg_") and name not in KEPT:
                store.execute(f"drop table {name}")
    store.close()
