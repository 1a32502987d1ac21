"""Routes that analyse the arguments of their function once, where the framework does so for every request.

A route's signature may only contain a few things: the request, the caller, the service and its gate, names in the path,
the query and the headers, and one JSON body. The framework reads the same signatures for the OpenAPI: `description`.
"""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any, TypeVar, get_args, get_origin

from fastapi import Request, Response, params
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from headgate.calls.actor import acting
from headgate.calls.deadlines import asked_at
from headgate.core.errors import BadValue
from headgate.core.values.documents import DuplicateKey, read_foreign
from headgate.http.access.auth import Caller, admit, is_caller, prove_form, provided, service_of
from headgate.http.limits.bodies import with_body
from headgate.http.repeats import KEY_HEADER, FileDigest, Repeat

#: The valid names for a body's type.
JSON_TYPES = ("application/json", "+json")
#: In JSON, not preceded by an escaped backslash.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
Problems = list[dict[str, Any]]
Call = TypeVar("Call", bound=Callable[..., Any])


class Direct(Route):
    """A route whose arguments are read according to a list that is built once."""

    def __init__(self, method: str, path: str, call: Callable[..., Any], repeat: Repeat | None = None) -> None:
        super().__init__(path, call, methods=[method])
        self.methods = {method}  # No HEAD besides.
        #: The answer to a repeated request with an Idempotency-Key; None: the key is ignored.
        self.repeat = repeat
        self._beginning = path.partition("{")[0]
        self._awaited = inspect.iscoroutinefunction(call) or getattr(call, "awaited", False)
        self._takes_file = repeat is not None and repeat.file

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Compare the beginning first, because most routes do not match."""
        if not scope["path"].startswith(self._beginning):
            return Match.NONE, {}
        match, found = super().matches(scope)
        return match, {**found, "route": self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, if the route has its method."""
        if scope["method"] not in (self.methods or ()):
            raise HTTPException(405)
        with acting():  # An admitted caller is the acting one until the answer is sent.
            answer = await self.answer(Request(scope, receive, send))
            await answer(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        """The function's answer: it is awaited, or called in a thread. The body is read once the caller is admitted."""
        who = await self._plan.admit(request)
        request = await self._received(request, "" if who is None else who.token.id)
        if who is not None:
            await prove_form(request, who, is_file=self._takes_file)
        arguments = await self._plan.arguments(request, who)
        if self.repeat is None or not self.repeat.recorded or KEY_HEADER not in request.headers:
            return await self._call(arguments)
        return await service_of(request).repeats.answer(request, self.repeat, lambda: self._call(arguments))

    async def _received(self, request: Request, whose: str) -> Request:
        """The request with its body; a file is written to disk as it arrives."""
        bodies, scope = service_of(request).bodies, request.scope
        if self._takes_file:
            file = scope[FileDigest.PLACE] = FileDigest(bodies.paced(scope, request.receive, "upload_time"))
            return Request(scope, file)
        return Request(scope, with_body(await bodies.read(scope, request.receive, whose), request.receive))

    async def _call(self, arguments: dict[str, Any]) -> Response:
        if self._awaited:
            found: Response = await self.endpoint(**arguments)
            return found
        with asked_at(
            time.monotonic()
        ):  # It is executed in a thread: deadlines run from now, whenever a thread becomes free.
            return await run_in_threadpool(self.endpoint, **arguments)

    @cached_property
    def _plan(self) -> RouteArguments:
        """Built on first use: there are many routes, and the start should be fast."""
        return RouteArguments(self.endpoint, frozenset(self.param_convertors))


@dataclass(frozen=True, slots=True)
class Declared:
    """A route as it is declared."""

    method: str
    path: str
    call: Callable[..., Any]
    #: Additional content of the OpenAPI document.
    told: Mapping[str, Any]
    #: For a POST of the API.
    repeat: Repeat | None = None


class Routes:
    """The routes of one file."""

    def __init__(self, tag: str = "", kind: type[Direct] = Direct) -> None:
        #: Their section in the OpenAPI; empty: none.
        self.tag = tag
        #: In the order in which they are tried.
        self.declared: list[Declared] = []
        self._kind = kind

    def made(self) -> list[Direct]:
        """Return the routes for an app."""
        return [self._kind(each.method, each.path, each.call, each.repeat) for each in self.declared]

    def get(self, path: str, **told: Any) -> Callable[[Call], Call]:
        """Answer a GET."""
        return self._declare("GET", path, told)

    def post(self, path: str, **told: Any) -> Callable[[Call], Call]:
        """Answer a POST."""
        return self._declare("POST", path, told)

    def _declare(self, method: str, path: str, told: Mapping[str, Any]) -> Callable[[Call], Call]:
        def declare(call: Call) -> Call:
            self.declared.append(Declared(method, path, call, told))
            return call

        return declare


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A named value in the path, the query or the headers."""

    name: str
    #: path, query or header.
    place: str
    #: As the request contains it.
    alias: str
    kind: TypeAdapter[Any]
    #: It may occur any number of times.
    several: bool
    default: Any

    def read(self, given: Any, problems: Problems) -> Any:
        """Return the value from the path, the query or the headers."""
        found = given.getlist(self.alias) or None if self.several else given.get(self.alias)
        if found is None:
            if self.default is inspect.Parameter.empty:
                problems.append(_missing(self.place, self.alias))
            return self.default
        if any("\0" in each for each in ([found] if isinstance(found, str) else found)):
            problems.append({"type": "nul", "loc": (self.place, self.alias), "msg": "contains a NUL character"})
            return None
        return _valid(self.kind, found, (self.place, self.alias), problems)


class RouteArguments:
    """The arguments of a route's function."""

    def __init__(self, call: Callable[..., Any], in_path: frozenset[str]) -> None:
        self._requests: list[str] = []
        self._provided: list[tuple[str, Callable[[Request], Any]]] = []
        self._named: dict[str, list[NamedValue]] = {"path": [], "query": [], "header": []}
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

    async def admit(self, request: Request) -> Caller | None:
        """The caller; None if no caller is needed. Others are refused without further information."""
        return await admit(request, self._who[1]) if self._who else None

    async def arguments(self, request: Request, who: Caller | None) -> dict[str, Any]:
        """Return the arguments by name."""
        values: dict[str, Any] = dict.fromkeys(self._requests, request)
        for name, provide in self._provided:
            values[name] = provide(request)
        if self._who:
            values[self._who[0]] = who
        problems: Problems = []
        self._read_named("path", request.path_params, values, problems)
        if self._named["query"]:
            self._read_named("query", request.query_params, values, problems)
        if self._named["header"]:
            self._read_named("header", request.headers, values, problems)
        if self._body:
            name, kind = self._body
            text = await request.body()
            values[name] = await service_of(request).bodies.parse(text, _read_body, request, text, kind, problems)
        if problems:
            raise RequestValidationError(problems)
        return values

    def _read_named(self, place: str, given: Any, values: dict[str, Any], problems: Problems) -> None:
        for each in self._named[place]:
            values[each.name] = each.read(given, problems)


def _read_body(request: Request, text: bytes, kind: TypeAdapter[Any], problems: Problems) -> Any:
    if not text:
        problems.append(_missing("body"))
        return None
    if not request.headers.get("content-type", "").partition(";")[0].strip().lower().endswith(JSON_TYPES):
        why = "needs the header Content-Type: application/json"
        problems.append({"type": "content_type", "loc": ("body",), "msg": why, "input": None})
        return None
    try:
        found = read_foreign(text)
    except DuplicateKey as error:
        raise BadValue("body", error.key, "appears twice") from None
    except ValueError as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error
    if b"\\u0000" in text and _NUL.search(json.dumps(found)):
        problems.append({"type": "nul", "loc": ("body",), "msg": "contains a NUL character"})
        return None
    return _valid(kind, found, ("body",), problems)


def _valid(kind: TypeAdapter[Any], value: Any, place: tuple[str, ...], problems: Problems) -> Any:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            problems.append({**each, "loc": (*place, *each["loc"])})
        return None


def _named(asked: inspect.Parameter, mark: Any, in_path: frozenset[str]) -> NamedValue:
    alias = getattr(mark, "alias", None) or asked.name
    place = "header" if isinstance(mark, params.Header) else "path" if alias in in_path else "query"
    several = any(get_origin(each) is list for each in _parts(asked.annotation))
    return NamedValue(asked.name, place, alias, TypeAdapter(asked.annotation), several, asked.default)


def _parts(shape: Any) -> list[Any]:
    """A type without its annotations, and the origin of its union."""
    bare = get_args(shape)[0] if hasattr(shape, "__metadata__") else shape
    return [bare, *get_args(bare)]


def _is_document(shape: Any) -> bool:
    return isinstance(shape, type) and (issubclass(shape, BaseModel) or is_dataclass(shape))


def _missing(*place: str) -> dict[str, Any]:
    return {"type": "missing", "loc": place, "msg": "Field required"}
