"""History moves from ZooKeeper to a database: readable at any time, whichever process dies, with several movers."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headgate import Gate, LockLost, LockRefused
from headgate.core.history import Entry
from headgate.core.queue.model import NewJob
from headgate.service.history import History
from headgate.stores.zookeeper.history.folders import HistoryFolders
from tests.conftest import SQL_STORES, fresh_store
from tests.faults.conftest import Report
from tests.faults.mover import KEPT_FOLDERS, joined, move_all, shrink
from tests.faults.processes import Zygote
from tests.shared_servers import Servers

RESOURCES = ("file:///a", "file:///b", "file:///Ä b")
CLIENTS = ("ann", "bob")
ALL = 100_000


class Place(NamedTuple):
    """Where it is kept."""

    url: str
    coordination_url: str


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    shrink(monkeypatch.setattr)
    coordination_url = servers.fresh("zookeeper")
    for url in fresh_store(request.param, servers, tmp_path):
        yield Place(url, coordination_url)
    servers.drop("zookeeper", coordination_url)


@pytest.fixture
def gate(place: Place) -> Iterator[Gate]:
    with joined(*place) as gate:
        yield gate


def live(gate: Gate) -> tuple[str, int]:
    """Create an entry of every kind, in many folders. Returns a lock that was broken."""
    for number in range(8):
        for resource in RESOURCES:
            lock = gate.locks.acquire(CLIENTS[number % 2], resource, "write")
            if number % 3 == 0:
                with pytest.raises(LockRefused):
                    gate.locks.acquire("carl", resource, "read")
            gate.locks.release(lock)
    broken = gate.locks.acquire("ann", RESOURCES[0], "write")
    gate.locks.break_lock(broken.id, reason="it hängt")
    gate.queue.set_hold("other", reason="wait")
    for _ in range(2):
        gate.queue.submit("demo", "me", "http://example.org/payload")
        taken = gate.queue.acquire_batch("pending")
        assert taken is not None
        gate.queue.create_jobs(taken, [NewJob(f"http://example.org/{number}") for number in range(4)])
        gate.queue.fire(taken, "start")
    while (job := gate.queue.acquire_job("pending")) is not None:
        gate.queue.fire(job, "accept")
    return broken.id, broken.token


def pages(ask: History, **which: Any) -> list[Entry]:
    """All of it, in pages of four."""
    page = ask(**which, limit=4)
    found = list(page)
    while page.next is not None:
        page = ask(**which, limit=4, after=page.next)
        found += page
    return found


def everything(gate: Gate, since: datetime) -> dict[str, Sequence[Entry]]:
    """The result of each filter."""
    ask = gate.history
    items = [batch.id for batch in gate.queue.batches()] + [job.id for job in gate.queue.jobs()]
    lock_ids = sorted({entry.lock_id for entry in ask(noun="lock", limit=ALL)})
    return {
        "all": ask(limit=ALL),
        "newest": ask(limit=7),
        "since": ask(since=since, limit=ALL),
        **{f"resource {each}": ask(resource=each, limit=ALL) for each in RESOURCES},
        **{f"pages of {each}": pages(ask, resource=each) for each in RESOURCES},
        **{f"client {each}": ask(client=each, limit=ALL) for each in (*CLIENTS, "carl")},
        **{f"event {each}": ask(event=each, limit=ALL) for each in ("grant", "release", "refuse", "break")},
        **{f"lock {each}": ask(lock_id=each) for each in lock_ids},
        "all of them": ask(resource=RESOURCES[0], client="ann", event="grant", since=since, limit=2),
        **{f"item {each}": ask(item=each, limit=ALL) for each in items},
        **{f"pages of {each}": pages(ask, item=each) for each in items},
        "events of an item": ask(item=items[0], event="create"),
        "an item since": ask(item=items[0], since=since, limit=ALL),
    }


def books(gate: Gate) -> list[HistoryFolders]:
    """The folders of the history."""
    return [source._folders for source in gate.store.history_sources()]  # type: ignore[attr-defined]


def in_zookeeper(gate: Gate) -> list[int]:
    """The number of entries of each that still exist."""
    return [sum(1 for folder in book.folders() for _ in book.nodes(folder, lambda *_: True)) for book in books(gate)]


@pytest.mark.parametrize("place", SQL_STORES, indirect=True)
def test_moved_history_is_reported_as_before(gate: Gate, place: Place) -> None:
    broken = live(gate)
    since = gate.history(limit=20)[-1].at
    before, there = everything(gate, since), in_zookeeper(gate)
    moved, left = move_all(gate), in_zookeeper(gate)
    assert moved == sum(there) - sum(left)
    assert all(now < then for now, then in zip(left, there, strict=True))
    assert [len(book.folders()) for book in books(gate)] == [KEPT_FOLDERS]
    assert everything(gate, since) == before
    with pytest.raises(LockLost, match=r"broken .* UTC: .*it hängt"):
        gate.locks.release(*broken)
    with joined(*place) as another:
        assert everything(another, since) == before
        assert in_zookeeper(another) == left
        assert [len(book.folders()) for book in books(another)] == [KEPT_FOLDERS]
        live(another)
    after = gate.history(limit=ALL)
    assert list(after[-len(before["all"]) :]) == list(before["all"])
    assert [entry.id for entry in after] == sorted({entry.id for entry in after}, reverse=True)
    assert move_all(gate) > 0
    assert gate.history(limit=ALL) == after


def test_killed_at_any_step(gate: Gate, place: Place, processes: Zygote, report: Report) -> None:
    """Kill -9 before each request and each write, and between requests that are sent together."""
    live(gate)
    since = datetime.now(UTC)
    before, there = everything(gate, since), sum(in_zookeeper(gate))
    step, answer = 0, None
    while answer is None:
        child = processes.spawn("tests.faults.mover:move_and_die", **place._asdict(), step=step)
        answer = child.channel.receive()
        child.wait()
        assert answer is None or answer["kind"] == "done", answer
        assert gate.history(limit=ALL) == before["all"], step
        assert gate.history(item="bid0000000001", limit=ALL) == before["item bid0000000001"], step
        step += 1
    assert everything(gate, since) == before
    assert sum(in_zookeeper(gate)) < there
    assert step > 10
    report(kills=step - 1)


def test_two_movers_while_others_write_and_read(gate: Gate, place: Place, processes: Zygote, report: Report) -> None:
    movers = [processes.spawn("tests.faults.mover:keep_moving", **place._asdict()) for _ in range(2)]
    for mover in movers:
        mover.expect("ready")
    seen: set[int] = set()
    for number in range(60):
        resource = RESOURCES[number % 2]
        gate.locks.release(gate.locks.acquire("ann", resource, "write"))
        if number % 3 == 0:
            found = [entry.id for entry in pages(gate.history, resource=RESOURCES[0])]
            assert found == sorted(set(found), reverse=True)
            assert seen <= set(found)
            seen = set(found)
    for mover in movers:
        mover.channel.send("stop")
    moved = [mover.expect("done")["moved"] for mover in movers]
    assert sum(moved) > 0
    for resource in RESOURCES[:2]:
        told = gate.history(resource=resource, limit=ALL)
        assert [entry.event for entry in reversed(told)] == ["grant", "release"] * 30
        assert [entry.token for entry in reversed(told)] == [1 + place // 2 for place in range(60)]
    report(moved_by_each=moved)
