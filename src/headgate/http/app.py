"""The app: every route under /v1, and the middleware around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Response
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

from headgate.http import errors
from headgate.http.access.auth import Reader, TheService
from headgate.http.api.direct import Routes
from headgate.http.api.middleware import Around
from headgate.http.api.proxies import Proxied, Trusted
from headgate.http.dashboard import frame, pages
from headgate.http.metrics import CONTENT_TYPE
from headgate.http.routes import (
    claims,
    daemons,
    events,
    expectations,
    incidents,
    ingest,
    inventory,
    ledger,
    locks,
    queue,
    secrets,
    tokens,
    whole,
)
from headgate.http.service import Service
from headgate.http.waiters.waiting import Ending, Gone

around = Routes("service")
#: Everything that the OpenAPI describes.
API = (
    *(
        part.handlers.routes()
        for part in (
            locks, claims, ledger, incidents, expectations, secrets, tokens, whole, events, ingest, queue, daemons,
            inventory,
        )
    ),
    around,
)  # fmt: skip
#: Additional routes, not listed.
hidden = Routes()


def make_app(service: Service) -> Starlette:
    """The app of one service."""

    @asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = Starlette(
        routes=[route for part in (*API, hidden, *pages.ROUTERS) for route in part.made()],
        middleware=[
            Middleware(Proxied, trusted=Trusted(service.gate.settings["trusted_proxies"])),
            Middleware(Around, service=service),
        ],
        lifespan=running,
    )
    app.state.service = service
    app.add_exception_handler(Gone, _gone)
    app.add_exception_handler(Ending, _ending)
    errors.add_handlers(app, frame.problem_page)
    return app


@around.get("/healthz", responses={200: {"description": "The service is running."}})
async def healthz() -> Response:
    """Whether the service is running. Asks no store."""
    return JSONResponse({"status": "ok"})


@around.get("/readyz", responses={200: {"description": "The store answers."}, 503: errors.PROBLEMS[503]})
async def readyz(service: TheService) -> Response:
    """Whether the store answers; 503 within 3 seconds if it does not."""
    await service.ping()
    return JSONResponse({"status": "ready"})


@around.get(
    "/metrics", responses={200: {"content": {"text/plain": {}}}, 401: errors.PROBLEMS[401], 403: errors.PROBLEMS[403]}
)
async def metrics(service: TheService, _who: Reader) -> Response:
    """Counts and times, for Prometheus."""
    return Response(await run_in_threadpool(service.measured), media_type=CONTENT_TYPE)


@hidden.get("/openapi.json")
def openapi() -> Response:
    """The OpenAPI document."""
    from headgate.http.api import description  # It is rarely requested, and takes a while.

    return Response(description.openapi_text(API), media_type="application/json")


async def _gone(_request: Any, _error: Exception) -> Response:
    """Nobody reads this: the caller has disconnected."""
    return Response(status_code=499)


async def _ending(_request: Any, _error: Exception) -> Response:
    """Waiters retry with the service that follows this one."""
    return errors.problem(503, "the service is shutting down", headers={"Retry-After": str(errors.AWAY_SECONDS)})
