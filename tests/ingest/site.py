"""A complete repository on loopback: an origin, a mail server, a callback receiver, EZID, a storage root, a store."""

from __future__ import annotations

import email
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import headgate
from headgate.core.queue.model import Batch, IngestJob, work_states
from headgate.daemon_wiring import daemon_rounds, with_logs
from headgate.daemons.consumers import Consumers, Pace, Post
from headgate.daemons.names import CONSUMERS
from headgate.daemons.rounds import run_together
from headgate.gate import Gate
from headgate.ingest.storage.port import Storage
from tests.ingest.ezid_server import EzidServer, ezid_server
from tests.ingest.mailbox import Box, Loopback
from tests.ingest.origin import Origin, serving
from tests.waiting import until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK = "/hook"
REGISTRY = "http://uc3.cdlib.org/registry/ingest/manifest"


@dataclass
class Site:
    """The location of each part, and shortcuts for the tests."""

    folder: Path
    url: str
    coordination_url: str
    origin: Origin
    box: Box
    mail_port: int
    ezid: EzidServer
    #: The keys of every profile unless a test changes them.
    usual: dict[str, Any] = field(default_factory=dict)
    max_crashes: str = "3"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "coordination_url": self.coordination_url,
            "profiles_folder": str(self.folder / "profiles"),
            "storage_root": str(self.folder / "storage"),
            "work_folder": str(self.folder / "work"),
            "mail_server": f"smtp+plain://127.0.0.1:{self.mail_port}",
            "mail_from": "ingest@example.org",
            "space_threshold": "0",
            "max_crashes": self.max_crashes,
        }

    def gate(self) -> Gate:
        return headgate.connect(self.url, **self.settings)

    # ---------------------------------------------------------------- submissions

    def profile(self, name: str = "demo", **changes: Any) -> None:
        """A profile that may fetch from the origin; `limits__tries=1` is a key of a table."""
        content = {
            "collection": name, "owner": "library", "notification": ["ann@example.org"],
            "callback_url": self.origin.url(HOOK), "callback_secret": f"file:{self.folder / 'secret'}",
            "sources__schemes": ["http"], "sources__ports": [self.origin.port], "sources__private_addresses": True,
            "limits__tries": 2, **self.usual, **changes,
        }  # fmt: skip
        lines = [f"{key} = {json.dumps(value)}" for key, value in content.items() if "__" not in key]
        for table in sorted({key.partition("__")[0] for key in content if "__" in key}):
            lines.append(f"[{table}]")
            inner = {key: value for key, value in content.items() if key.startswith(f"{table}__")}
            lines += [f"{key.partition('__')[2]} = {json.dumps(value)}" for key, value in inner.items()]
        path = self.folder / "profiles" / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def object_manifest(self, path: str, files: Mapping[str, bytes]) -> str:
        """Put an object manifest with its files on the origin; returns its URL."""
        rows = []
        for name, content in files.items():
            url = self.origin.add(f"{path}.files/{name}", content)
            rows.append(f"{url} | sha-256 | {hashlib.sha256(content).hexdigest()} | {len(content)} | | {name}")
        return self.origin.add(path, checkm("mrt-ingest-manifest", rows))

    def batch_manifest(self, path: str, urls: Mapping[str, str], kind: str = "mrt-batch-manifest") -> str:
        """Put a batch manifest on the origin, with the payload's URL for each local id; returns its URL."""
        rows = [
            f"{url} |  |  |  |  | {url.rpartition('/')[2]} |  | {local} | Ann | Title of {local} | 2026"
            for local, url in urls.items()
        ]
        return self.origin.add(path, checkm(kind, rows))

    # ---------------------------------------------------------------- outcomes

    def mails(self) -> list[EmailMessage]:
        return [email.message_from_bytes(each.content, policy=SMTP) for each in self.box.mails]

    def callbacks(self) -> list[dict[str, Any]]:
        """Complete mails: a killed sender leaves a part, which no receiver accepts."""
        whole = [each for each in self.origin.asked(HOOK) if len(each.body) == int(each.headers["Content-Length"])]
        return [json.loads(each.body) | {"id": each.headers["webhook-id"]} for each in whole]

    def storage(self, gate: Gate, profile: str = "demo") -> Storage:
        return gate.ingest.storage(gate.ingest.current_profile(profile))


def checkm(kind: str, rows: list[str]) -> bytes:
    return "\n".join(["#%checkm_0.7", f"#%profile | {REGISTRY}/{kind}", *rows, "#%eof"]).encode()


@contextmanager
def site(folder: Path, url: str, coordination_url: str = "") -> Iterator[Site]:
    with ExitStack() as stack:
        origin = stack.enter_context(serving())
        origin.add(HOOK, b"")
        box = Box()
        server = Loopback(box)
        server.start()
        stack.callback(server.stop)
        (folder / "secret").write_text(SECRET)
        yield Site(folder, url, coordination_url, origin, box, server.port, stack.enter_context(ezid_server()))


@contextmanager
def running(gate: Gate, workers: int = 2, lease: float = 30.0, only: Sequence[str] = ()) -> Iterator[None]:
    """All of ingest's daemons, or only some consumers, in threads of this process."""
    from headgate.daemon_wiring import ingest_handlers

    handlers, stop = ingest_handlers(gate), threading.Event()
    # One state exists only in one of the queue's spellings.
    known = {(table.name, state) for table in gate.queue.tables() for state in work_states(table)}
    names = [name for name in handlers if name in (only or handlers) and CONSUMERS[name] in known]
    posts = [Post(*CONSUMERS[name], handlers[name], workers) for name in names]
    consumer = Consumers(gate.queue, with_logs(gate, posts), Pace(lease, 0.2, 10.0), stop)
    rounds = daemon_rounds(gate, ["batch-watcher", "messenger", "reaper"], 0.2)
    thread = threading.Thread(target=run_together, args=(rounds, stop), daemon=True)
    consumer.start()
    thread.start()
    try:
        yield
    finally:
        consumer.stop()
        thread.join()


def ended(gate: Gate, batch: Batch, seconds: float = 60.0) -> Batch:
    """Wait until a batch has been reported."""
    until(lambda: gate.queue.batch(batch.id).state in ("completed", "failed"), f"{batch.id} ends", seconds)
    return gate.queue.batch(batch.id)


def only_job(gate: Gate, batch: Batch) -> IngestJob:
    (job,) = gate.queue.jobs(batch=batch.id)
    return job
