"""Waiting requests hold no thread: with many of them (a thousand in `make torture`) the service still answers."""

import asyncio
import json
import math
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path

import httpx2
import pytest
from starlette.concurrency import run_in_threadpool

import headgate
from headgate import Gate
from headgate.calls.actor import acting
from headgate.core.access.owners import Actor
from headgate.core.locks.tickets import Ticket
from headgate.http import service as service_file
from headgate.http.port.server import Server
from headgate.http.service import THREADS, Service
from headgate.http.waiters.crew import Crew
from headgate.http.waiters.following import newer, newest
from headgate.http.waiters.waiting import GROUPS_AT_FULL_PACE, Group, Turns
from headgate.service.upkeep import Upkeep
from tests.faults.conftest import FULL
from tests.http.conftest import Bounded, Tokens
from tests.waiting import until

MANY = 1000 if FULL else 200
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PATIENCE = 60.0


async def wait_for_lock(server: Server, token: str, number: int) -> Connection:
    """Send a request that waits; it is on its way when this returns."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({"client": f"waiter {number}", "resource": f"busy:{number % 10}", "wait": PATIENCE}).encode()
    head = f"POST /v1/locks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


def threads_of(server: Server) -> list[threading.Thread]:
    """Threads of this service only: another service of this process, from an earlier test, may have its own."""
    loop = server.service._loop
    return [each for each in threading.enumerate() if loop is not None and getattr(each, "loop", None) is loop]


@pytest.mark.timeout(240)
def test_many_wait_and_others_are_answered(gate: Gate, server: Server, admin: httpx2.Client) -> None:
    token = gate.tokens.new("waiters", ["lock:acquire"]).token
    with acting(Actor("a test")):  # The principal of `admin`.
        held = [gate.locks.acquire("holder", f"busy:{number}", "exclusive") for number in range(10)]

    async def crowd() -> list[int]:
        open_ones = [await wait_for_lock(server, token, number) for number in range(MANY)]
        deadline = time.monotonic() + PATIENCE
        while server.service.turns.waiting < MANY:
            assert time.monotonic() < deadline, f"only {server.service.turns.waiting} wait"
            await asyncio.sleep(0.05)
        answers = [(await asyncio.to_thread(admin.get, "/v1/status")).status_code for _ in range(20)]
        assert 0 < len(threads_of(server)) <= THREADS + 1  # One more keeps the queue positions.
        for lock in held:
            await asyncio.to_thread(admin.delete, f"/v1/locks/{lock.id}", params={"token": lock.token})
        first = [asyncio.create_task(reader.readline()) for reader, _writer in open_ones]
        done, left = await asyncio.wait(first, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert any(b"201" in task.result() for task in done)
        for task in left:
            task.cancel()
        for _reader, writer in open_ones:
            writer.close()
        return answers

    assert asyncio.run(crowd()) == [200] * 20


def test_a_caller_that_hangs_up_leaves_the_queue(gate: Gate, server: Server, with_scopes: Tokens) -> None:
    lock = gate.locks.acquire("holder", "left:1", "exclusive")
    client = with_scopes("lock:acquire")
    with pytest.raises(httpx2.ReadTimeout):
        client.post("/v1/locks", json={"client": "w", "resource": "left:1", "wait": 60}, timeout=1)
    deadline = time.monotonic() + PATIENCE
    while gate.locks.waiters("left:1"):
        assert time.monotonic() < deadline, "it still stands in the queue"
        time.sleep(0.02)
    gate.locks.release(lock)
    assert not gate.locks.list(resource="left:1")


@contextmanager
def asking(server: Server, token: str, path: str, body: Mapping[str, object], key: str = "") -> Iterator[socket.socket]:
    """A client that has sent a request, and disconnects at the end of the block."""
    host, port = server.url.removeprefix("http://").split(":")
    sent = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    head += (f"Headgate-Request: {key}\r\n" if key else "") + f"Content-Length: {len(sent)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + sent)
        yield connection


def waiting(server: Server, count: int) -> None:
    until(lambda: server.service.turns.waiting == count, f"{count} to wait")


def test_a_caller_that_hangs_up_while_it_is_granted_releases_the_lock(bounded: Callable[..., Bounded]) -> None:
    service = bounded()
    crew, loop = service.server.service.crew, service.server.service._loop
    assert loop
    token = service.gate.tokens.new("hasty", ["lock:acquire"]).token
    busy, go_on = threading.Barrier(crew.threads + 1), threading.Event()

    def keep_busy() -> bool:
        busy.wait(PATIENCE)
        return go_on.wait(PATIENCE)

    blocked = [asyncio.run_coroutine_threadsafe(crew.run(keep_busy), loop) for _ in range(crew.threads)]
    busy.wait(PATIENCE)
    with asking(service.server, token, "/v1/locks", {"client": "w", "resource": "free:1", "wait": 60}):
        until(lambda: not crew._waiting.empty(), "the request to stand in line")
    with service.client() as other:
        for _ in range(5):  # Meanwhile the service notices the disconnect.
            assert other.get("/healthz").status_code == 200
    go_on.set()
    for each in blocked:
        each.result(PATIENCE)
    until(lambda: [each.event for each in service.gate.history("free:1")] == ["release", "grant"], "it to be back")
    assert not service.gate.locks.list(resource="free:1")


def test_a_repeated_request_keeps_its_queue_position_when_the_first_connection_ends(
    bounded: Callable[..., Bounded],
) -> None:
    service = bounded()
    held = service.gate.locks.acquire("holder", "r", "exclusive")
    token, path = service.gate.tokens.new("waiters", ["lock:acquire"]).token, "/v1/locks"
    first, later = ({"client": name, "resource": "r", "wait": PATIENCE} for name in ("first", "later"))
    with asking(service.server, token, path, first, "k") as cut_off:
        waiting(service.server, 1)
        with asking(service.server, token, path, later), asking(service.server, token, path, first, "k") as again:
            waiting(service.server, 3)
            assert [each.client for each in service.gate.locks.waiters("r")] == ["first", "later"]
            cut_off.close()
            waiting(service.server, 2)
            assert [each.client for each in service.gate.locks.waiters("r")] == ["first", "later"]
            assert len(service.server.service.turns.tickets) == 2
            service.gate.locks.release(held)
            assert b" 201 " in again.recv(65536)
            assert [each.client for each in service.gate.locks.list("r")] == ["first"]


def test_queue_positions_are_kept_while_all_threads_are_busy(
    bounded: Callable[..., Bounded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_file, "SIGN_OF_LIFE_SECONDS", 0.05)
    service = bounded()
    service.gate.locks.acquire("holder", "r", "exclusive")
    token, loop, go_on = service.gate.tokens.new("w", ["admin"]).token, service.server.service._loop, threading.Event()
    assert loop
    wanted = {"client": "w", "resource": "r", "wait": PATIENCE}

    def last_alive() -> int:
        """The waiter that does not poll itself, since it is not the first."""
        with closing(sqlite3.connect(service.gate.settings["url"][10:])) as store:
            return int(store.execute("select alive_until from hg_ticket order by number desc").fetchone()[0])

    with asking(service.server, token, "/v1/locks", wanted), asking(service.server, token, "/v1/locks", wanted):
        waiting(service.server, 2)
        busy = [asyncio.run_coroutine_threadsafe(run_in_threadpool(go_on.wait), loop) for _ in range(THREADS + 1)]
        try:
            until(lambda: len(threads_of(service.server)) >= THREADS, "all to be busy")
            before = last_alive()
            until(lambda: last_alive() > before, "a sign of life")
        finally:
            go_on.set()
        assert all(each.result(PATIENCE) for each in busy)


def test_queue_positions_are_kept_after_any_error(
    bounded: Callable[..., Bounded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_file, "SIGN_OF_LIFE_SECONDS", 0.05)
    kept, errors = threading.Event(), [RuntimeError("can't start new thread"), KeyError("a bug")]
    keep = Upkeep.sign_of_life

    def sign_of_life(upkeep: Upkeep, tickets: Sequence[Ticket]) -> None:
        if errors:
            raise errors.pop()
        keep(upkeep, tickets)
        kept.set()

    monkeypatch.setattr(Upkeep, "sign_of_life", sign_of_life)
    bounded()
    assert kept.wait(PATIENCE)
    assert not errors


def test_with_many_groups_each_polls_less_often_but_not_after_the_end_of_a_lease() -> None:
    turns = Turns(1, Crew(1))
    turns._groups = {(str(number),): Group() for number in range(10 * GROUPS_AT_FULL_PACE)}
    assert [turns._paced(pause) for pause in (0.001, 1.0, 5.0, 60.0, math.inf)] == [0.01, 10.0, 10.0, 60.0, math.inf]
    turns._groups.clear()
    assert [turns._paced(pause) for pause in (0.001, 1.0, 60.0)] == [0.001, 1.0, 60.0]


def test_a_consumer_with_a_cursor_does_not_block_one_that_takes_any_batch(bounded: Callable[..., Bounded]) -> None:
    service = bounded()
    token, path = service.gate.tokens.new("consumers", ["queue:work"]).token, "/v1/batches/next?state=pending"
    picky = {"wait": 60 * PATIENCE, "after": "bid9999999999"}
    with asking(service.server, token, path, picky), service.client() as admin:
        waiting(service.server, 1)
        with asking(service.server, token, path, {"wait": PATIENCE}) as other:
            waiting(service.server, 2)
            sent = {"profile": "p", "submitter": "s", "payload_url": "https://example.org/x"}
            made = admin.post("/v1/batches", json=sent).json()["id"]
            answer = HTTPResponse(other)
            answer.begin()
            assert json.loads(answer.read())["id"] == made


def test_a_repeat_after_a_lost_answer_does_not_queue_behind_waiters(bounded: Callable[..., Bounded]) -> None:
    service = bounded()
    service.gate.ledger.define_dataset("raw")
    service.gate.ledger.define_job("read", inputs=["raw"])
    service.gate.ledger.publish("raw", "1")
    token, path = service.gate.tokens.new("workers", ["chunk:claim:read"]).token, "/v1/jobs/read/next"
    with service.client() as admin:
        claim = admin.post(path, json={}, headers={"Headgate-Request": "k"}).json()
        with asking(service.server, token, path, {"wait": PATIENCE}):
            waiting(service.server, 1)
            again = admin.post(path, json={"wait": PATIENCE / 2}, headers={"Headgate-Request": "k"})
    assert (again.status_code, again.json()["token"]) == (200, claim["token"])


def test_a_holder_that_waits_to_reenter_its_lock_does_not_queue_behind_others(bounded: Callable[..., Bounded]) -> None:
    """The writer before it waits for its lock to end: both would wait until they time out."""
    service = bounded()
    token, gate, path = service.gate.tokens.new("clients", ["lock:acquire"]).token, service.gate, "/v1/locks"
    reader = gate.locks.acquire("reader", "r", "shared")
    own = {"client": "own", "resource": "r", "reentrant": True}
    with service.client() as admin:
        admin.headers["Authorization"] = f"Bearer {token}"
        assert admin.post(path, json={**own, "mode": "shared"}).status_code == 201
    writer = {"client": "writer", "resource": "r", "wait": PATIENCE}
    with asking(service.server, token, path, writer):
        waiting(service.server, 1)
        with asking(service.server, token, path, {**own, "wait": PATIENCE}) as mine:
            waiting(service.server, 2)
            mine.settimeout(PATIENCE / 4)
            gate.locks.release(reader)
            assert b" 201 " in mine.recv(65536)
    until(lambda: not gate.locks.waiters("r"), "the writer to hang up")


def test_a_worker_that_waits_gets_what_is_published(gate: Gate, with_scopes: Tokens, admin: httpx2.Client) -> None:
    for name in ("in", "out"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job("make", inputs=["in"], outputs=["out"])
    worker = with_scopes("chunk:claim:make")
    answers: list[httpx2.Response] = []
    thread = threading.Thread(
        target=lambda: answers.append(worker.post("/v1/jobs/make/next", json={"wait": 60}, timeout=90))
    )
    thread.start()
    admin.post("/v1/datasets/in/chunks/7/publish")
    thread.join(PATIENCE)
    assert answers[0].json()["dataid"] == "7"


def test_events_are_reported_and_continue_after_a_disconnect(gate: Gate, with_scopes: Tokens) -> None:
    client = with_scopes("read")
    with client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        mark = next(line for line in lines if line.startswith("id: "))
        gate.locks.acquire("e", "event:1", "exclusive")
        assert "event:1" in next(line for line in lines if line.startswith("data: "))
    with client.stream("GET", "/v1/events", headers={"Last-Event-ID": mark.removeprefix("id: ")}) as stream:
        assert "event:1" in next(line for line in stream.iter_lines() if line.startswith("data: "))


def test_a_stream_ends_with_its_token(gate: Gate, with_scopes: Tokens) -> None:
    with with_scopes("read").stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        gate.tokens.revoke(gate.tokens.list()[-1].id)
        for _line in lines:  # The streams end.
            pass


def test_no_event_is_lost_when_a_later_entry_is_written_first(gate: Gate) -> None:
    """With concurrent writers, entries become visible in another order than their numbers."""
    gate.locks.acquire("c", "gap:1", "shared")
    begun = newest(gate)
    last, now = begun.ids[0], int(time.time() * 1e6)
    copied = """insert into hg_history (id, at, noun, event, subject, client, lock_id, token, state_before, state_after,
                                        reason)
                select ?, ?, noun, event, subject, client, lock_id, token, state_before,
                state_after, reason from hg_history where id = ?"""

    def write(number: int, at: int = now) -> None:
        with closing(sqlite3.connect(gate.settings["url"][10:])) as store, store:
            store.execute(copied, (number, at, last))

    def told() -> list[int]:
        return [entry.id for _, entry in newer(gate, begun)]

    write(last + 1)
    write(last + 3, now - 500_000)
    assert told() == [last + 1]
    write(last + 2)
    assert told() == [last + 1, last + 2, last + 3]
    write(last + 5, now - 60_000_000)  # The entry before it will never be written.
    assert told() == [last + 1, last + 2, last + 3, last + 5]
    assert newer(gate, begun)[-1][0].ids[0] == last + 5


def test_where_two_stores_are_joined_each_reports_what_happened_in_it(tmp_path: Path) -> None:
    there = f"sqlite:///{tmp_path}/there.sqlite"
    with headgate.connect(f"sqlite:///{tmp_path}/here.sqlite", coordination_url=there) as joined:
        server = Server(Service(joined), "127.0.0.1:0")
        server.start()
        headers = {"Authorization": f"Bearer {joined.tokens.new('a test', ['read']).token}"}
        begun = newest(joined)
        with httpx2.Client(base_url=server.url, headers=headers, trust_env=False) as client:
            assert client.get("/metrics").status_code == 200
            for number in range(201):
                joined.locks.acquire("c", f"r:{number}", "shared")
            joined.locks.acquire("c", "data:raw/1", "shared")
            assert [client.get(path).status_code for path in ("/metrics", "/", "/history")] == [200] * 3
            found = [entry.resource for _, entry in newer(joined, begun)]
            assert (len(found), found[-1]) == (202, "data:raw/1")
        server.stop()
