"""Slow or large bodies do not block others: renewals and reports are always read."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from headgate.calls.actor import acting
from headgate.core.access.owners import Actor
from headgate.http.limits.bodies import SHORT
from headgate.http.limits.bounds import Limits
from tests.http.conftest import Bounded
from tests.waiting import until

Start = Callable[..., Bounded]
#: A window, in seconds, that is short enough for a test.
WINDOW = 0.3


def token(service: Bounded, *scopes: str) -> str:
    return service.gate.tokens.new("a test", scopes).token


def head(path: str, token: str, length: int) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", f"Content-Length: {length}")
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()


def told(connection: socket.socket) -> tuple[int, dict[str, str], dict[str, Any]]:
    """The status, headers and problem that a connection gets before the service closes it."""
    found = b""
    try:
        while block := connection.recv(65536):
            found += block
    except ConnectionResetError:  # It closed without reading the rest.
        pass
    lines, _, body = found.partition(b"\r\n\r\n")
    first, *rest = lines.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return int(first.split()[1]), headers, json.loads(body)


@contextmanager
def dripping(connection: socket.socket, block: bytes, seconds: float) -> Iterator[None]:
    """Meanwhile bytes are sent repeatedly."""
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(seconds):
            try:
                connection.sendall(block)
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_caller_without_the_scope_is_refused_before_its_body_is_read(bounded: Start) -> None:
    service = bounded()
    viewer = token(service, "read")
    for path in ("/v1/messages", "/v1/custody", "/v1/locks", "/v1/uploads?name=x"):
        with service.socket() as connection:
            connection.sendall(head(path, viewer, 900_000) + b"[" * 200_000)
            status, headers, problem = told(connection)
        assert (path, status, headers["connection"], problem["type"]) == (
            path, 403, "close", "urn:headgate:not-allowed",
        )  # fmt: skip
    with service.socket() as connection:  # The resource does not exist, and no body is read either.
        connection.sendall(head("/v1/nothing", viewer, 900_000))
        assert told(connection)[0] == 404


def test_a_short_body_that_is_refused_leaves_the_connection_open(bounded: Start) -> None:
    service = bounded()
    with service.client("read") as client:
        refused = client.post("/v1/locks", json={"client": "c", "resource": "r"})
    assert (refused.status_code, "connection" in refused.headers) == (403, False)


def test_renewals_and_reports_are_answered_while_slow_bodies_use_up_all_room(bounded: Start) -> None:
    service = bounded(Limits(body_memory=300_000, body_memory_per_token=100_000, body_limit=100_000))
    gate = service.gate
    gate.ledger.define_dataset("out")
    gate.ledger.define_job("make", outputs=["out"])
    with acting(Actor("a test")):  # The principal of `client`.
        lock = gate.locks.acquire("holder", "r", "exclusive", lease=60)
        done, failed = (gate.ledger.claim("make", each, worker="w") for each in ("1", "2"))
    with ExitStack() as crowd, service.client("lock:acquire", "chunk:claim") as worker:
        attackers = [crowd.enter_context(service.socket()) for _ in range(4)]
        for each in attackers:
            each.sendall(head("/v1/locks", token(service, "lock:acquire"), 99_000) + b" " * 98_000)
        room = {"client": "c", "resource": "x", "note": " " * 2 * SHORT}
        until(lambda: worker.post("/v1/locks", json=room).status_code == 429, "all room to be used up")
        refused = worker.post("/v1/locks", json=room)
        problem = refused.json()
        assert (problem["limit"], problem["value"], problem["retry_after"]) == ("body_memory", 300_000, 5)
        assert refused.headers["retry-after"] == "5"

        chunk = "/v1/jobs/make/chunks"
        answers = [
            worker.post(f"/v1/locks/{lock.id}/renew", json={"token": lock.token, "lease": 90}),
            worker.post(f"{chunk}/1/heartbeat", json={"token": done.token}),
            worker.post(f"{chunk}/1/success", json={"token": done.token}),
            worker.post(f"{chunk}/2/fail", json={"token": failed.token, "message": "x"}),
            worker.delete(f"/v1/locks/{lock.id}", params={"token": lock.token}),
            worker.post("/v1/locks", json={"client": "c", "resource": "free"}),
        ]
        assert [each.status_code for each in answers] == [200, 200, 204, 204, 204, 201]
    until(lambda: not service.server.service.bodies._held, "the room to be free again")


def test_one_token_uses_up_neither_the_room_nor_the_slots_of_the_others(bounded: Start) -> None:
    limits = Limits(body_memory=300_000, body_memory_per_token=80_000, bodies_per_token=2)
    service = bounded(limits)
    greedy, room = token(service, "lock:acquire"), {"client": "c", "resource": "x", "note": " " * 2 * SHORT}
    with ExitStack() as crowd, service.client("lock:acquire") as other:
        first, second = (crowd.enter_context(service.socket()) for _ in range(2))
        first.sendall(head("/v1/locks", greedy, 50_000) + b" " * 49_000)
        until(lambda: service.server.service.bodies._held >= 49_000, "the first to be read")
        second.sendall(head("/v1/locks", greedy, 40_000))
        assert told(second)[2]["limit"] == "body_memory_per_token"
        third, fourth = (crowd.enter_context(service.socket()) for _ in range(2))
        third.sendall(head("/v1/locks", greedy, 17_000))
        until(lambda: service.server.service.bodies._read_by.total() == 2, "two to be read")
        fourth.sendall(head("/v1/locks", greedy, 17_000))
        assert told(fourth)[2]["limit"] == "bodies_per_token"
        assert other.post("/v1/locks", json=room).status_code == 422


@pytest.mark.parametrize("declared", [True, False])
def test_the_rate_of_a_body_is_measured_over_a_moving_window(bounded: Start, declared: bool) -> None:
    service = bounded(Limits(body_seconds=WINDOW, body_rate=10_000, head_seconds=60))
    begun = head("/v1/locks", token(service, "lock:acquire"), 900_000)
    if not declared:
        begun = begun.replace(b"Content-Length: 900000", b"Transfer-Encoding: chunked")
    part = b" " * 500_000 if declared else b"7a120\r\n" + b" " * 500_000 + b"\r\n"
    with service.socket() as connection:
        connection.sendall(begun + part)  # As many as 160 windows need.
        with dripping(connection, b" " if declared else b"1\r\n \r\n", WINDOW / 10):
            status, _, problem = told(connection)
    assert (status, problem["limit"], problem["value"]) == (408, "bytes a second", 10_000)


@pytest.mark.parametrize(
    ("path", "limits", "limit"),
    [
        ("/v1/locks", Limits(body_rate=1, body_time=2 * WINDOW), "body_time"),
        ("/v1/uploads?name=x", Limits(body_rate=1, upload_time=2 * WINDOW), "upload_time"),
    ],
)
def test_a_body_that_keeps_its_rate_is_still_limited_in_time(
    bounded: Start, path: str, limits: Limits, limit: str
) -> None:
    service = bounded(limits)
    with service.socket() as connection:
        connection.sendall(head(path, token(service, "lock:acquire", "queue:submit"), 900_000) + b" " * 2 * SHORT)
        with dripping(connection, b" " * 100, WINDOW / 10):
            status, _, problem = told(connection)
    assert (status, problem["limit"], problem["value"]) == (408, limit, 2 * WINDOW)


def test_a_short_body_must_arrive_within_the_time_for_headers(bounded: Start) -> None:
    service = bounded(Limits(head_seconds=WINDOW))
    with service.socket() as connection:
        connection.sendall(head("/v1/locks", token(service, "lock:acquire"), 100) + b"{")
        with dripping(connection, b" ", WINDOW / 10):
            assert told(connection)[0] == 408


def test_unauthenticated_clients_may_send_short_forms_only(bounded: Start) -> None:
    service = bounded()
    with service.socket() as connection:
        connection.sendall(head("/sign-in", "", SHORT + 1))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_event_streams_are_limited_for_each_token(bounded: Start) -> None:
    service = bounded(streams_per_token="1")
    with service.client("read") as client, service.client("read") as other, client.stream("GET", "/v1/events") as one:
        lines = one.iter_lines()  # Kept referenced: otherwise the stream would end.
        next(lines)
        refused = client.get("/v1/events")
        problem = refused.json()
        assert (refused.status_code, problem["limit"], problem["value"]) == (429, "streams_per_token", 1)
        assert refused.headers["retry-after"] == str(problem["retry_after"])
        with other.stream("GET", "/v1/events") as theirs:
            assert theirs.status_code == 200
    until(lambda: not service.server.service.streams_by, "all to be over")
