"""The app: every route under /v1, and what surrounds them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.concurrency import run_in_threadpool

from headgate import __version__
from headgate.http import errors, schemas
from headgate.http.auth import Reader, TheService
from headgate.http.dashboard import frame, pages
from headgate.http.direct import PROBLEMS
from headgate.http.metrics import CONTENT_TYPE
from headgate.http.middleware import Around
from headgate.http.routes import claims, custody, events, ingest, inventory, ledger, locks, queue, whole
from headgate.http.service import Service
from headgate.http.waiting import Ending, Gone

DESCRIPTION = """\
Ask before you touch shared data: may I read this, may I write this, what should I work on next?

Errors are problems as RFC 9457 has them; `type` names the error, and its data stand beside. 409: refused, or lost.
Send `Idempotency-Key` with a POST, and sending it again does not do it again. Lists come in pages: go on with `next`.
"""
#: What it would tell is in our log and at /metrics.
NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
around = APIRouter(tags=["service"])


def make_app(service: Service) -> FastAPI:
    """The app of one service."""

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="Headgate", version=__version__, description=DESCRIPTION, lifespan=running, docs_url=None,
        redoc_url=None, generate_unique_id_function=_operation, telemetry=NO_TELEMETRY,
    )  # fmt: skip
    app.state.service = service
    for part in (locks, claims, ledger, custody, whole, events, queue, ingest, inventory):
        app.router.routes.extend(part.router.routes)  # Included, each would be looked for twice.
    app.include_router(around)
    for page in pages.ROUTERS:
        app.include_router(page)
    app.add_middleware(Around, service=service)
    app.add_exception_handler(Gone, _gone)
    app.add_exception_handler(Ending, _ending)
    errors.add_handlers(app, frame.problem_page)
    _describe(app)
    return app


@around.get("/healthz", responses={200: {"description": "It lives."}})
async def healthz() -> dict[str, str]:
    """Whether the service lives. Asks no store."""
    return {"status": "ok"}


@around.get("/readyz", responses={200: {"description": "The store answers."}, 503: PROBLEMS[503]})
def readyz(service: TheService) -> Response:
    """Whether the store answers."""
    service.gate.store.waiters("headgate:ready")
    return schemas.answer({"status": "ready"})


@around.get("/metrics", responses={200: {"content": {"text/plain": {}}}, 401: PROBLEMS[401], 403: PROBLEMS[403]})
async def metrics(service: TheService, _who: Reader) -> Response:
    """Counts and times, for Prometheus."""
    return Response(await run_in_threadpool(service.measured), media_type=CONTENT_TYPE)


async def _gone(_request: Any, _error: Exception) -> Response:
    """Nobody reads this: the caller has hung up."""
    return Response(status_code=499)


async def _ending(_request: Any, _error: Exception) -> Response:
    """Whoever waited asks again, at the service that comes after this one."""
    return errors.problem(503, "the service is about to end", headers={"Retry-After": str(errors.AWAY_SECONDS)})


def _operation(route: APIRoute) -> str:
    return f"{route.name.replace(' ', '_')}"


def _describe(app: FastAPI) -> None:
    """Let the OpenAPI tell what the code's own comments tell."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema:
            return app.openapi_schema
        document = made()
        document["components"]["schemas"]["Problem"] = schemas.Problem.model_json_schema()
        document["components"]["schemas"].pop("HTTPValidationError", None)
        document["components"]["schemas"].pop("ValidationError", None)
        texts = schemas.comments()
        for name, schema in document["components"]["schemas"].items():
            for field, text in texts.get(name, {}).items():
                if field in schema.get("properties", {}):
                    schema["properties"][field].setdefault("description", text)
        return document

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI's own documentation does it
