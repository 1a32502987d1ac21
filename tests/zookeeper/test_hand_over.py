"""Hand-over: releasing a resource grants it to the next waiter in the same change."""

import subprocess
import sys
import time
from typing import Any

import pytest

from headgate.core.filters import LockFilter
from headgate.core.locks.tickets import Ticket
from headgate.stores.zookeeper.locks.store import ZookeeperLocks
from tests.contract.steps import EXCLUSIVE, SHARED, history_of, in_thread, request_for
from tests.waiting import await_turn, until
from tests.zookeeper.conftest import OpenStore

R = "file:///d/1"

CONTENDER = """
import sys, time, headgate
url, name, rounds, log, lease = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
gate = headgate.connect(url)
print("ready", flush=True)
sys.stdin.readline()
with open(log, "a", buffering=1) as out:
    for _ in range(rounds):
        lock = gate.locks.acquire(name, "hot", "write", wait=60, lease=float(lease) if lease else None)
        out.write(f"in {name} {lock.token}\\n")
        out.write(f"out {name} {lock.token}\\n")
        gate.locks.release(lock)
gate.close()
"""


@pytest.mark.parametrize("lease", ["10", ""])
def test_four_processes_never_overlap_and_tokens_grow(
    url: str, store: ZookeeperLocks, tmp_path: Any, lease: str
) -> None:
    log, rounds = tmp_path / "log", 40
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, url, f"p{number}", str(rounds), str(log), lease],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(4)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("go\n", timeout=60)
        assert process.returncode == 0
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == 2 * 4 * rounds
    for entered, left in zip(lines[::2], lines[1::2], strict=True):
        assert (entered[0], left[0]) == ("in", "out")
        assert entered[1:] == left[1:], "two were in at once"
    tokens = [int(line[2]) for line in lines[::2]]
    assert tokens == sorted(set(tokens))
    assert store.list(LockFilter()) == []
    assert store.waiters() == []
    entries = [entry.event for entry in history_of(store, limit=10_000)]
    assert entries.count("grant") == entries.count("release") == 4 * rounds


def test_a_leased_grant_is_handed_over_by_the_release_itself(store: ZookeeperLocks, open_store: OpenStore) -> None:
    other = open_store()
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = other.queue_up(request_for("b", (R, EXCLUSIVE), lease=5))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    (held,) = store.list(LockFilter())
    assert (held.client, held.token) == ("b", lock.token + 1)
    assert store.waiters() == []
    await_turn(other, ticket, 10)
    (grant,) = other.take_turn(ticket) or ()
    assert (grant.id, grant.token, grant.since, grant.lease) == (held.id, held.token, held.since, 5.0)


def test_a_persistent_lock_is_never_granted_to_a_waiter_that_may_be_dead(
    store: ZookeeperLocks, open_store: OpenStore
) -> None:
    """It would be held forever: the waiter acquires it itself when it is woken."""
    other = open_store()
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    ticket = other.queue_up(request_for("b", (R, EXCLUSIVE)))
    assert isinstance(ticket, Ticket)
    sleeping = in_thread(lambda: await_turn(other, ticket, 30))
    store.release(lock.id, lock.token)
    assert store.list(LockFilter()) == []
    sleeping.result(timeout=5)
    assert other.take_turn(ticket)
    assert [each.client for each in store.list(LockFilter())] == ["b"]


def test_all_readers_at_the_head_of_the_queue_are_granted_together(
    store: ZookeeperLocks, open_store: OpenStore
) -> None:
    (lock,) = store.acquire(request_for("w", (R, EXCLUSIVE)))
    waiting = [open_store() for _ in range(4)]
    for number, each in enumerate(waiting):
        each.queue_up(request_for(f"r{number}", (R, SHARED), lease=5))
    waiting[0].queue_up(request_for("w2", (R, EXCLUSIVE), lease=5))
    waiting[1].queue_up(request_for("late reader", (R, SHARED), lease=5))
    store.release(lock.id, lock.token)
    assert sorted(each.client for each in store.list(LockFilter())) == ["r0", "r1", "r2", "r3"]
    assert [waiter.client for waiter in store.waiters()] == ["w2", "late reader"]


def test_a_reader_does_not_pass_a_waiting_writer_because_of_outdated_memory(
    store: ZookeeperLocks, open_store: OpenStore
) -> None:
    """A process that remembers that only readers hold the resource must not grant from that memory."""
    reader, writer = open_store(), open_store()
    store.acquire(request_for("r1", (R, SHARED), lease=5))
    (mine,) = reader.acquire(request_for("r2", (R, SHARED), lease=5))
    ticket = writer.queue_up(request_for("w", (R, EXCLUSIVE), lease=5))
    assert isinstance(ticket, Ticket)
    for each in (store, reader):
        with pytest.raises(Exception, match="w waits for exclusive"):
            each.acquire(request_for("r3", (R, SHARED), lease=5))
    reader.release(mine.id, mine.token)


def test_a_holder_that_dies_while_others_wait_is_noticed_by_the_next(
    url: str, store: ZookeeperLocks, open_store: OpenStore
) -> None:
    """The waiter watches its blocker: no process polls, and no other process needs to act."""
    doomed = open_store()
    doomed.acquire(request_for("doomed", (R, EXCLUSIVE), lease=5))
    ticket = store.queue_up(request_for("next", (R, EXCLUSIVE), lease=5))
    assert isinstance(ticket, Ticket)
    woken = in_thread(lambda: await_turn(store, ticket, 60))
    time.sleep(0.2)  # Wait until it watches; that cannot be observed from outside.
    doomed.close()
    woken.result(timeout=5)
    assert store.take_turn(ticket)
    assert [entry.event for entry in history_of(store)] == ["grant", "expire", "grant"]


def test_a_waiter_that_dies_before_it_confirms_its_grant_blocks_nobody(
    url: str, store: ZookeeperLocks, open_store: OpenStore
) -> None:
    doomed, last = open_store(), open_store()
    (lock,) = store.acquire(request_for("a", (R, EXCLUSIVE)))
    doomed.queue_up(request_for("doomed", (R, EXCLUSIVE), lease=5))
    ticket = last.queue_up(request_for("last", (R, EXCLUSIVE), lease=5))
    assert isinstance(ticket, Ticket)
    store.release(lock.id, lock.token)
    assert [each.client for each in store.list(LockFilter())] == ["doomed"]
    woken = in_thread(lambda: await_turn(last, ticket, 60))
    doomed.close()
    woken.result(timeout=10)
    until(lambda: last.take_turn(ticket), "the last one's turn")
    assert [each.client for each in store.list(LockFilter())] == ["last"]


def test_a_lock_delay_begins_when_the_death_is_noticed_and_is_kept_by_the_servers_clock(
    store: ZookeeperLocks, open_store: OpenStore
) -> None:
    doomed = open_store()
    doomed.acquire(request_for("doomed", (R, EXCLUSIVE), lease=5, lock_delay=0.6))
    doomed.close()
    began = time.monotonic()
    with pytest.raises(Exception, match="doomed"):
        store.acquire(request_for("next", (R, SHARED)))
    assert store.list(LockFilter()) == []
    ticket = store.queue_up(request_for("next", (R, EXCLUSIVE)))
    assert isinstance(ticket, Ticket)
    while not store.take_turn(ticket):
        await_turn(store, ticket, 5)
    assert 0.5 < time.monotonic() - began < 3
    events = [entry.event for entry in reversed(history_of(store))]
    assert events == ["grant", "refuse", "expire", "grant"]
