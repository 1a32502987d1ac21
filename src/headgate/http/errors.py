"""Errors as RFC 9457 problems: the error's kind, text and data, and when to retry."""

from __future__ import annotations

import inspect
import logging
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headgate.calls.idempotency import own_ids
from headgate.core.errors import (
    BadValue,
    HalfMoved,
    HeadgateError,
    Invalid,
    LockRefused,
    Lost,
    MissingExtra,
    NotAllowed,
    NotOwner,
    Refused,
    SchemaMismatch,
    StoreMisconfigured,
    Unavailable,
    UnknownName,
)
from headgate.core.problems import TYPE, data_of, word_of
from headgate.core.values.redaction import redact, redact_all
from headgate.telemetry import event

#: By kind; the first match counts.
STATUS: tuple[tuple[type[HeadgateError], int], ...] = (
    (Refused, 409),
    (NotOwner, 403),
    (Lost, 409),
    (UnknownName, 404),
    (Unavailable, 503),
    (StoreMisconfigured, 503),
    (SchemaMismatch, 503),
    (HalfMoved, 503),
    (MissingExtra, 503),
    (Invalid, 422),
)
#: Seconds after which a retry makes sense: for refusals, and for unavailable services.
REFUSED_SECONDS, AWAY_SECONDS, LONGEST_SECONDS = 1, 2, 60
#: Maximum number of errors in a request that are reported.
MOST_TOLD = 20
WORDS: Mapping[int, str] = {
    400: "bad-request", 401: "not-allowed", 403: "not-allowed", 404: "not-found", 405: "wrong-method",
    408: "too-slow", 413: "too-large", 422: "bad-value", 429: "too-many", 500: "internal-error", 503: "unavailable",
    507: "no-space",
}  # fmt: skip

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
#: Additional answers of every route of the API.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": _PROBLEM}
    for status, text in {
        400: "The body is not JSON, or the request is not HTTP.", 401: "No valid API token.",
        403: "The token lacks the scope, or another principal holds it.",
        404: "Not found.", 408: "The body did not arrive in time.",
        409: "Refused, or no longer yours.", 413: "The body is too large.", 422: "The request is not valid.",
        429: "Too many requests at once.", 503: "The store does not answer.",
    }.items()
}  # fmt: skip


class ProblemResponse(JSONResponse):
    """A problem document."""

    media_type = "application/problem+json"


class OverLimit(Exception):
    """More than the service accepts. Not Headgate's own error: the store was not asked."""

    status = 429

    def __init__(self, why: str, limit: str = "", value: float | None = None, seconds: int | None = None) -> None:
        #: The name of the limit, as a setting or in words; its value; and when to retry.
        self.limit, self.value, self.seconds = limit, value, seconds
        super().__init__(why)


class TooMany(OverLimit):
    """More at once than the service accepts, or too often."""

    def __init__(self, why: str, seconds: int = REFUSED_SECONDS, limit: str = "", value: float | None = None) -> None:
        super().__init__(why, limit, value, seconds)


class TooSlow(OverLimit):
    """A body that does not arrive, or too slowly."""

    status = 408

    def __init__(self, limit: str, value: float) -> None:
        super().__init__(f"the body did not arrive in time ({limit}: {value:g})", limit, value)


class TooLarge(OverLimit):
    """A body with more bytes than allowed."""

    status = 413

    def __init__(self, most: int, limit: str) -> None:
        super().__init__(f"the body is larger than {most:,} bytes ({limit})", limit, most)


class NoSpace(OverLimit):
    """A file that does not fit on the file system."""

    status = 507


def add_handlers(app: Starlette, page: Callable[[Request, Exception], Response]) -> None:
    """Every error becomes a problem; a browser that requests a page gets it as a page."""

    async def told(request: Request, error: Exception) -> Response:
        if not request.url.path.startswith("/v1/") and "text/html" in request.headers.get("accept", ""):
            return await run_in_threadpool(page, request, error)
        if isinstance(error, HTTPException) and error.status_code in (404, 405):
            return _of_address(request.method, request.scope["path"], methods_of(app.routes, request.scope["path"]))
        caller = request.scope.get("headgate.caller")
        return problem_of(error if caller is None else _in_own_words(error, caller.principal),
                          request.scope["headgate.request"])  # fmt: skip

    for kind in (HeadgateError, RequestValidationError, HTTPException, OverLimit):
        app.add_exception_handler(kind, told)


