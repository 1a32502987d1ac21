"""A load generator in a process of its own: each of its connections sends the next request after each answer.

Run as `python -m benchmarks.http_load`: reads one JSON order a line on standard input, and answers each with one line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """The requests, the server, and the duration."""

    port: int
    token: str
    #: echo, or locks (acquire and release in turn).
    kind: str
    connections: int
    seconds: float


class Asker(asyncio.Protocol):
    """One connection. Reads no more of an answer than necessary."""

    def __init__(self, order: Order, number: int, done: Done) -> None:
        self._order, self._done = order, done
        self._resource = f"bench:{number}"
        self._rest = b""
        self._began = 0.0
        self._lock: tuple[str, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, mark, body = self._rest.partition(b"\r\n\r\n")
        if not mark:
            return
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length or b"0"):
            return
        self._rest = b""
        self._done.latencies.append(time.perf_counter() - self._began)
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201", b"HTTP/1.1 204")):
            self._done.wrong += 1
        self._lock = None if self._lock or self._order.kind == "echo" else _lock_of(body)
        if time.perf_counter() < self._done.until or self._lock:
            self._ask()
        else:
            self._done.left -= 1
            self._transport.close()
            if not self._done.left:
                self._done.all.set()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request())

    def _request(self) -> bytes:
        if self._lock:
            return self._text("DELETE", f"/v1/locks/{self._lock[0]}?token={self._lock[1]}", b"")
        asked = {"client": "bench", "resource": self._resource, "mode": "exclusive"}
        return self._text("POST", "/echo" if self._order.kind == "echo" else "/v1/locks", json.dumps(asked).encode())

    def _text(self, method: str, path: str, body: bytes) -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._order.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


class Done:
    """The results of an order."""

    def __init__(self, order: Order) -> None:
        self.until = time.perf_counter() + order.seconds
        self.left = order.connections
        self.wrong = 0
        self.latencies: list[float] = []
        self.all = asyncio.Event()


def _lock_of(body: bytes) -> tuple[str, int]:
    lock = json.loads(body)["locks"][0]
    return lock["id"], lock["token"]


async def load(order: Order) -> dict[str, float]:
    """Requests per second, and their durations."""
    loop, done, began = asyncio.get_running_loop(), Done(order), time.perf_counter()
    for number in range(order.connections):
        await loop.create_connection(lambda number=number: Asker(order, number, done), "127.0.0.1", order.port)  # type: ignore[misc]
    await done.all.wait()
    found = sorted(done.latencies)
    rate = len(found) / (time.perf_counter() - began)
    return {
        "count": len(found),
        "rate": rate,
        "p50": found[len(found) // 2],
        "p99": found[int(len(found) * 0.99)],
        "wrong": done.wrong,
    }


def main() -> None:
    """Process orders, one after another."""
    for line in sys.stdin:
        print(json.dumps(asyncio.run(load(Order(**json.loads(line))))), flush=True)


if __name__ == "__main__":
    main()
