"""Routes that know what their function asks for: found out once, where the framework looks it up at every request.

What may stand in a route's signature is little, and the same everywhere: the request, the caller, the service and its
gate, names in the path, the query and the headers, and one body in JSON.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any, get_args, get_origin

from fastapi import APIRouter, Request, Response, params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from headgate.http.auth import admit, is_caller, provided

#: How a body's type may be named.
JSON_TYPES = ("application/json", "+json")
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
#: What every route may answer besides.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": _PROBLEM}
    for status, text in {
        400: "The body is no JSON.", 401: "No good API token.", 403: "The token does not reach that far.",
        404: "Nothing of that name.", 408: "The body did not come in time.",
        409: "Refused, or no longer yours.", 413: "The body is too large.", 422: "Wrong as it stands.",
        429: "Too many at once.", 503: "The store does not answer.",
    }.items()
}  # fmt: skip
Problems = list[dict[str, Any]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def router(tag: str) -> APIRouter:
    """For routes of this kind."""
    return APIRouter(prefix="/v1", tags=[tag], responses=PROBLEMS, route_class=Direct)


class Direct(APIRoute):
    """A route whose arguments are read by a list that is made once."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Most of the many routes do not even begin like the path."""
        return super().matches(scope) if scope["path"].startswith(self._beginning) else (Match.NONE, {})

    @cached_property
    def _beginning(self) -> str:
        return self.path.partition("{")[0]

    def get_route_handler(self) -> Handler:
        call: Callable[..., Any] = self.endpoint
        plan = Plan(call, frozenset(self.param_convertors))
        waits = inspect.iscoroutinefunction(call)

        async def handle(request: Request) -> Response:
            arguments = await plan.arguments(request)
            answer: Response = await call(**arguments) if waits else await run_in_threadpool(call, **arguments)
            return answer

        return handle


@dataclass(frozen=True, slots=True)
class Named:
    """A value that is named in the path, the query or the headers."""

    name: str
    #: path, query or header.
    place: str
    #: As the request has it.
    alias: str
    kind: TypeAdapter[Any]
    #: It is given as often as wanted.
    several: bool
    default: Any

    def read(self, given: Any, problems: Problems) -> Any:
        """The value, out of all that are named in that place."""
        found = given.getlist(self.alias) or None if self.several else given.get(self.alias)
        if found is None:
            if self.default is inspect.Parameter.empty:
                problems.append(_missing(self.place, self.alias))
            return self.default
        return _valid(self.kind, found, (self.place, self.alias), problems)


class Plan:
    """What a route's function asks for."""

    def __init__(self, call: Callable[..., Any], in_path: frozenset[str]) -> None:
        self._requests: list[str] = []
        self._provided: list[tuple[str, Callable[[Request], Any]]] = []
        self._named: dict[str, list[Named]] = {"path": [], "query": [], "header": []}
        self._who: tuple[str, list[str]] | None = None
        self._body: tuple[str, TypeAdapter[Any]] | None = None
        for each in inspect.signature(call, eval_str=True).parameters.values():
            self._add(each, in_path)

    def _add(self, asked: inspect.Parameter, in_path: frozenset[str]) -> None:
        marks = get_args(asked.annotation)[1:] if hasattr(asked.annotation, "__metadata__") else ()
        mark = next((each for each in marks if isinstance(each, params.Depends | params.Param | params.Body)), None)
        if asked.annotation is Request:
            self._requests.append(asked.name)
        elif isinstance(mark, params.Security) and is_caller(mark.dependency):
            self._who = asked.name, list(mark.scopes or ())
        elif isinstance(mark, params.Depends):
            self._provided.append((asked.name, provided(mark.dependency)))
        elif isinstance(mark, params.Body) or _is_document(asked.annotation):
            self._body = asked.name, TypeAdapter(asked.annotation)
        else:
            named = _named(asked, mark, in_path)
            self._named[named.place].append(named)

    async def arguments(self, request: Request) -> dict[str, Any]:
        """By name. Who may not ask is told so, and nothing else."""
        values: dict[str, Any] = dict.fromkeys(self._requests, request)
        for name, provide in self._provided:
            values[name] = provide(request)
        if self._who:
            name, words = self._who
            values[name] = await admit(request, words)
        problems: Problems = []
        self._read_named("path", request.path_params, values, problems)
        if self._named["query"]:
            self._read_named("query", request.query_params, values, problems)
        if self._named["header"]:
            self._read_named("header", request.headers, values, problems)
        if self._body:
            name, kind = self._body
            values[name] = await _read_body(request, kind, problems)
        if problems:
            raise RequestValidationError(problems)
        return values

    def _read_named(self, place: str, given: Any, values: dict[str, Any], problems: Problems) -> None:
        for each in self._named[place]:
            values[each.name] = each.read(given, problems)


async def _read_body(request: Request, kind: TypeAdapter[Any], problems: Problems) -> Any:
    text = await request.body()
    if not text:
        problems.append(_missing("body"))
        return None
    if not request.headers.get("content-type", "").partition(";")[0].strip().lower().endswith(JSON_TYPES):
        why = "is read only with the header Content-Type: application/json"
        problems.append({"type": "content_type", "loc": ("body",), "msg": why, "input": None})
        return None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        problems.append({"type": "json_invalid", "loc": ("body", error.pos), "msg": f"is no JSON: {error.msg}"})
        return None
    except (UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, "the body is no JSON") from error
    return _valid(kind, found, ("body",), problems)


def _valid(kind: TypeAdapter[Any], value: Any, place: tuple[str, ...], problems: Problems) -> Any:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            problems.append({**each, "loc": (*place, *each["loc"])})
        return None


def _named(asked: inspect.Parameter, mark: Any, in_path: frozenset[str]) -> Named:
    alias = getattr(mark, "alias", None) or asked.name
    place = "header" if isinstance(mark, params.Header) else "path" if alias in in_path else "query"
    several = any(get_origin(each) is list for each in _parts(asked.annotation))
    return Named(asked.name, place, alias, TypeAdapter(asked.annotation), several, asked.default)


def _parts(shape: Any) -> list[Any]:
    """A shape without its marks, and what it is one of."""
    bare = get_args(shape)[0] if hasattr(shape, "__metadata__") else shape
    return [bare, *get_args(bare)]


def _is_document(shape: Any) -> bool:
    return isinstance(shape, type) and (issubclass(shape, BaseModel) or is_dataclass(shape))


def _missing(*place: str) -> dict[str, Any]:
    return {"type": "missing", "loc": place, "msg": "Field required"}
