"""Lost answers, sessions and servers: no item is moved twice, partly, or by a consumer that lost it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pytest
from kazoo.client import KazooClient

import headgate
from headgate import Gate, ItemLost, StoreUnavailable
from headgate.core.queue.model import Changes, Folder, NewJob
from headgate.core.queue.model import Report as ReportOf
from headgate.service.queue.use_cases import Queue
from headgate.stores.zookeeper.queue import reports as queue_reports
from headgate.stores.zookeeper.queue.store import ZookeeperQueue
from tests.contract.queue_steps import (
    PROFILE,
    WHY,
    as_job,
    as_taken,
    batch_in,
    batch_with_jobs,
    everything,
    job_in,
    new_batch,
    retaken,
    rows_for,
    taken_batch,
    taken_job,
)
from tests.contract.steps import LONG, LONGER, PATIENCE, in_thread
from tests.proxy import MULTI, FrameProxy
from tests.servers import PrivateServer
from tests.waiting import until

T = TypeVar("T")


@pytest.fixture
def gate(url: str) -> Iterator[Gate]:
    with headgate.connect(url) as gate:
        yield gate


@contextmanager
def near_and_far(url: str, proxy: FrameProxy, folder: int) -> Iterator[tuple[Gate, Gate]]:
    """A gate on a new store, and one on the same store through the proxy, with all sessions open."""
    near = f"{url}/{folder}"
    with headgate.connect(near) as gate, headgate.connect(through(near, proxy)) as far:
        assert far.queue.acquire_job("pending", lease=LONG) is None
        assert far.queue.acquire_job("pending", lease=LONGER) is None
        yield gate, far


def through(url: str, proxy: FrameProxy) -> str:
    """The same store through the proxy."""
    return f"zookeeper://127.0.0.1:{proxy.port}/{url.split('/', 3)[3]}?patience=10"


def events(gate: Gate) -> list[str]:
    return [entry.event for entry in reversed(gate.history(limit=10_000))]


Prepare = Callable[[Queue], Any]
Act = Callable[[Queue, Any], Any]


def completed_batch(queue: Queue) -> str:
    return batch_in(queue, "completed").id


#: The preparation without losses, the operation, and the events that it adds, once.
ACTS: dict[str, tuple[Prepare, Act, list[str]]] = {
    "submit": (lambda _: None, lambda queue, _: new_batch(queue), ["submit"]),
    "take a batch": (new_batch, lambda queue, _: taken_batch(queue), []),
    "take a job": (lambda queue: job_in(queue, "pending"), lambda queue, _: taken_job(queue), []),
    "create jobs": (
        lambda queue: [new_batch(queue), taken_batch(queue)][1],
        lambda queue, batch: queue.create_jobs(batch, rows_for(3)),
        ["create"] * 3,
    ),
    "start": (
        lambda queue: [new_batch(queue), taken_batch(queue)][1], lambda queue, batch: queue.fire(batch, "start"),
        ["start"],
    ),
    "fire": (
        lambda queue: [job_in(queue, "pending"), taken_job(queue)][1],
        lambda queue, job: queue.fire(job, "accept", priority=7, space_needed=3),
        ["accept"],
    ),
    "fail": (
        lambda queue: [job_in(queue, "notify"), taken_job(queue, "notify")][1],
        lambda queue, job: queue.fire(job, "fail", WHY),
        ["fail"],
    ),
    "change": (
        lambda queue: [job_in(queue, "pending"), taken_job(queue)][1],
        lambda queue, job: queue.change(job, priority=9, space_needed=5),
        [],
    ),
    "give_back": (
        lambda queue: [job_in(queue, "pending"), taken_job(queue)][1],
        lambda queue, job: queue.give_back(job, "not now"),
        [],
    ),
    "renew for longer": (
        lambda queue: [job_in(queue, "pending"), taken_job(queue)][1],
        lambda queue, job: queue.renew(job, lease=LONGER),
        [],
    ),
    "resume": (lambda queue: job_in(queue, "failed", "recording"), lambda queue, job: queue.resume(job.id), ["resume"]),
    "release": (lambda queue: job_in(queue, "held"), lambda queue, job: queue.release(job.id), ["release"]),
    "delete a job": (
        lambda queue: job_in(queue, "held"), lambda queue, job: queue.delete(job.id, reason=WHY), ["delete"],
    ),
    "delete a batch": (
        lambda queue: batch_in(queue, "failed"), lambda queue, batch: queue.delete(batch.id, reason=WHY), ["delete"],
    ),
    "report": (lambda queue: job_in(queue, "completed"), lambda queue, _: queue.report_finished(), ["report"]),
    "clean": (completed_batch, lambda queue, _: queue.clean(0), ["clean"] * 2),
    "set a priority": (
        lambda queue: job_in(queue, "pending"), lambda queue, job: queue.set_priority(job.id, 1), ["set-priority"],
    ),
    "hold": (lambda _: None, lambda queue, _: queue.set_hold(PROFILE, reason=WHY), ["hold"]),
    "clear": (
        lambda queue: queue.set_hold(PROFILE, reason=WHY), lambda queue, _: queue.clear_hold(PROFILE), ["clear"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ACTS)
def test_a_change_whose_answer_was_lost_happens_once(url: str, proxy: FrameProxy, what: str) -> None:
    """For each multi of each operation in turn, until there is none left to lose."""
    prepare, act, added = ACTS[what]
    skip = 0
    while True:
        with near_and_far(url, proxy, skip) as (gate, far):
            prepared = prepare(far.queue)
            before = events(gate)
            proxy.lose_answer_to(MULTI, skip)
            answer = act(far.queue, prepared)
            proxy.lose_nothing()
            assert events(gate)[len(before) :] == added, skip
            assert gate.queue.faults() == []
            check(gate, what, answer)
            if not proxy.lost.is_set():
                break
            skip += 1
    assert skip, "nothing was lost at all"


def check(gate: Gate, what: str, answer: Any) -> None:
    """The answer that the caller got is true."""
    queue = gate.queue
    if what in ("take a job", "take a batch", "submit", "fire", "fail", "change"):
        found = queue.batch(answer.id) if answer.id.startswith("bid") else queue.job(answer.id)
        assert (found.state, found.token, found.worker) == (answer.state, answer.token, answer.worker)
    if what == "create jobs":
        assert answer == len(queue.jobs(state="pending")) == 3


# ---------------------------------------------------------------- sessions


def expire(gate: Gate, lease: float, url: str) -> None:
    """End the session of items taken with that lease, as the server would."""
    store = gate.store.queue
    assert isinstance(store, ZookeeperQueue)
    session = store._sessions.leasing(lease)
    thief = KazooClient(hosts=url.split("/")[2], client_id=session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


def test_a_worker_that_lost_its_session_cannot_report_and_the_job_runs_again(url: str, gate: Gate) -> None:
    with headgate.connect(url) as other:
        job_in(other.queue, "processing")
        job = taken_job(gate.queue, "processing")
        expire(gate, LONG, url)
        until(lambda: not other.queue.job(job.id).worker, "the lock to go")
        before = everything(other)
        for act in (
            lambda: gate.queue.fire(job, "finish"),
            lambda: gate.queue.renew(job),
            lambda: gate.queue.change(job, space_needed=1),
            lambda: gate.queue.give_back(job, "x"),
        ):
            with pytest.raises(ItemLost):
                act()
        assert everything(other) == before
        again = retaken(lambda: other.queue.acquire_job("processing", lease=LONG))
        assert (again.id, again.token > job.token) == (job.id, True)
        with pytest.raises(ItemLost):
            gate.queue.fire(job, "finish")
        assert other.queue.fire(again, "finish").state == "recording"


def test_a_worker_that_lost_its_session_does_not_touch_the_lock_of_another_tool(url: str, gate: Gate, raw: Any) -> None:
    """Merritt's consumers create a lock and change nothing else: the token alone would still match."""
    job_in(gate.queue, "processing")
    job = taken_job(gate.queue, "processing")
    expire(gate, LONG, url)
    lock = f"/{url.rpartition('/')[2]}/jobs/{job.id}/lock"
    until(lambda: not raw.exists(lock), "the lock to go")
    raw.create(lock, ephemeral=True)
    with pytest.raises(ItemLost):
        gate.queue.fire(job, "finish")
    assert gate.queue.job(job.id).state == "processing"
    assert raw.exists(lock)


