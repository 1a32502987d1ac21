"""What the example does: hands payloads in, waits for them, runs the pipeline on what was stored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate import private
from headgate.cli.definitions import define_all, read_pipeline
from headgate.cli.example.folder import ExampleFolder
from headgate.core.errors import Refused, UnknownName
from headgate.service.clock import steady

if TYPE_CHECKING:
    from headgate.wiring import Gate

WHO = "example"
#: The jobs of the pipeline, in order, with what each runs.
PIPELINE = {"count": "count.sh", "longest": "longest.sh"}
#: Cleaned up after its retention, or given up by a person.
GONE = "gone"
ENDED = ("completed", "failed", "held", GONE)
#: It is told to be stuck when nothing has moved for so long.
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.1
#: New chunks are looked for so often, once the example is loaded.
PIPELINE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Payload:
    """Something that is handed in."""

    type: str
    profile: str
    #: How it is meant to end.
    meant: str
    metadata: Mapping[str, str] = field(default_factory=dict)


PAYLOADS = {
    "harbour.checkm": Payload("batch-manifest", "harbour", "completed"),
    "letters.zip": Payload(
        "container", "harbour", "completed", {"local_id": "letters", "erc_what": "Two letters", "erc_when": "1871"}
    ),
    "torn.checkm": Payload("object-manifest", "harbour", "failed"),
    "attic.checkm": Payload("object-manifest", "attic", "held"),
}


class Example:
    """The example on one gate."""

    def __init__(self, gate: Gate, folder: ExampleFolder, address: str, stop: threading.Event) -> None:
        self._gate = gate
        self._folder = folder
        self._address = address
        self._stop = stop
        #: The batch of each payload.
        self.batches: dict[str, str] = {}
        #: What was handed in by this start; the others are as people have left them.
        self.new: list[str] = []

    def load(self) -> None:
        """Everything, once: a start that finds it done changes nothing."""
        noted, tag = self._folder.remembered(), self._gate.store.tag
        if noted.get("store", tag) != tag:
            raise Refused(f"{self._folder.path} holds files of another store than the one in it; remove the folder")
        self._folder.remember(store=tag)
        list(define_all(self._gate.ledger, read_pipeline(self._folder.path / "pipeline.toml")))
        self.batches = dict(noted.get("batches", {}))
        for name, payload in PAYLOADS.items():
            if name not in self.batches:
                self._submit(name, payload)

    def finish(self) -> None:
        """Wait until all that was handed in has ended, and the pipeline has nothing left to do."""
        before, since = self._picture(), steady()
        while not (self._stop.is_set() or all(self.state(name) in ENDED for name in self.batches)):
            self._stop.wait(LOOK_SECONDS)
            now = self._picture()
            if now != before:
                before, since = now, steady()
            elif steady() - since > PATIENCE_SECONDS:
                break
        self.run_pipeline()

    def go_on(self) -> None:
        """Run the pipeline on whatever comes, until told to stop."""
        while not self._stop.wait(PIPELINE_SECONDS):
            self.run_pipeline()

    def run_pipeline(self) -> None:
        """Each job on every chunk that it may work on."""
        for job, script in PIPELINE.items():
            if not self._stop.is_set() and self._gate.ledger.plan(job, 1).next:
                self._run("job", "run", job, "--loop", "--keep-stderr", "--", "sh", script)

    def _submit(self, name: str, payload: Payload) -> None:
        queue = self._gate.queue
        if payload.meant == "held":
            queue.set_hold(payload.profile, reason="the attic is being listed", by=WHO)
        batch = queue.submit(
            payload.profile, WHO, f"{self._address}/{name}", type=payload.type, request_id=f"example-{name}",
            **payload.metadata,
        )  # fmt: skip
        self.batches[name] = batch.id
        self.new.append(name)
        self._folder.remember(batches=self.batches)

    def state(self, name: str) -> str:
        """The state of a payload's batch."""
        try:
            return self._gate.queue.batch(self.batches[name]).state
        except UnknownName:
            return GONE

    def _picture(self) -> object:
        return [self.state(name) for name in self.batches], self._gate.queue.counts()

    def _run(self, *words: str) -> None:
        """Another headgate, in the example's folder and with its settings; told to end when we are."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        with private.opened(self._folder.path / "pipeline.log", "ab") as log:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "headgate", *words], cwd=self._folder.path, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env={**environment, "PYTHON": sys.executable}, umask=0o077,
            )  # fmt: skip
            while process.poll() is None:
                if self._stop.wait(LOOK_SECONDS):
                    process.terminate()
                    process.wait()
