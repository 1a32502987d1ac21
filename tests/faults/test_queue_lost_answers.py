"""The queue on servers, its connection cut at each message: each request is carried out once, and answered."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headgate
from headgate import Gate
from headgate.core.queue.model import Item
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.queue_steps import (
    PROFILE,
    WHY,
    batch_in,
    batch_with_jobs,
    job_in,
    new_batch,
    taken_batch,
    taken_job,
)
from tests.faults.conftest import FULL, Report
from tests.proxy import TO_CLIENT, TO_SERVER, Cut, Proxy
from tests.shared_servers import Servers

#: The preparation, and the operation during which the connection is cut.
Prepare = Callable[[Gate], Any]
Act = Callable[[Gate, Any], object]


def delete(gate: Gate, item: Item) -> object:
    return gate.queue.delete(item.id, reason=WHY).id


ACTS: dict[str, tuple[Prepare, Act, int]] = {
    "submit": (lambda _: None, lambda gate, _: new_batch(gate.queue).state, 1),
    "take a batch": (lambda gate: new_batch(gate.queue), lambda gate, _: taken_batch(gate.queue).id, 0),
    "take a job": (lambda gate: batch_with_jobs(gate.queue, 2), lambda gate, _: taken_job(gate.queue).id, 0),
    "make jobs": (
        lambda gate: (new_batch(gate.queue), taken_batch(gate.queue))[1],
        lambda gate, batch: gate.queue.create_jobs(batch, [{"payload_url": "https://example.org/1"}] * 3), 3,
    ),
    "move a job": (
        lambda gate: (job_in(gate.queue, "notify"), taken_job(gate.queue, "notify"))[1],
        lambda gate, job: gate.queue.fire(job, "finish", WHY).state, 1,
    ),
    "end a batch": (
        lambda gate: (batch_in(gate.queue, "reporting"), taken_batch(gate.queue, "reporting"))[1],
        lambda gate, batch: gate.queue.fire(batch, "finish", WHY).state, 1,
    ),
    "give_back": (
        lambda gate: (job_in(gate.queue, "pending"), taken_job(gate.queue))[1],
        lambda gate, job: gate.queue.give_back(job, WHY), 0,
    ),
    "resume": (
        lambda gate: job_in(gate.queue, "failed", "recording"),
        lambda gate, job: gate.queue.resume(job.id, reason=WHY).state, 1,
    ),
    "delete a job": (lambda gate: job_in(gate.queue, "failed"), delete, 1),
    "delete a batch": (lambda gate: batch_in(gate.queue, "failed"), delete, 1),
    "hold": (lambda _: None, lambda gate, _: gate.queue.set_hold(PROFILE, reason=WHY).reason, 1),
}  # fmt: skip


#: In the short form every other message of a few operations is cut.
SHORT = ("take a job", "move a job", "delete a batch")
STRIDE = 1 if FULL else 2


@pytest.fixture(params=["postgresql", "mariadb"])
def server_url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    url = servers.fresh(request.param)
    yield url
    servers.drop(request.param, url)


@pytest.fixture
def proxy(server_url: str) -> Iterator[Proxy]:
    proxy = Proxy(server_url)
    yield proxy
    proxy.close()


@pytest.mark.torture
@pytest.mark.timeout(300)
def test_cut_at_each_message_of_each_act(server_url: str, proxy: Proxy, report: Report) -> None:
    cuts = 0
    with headgate.connect(server_url) as direct, headgate.connect(proxy.url) as cut_off:
        for name in ACTS if FULL else SHORT:
            clear(direct)
            expected = ACTS[name][1](direct, ACTS[name][0](direct))
            for direction in (TO_SERVER, TO_CLIENT):
                number = 1
                while cut_once(direct, cut_off, proxy, name, Cut(direction, number), expected):
                    cuts, number = cuts + 1, number + STRIDE
        assert direct.queue.faults() == []
    report(store=server_url.partition(":")[0], cuts=cuts)
    assert cuts > len(SHORT), "the cuts hit nothing"


def cut_once(direct: Gate, cut_off: Gate, proxy: Proxy, name: str, cut: Cut, expected: object) -> bool:
    """One operation with one cut. False when it was over before the cut."""
    prepare, act, entries = ACTS[name]
    clear(direct)
    ready = prepare(direct)
    before = told(direct)
    cut_off.queue.holds()  # A connection is open already.
    proxy.arm(cut)
    answer = act(cut_off, ready)
    fired = proxy.fired.is_set()
    proxy.disarm()
    assert str(answer)[:3] == str(expected)[:3], (name, cut)
    assert told(direct) == before + entries, (name, cut)
    assert name != "take a job" or [job.worker for job in direct.queue.jobs()].count("") == 1, (name, cut)
    return fired


def told(gate: Gate) -> int:
    return len(gate.history(limit=100_000))


def clear(gate: Gate) -> None:
    """Leave nothing for the next operation to find."""
    database: Any = gate.store
    for table in ("hg_batch", "hg_ingest_job", "hg_hold"):
        database._database.write(lambda tx: tx.run(Statement("Empty it.", f"delete from {table}")))  # noqa: B023, S608