def test_a_waiting_consumer_is_woken_when_a_dead_consumers_job_is_free(url: str, gate: Gate) -> None:
    """By a watch, long before its pause is over."""
    with headgate.connect(url) as doomed:
        job = job_in(doomed.queue, "pending")
        taken_job(doomed.queue)
        assert gate.queue.acquire_job("pending") is None
        sleeper = in_thread(lambda: gate.queue.await_work([], ["pending"], 100))
    sleeper.result(timeout=PATIENCE)
    assert retaken(lambda: gate.queue.acquire_job("pending", lease=LONG)).id == job.id


@pytest.mark.parametrize("what", ["take a job", "renew for longer"])
def test_an_item_whose_taker_never_got_the_answer_becomes_free_again(url: str, proxy: FrameProxy, what: str) -> None:
    """Its session may stay alive forever: the job must not stay with it."""
    prepare, act, _ = ACTS[what]
    with near_and_far(url, proxy, 0) as (gate, far):
        prepared = prepare(far.queue)
        object.__setattr__(far.store._sessions._servers, "patience", 0.5)  # type: ignore[attr-defined]
        proxy.lose_answer_to(MULTI)
        cutter = in_thread(proxy.cut_when_lost)
        with pytest.raises(StoreUnavailable):
            act(far.queue, prepared)
        cutter.result()
        proxy.heal()
        again = retaken(lambda: gate.queue.acquire_job("pending", lease=LONG))
        assert far.store._sessions.leasing(LONG).connected, "no session had to end for it"  # type: ignore[attr-defined]
        assert gate.queue.fire(again, "accept").state == "estimating"


