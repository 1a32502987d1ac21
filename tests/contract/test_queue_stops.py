"""A daemon that is asked to stop, on every store: its items stay in their states, and nothing is counted."""

import threading

from headgate import Gate
from headgate.daemons.lanes import Lane
from headgate.daemons.reporting import Reporter
from headgate.service.leases.clock import steady
from headgate.service.queue.outcomes import Done, Failed, Outcome
from tests.contract.queue_steps import job_in, taken_job, told


def work(gate: Gate, outcome: Outcome, stop: threading.Event, *, heard_after: float | None) -> None:
    """Process a job in processing; the daemon is asked to stop this many seconds after the handler's end."""
    sent = steady()
    job = taken_job(gate.queue, "processing")
    timer = threading.Timer(heard_after or 0, stop.set)

    def handler(*_: object) -> Outcome:
        if heard_after is not None:
            timer.start()
            if not heard_after:
                stop.wait()
        return outcome

    with gate.queue.kept(job, sent) as hold:
        Reporter(gate.queue, handler, Lane(1.0), stop).work(job, hold)
    if heard_after is not None:
        timer.join()


def test_a_step_that_fails_because_its_daemon_stops_stays_where_it_is(gate: Gate) -> None:
    job = job_in(gate.queue, "processing")
    before = [entry.event for entry in told(gate, job.id)]
    for outcome, heard_after in ((Failed("boom"), 0.0), (Failed("ended by signal 15", by_signal=True), 0.05)):
        work(gate, outcome, threading.Event(), heard_after=heard_after)
        found = gate.queue.job(job.id)
        assert (found.state, found.worker, found.retry_count, found.crashes) == ("processing", "", 0, 0)
        assert found.message == f"interrupted: its daemon was asked to stop ({outcome.message})"
    assert [entry.event for entry in told(gate, job.id)] == before
    # Work done by then counts, and a failure without a stop is a failure.
    work(gate, Failed("boom"), threading.Event(), heard_after=None)
    assert gate.queue.job(job.id).state == "failed"
    gate.queue.resume(job.id)
    work(gate, Done(), threading.Event(), heard_after=0.0)
    assert gate.queue.job(job.id).state == "recording"
