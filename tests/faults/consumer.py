"""A consumer of every state that continues while its store dies and recovers, until it is killed or asked to stop."""

import time

import headgate
from headgate import Gate, ItemLost, Refused, StoreUnavailable
from headgate.core.queue.model import FAIL_EVENT, Folder, Item, Report, forward_event, has_row, work_states
from headgate.service.queue.use_cases import Queue
from tests.faults.processes import Channel

PAUSE_SECONDS = 0.02
#: The shortest session of the tests' servers, so that items of a dead consumer are soon free.
LEASE = 1.0
#: One job in this many fails, by its number, in the last state that has a row for it.
FAILING = 7


def consume(channel: Channel, url: str, hold: float) -> None:
    """Take any item, in any state, hold it for this long, and move it on."""
    gate = open_gate(url)
    channel.send("ready")
    told_to_stop = False
    while not told_to_stop:
        try:
            worked = work(gate.queue, hold)
        except (StoreUnavailable, ItemLost, Refused):
            worked = False
        if not worked:
            time.sleep(PAUSE_SECONDS)
        told_to_stop = bool(channel.read_all()[0])
    gate.close()


def open_gate(url: str) -> Gate:
    while True:
        try:
            gate = headgate.connect(url, max_crashes="0")  # The same job may be hit by any number of kills.
            gate.queue.counts()
        except StoreUnavailable:
            time.sleep(PAUSE_SECONDS)
        else:
            return gate


def work(queue: Queue, hold: float) -> bool:
    """Process one item of each state, the last states first. False: there was none."""
    batches, jobs = queue.tables()
    found: list[Item | None] = [queue.acquire_job(state, lease=LEASE) for state in reversed(work_states(jobs))]
    if any(found):
        time.sleep(hold)
    for job in found:
        if job:
            failing = int(job.id[3:]) % FAILING == 0 and job.state == "notify" and has_row(jobs, job.state, FAIL_EVENT)
            queue.fire(job, "fail" if failing else forward_event(jobs, job.state), "by a consumer")
    queue.report_finished()
    batch = queue.acquire_batch("reporting", lease=LEASE)
    if batch:
        failed, good = (tuple(queue.job_ids(batch.id, each)) for each in (Folder.FAILED, Folder.COMPLETED))
        queue.fire(batch, forward_event(batches, batch.state), "told", report=Report(failed, good))
    return bool(batch) or any(found)
