"""Loading the example: submitting payloads, waiting for them, and running the pipeline on the stored objects.

Stalled work is reported within seconds, with the reason, and retried after growing pauses.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headgate import private
from headgate.cli.example.folder import ExampleFolder
from headgate.cli.ledger.definitions import define_all, read_pipeline
from headgate.core.errors import Refused, UnknownName
from headgate.core.queue.model import COMPLETED, FAILED, HELD
from headgate.service.leases.clock import steady

if TYPE_CHECKING:
    from headgate.core.queue.model import Batch, IngestJob
    from headgate.gate import Gate

WHO = "example"
#: The jobs of the pipeline, in order, with their commands.
PIPELINE = {"count": "count.sh", "longest": "longest.sh"}
#: Cleaned up after its retention, or deleted by an operator.
GONE = "gone"
ENDED = (COMPLETED, FAILED, HELD, GONE)
#: Seconds without progress until a note is printed, and until the example stops waiting.
STILL_SECONDS, PATIENCE_SECONDS = 5.0, 60.0
#: A job that cannot run is retried after a pause that doubles up to this.
LONGEST_PAUSE_SECONDS = 60.0
LOOK_SECONDS = 0.1
#: Seconds between two checks for new chunks, once the example is loaded.
PIPELINE_SECONDS = 2.0
#: The output folder of the pipeline's jobs.
LOG = "pipeline.log"


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload of the example."""

    type: str
    profile: str
    #: Its intended outcome.
    meant: str
    metadata: Mapping[str, str] = field(default_factory=dict)


PAYLOADS = {
    "harbour.checkm": Payload("batch-manifest", "harbour", COMPLETED),
    "letters.zip": Payload(
        "container", "harbour", COMPLETED, {"local_id": "letters", "erc_what": "Two letters", "erc_when": "1871"}
    ),
    "torn.checkm": Payload("object-manifest", "harbour", FAILED),
    "attic.checkm": Payload("object-manifest", "attic", HELD),
}


class Stall(NamedTuple):
    """A job that could not run."""

    why: str
    times: int
    #: On the monotonic clock.
    until: float


class Example:
    """The example on one gate."""

    def __init__(
        self, gate: Gate, folder: ExampleFolder, address: str, stop: threading.Event, say: Callable[[str], None]
    ) -> None:
        self._gate = gate
        self._say = say
        #: Why a job of the pipeline could not run, how often in a row, and when it is retried.
        self._stalls: dict[str, Stall] = {}
        self._folder = folder
        self._address = address
        self._stop = stop
        #: The batch of each payload.
        self.batches: dict[str, str] = {}
        #: The submissions of this start; users may have changed the others.
        self.new: list[str] = []

    def load(self) -> None:
        """Submit everything once; a later start changes nothing."""
        noted, tag = self._folder.remembered(), self._gate.root.tag
        if noted.get("store", tag) != tag:
            raise Refused(f"{self._folder.path} contains files of another store; remove the folder")
        self._folder.remember(store=tag)
        define_all(self._gate.ledger, read_pipeline(self._folder.path / "pipeline.toml"))
        self.batches = dict(noted.get("batches", {}))
        for name, payload in PAYLOADS.items():
            if name not in self.batches:
                self._submit(name, payload)

    def finish(self) -> None:
        """Wait until all submissions have ended, and the pipeline has nothing left to do."""
        before, since, told = self._picture(), steady(), False
        while not (self._stop.is_set() or all(self.state(name) in ENDED for name in self.batches)):
            self._stop.wait(LOOK_SECONDS)
            now = self._picture()
            if now != before:
                before, since, told = now, steady(), False
            elif steady() - since > PATIENCE_SECONDS:
                break
            elif steady() - since > STILL_SECONDS and not told:
                self._say(f"no progress for {STILL_SECONDS:g} s: {self._why_still()}")
                told = True
        self.run_pipeline()

    def go_on(self) -> None:
        """Run the pipeline on new chunks until asked to stop."""
        while not self._stop.wait(PIPELINE_SECONDS):
            self.run_pipeline()

    def run_pipeline(self) -> None:
        """Run each job on every chunk that is available."""
        for job, script in PIPELINE.items():
            stall = self._stalls.get(job)
            if self._stop.is_set() or (stall and steady() < stall.until) or not (before := self._next(job)):
                continue
            said = self._run("job", "run", job, "--loop", "--", "sh", script)
            if self._stop.is_set() or self._next(job) != before:
                self._stalls.pop(job, None)
            else:
                self._note_stall(job, said, stall)

    @property
    def stalled(self) -> list[str]:
        """Jobs of the pipeline that cannot run, each with the reason."""
        return [f"job {job} makes no progress: {stall.why}" for job, stall in self._stalls.items()]

    def _next(self, job: str) -> object:
        return self._gate.ledger.plan(job, 1).next

    def _note_stall(self, job: str, why: str, before: Stall | None) -> None:
        times = before.times + 1 if before else 1
        pause = min(PIPELINE_SECONDS * 2.0**times, LONGEST_PAUSE_SECONDS)
        self._stalls[job] = Stall(why, times, steady() + pause)
        if before is None or before.why != why:
            log = self._folder.path / LOG
            self._say(f"job {job} makes no progress: {why} (log: {log}; it is retried with growing pauses)")

    def _why_still(self) -> str:
        """The unfinished work, and the known reasons."""
        found = [alarm.what for alarm in self._gate.alarms()]
        for name, bid in self.batches.items():
            if self.state(name) not in ENDED:
                batch = self._gate.queue.batch(bid)
                items: list[Batch | IngestJob] = [
                    batch,
                    *(job for job in self._gate.queue.jobs(batch=bid) if job.state not in ENDED),
                ]
                found += [f"{item.id} ({name}) is {item.state}: {item.message}" for item in items]
        return "; ".join(dict.fromkeys(found)) or "the daemons have not reported anything"

    def _submit(self, name: str, payload: Payload) -> None:
        queue = self._gate.queue
        if payload.meant == HELD:
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

    def _run(self, *words: str) -> str:
        """Run another headgate in the example's folder with its settings, until it ends or this process is asked to
        stop.

        Returns the last line that it wrote.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        with private.opened(self._folder.path / LOG, "ab") as log:
            begin = log.tell()
            process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "headgate", *words], cwd=self._folder.path, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env={**environment, "PYTHON": sys.executable}, umask=0o077,
            )  # fmt: skip
            while process.poll() is None:
                if self._stop.wait(LOOK_SECONDS):
                    process.terminate()
                    process.wait()
            written = (self._folder.path / LOG).read_bytes()[begin:].decode(errors="replace").split("\n")
        lines = [line for line in written if line.strip()]
        return lines[-1] if lines else f"headgate {' '.join(words)} ended with exit code {process.returncode}"
