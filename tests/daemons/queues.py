"""A queue with some content, and its events."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headgate import Gate, connect
from headgate.core.queue.model import NewJob
from tests.cli.commands import Headgate

#: All states that a job passes through, in order, each with a consumer of that name.
STEPS = ("pending", "estimating", "provisioning", "downloading", "processing", "recording", "notify")


@contextmanager
def opened(command: Headgate) -> Iterator[Gate]:
    with connect(command.url) as gate:
        yield gate


def fill(gate: Gate, jobs: int = 1, profile: str = "demo") -> str:
    """Create a batch with this many pending jobs. Returns its id."""
    batch = gate.queue.submit(profile, "me", "http://example.org/payload")
    taken = gate.queue.acquire_batch("pending")
    assert taken is not None
    assert taken.id == batch.id
    gate.queue.create_jobs(taken, [NewJob(f"http://example.org/{number}") for number in range(jobs)])
    gate.queue.fire(taken, "start")
    return batch.id


def bring_to(gate: Gate, state: str) -> None:
    """Move all pending jobs on to that state."""
    for step in STEPS[: STEPS.index(state)]:
        while (job := gate.queue.acquire_job(step)) is not None:
            gate.queue.fire(job, "accept" if step == "pending" else "finish")


def states(gate: Gate) -> dict[str, str]:
    return {job.id: job.state for job in gate.queue.jobs()}


def counts(gate: Gate) -> Counter[str]:
    return Counter(states(gate).values())


def ended(gate: Gate) -> int:
    """Completed jobs; the cleaner has processed some of them."""
    found = counts(gate)
    return found["completed"] + found["cleaned"]


def moves(gate: Gate, item: str, event: str = "finish") -> list[tuple[str, str]]:
    """The transitions of an item in the history, oldest first."""
    return [(each.before, each.after) for each in reversed(gate.history(item=item, event=event, limit=1000))]


def commands(**by_step: str) -> list[str]:
    """The arguments for consumers of these states: a command for each (_ for -)."""
    return [word for step, text in by_step.items() for word in ("--exec", f"job-{step}={text}")]


def everything(text: str) -> list[str]:
    """The arguments for consumers of every state of a job, all with the same command."""
    return commands(**dict.fromkeys(STEPS, text))
