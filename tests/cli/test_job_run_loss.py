"""`job run` ends the command before its claim can belong to another worker, and then reports nothing."""

import signal
import time

import pytest

from tests.cli.commands import Headgate, process_state
from tests.cli.stubborn import Stubborn, blocked
from tests.waiting import until

LEASE = 2.0
PIPELINE = """
[dataset.raw]
[dataset.tidy]
[job.clean]
inputs = ["raw"]
outputs = ["tidy"]
"""


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "raw", "1").code == 0
    return headgate


def stubborn(pipeline: Headgate) -> Stubborn:
    return Stubborn(pipeline, "job", "run", "clean", "--lease", str(LEASE))


def again(pipeline: Headgate) -> bool:
    """Another worker gets the chunk, once the lease has expired."""
    return pipeline("job", "run", "clean", "--", "true").code == 0


def test_a_store_that_is_blocked_ends_the_whole_group_before_the_lease(pipeline: Headgate) -> None:
    command = stubborn(pipeline)
    with blocked(pipeline) as since:
        until(command.ended, "child and grandchild to end")
    code, err = command.finish()
    assert code == 76
    assert "could not be renewed in time; the command was stopped" in err
    # The last heartbeat was sent before the block, so the lease expired before this.
    assert max(command.last_alive()) < since + LEASE
    until(lambda: again(pipeline), "the chunk to run again")


def test_a_command_stopped_for_longer_than_the_lease_does_not_continue(pipeline: Headgate) -> None:
    """The next worker has had the chunk for a long time when the first wakes up: its report changes nothing."""
    command = stubborn(pipeline)
    command.runner.send_signal(signal.SIGSTOP)
    until(lambda: process_state(command.runner.pid) == "T", "headgate to stop")
    stopped = time.monotonic()
    until(command.ended, "child and grandchild to end")
    assert max(command.last_alive()) < stopped + LEASE
    until(lambda: again(pipeline), "another to do it")
    command.runner.send_signal(signal.SIGCONT)
    code, err = command.finish()
    assert code == 76, err
    (row,) = pipeline("data", "list", "--dataset", "tidy", "--kind", "OUTPUT", "--json").json["items"]
    assert (row["status"], row["attempt"]) == ("READY", 2)
