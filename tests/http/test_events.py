"""Event streams: many at once, slow readers, reconnecting clients, and streams whose token expires or is revoked."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

import headgate
from headgate import Gate
from headgate.http.port.server import Server
from headgate.http.waiters import feed as feed_file
from headgate.http.waiters.feed import Feed, FeedListener
from headgate.http.waiters.following import FeedMark, newest
from tests.http.conftest import Bounded, Tokens

MANY = 40
Lines = Iterator[str]


def _data(lines: Lines) -> str:
    return next(line for line in lines if line.startswith("data: "))


def test_every_one_of_many_streams_is_served(gate: Gate, with_scopes: Tokens) -> None:
    client = with_scopes("read")
    with ExitStack() as stack:
        streams = [stack.enter_context(client.stream("GET", "/v1/events")) for _ in range(MANY)]
        lines = [stream.iter_lines() for stream in streams]
        assert {next(each)[:4] for each in lines} == {"id: "}
        gate.locks.acquire("e", "event:many", "shared")
        assert all("event:many" in _data(each) for each in lines)


def test_a_reconnected_stream_gets_the_events_it_missed_once(gate: Gate, with_scopes: Tokens) -> None:
    client = with_scopes("read")
    with client.stream("GET", "/v1/events") as stays:
        staying = stays.iter_lines()
        mark = next(line for line in staying if line.startswith("id: ")).removeprefix("id: ")
        for number in range(3):
            gate.locks.acquire("e", f"missed:{number}", "shared")
        assert "missed:0" in _data(staying)
        with client.stream("GET", "/v1/events", headers={"Last-Event-ID": mark}) as back:
            lines = back.iter_lines()
            assert [f"missed:{number}" in _data(lines) for number in range(3)] == [True] * 3
            gate.locks.acquire("e", "missed:then", "shared")
            assert "missed:then" in _data(lines)


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_waiting_requests_end_with_their_token(bounded: Callable[..., Bounded], how: str) -> None:
    """Revoked in another process, with whose gate this service shares nothing but the store."""
    service = bounded()
    service.gate.ledger.define_dataset("raw")
    service.gate.ledger.define_job("read", inputs=["raw"])
    service.gate.locks.acquire("holder", "held", "exclusive")
    token = service.gate.tokens.new("brief", ["admin"], expires=3 if how == "expired" else None)
    headers = {"Authorization": f"Bearer {token.token}"}
    asked = {
        "/v1/locks": {"client": "w", "resource": "held", "wait": 100},
        "/v1/jobs/read/next": {"wait": 100},
        "/v1/batches/next?state=pending": {"wait": 100},
    }

    async def ask() -> list[httpx2.Response]:
        async with httpx2.AsyncClient(
            base_url=service.server.url, headers=headers, timeout=110, trust_env=False
        ) as client:
            posts = [asyncio.create_task(client.post(path, json=body)) for path, body in asked.items()]
            stream = asyncio.create_task(client.get("/v1/events"))
            at_service = service.server.service
            while not any(each.done() for each in posts) and (at_service.turns.waiting, at_service.streams) != (3, 1):  # noqa: ASYNC110 - it is in a thread
                await asyncio.sleep(0.01)
            if how == "revoked":
                with headgate.connect(service.gate.settings["url"]) as other:
                    other.tokens.revoke(token.id)
            return [*await asyncio.gather(*posts), await stream]

    *answers, stream = asyncio.run(ask())
    assert [each.status_code for each in answers] == [401] * 3
    assert {each.headers["www-authenticate"] for each in answers} == {"Bearer"}
    assert stream.text.startswith("id: ") or (how == "expired" and stream.status_code == 401)
    assert [each.client for each in service.gate.locks.waiters("held")] == []


def test_a_token_that_ends_leaves_the_waits_of_others_alone(bounded: Callable[..., Bounded]) -> None:
    service = bounded()
    held = service.gate.locks.acquire("holder", "held", "exclusive")
    tokens = [service.gate.tokens.new(name, ["admin"]) for name in ("ends", "stays")]
    wanted = {"client": "w", "resource": "held", "wait": 100}

    async def ask() -> list[int]:
        async with httpx2.AsyncClient(base_url=service.server.url, timeout=110, trust_env=False) as client:
            headers = [{"Authorization": f"Bearer {each.token}"} for each in tokens]
            posts = [asyncio.create_task(client.post("/v1/locks", json=wanted, headers=each)) for each in headers]
            while service.server.service.turns.waiting < 2:  # noqa: ASYNC110 - it is in a thread
                await asyncio.sleep(0.01)
            service.gate.tokens.revoke(tokens[0].id)
            first = await posts[0]
            service.gate.locks.release(held)
            return [first.status_code, (await posts[1]).status_code]

    assert asyncio.run(ask()) == [401, 201]


def test_a_slow_reader_keeps_nobody_waiting_and_misses_nothing(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_file, "MOST_BEHIND", 5)
    monkeypatch.setattr(feed_file, "PAUSE_SECONDS", 0.01)
    wanted = [f"slow:{number}" for number in range(20)]

    async def read(feed: Feed, listener: FeedListener, count: int) -> list[str]:
        found: list[str] = []
        async for text in feed.stream(listener):
            found += [each for each in wanted if f'"{each}"' in text]
            if len(found) == count:
                break
        return found

    async def follow() -> tuple[list[str], list[str]]:
        feed, ending = Feed(lambda: gate), asyncio.Event()
        begun = await feed.start()
        running = asyncio.create_task(feed.run(ending))
        with feed.listening(begun) as fast, feed.listening(begun) as slow:
            quick = asyncio.create_task(read(feed, fast, len(wanted)))
            for each in wanted:
                await asyncio.to_thread(gate.locks.acquire, "e", each, "shared")
            first = await quick
            last = await read(feed, slow, len(wanted))
        ending.set()
        await running
        return first, last

    assert asyncio.run(follow()) == (wanted, wanted)


def test_a_stream_that_begins_before_the_reader_misses_nothing(gate: Gate) -> None:
    """The reader starts after the stream: the stream itself reads the events in between."""

    async def follow() -> str:
        feed, ending = Feed(lambda: gate), asyncio.Event()
        begun: FeedMark = await asyncio.to_thread(newest, gate)
        await asyncio.to_thread(gate.locks.acquire, "e", "between:1", "shared")
        running = asyncio.create_task(feed.run(ending))
        with feed.listening(begun) as listener:
            texts = feed.stream(listener)
            found = [await anext(texts) for _ in range(2)]
        ending.set()
        await running
        return found[1]

    assert "between:1" in asyncio.run(follow())


def test_streams_end_with_the_service(bounded: Callable[..., Bounded]) -> None:
    service = bounded()
    with service.client() as client, client.stream("GET", "/v1/events") as stream:
        lines: Any = stream.iter_lines()
        next(lines)
        Server.stop(service.server)
        assert not any(line.startswith("data: ") for line in lines)  # The streams end.