def _in_own_words(error: Exception, principal: str) -> Exception:
    """The same error, with the caller's request ids as the caller gave them."""
    if isinstance(error, LockRefused):
        own = replace(error.request, id=own_ids(principal, error.request.id))
        return LockRefused(own, error.blockers, error.cycle)
    if isinstance(error, BadValue):
        return BadValue(error.what, own_ids(principal, error.value), error.why)
    return error


def _of_address(method: str, path: str, methods: Sequence[str]) -> ProblemResponse:
    """Nothing exists there, or it supports other methods."""
    if not methods:
        return problem(404, f"there is nothing at {path}; see /openapi.json for all paths")
    words = ", ".join(methods)
    return problem(405, f"{path} supports {words}, not {method}", headers={"Allow": words})


def methods_of(routes: Sequence[BaseRoute], path: str) -> list[str]:
    """The methods of a path: if several routes match, the one with the fewest names in it."""
    fitting = [each for each in routes if isinstance(each, Route) and each.path_regex.match(path)]
    nearest = min((len(each.param_convertors) for each in fitting), default=0)
    chosen = (each.methods or () for each in fitting if len(each.param_convertors) == nearest)
    return sorted({method for methods in chosen for method in methods})


def problem_of(error: Exception, request_id: str = "") -> Response:
    """The problem for an error. An unexpected one is logged with the request's id."""
    if isinstance(error, HeadgateError):
        return _of_ours(error)
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, OverLimit):
        return _of_limit(error)
    if isinstance(error, HTTPException):
        return problem(error.status_code, str(error.detail), headers=error.headers)
    trace = "".join(traceback.format_exception(error))
    event("http.broken", logging.ERROR, request=request_id, why=repr(error), kind=type(error).__name__, trace=trace)
    return problem(500, "internal error; the log of the service has details under the request id")


def problem(status: int, detail: str, *, headers: Mapping[str, str] | None = None, **data: Any) -> ProblemResponse:
    """A problem that is not one of Headgate's own errors."""
    word = WORDS.get(status, "http-error")
    told = {"type": TYPE + word, "title": word.replace("-", " "), "status": status, "detail": redact(detail)}
    content = {**redact_all(data), **told}
    return ProblemResponse(content, status, headers=headers)


def status_of(error: HeadgateError) -> int:
    """What HTTP calls it."""
    if isinstance(error, NotAllowed):
        return 403 if error.scope else 401
    return status_of_kind(type(error))


def status_of_kind(kind: type[HeadgateError]) -> int:
    """The HTTP status of errors of this kind."""
    return next((status for each, status in STATUS if issubclass(kind, each)), 500)


def _of_ours(error: HeadgateError) -> ProblemResponse:
    status = status_of(error)
    kind = type(error)
    data = data_of(error)
    if not isinstance(error, Refused | Lost):
        # Those name resources and items exactly; the others repeat what was sent or what failed.
        data = redact_all(data)
    title = (inspect.getdoc(kind) or kind.__name__).partition("\n")[0]
    content = {**data, "type": TYPE + word_of(kind), "title": title, "status": status, "detail": str(error)}
    return ProblemResponse(content, status, headers=_headers(error, status))


def _headers(error: HeadgateError, status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    if status == 503:
        return {"Retry-After": str(AWAY_SECONDS)}
    if not isinstance(error, Refused):
        return {}
    ends = [each.expires_in for each in error.blockers if each.expires_in] if isinstance(error, LockRefused) else []
    seconds = math.ceil(min(ends, default=REFUSED_SECONDS))
    return {"Retry-After": str(max(REFUSED_SECONDS, min(seconds, LONGEST_SECONDS)))}


def _of_limit(error: OverLimit) -> ProblemResponse:
    """The limit, its value, and when to retry."""
    given = {"limit": error.limit or None, "value": error.value, "retry_after": error.seconds}
    headers = {} if error.seconds is None else {"Retry-After": str(error.seconds)}
    known = {name: value for name, value in given.items() if value is not None}
    return problem(error.status, str(error), headers=headers, **known)


def _of_validation(error: RequestValidationError) -> ProblemResponse:
    """The errors with their locations; the values are not repeated: they may be secrets."""
    every = error.errors()
    found = [{"where": ".".join(map(str, each["loc"])), "why": str(each["msg"])} for each in every[:MOST_TOLD]]
    more = [f"and {len(every) - MOST_TOLD:,} more"] if len(every) > MOST_TOLD else []
    return problem(422, "; ".join([*(f"{each['where']}: {each['why']}" for each in found), *more]), errors=found)
