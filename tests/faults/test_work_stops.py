"""Two resident `headgate work` are killed, stopped and interrupted: each chunk is made once, and no attempt is lost to
a signal that can be caught.

The witness is a file to which each command appends a line when it starts and when it ends, with its token: it is
independent of the store. The store's record of each chunk is compared with it.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from headgate.core.ledger.model import CLAIM_EVENT, FAIL_EVENT, INTERRUPT_EVENT, REAP_EVENT, RUNNING, SUCCESS_EVENT
from tests.cli.commands import PROGRAM, Headgate
from tests.faults.conftest import FULL, Report
from tests.fresh import scheme
from tests.waiting import until

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1800 if FULL else 120)]
CHUNKS, ACTS, WORKERS = (1000, 100, 2) if FULL else (48, 8, 2)
#: Short, so that killed chunks are soon made again; a command ends long before.
LEASE, GRACE = 2.0, 0.5
PATIENCE = 1500.0 if FULL else 100.0
PIPELINE = """
dataset = {{ raw = {{}}, tidy = {{}} }}
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
workers = {workers}
max_attempts = 1
max_crashes = 0
max_interruptions = 0
command = '''
echo "start $HEADGATE_DATAID $HEADGATE_TOKEN" >>witness
sleep 0.$(($HEADGATE_TOKEN % 5 + 4))
echo "end $HEADGATE_DATAID $HEADGATE_TOKEN" >>witness
'''
"""
CATCHABLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Resident:
    """The worker, in its own process group, restarted when it ends."""

    def __init__(self, command: Headgate, name: str, seed: int) -> None:
        self._command = command
        #: The prefix by which its claims are recognised.
        self.name = name
        self._chance = random.Random(seed)
        self.acts: Counter[str] = Counter()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        times = ["--lease", f"{LEASE:g}", "--grace", f"{GRACE:g}"]
        words = [str(PROGRAM), "work", "--forever", "-q", "--worker", self.name, *times]
        return subprocess.Popen(
            words, cwd=self._command.folder, env=self._command.environment(), start_new_session=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def disturb(self) -> None:
        """One act, chosen at random with equal frequency."""
        kinds = (self._interrupt, self._kill, self._kill_all, self._stop)
        act = kinds[sum(self.acts.values()) % len(kinds)]
        act()
        self.acts[act.__name__] += 1

    def end(self) -> int:
        """Stop it, and return its exit code."""
        self._process.terminate()
        return self._process.wait(PATIENCE)

    def discard(self) -> None:
        """Kill whatever is left of it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _interrupt(self) -> None:
        """It exits on its own, within its promised time; one that has only just started, at once."""
        number = self._chance.choice(CATCHABLE)
        self._process.send_signal(number)
        assert self._process.wait(60) in (128 + number, -number)
        self._process = self._start()

    def _kill(self) -> None:
        """Kill the parent only: its children continue, beside the next one."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def _kill_all(self) -> None:
        """Kill it with all of its children."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = self._start()

    def _stop(self) -> None:
        """Stop all of it, every other time for longer than a lease."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        time.sleep(LEASE * self._chance.choice((0.3, 1.5)))
        os.killpg(self._process.pid, signal.SIGCONT)


@pytest.fixture
def command(sql_url: str, tmp_path: Path) -> Headgate:
    return Headgate(sql_url, tmp_path)


def test_each_chunk_is_made_once_by_a_resident_worker(command: Headgate, report: Report) -> None:
    seed = time.time_ns() % 2**32
    (command.folder / "pipeline.toml").write_text(PIPELINE.format(workers=WORKERS))
    witness = command.folder / "witness"
    witness.touch()
    with headgate.connect(command.url) as gate:
        assert command("define", "pipeline.toml").code == 0
        gate.ledger.publish("raw", [str(number) for number in range(CHUNKS)])
        residents = [Resident(command, f"resident {number}", seed + number) for number in range(2)]
        try:
            for number in range(ACTS):
                due = CHUNKS * number * 9 // ACTS // 10
                until(lambda due=due: _ends(witness) >= due, f"{due} chunks", PATIENCE)  # type: ignore[misc]
                resident = residents[number % 2]
                until(lambda name=resident.name: works_or_ended(gate, name), "it to work", PATIENCE)  # type: ignore[misc]
                resident.disturb()
            until(lambda: len(gate.ledger.status("tidy", status="READY")) == CHUNKS, "every chunk", PATIENCE)
            assert [each.end() for each in residents] == [128 + signal.SIGTERM] * 2
        finally:
            for each in residents:
                each.discard()
        lines = witness.read_text().splitlines()
        told = histories(gate)
        wrong = [*untrue(gate, told), *unwitnessed(gate, lines)]
    hit = sum(count[INTERRUPT_EVENT] + count[REAP_EVENT] for count in told.values())
    claims = sum(count[CLAIM_EVENT] for count in told.values())
    report(
        store=scheme(command.url), chunks=CHUNKS, faults=ACTS, hit=hit, calls=claims,
        violations=len(wrong), seed=seed,
    )  # fmt: skip
    assert wrong == [], f"seed {seed}"
    assert sum(count[INTERRUPT_EVENT] for count in told.values()) >= ACTS // 8
    assert sum(count[REAP_EVENT] for count in told.values()) >= ACTS // 8


def works_or_ended(gate: Gate, name: str) -> bool:
    """Whether a worker has a chunk, or there is none left."""
    running = gate.ledger.status("tidy", status=RUNNING)
    return any(row.worker == name and row.alive for row in running) or not gate.ledger.left("clean")


def _ends(witness: Path) -> int:
    return witness.read_bytes().count(b"end ")


def histories(gate: Gate) -> dict[str, Counter[str]]:
    """How often each event happened to each chunk."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    after = None
    while True:
        page = gate.history(job="clean", noun="chunk", limit=1000, after=after)
        for entry in page:
            found[entry.resource.rpartition("/")[2]][entry.event] += 1
        if page.next is None:
            return found
        after = page.next