# ---------------------------------------------------------------- servers


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        headgate.connect("zookeeper://127.0.0.1:1/a?patience=0.5").queue.counts()


def test_an_outage_in_the_middle_of_a_step_loses_nothing(private_server: Callable[[str], PrivateServer]) -> None:
    """Nothing is known during the outage, and nothing was lost after it."""
    server = private_server("zookeeper")
    with headgate.connect(f"{server.fresh()}?patience=0.5") as gate:
        queue = gate.queue
        job_in(queue, "pending")
        job = taken_job(queue)
        server.kill()
        for act in (
            lambda: queue.fire(job, "accept"),
            lambda: queue.acquire_job("pending"),
            lambda: queue.submit(PROFILE, "ann", "https://example.org/x"),
            queue.jobs,
            queue.faults,
        ):
            with pytest.raises(StoreUnavailable):
                act()
        server.restart()
        assert persistent(lambda: queue.fire(job, "accept")).state == "estimating"
        assert persistent(lambda: taken_job(queue, "estimating")).id == job.id
        assert queue.faults() == []


def persistent(act: Callable[[], T]) -> T:
    """The answer, once there is one: each session reconnects in its own time, and repeating does no harm."""
    found: list[T] = []

    def tried() -> bool:
        with suppress(StoreUnavailable):
            found.append(act())
        return bool(found)

    until(tried, "the server to be heard again")
    return found[0]


# ---------------------------------------------------------------- many


def test_a_portion_is_created_once_however_often_it_is_interrupted(url: str, proxy: FrameProxy) -> None:
    """Jobs with long texts, so that one portion is several multis; the answer to each is lost."""
    rows = [NewJob(f"https://example.org/{number}", settings={"note": "x" * 200_000}) for number in range(9)]
    with near_and_far(url, proxy, 0) as (gate, far):
        new_batch(far.queue)
        taken = as_taken(taken_batch(far.queue))
        proxy.lose_answer_to(MULTI, 1)
        assert far.store.queue.create_jobs(taken, 0, rows, "/work") == 9
        assert proxy.lost.is_set()
        jobs = gate.queue.jobs()
        assert [job.configuration["payload_url"][-1] for job in jobs] == [str(number) for number in range(9)]
        assert gate.queue.job_ids(taken.id, Folder.PROCESSING) == [job.id for job in jobs]
        assert gate.queue.batch(taken.id).made == 9


def test_a_report_too_large_for_one_node_is_split(
    url: str, gate: Gate, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete for every reader; the parts of an earlier report are removed, and all of them with their batch."""
    monkeypatch.setattr(queue_reports, "MOST_IDS", 3)
    queue = gate.queue
    batch = batch_in(queue, "failed")
    ids = [f"jid{number:010d}" for number in range(20)]
    own = f"/{url.rpartition('/')[2]}/headgate/queue/batches/{batch.id}"
    for count in (20, 7, 3):
        queue.update_report(batch.id)
        report = ReportOf(tuple(ids[: count // 2]), tuple(ids[count // 2 : count]))
        queue.fire(taken_batch(queue, "update-reporting"), "finish", report=report)
        kept = queue.batch(batch.id).report
        assert kept
        assert (kept.failed, kept.successful) == (report.failed, report.successful)
        assert len(raw.get_children(own)) == (count + 2) // 3 - 1
    queue.update_report(batch.id)
    queue.fire(taken_batch(queue, "update-reporting"), "finish", report=ReportOf(tuple(ids), ()))
    queue.delete(batch.id, reason=WHY)
    assert not raw.exists(own)


def test_a_priority_that_changes_while_a_job_moves_moves_with_it(url: str, gate: Gate) -> None:
    """The owner remembers the old one; its write detects the change and reads again."""
    with headgate.connect(url) as other:
        batch_with_jobs(gate.queue, 2)
        job = taken_job(gate.queue)
        other.queue.set_priority(job.id, 42)
        moved = as_job(gate.store.queue.fire(as_taken(job), "accept", "", Changes()))
        assert (moved.priority, moved.state) == (42, "estimating")
        assert other.queue.faults() == []
