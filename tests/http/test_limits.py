"""Limits of the service: clients that send too much, too fast, too slowly or too often are refused.

Others are served.
"""

import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from headgate import Gate
from headgate.core.history import Entry
from headgate.http.api.description import openapi_text
from headgate.http.app import API
from headgate.http.limits.bounds import BURST_SECONDS, Limits
from headgate.http.port import connections
from headgate.http.port.server import bind
from headgate.http.service import THREADS
from headgate.http.waiters import feed
from headgate.http.waiters.following import FeedMark, newer
from headgate.service.access.sessions import BrowserSession, BrowserSessions
from tests.http.conftest import Bounded
from tests.waiting import until

Start = Callable[..., Bounded]
SHORT = 0.3


def answer_to(connection: socket.socket) -> bytes:
    """Everything that arrives until the service closes the connection."""
    found = b""
    try:
        while block := connection.recv(65536):
            found += block
    except ConnectionResetError:
        pass
    return found


def head(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def send_without_end(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"x" * 10_000)


def known(service: Bounded) -> str:
    """The header of a caller with a valid token."""
    return f"Authorization: Bearer {service.gate.tokens.new('a test', ['admin']).token}"


def test_a_request_with_many_names_delays_nobody(bounded: Start) -> None:
    service = bounded()
    body = {f"k{number}": 1 for number in range(60_000)}
    with service.client() as client, service.client() as other, ThreadPoolExecutor(1) as sender:
        sent = sender.submit(client.post, "/v1/tokens", json=body)
        assert other.get("/healthz").status_code == 200
        answer = sent.result(30)
    assert (answer.status_code, len(answer.content) < 10_000) == (422, True)


def test_unknown_callers_use_no_memory(bounded: Start) -> None:
    service = bounded()
    for path, more, status in (
        ("/v1/messages", "X: none", b" 401 "),
        ("/v1/messages", f"Authorization: Bearer hg_{'a' * 12}_{'a' * 43}", b" 401 "),
        ("/sign-in", "X: none", b" 413 "),
    ):
        with service.socket() as connection:  # Not a byte of the body has been sent.
            connection.sendall(head(path, more, "Content-Length: 900000"))
            assert status in answer_to(connection).splitlines()[0]


def test_a_token_with_too_many_requests_gets_retry_after(bounded: Start) -> None:
    service = bounded(rate_limit_local="0.001")
    with service.client("read") as hasty, service.client("read") as other:
        assert hasty.get("/v1/status").status_code == 200
        refused = hasty.get("/v1/status")
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:headgate:too-many")
        assert 1 <= int(refused.headers["retry-after"]) <= 1000
        assert other.get("/v1/status").status_code == 200


def test_a_token_with_too_many_submissions_gets_retry_after(bounded: Start) -> None:
    """Its other requests are not delayed, and neither are those of other callers."""
    service = bounded(submit_limit_local="0.001")
    batch = {"profile": "demo", "submitter": "ann", "payload_url": "https://example.org/1"}
    with service.client("queue:submit", "read") as hasty, service.client("queue:submit") as other:
        assert hasty.post("/v1/batches", json=batch).status_code == 201
        refused = hasty.post("/v1/batches", json=batch)
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:headgate:too-many")
        assert refused.json()["detail"].startswith("more than 0.001 batches per second")
        assert 1 <= int(refused.headers["retry-after"]) <= 1000
        assert hasty.get("/v1/batches").status_code == 200
        assert other.post("/v1/batches", json=batch).status_code == 201
    assert len(service.gate.queue.batches()) == 2


def test_wrong_tokens_of_one_address_are_not_looked_up_without_end(bounded: Start) -> None:
    service = bounded(rate_limit_local="0.001")
    with service.client("read") as client:
        wrong = [{"Authorization": f"Bearer hg_{'a' * 12}_{number:043}"} for number in range(3)]
        statuses = [client.get("/v1/status", headers=each).status_code for each in wrong]
    assert statuses == [401, 429, 429]


def test_wrong_sessions_of_one_address_are_not_looked_up_without_end(
    bounded: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for API requests, nor for the page that reports too many attempts."""
    service = bounded(rate_limit_local="0.001")
    asked: list[str] = []
    find = BrowserSessions.find

    def counted(self: BrowserSessions, given: str) -> BrowserSession:
        asked.append(given)
        return find(self, given)

    monkeypatch.setattr(BrowserSessions, "find", counted)
    with httpx2.Client(base_url=service.server.url, trust_env=False) as stranger:
        assert stranger.get("/nothing", headers={"Accept": "text/html"}).status_code == 404
        assert not asked, "without a cookie nobody is looked for"
        stranger.cookies.set(f"headgate-{service.gate.store.tag}", "x" * 43)
        statuses = [
            stranger.get(path, headers={"Accept": kind}).status_code
            for path, kind in (("/v1/status", "*/*"), ("/v1/status", "*/*"), ("/locks", "text/html"),
                               ("/nothing", "text/html"))
        ]  # fmt: skip
    assert (statuses, len(asked)) == ([401, 429, 429, 404], 1)


def test_an_uploaded_file_is_not_parsed_as_a_form(bounded: Start) -> None:
    """It used to be: all of it was read into memory."""
    service = bounded()
    session = service.gate.sessions.sign_in(service.gate.tokens.new("ann", ["queue:submit"]).token)
    cookie = f"Cookie: headgate-{service.gate.store.tag}={session}"
    with service.socket() as connection:  # Not a byte of the body has been sent.
        connection.sendall(head("/v1/uploads?name=a", cookie, "Content-Length: 900000000"))
        told = answer_to(connection)
    assert (told.splitlines()[0], b"the form belongs to another session" in told) == (b"HTTP/1.1 403 Forbidden", True)
    form_key = f"Headgate-Form-Key: {service.gate.sessions.find(session).form_key}"
    with service.socket() as connection:
        connection.sendall(
            head("/v1/uploads?name=a", cookie, form_key, "Connection: close", "Content-Length: 3") + b"abc"
        )
        assert b" 201 " in answer_to(connection).splitlines()[0]


def test_unauthenticated_requests_for_the_openapi_are_cheap() -> None:
    assert openapi_text(API) is openapi_text(API), "it is written out once"


def test_callers_on_this_machine_are_not_counted_unless_asked_for(bounded: Start) -> None:
    service = bounded(rate_limit="1")
    with service.client("read") as client:
        assert {client.get("/v1/status").status_code for _ in range(3 * BURST_SECONDS)} == {200}


@pytest.mark.parametrize("length_is_told", [True, False])
def test_a_body_that_is_too_large_is_refused(bounded: Start, length_is_told: bool) -> None:
    service = bounded(Limits(body_limit=10_000))

    def parts() -> object:
        yield from (b" " * 1000 for _ in range(20))

    content = b" " * 20_000 if length_is_told else parts()
    with service.client() as client:
        answer = client.post("/v1/batches", content=content, headers={"Content-Type": "application/json"})  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:headgate:too-large")


def test_all_bodies_together_are_bounded(bounded: Start) -> None:
    service = bounded(Limits(body_memory=60_000, body_seconds=30))
    with service.socket() as waiting, service.client() as client:
        waiting.sendall(head("/v1/batches", known(service), "Content-Length: 55000") + b" " * 50_000)
        until(lambda: client.post("/v1/locks", content=b" " * 20_000).status_code == 429, "no room to be left")
    until(lambda: client_is_heard(service), "the room to be free again")


def client_is_heard(service: Bounded) -> bool:
    with service.client() as client:
        return client.post("/v1/locks", content=b" " * 20_000).status_code != 429


def test_headers_that_are_too_large_are_refused(bounded: Start) -> None:
    service = bounded(Limits(head=4096))
    with service.socket() as connection:
        connection.sendall(head("/v1/status", "X-Long: " + "x" * 200_000))
        answer = answer_to(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
        "type": "urn:headgate:bad-request", "title": "bad request", "status": 400,
        "detail": "the request's line and headers are larger than 4096 bytes",
    }  # fmt: skip


def test_a_request_that_is_not_http_is_answered_with_a_problem(bounded: Start) -> None:
    service = bounded()
    with service.socket() as connection:
        connection.sendall(b"HELO mail.example.org\r\n\r\n")
        answer = answer_to(connection)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n")
    assert answer.endswith(b'"detail": "this is not an HTTP/1.1 request"}')


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (head("/v1/messages", "Content-Length: 3000000"), b"401"),
        (head("/v1/status", "X-Long: " + "x" * 200_000), b"400"),
    ],
)
def test_a_client_that_is_still_sending_when_it_is_answered_gets_the_answer(
    bounded: Start, first: bytes, status: bytes
) -> None:
    service = bounded()
    with service.socket() as connection:
        connection.sendall(first)
        connection.recv(1, socket.MSG_PEEK)  # The answer has begun: the service reads no more of the request.
        for _ in range(10):
            connection.sendall(b"x" * 100_000)
        answer = b""
        while block := connection.recv(65536):
            answer += block
    assert answer.startswith(b"HTTP/1.1 " + status)


def test_a_client_that_keeps_sending_is_cut_off(bounded: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGER_SECONDS", SHORT)
    service = bounded()
    with service.socket() as connection:
        connection.sendall(head("/v1/messages", "Content-Length: 3000000000"))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_without_end(connection)


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
def test_a_stalled_request_is_cut_off(bounded: Start, begun: bytes) -> None:
    service = bounded(Limits(head_seconds=SHORT))
    with service.socket() as connection:
        connection.sendall(begun)
        assert answer_to(connection) == b""


def test_a_stalled_second_request_is_cut_off_too(bounded: Start) -> None:
    service = bounded(Limits(head_seconds=SHORT))
    with service.socket() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /healthz HT")
        assert b"HTTP/1.1" not in answer_to(connection)


@pytest.mark.parametrize("path", ["/v1/locks", "/v1/uploads?name=x"])
def test_a_body_that_never_arrives_is_not_waited_for(bounded: Start, path: str) -> None:
    service = bounded(Limits(body_seconds=SHORT))
    with service.socket() as connection:
        connection.sendall(head(path, known(service), "Content-Length: 100", "Connection: close"))
        assert answer_to(connection).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_drips_is_not_waited_for(bounded: Start) -> None:
    service = bounded(Limits(body_seconds=SHORT, body_rate=100_000))
    with service.socket() as connection:
        connection.sendall(head("/v1/locks", known(service), "Content-Length: 100000"))
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(SHORT / 6):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")
        finally:
            stop.set()
            dripping.join()


def test_a_caller_that_reads_no_answers_is_cut_off(bounded: Start) -> None:
    service = bounded(Limits(answer_seconds=SHORT))
    with service.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"

        def is_cut_off() -> bool:
            try:
                connection.setblocking(False)
                connection.send(asked)
            except BlockingIOError:
                return False
            except OSError:
                return True
            return False

        until(is_cut_off, "the connection to be cut")


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HT", head("/sign-in", "Content-Length: 9"),
                                   b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"])  # fmt: skip
def test_idle_unauthenticated_connections_keep_nobody_out(bounded: Start, begun: bytes) -> None:
    """Silent, slow or idle: the oldest such connection is closed. Authorized callers with a request stay."""
    service = bounded(Limits(connections=4))
    with ExitStack() as stack:
        stream = stack.enter_context(service.socket())
        stream.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\n{known(service)}\r\n\r\n".encode())
        assert b"200 OK" in stream.recv(4096)
        crowd = [stack.enter_context(service.socket()) for _ in range(6)]
        for each in crowd:
            with suppress(OSError):
                each.sendall(begun)
        with service.client() as client:
            assert client.get("/v1/status").status_code == 200
        answer_to(crowd[0])  # The connection is closed.
        service.gate.locks.acquire("x", "r", "exclusive")
        until(lambda: b"event: lock" in stream.recv(4096), "the stream to go on")


def test_streams_that_start_far_back_leave_threads_to_others(bounded: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    service, go_on = bounded(), threading.Event()

    def slow(gate: Gate, mark: FeedMark) -> list[tuple[FeedMark, Entry]]:
        if not any(mark.ids):
            go_on.wait(30)
        return newer(gate, mark)

    service.gate.locks.acquire("x", "r", "exclusive")
    monkeypatch.setattr(feed, "newer", slow)
    asked = f"GET /v1/events HTTP/1.1\r\nHost: x\r\n{known(service)}\r\nLast-Event-ID: 0\r\n\r\n"
    with ExitStack() as stack:
        streams = [stack.enter_context(service.socket()) for _ in range(THREADS + 1)]
        for each in streams:
            each.sendall(asked.encode())
            assert b"200 OK" in each.recv(4096)
        with service.client() as client:
            assert client.get("/v1/status", timeout=10).status_code == 200
        go_on.set()
        until(lambda: b"event: lock" in streams[-1].recv(4096), "the last stream to have its turn")


def test_one_connection_too_many_is_refused_and_the_next_is_accepted(bounded: Start) -> None:
    service = bounded(Limits(connections=4))
    crowd = [service.socket() for _ in range(4)]
    for each in crowd:  # Authorized callers with a request are not disconnected.
        each.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\n{known(service)}\r\n\r\n".encode())
        assert b"200 OK" in each.recv(4096)
    with service.socket() as late:
        told = answer_to(late)
    assert told.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: " in told
    assert b"application/problem+json" in told
    for each in crowd:
        each.close()
    until(lambda: is_answered(service), "room for one more")


def is_answered(service: Bounded) -> bool:
    with service.client() as client:
        return client.get("/v1/status").status_code == 200


def test_one_waiting_request_too_many_is_refused(bounded: Start) -> None:
    service = bounded(Limits(waiting=2))
    lock = service.gate.locks.acquire("holder", "r", "exclusive")
    asked = {"client": "w", "resource": "r", "wait": 60}
    clients = [service.client() for _ in range(2)]
    answers: list[int] = []
    crowd = [
        threading.Thread(target=lambda each=each: answers.append(each.post("/v1/locks", json=asked).status_code))
        for each in clients
    ]
    for thread in crowd:
        thread.start()
    until(lambda: service.server.service.turns.waiting == 2, "both to wait")
    with service.client() as late:
        told = late.post("/v1/locks", json=asked)
        assert (told.status_code, "retry-after" in told.headers) == (429, True)
        assert late.post("/v1/locks", json={**asked, "wait": 0}).status_code == 409
    assert len(service.gate.locks.waiters()) == 2
    service.gate.locks.release(lock)
    until(lambda: 201 in answers, "the first to be granted")
    (held,) = service.gate.locks.list()
    service.gate.locks.release(held)
    for thread in crowd:
        thread.join(60)
    assert answers == [201, 201]
    for each in clients:
        each.close()


def test_one_stream_too_many_is_refused(bounded: Start) -> None:
    service = bounded(Limits(streams_at_once=1))
    with service.client("read") as client, client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()  # Kept referenced: otherwise the stream would end.
        next(lines)
        assert client.get("/v1/events").status_code == 429


def test_concurrent_streams_are_limited(bounded: Start) -> None:
    service = bounded(Limits(streams_at_once=3))
    with ExitStack() as crowd:
        opened = [crowd.enter_context(service.socket()) for _ in range(20)]
        for each in opened:
            each.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\n{known(service)}\r\n\r\n".encode())
        statuses = [each.recv(12).split()[1] for each in opened]
    assert (statuses.count(b"200"), statuses.count(b"429")) == (3, 17)
    until(lambda: not service.server.service.streams, "all to be over")


# ---------------------------------------------------------------- submitted files


def files(folder: Path) -> list[str]:
    """Files in the work folder, which the service may be removing meanwhile: os.walk skips folders that are gone."""
    return [name for _, _, names in os.walk(folder / "work") for name in names]


def test_a_submitted_file_is_kept_where_daemons_find_it(bounded: Start, tmp_path: Path) -> None:
    service = bounded()
    with service.client("queue:submit:demo") as client:
        answer = client.post("/v1/uploads", params={"name": "my map.tif"}, content=b"a map" * 100_000)
    assert (answer.status_code, answer.json()["bytes"]) == (201, 500_000)
    url = answer.json()["payload_url"]
    assert service.gate.ingest.is_uploaded(url)
    assert Path(url.removeprefix("file://").replace("%20", " ")).read_bytes() == b"a map" * 100_000


def test_a_file_that_is_too_large_leaves_nothing_behind(bounded: Start, tmp_path: Path) -> None:
    service = bounded(upload_limit="1000")
    with service.client() as client:
        assert client.post("/v1/uploads", params={"name": "x"}, content=b"x" * 200_000).status_code == 413
    assert files(tmp_path) == []


def test_a_file_that_is_cut_off_leaves_nothing_behind(bounded: Start, tmp_path: Path) -> None:
    service = bounded()
    with service.socket() as connection:
        told = head("/v1/uploads?name=half", known(service), "Content-Length: 100000")
        connection.sendall(told + b"x" * 50_000)
        until(lambda: files(tmp_path) == ["half"], "it to begin")
    until(lambda: files(tmp_path) == [], "it to be gone")


def test_a_work_folder_that_cannot_be_written_is_reported(bounded: Start, tmp_path: Path) -> None:
    service = bounded()
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "uploads").write_text("in the way")
    with service.client() as client:
        answer = client.post("/v1/uploads", params={"name": "x"}, content=b"x")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


@pytest.mark.parametrize("name", ["../x", "..", ".", "a/b", "/etc/passwd", "a\x00b", "x" * 300, "é" * 200])
def test_a_files_name_leads_nowhere_else(bounded: Start, tmp_path: Path, name: str) -> None:
    service = bounded()
    with service.client() as client:
        assert client.post("/v1/uploads", params={"name": name}, content=b"x").status_code == 422
    assert files(tmp_path) == []


def test_submitting_a_file_needs_the_scope_to_submit(bounded: Start, gate: Gate) -> None:
    service = bounded(Limits(uploads_at_once=0))
    with service.client("read") as reader, service.client("queue:submit") as submitter:
        assert reader.post("/v1/uploads", params={"name": "x"}, content=b"x").status_code == 403
        assert submitter.post("/v1/uploads", params={"name": "x"}, content=b"x").status_code == 429


def test_small_answers_are_sent_at_once() -> None:
    """Otherwise asyncio delays them by 40 ms if the socket does not name its protocol."""
    with bind("127.0.0.1:0") as found:
        assert found.proto == socket.IPPROTO_TCP