def untrue(gate: Gate, told: dict[str, Counter[str]]) -> Iterator[str]:
    """READY exactly once, never failed; each other claim was interrupted, or its worker died."""
    for row in gate.ledger.status("tidy", job="clean", kind="OUTPUT"):
        count = told[row.dataid]
        claims, lost, stopped = count[CLAIM_EVENT], count[REAP_EVENT], count[INTERRUPT_EVENT]
        if (row.status, count[SUCCESS_EVENT], count[FAIL_EVENT], row.failures) != ("READY", 1, 0, 0):
            yield f"{row.dataid} is {row.status}: {count}"
        if claims != 1 + lost + stopped:
            yield f"{row.dataid} was claimed {claims} times: {count}"
        if row.attempt != claims - stopped:
            yield f"{row.dataid} counts {row.attempt} attempts, an interruption among them: {count}"


def unwitnessed(gate: Gate, lines: Sequence[str]) -> Iterator[str]:
    """The run that counts finished, and no other process worked on the chunk meanwhile or later."""
    runs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in lines:
        word, dataid, token = line.split()
        runs[dataid].append((word, token))
    for row in gate.ledger.status("tidy", job="clean", kind="OUTPUT"):
        token, seen = str(row.token), runs[row.dataid]
        if seen[-2:] != [("start", token), ("end", token)]:
            yield f"{row.dataid} is READY with token {token}, and ran so: {seen}"
        starts = [each for word, each in seen if word == "start"]
        if len(starts) != len(set(starts)):
            yield f"{row.dataid} was run twice with one token: {seen}"
        for first, second in pairwise(seen):
            if second[0] == "end" and second[1] != first[1]:
                yield f"{row.dataid} was run by two at once: {seen}"
