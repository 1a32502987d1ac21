"""Work that kills its process, with real daemons: held after the third death, while everything else continues."""

import signal

import pytest

from headgate import Gate
from tests.cli.commands import Headgate
from tests.daemons.queues import bring_to, fill, opened
from tests.daemons.test_consumers import start, stop
from tests.waiting import until

KILLER = """
import os, pathlib, signal
from headgate.service.queue.outcomes import Done

def work(item, hold):
    if item.id in pathlib.Path("deadly").read_text():
        os.kill(os.getpid(), signal.SIGKILL)
    return Done()
"""
WORDS = (
    "job-processing", "batch-pending", "reaper", "--handler", "job-processing=mine:work", "--handler",
    "batch-pending=mine:work", "--lease", "1",
)  # fmt: skip


@pytest.mark.parametrize("headgate", ["sqlite", "zookeeper"], indirect=True)
def test_after_three_crashes_the_job_is_held_and_the_others_continue(headgate: Headgate) -> None:
    """A batch's manifest kills too."""
    (headgate.folder / "mine.py").write_text(KILLER)
    with opened(headgate) as gate:
        fill(gate, jobs=3)
        bring_to(gate, "processing")
        bad, *others = [job.id for job in gate.queue.jobs()]
        poison = gate.queue.submit("demo", "me", "http://example.org/poison").id
        (headgate.folder / "deadly").write_text(f"{bad} {poison}")
        kept_running(headgate, gate, bad, poison)
        assert {gate.queue.job(each).state for each in others} == {"recording"}
        job, batch = gate.queue.job(bad), gate.queue.batch(poison)
        assert (job.crashes, job.former, batch.crashes, batch.former) == (3, "processing", 3, "pending")
        assert job.message.startswith("its worker crashed 3 times while processing; ")
        assert batch.message.startswith("its worker crashed 3 times while pending; ")
        assert [entry.event for entry in gate.history(item=bad, limit=3)] == ["reap"] * 3
        assert [line.split(" ")[0] for line in gate.notices()] == [poison, bad]
        assert "3 (in processing)" in headgate("ingest", "job", bad).out
        assert f"note     {bad} is held: its worker crashed 3 times" in headgate("doctor").out
        # An operator releases it: it continues where it was, and is counted again.
        assert headgate("ingest", "release", bad, "--reason", "the limit was raised").code == 0
        again = gate.queue.job(bad)
        assert (again.state, again.crashes, again.former) == ("processing", 0, "")


def kept_running(headgate: Headgate, gate: Gate, job: str, batch: str) -> None:
    """A daemon that is restarted whenever it is dead, as by a service manager, until nothing kills it."""
    deaths, process = 0, start(headgate, *WORDS)

    def settled() -> bool:
        nonlocal process, deaths
        if process.poll() is not None:
            assert process.returncode == -signal.SIGKILL
            deaths += 1
            process = start(headgate, *WORDS)
        return (gate.queue.job(job).state, gate.queue.batch(batch).state) == ("held", "held")

    until(settled, "both to be held", 90)
    assert 3 <= deaths <= 6
    until(lambda: len(gate.queue.jobs("recording")) == 2, "the others to go on")
    stop(process)
