"""Wake-ups between processes arrive without polling, and none is lost for long when processes are killed or stopped."""

import itertools
import threading
from typing import Any

import pytest

import headgate
from tests.contract.steps import PATIENCE, granted, queue_behind
from tests.faults.conftest import FULL, Report
from tests.faults.processes import Child, Zygote, now
from tests.fresh import scheme
from tests.proxy import Proxy
from tests.shared_servers import Servers
from tests.waiting import until

R = "line:1"
#: A dead waiter that is handed the lock keeps it for this long.
LEASE = 2.0
#: By then a waiter polls even if it was not woken; on ZooKeeper a dead waiter's session has ended.
SECOND_LINE = 1.0
#: The time that a busy machine may add. A lost wake-up would take a thousand seconds.
SLACK_SECONDS = 15.0
ROUNDS = 10 if FULL else 1


class Line:
    """Processes that queue for the lock."""

    def __init__(self, processes: Zygote, gate: headgate.Gate, url: str) -> None:
        self._processes = processes
        self._gate = gate
        self._url = url
        self._numbers = itertools.count(1)

    def join(self, **how: Any) -> Child:
        """Add one more, and wait until it is in the queue."""
        client = f"process-{next(self._numbers)}"
        child = self._processes.spawn(
            "tests.faults.in_line:wait_in_line", url=self._url, resource=R, client=client, lease=LEASE, **how
        )
        child.expect("ready")
        until(lambda: client in {waiter.client for waiter in self._gate.locks.waiters(R)}, f"{client} to queue")
        return child


def test_each_release_wakes_the_next_process(store_url: str, processes: Zygote, report: Report) -> None:
    """The waiters behind the first poll only when they are woken."""
    with headgate.connect(store_url) as gate:
        line = Line(processes, gate, store_url)
        lock = gate.locks.acquire("first", R, "exclusive", lease=600)
        waiters = [line.join(), *(line.join(polls=False) for _ in range(4 if FULL else 2))]
        gate.locks.release(lock)
        held, released = [], []
        for waiter in waiters:
            held.append(waiter.expect("held")["at"])
            waiter.channel.send("go")
            released.append(waiter.expect("released")["at"])
        slowest = max(later - earlier for later, earlier in zip(held[1:], released, strict=False))
    report(store=scheme(store_url), processes=len(waiters), violations=0, slowest_wake_up=round(slowest, 3))


@pytest.mark.parametrize("breaks", ["SIGKILL", "SIGSTOP"])
def test_no_wake_up_is_lost(breaks: str, store_url: str, processes: Zygote, report: Report) -> None:
    """A releaser crashes between its commit and the wake-up; then a waiter is woken that crashed while it waited."""
    times = [_pass_on(breaks, store_url, processes) for _ in range(ROUNDS)]
    report(
        store=scheme(store_url), faults=2 * ROUNDS, hit=2 * ROUNDS, violations=0,
        worst_unheard=round(max(unheard for unheard, _ in times), 2),
        worst_broken=round(max(broken for _, broken in times), 2),
    )  # fmt: skip


def _pass_on(breaks: str, url: str, processes: Zygote) -> tuple[float, float]:
    """The seconds until the next waiter had the lock: behind a silent releaser, and behind a crashed waiter."""
    with headgate.connect(url) as gate:
        line = Line(processes, gate, url)
        lock = gate.locks.acquire("first", R, "exclusive", lease=600)
        releaser, next_one, middle, last = line.join(breaks=breaks), line.join(), line.join(), line.join()
        middle.kill() if breaks == "SIGKILL" else middle.stop()
        gate.locks.release(lock)
        releaser.expect("held")
        releaser.channel.send("go")
        passed_on = now()
        unheard = next_one.expect("held", SECOND_LINE + SLACK_SECONDS)["at"] - passed_on
        next_one.channel.send("go")
        passed_on = next_one.expect("released")["at"]
        broken = last.expect("held", LEASE + SECOND_LINE + SLACK_SECONDS)["at"] - passed_on
        last.channel.send("go")
        last.expect("released")
    processes.discard_children()
    return unheard, broken


@pytest.mark.parametrize("breaks", ["SIGKILL", "SIGSTOP"])
def test_no_news_is_lost_for_long(breaks: str, sql_url: str, processes: Zygote, report: Report) -> None:
    """A listening process crashes; then one that publishes, between its commit and its news."""
    with headgate.connect(sql_url) as gate:
        gate.ledger.define({"raw": {}, "tidy": {}}, {"clean": {"inputs": ["raw"], "outputs": ["tidy"]}})
        listener = processes.spawn("tests.faults.in_line:wait_for_chunk", url=sql_url, job="clean")
        listener.expect("listens")
        listener.kill() if breaks == "SIGKILL" else listener.stop()
        found: list[float] = []

        def wait() -> None:
            if gate.ledger.find_next("clean", wait=PATIENCE):
                found.append(now())

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        publisher = processes.spawn(
            "tests.faults.in_line:publish_unheard", url=sql_url, dataset="raw", dataid="1", breaks=breaks
        )
        committed = publisher.expect("committed")["at"]
        waiter.join(PATIENCE)
        assert found
        assert found[0] - committed < SECOND_LINE + SLACK_SECONDS
    processes.discard_children()
    report(store=scheme(sql_url), faults=2, hit=2, violations=0, worst_unheard=round(found[0] - committed, 2))


def test_waiters_poll_behind_a_pooler_of_mariadb(servers: Servers) -> None:
    """A pooler uses any free connection: a named lock there would belong to no client."""
    asked = threading.Event()

    def alter(sent: bytes) -> bytes:
        if b"connection_id() + 0" in sent:
            asked.set()
        return sent.replace(b"connection_id() + 0", b"connection_id() + 1")

    with (
        Proxy(servers.fresh("mariadb"), alter) as pooler,
        headgate.connect(pooler.url) as holder,
        headgate.connect(pooler.url) as waiter,
    ):
        lock = holder.locks.acquire("a", R, "exclusive")
        second, third = queue_behind(waiter, "b", R, "exclusive"), queue_behind(waiter, "c", R, "exclusive")
        assert asked.wait(PATIENCE)
        until(lambda: not {"headgate-bells", "headgate-ear"} & {each.name for each in threading.enumerate()}, "silence")
        holder.locks.release(lock)
        waiter.locks.release(granted(second))
        assert granted(third).client == "c"
