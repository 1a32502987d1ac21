"""`python -m benchmarks.declarations`: candidates for serving the declared operations and for writing nouns as JSON.

Frameworks answer the body of an acquire and a release, both checked, without a store: the app is called as a server
calls it. Wire code writes and reads a lock and a list of 100 chunks. What that is part of, is an acquire and a page of
100 chunks of the whole service on a SQLite file, called in the same way. Contestants that are not installed are left
out (`pip install litestar msgspec cattrs`). Rounds are taken in turn; only the ratios to the first of each table mean
anything.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

from benchmarks.harness import ROUNDS, table
from headgate.core.ledger.model import Kind, Row
from headgate.core.locks.model import Lock, Mode
from headgate.core.values.wire import parse, plain

REQUESTS, WHOLE_REQUESTS = 1500, 200
TIMES = {"a lock": 3000, "100 chunks": 60}
BODY = json.dumps({"client": "copy-core", "resource": "mysql://db1/core", "wait": 0, "lease": 60}).encode()
NOW = datetime(2026, 11, 15, 4, 50, tzinfo=UTC)
LOCK = Lock("abcd-abcdefghijklmnop-abcdefghijkl", "mysql://db1/core", "copy-core", Mode.EXCLUSIVE, 7, NOW, 60.0, 59.5)
ROWS = [Row("orders", f"{number}", "clean", Kind.OUTPUT, "READY") for number in range(100)]
App = Callable[[Any, Any, Any], Awaitable[None]]


# ---------------------------------------------------------------- frameworks


def direct_app() -> App:
    """Our routes on Starlette, with everything about a route computed once."""
    from starlette.applications import Starlette

    from headgate.http.api.direct import Direct
    from headgate.http.limits.bodies import Bodies
    from headgate.http.limits.bounds import Limits

    acquire, release = _functions()
    app = Starlette(routes=[Direct("POST", "/locks", acquire), Direct("DELETE", "/locks/{lock_id}", release)])
    app.state.service = SimpleNamespace(bodies=Bodies(Limits()))
    return app


def fastapi_app() -> App:
    """FastAPI with the same functions."""
    from fastapi import FastAPI

    acquire, release = _functions()
    app = FastAPI(openapi_url=None)
    app.add_api_route("/locks", acquire, methods=["POST"], status_code=201)
    app.add_api_route("/locks/{lock_id}", release, methods=["DELETE"], status_code=204)
    return app


def litestar_app() -> App:
    """Litestar, which checks bodies with msgspec."""
    import msgspec
    from litestar import Litestar, Response, delete, post

    fields = [("client", str), ("resource", str), ("mode", str, "exclusive"), ("wait", float, 0)]
    asked = msgspec.defstruct("Asked", [*fields, ("lease", float | None, None)], forbid_unknown_fields=True)

    async def acquire(data: Any) -> Any:
        return Response({"locks": [plain(LOCK)], "client": data.client}, status_code=201)

    async def release(lock_id: str, token: int) -> None:
        del lock_id, token

    acquire.__annotations__ = {"data": asked, "return": Response}
    release.__annotations__ = {"lock_id": str, "token": int, "return": None}
    app: App = Litestar([post("/locks")(acquire), delete("/locks/{lock_id:str}")(release)], openapi_config=None)
    return app


def _functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    from fastapi import Response
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel, ConfigDict

    class Asked(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)
        client: str
        resource: str
        mode: str = "exclusive"
        wait: float = 0
        lease: float | None = None

    async def acquire(asked: Any) -> Any:
        return JSONResponse({"locks": [plain(LOCK)], "client": asked.client}, 201)

    async def release(lock_id: str, token: int) -> Response:
        del lock_id, token
        return Response(status_code=204)

    acquire.__annotations__ = {"asked": Asked, "return": Response}
    release.__annotations__ = {"lock_id": str, "token": int, "return": Response}
    return acquire, release


async def _ask(app: App, method: str, path: str, body: bytes, query: bytes = b"", token: str = "") -> int:
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    status = 0

    async def receive() -> Mapping[str, Any]:
        return sent.pop() if sent else {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query, "headers": headers, "root_path": "",
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {}, "extensions": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return status


def _measure(app: App) -> float:
    return asyncio.run(_microseconds(app))


async def _microseconds(app: App) -> float:
    began = time.process_time()
    for _ in range(REQUESTS // 2):
        granted = await _ask(app, "POST", "/locks", BODY)
        released = await _ask(app, "DELETE", f"/locks/{LOCK.id}", b"", b"token=7")
        if (granted, released) != (201, 204):
            raise SystemExit(f"{app}: {granted}, {released}")
    return (time.process_time() - began) / REQUESTS * 1e6


def frameworks() -> None:
    """Processor time per request."""
    makers = {"direct on Starlette": direct_app, "FastAPI": fastapi_app}
    if _is_installed("litestar"):
        makers["Litestar"] = litestar_app
    apps = {name: make() for name, make in makers.items()}
    _compare("processor time of a request, µs", {name: partial(_measure, app) for name, app in apps.items()})
    modules = {"FastAPI": ("fastapi",), "Litestar": ("litestar",)}
    starlette = ("starlette.routing", "pydantic")
    _compare("import, ms", {name: _importing(*modules.get(name, starlette)) for name in makers})


# ---------------------------------------------------------------- whole requests


def requests() -> None:
    """Processor time of requests to the whole service, of which the parts above are a part."""
    import headgate

    with tempfile.TemporaryDirectory() as folder, headgate.connect(f"sqlite:///{folder}/headgate.db") as gate:
        gate.ledger.define_dataset("orders")
        gate.ledger.publish("orders", [f"{number}" for number in range(100)])
        asyncio.run(_whole_requests(gate, gate.tokens.new("bench", ["admin"]).token))


async def _whole_requests(gate: Any, token: str) -> None:
    from headgate.http.app import make_app
    from headgate.http.service import Service

    service = Service(gate)
    app = make_app(service)
    found: dict[str, list[float]] = {"acquire a lock": [], "page of 100 chunks": []}
    async with service.running():
        for _ in range(ROUNDS):
            began = time.process_time()
            for number in range(WHOLE_REQUESTS):
                body = json.dumps({"client": "copy-core", "resource": f"r:{time.monotonic_ns()}:{number}"}).encode()
                if await _ask(app, "POST", "/v1/locks", body, token=token) != 201:
                    raise SystemExit("no lock")
            middle = time.process_time()
            for _ in range(WHOLE_REQUESTS):
                if await _ask(app, "GET", "/v1/chunks", b"", b"dataset=orders&limit=100", token) != 200:
                    raise SystemExit("no chunks")
            found["acquire a lock"].append((middle - began) / WHOLE_REQUESTS * 1e6)
            found["page of 100 chunks"].append((time.process_time() - middle) / WHOLE_REQUESTS * 1e6)
    rows = [(name, f"{min(each):.0f}") for name, each in found.items()]
    sys.stdout.write(f"{table('processor time of a whole request, µs', ('', 'best'), rows)}\n")


# ---------------------------------------------------------------- wire


def coders() -> dict[str, tuple[Callable[[Any], bytes], Callable[[Any, bytes], Any]]]:
    """How to write a value, and how to read a value of a given type."""
    found: dict[str, tuple[Callable[[Any], bytes], Callable[[Any, bytes], Any]]] = {
        "core.wire": (
            lambda value: json.dumps(plain(value)).encode(),
            lambda shape, text: parse(shape, json.loads(text)),
        )
    }
    if _is_installed("msgspec"):
        import msgspec

        found["msgspec"] = (msgspec.json.encode, lambda shape, text: msgspec.json.decode(text, type=shape))
    if _is_installed("cattrs"):
        from cattrs.preconf.json import make_converter

        converter = make_converter()
        found["cattrs"] = (
            lambda value: converter.dumps(value).encode(), lambda shape, text: converter.loads(text, shape)
        )  # fmt: skip
    return found


def wire() -> None:
    """Time to write and to read, and to import."""
    for name, value, shape in (("a lock", LOCK, Lock), ("100 chunks", ROWS, list[Row])):
        written = {coder: write(value) for coder, (write, _) in coders().items()}
        for coder, (_, read) in coders().items():
            if read(shape, written[coder]) != value:
                raise SystemExit(f"{coder} does not read what it wrote")
        writing = {coder: _timed(TIMES[name], partial(write, value)) for coder, (write, _) in coders().items()}
        _compare(f"write {name}, µs", writing)
        reading = {
            coder: _timed(TIMES[name], partial(read, shape, written[coder])) for coder, (_, read) in coders().items()
        }
        _compare(f"read {name}, µs", reading)
    _compare("import, ms", {"core.wire": _importing("headgate.core.values.wire"),
                            **{name: _importing(name) for name in coders() if name != "core.wire"}})  # fmt: skip


def _timed(times: int, call: Callable[[], Any]) -> Callable[[], float]:
    def measure() -> float:
        began = time.process_time()
        for _ in range(times):
            call()
        return (time.process_time() - began) / times * 1e6

    return measure


def _importing(*modules: str) -> Callable[[], float]:
    """Milliseconds to import it in a new interpreter, beyond the interpreter's own start."""
    code = f"import time; began = time.perf_counter(); import {', '.join(modules)}; print(time.perf_counter() - began)"

    def measure() -> float:
        return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) * 1e3

    return measure


def _compare(what: str, contestants: Mapping[str, Callable[[], float]]) -> None:
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, measure in contestants.items():
            found[name].append(measure())
    best = {name: min(each) for name, each in found.items()}
    first = next(iter(best.values()))
    rows = [(name, f"{each:.1f}", f"{each / first:.2f}") for name, each in best.items()]
    sys.stdout.write(f"{table(what, ('', 'best', 'ratio'), rows)}\n")


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


if __name__ == "__main__":
    frameworks()
    wire()
    requests()
