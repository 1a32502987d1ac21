"""Operations as routes: the form of a request, the allowed callers, and the answer, all derived from the declarations
in `headgate.operations`.

An operation is executed by the method of the gate's service that it names. If HTTP needs more (waiting without a
thread, limited views), a handler in `routes/` does it: `Handlers.of`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache, cached_property, partial
from itertools import starmap
from operator import attrgetter
from typing import Any, TypeVar, get_args

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from headgate.calls.deadlines import asked_at
from headgate.core.errors import BadValue, NotAllowed
from headgate.core.values.wire import parse, plain
from headgate.gate import Gate
from headgate.http.access.auth import Caller
from headgate.http.api.direct import Declared, Routes
from headgate.http.repeats import HARMLESS, LIST, Repeat
from headgate.http.service import Service
from headgate.operations.declaring import (
    REQUIRED,
    Declarations,
    Idempotency,
    Onlooker,
    Operation,
    Page,
    bare,
    marks,
)

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request for an operation."""

    operation: Operation
    request: Request
    service: Service
    #: The caller's view of the gate.
    gate: Gate
    who: Caller


class Handlers:
    """The routes of a noun, with the handlers of those that need one."""

    def __init__(self, declared: Declarations) -> None:
        self._declared = declared
        self._handlers: dict[str, Callable[..., Any]] = {}

    def of(self, operation: Operation) -> Callable[[Handler], Handler]:
        """Register the handler of an operation. It receives the call, and the operation's arguments by name."""

        def keep(handler: Handler) -> Handler:
            self._handlers[operation.name] = handler
            return handler

        return keep

    def routes(self) -> Routes:
        """Return the routes for the app."""
        found = Routes(self._declared.noun)
        for each in self._declared.operations:
            repeat = repeat_of(each) if each.method == "POST" else None
            served = Served(each, self._handlers.get(each.name, carry_out))
            found.declared.append(Declared(each.method, f"/v1{each.path}", served, _Told(each), repeat))
        return found


class Served:
    """An operation in the form of a route."""

    #: It is a coroutine.
    awaited = True

    def __init__(self, operation: Operation, handler: Callable[..., Any]) -> None:
        self.operation = operation
        self.__name__ = f"{operation.noun}_{operation.name}"
        self.__doc__ = operation.sentence
        self._handler = handler
        self._is_async = inspect.iscoroutinefunction(handler)

    async def __call__(
        self, request: Request, service: Service, gate: Gate, who: Caller, body: Any = None,
        idempotency_key: str | None = None, headgate_request: str | None = None, **named: Any,
    ) -> Response:  # fmt: skip
        call = ApiCall(self.operation, request, service, gate, who)
        _check_forced(call, named if body is None else body.__dict__)
        arguments = named if body is None else {**named, **_mapped(body)}
        for name, way in self._completed:
            given = arguments.get(name)
            if way == "request":
                arguments[name] = who.request_id(idempotency_key, headgate_request)
            else:
                arguments[name] = who.by(given) if way == "by" else given or who.by()
        for name, shape in self._parsed:
            if arguments[name] is not None:
                arguments[name] = _read(shape, arguments[name], name)
        for name, kind in self.operation.packed.items():
            arguments[name] = PACKED[kind](arguments) if kind in PACKED else _pack(kind, arguments)
        result = await self._carry_out(call, arguments)
        return result if isinstance(result, Response) else self._answer(result, who)

    async def _carry_out(self, call: ApiCall, arguments: dict[str, Any]) -> Any:
        if self._is_async:
            _check_limit(call, arguments)
            return await self._handler(call, **arguments)

        def work() -> Any:
            _check_limit(call, arguments)
            return self._handler(call, **arguments)

        if self.operation.quick:
            return await call.service.crew.run(work)
        with asked_at(
            time.monotonic()
        ):  # It is executed in a thread: deadlines run from now, whenever a thread becomes free.
            return await run_in_threadpool(work)

    def _answer(self, result: Any, who: Caller) -> Response:
        if result is None:
            return Response(status_code=204)
        return JSONResponse(self._document(result, who), self.operation.status)

    def _document(self, result: Any, who: Caller) -> Any:
        if isinstance(result, Page):
            return {"items": [self._show(each, who) for each in result.items], "next": result.next}
        shown = self._show(result, who)
        return {self.operation.part: shown} if self.operation.part else shown

    def _show(self, value: Any, who: Caller) -> Any:
        """The value in JSON types, as a caller sees it."""
        if type(value) in (list, tuple):
            return [self._show(each, who) for each in value]
        show = SHOWN.get((type(value), self._is_seen)) or SHOWN.get((type(value), False))
        return plain(value) if show is None else show(value, who)

    @cached_property
    def _is_seen(self) -> bool:
        return is_seen(self.operation.result)

    @cached_property
    def _completed(self) -> list[tuple[str, str]]:
        found = self.operation.arguments.values()
        return [(each.name, each.about.caller) for each in found if each.about.caller]

    @cached_property
    def _parsed(self) -> list[tuple[str, Any]]:
        found = self.operation.arguments.values()
        return [(each.name, each.about.parsed) for each in found if each.about.parsed is not None]

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """The arguments that a route reads from a request, described in the OpenAPI."""
        from headgate.http.api import schemas

        return schemas.signature(self.operation)


#: How a noun is shown to a caller, if its fields are not enough: by type, given whether the caller is an onlooker.
SHOWN: dict[tuple[Any, bool], Callable[[Any, Caller], Any]] = {}
#: How to build an object of several arguments, by its class, if their names are not those of its fields. They are
#: removed from the arguments.
PACKED: dict[type, Callable[[dict[str, Any]], Any]] = {}
#: How to find the name that a limited scope is compared with, by argument; otherwise it is the argument's value.
LIMITS: dict[str, Callable[..., None]] = {}


def carry_out(call: ApiCall, **arguments: Any) -> Any:
    """Call the service method that the operation names, and return its result. None means the default."""
    operation = call.operation
    method = attrgetter(operation.call)(call.gate)
    known = _parameters(getattr(method, "__func__", method))
    arguments = {operation.renamed.get(name, name): each for name, each in arguments.items()}
    names = [arguments.pop(name) for name in operation.names if name in arguments and name not in known]
    needed = {name for name, each in known.items() if each.default is REQUIRED}
    given = {name: value for name, value in arguments.items() if value is not None or name in needed}
    method = partial(method, *names, **operation.fixed)
    if not operation.paged:
        found = method(**given)
        return found if found is None or operation.record is None else operation.record(*found)
    if "after" not in arguments:
        return Page(list(method(**given)))
    limit = given.pop("limit")
    if operation.whole:
        after = given.pop("after", None)
        whole = method(**given)
        found = whole if operation.record is None else starmap(operation.record, whole)
        return page_after(found, after, limit, _key(operation.cursor))
    return page(method(**given, limit=limit + 1), limit, _key(operation.cursor))


def _mapped(value: Any) -> Any:
    """A body, or a part of it that a declaration defines, as a mapping of its fields."""
    if isinstance(value, BaseModel):
        return {name: _mapped(each) for name, each in value.__dict__.items()}
    return {name: _mapped(each) for name, each in value.items()} if isinstance(value, dict) else value


def _read(shape: Any, value: Any, name: str) -> Any:
    """A value that has the form of the answers; BadValue if it has another one."""
    try:
        return parse(shape, value)
    except (TypeError, KeyError, ValueError, AttributeError, StopIteration) as error:
        if isinstance(value, str):
            raise BadValue(name, value, f"is not valid: {error}") from None
        raise BadValue(name, "in the body", "is missing, or does not have the format of the responses") from None


def _pack(kind: Any, arguments: dict[str, Any]) -> Any:
    """The object of which the arguments are the fields."""
    return kind(**{each.name: arguments.pop(each.name) for each in fields(kind)})


@cache
def _parameters(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(method).parameters


def page(found: Sequence[Any], limit: int, key: Callable[[Any], str]) -> Page[Any]:
    """A page of up to `limit + 1` items; `key` of its last item is the cursor."""
    return Page(found[:limit], key(found[limit - 1]) if len(found) > limit else None)


def page_after(found: Iterable[Any], after: str | None, limit: int, key: Callable[[Any], str]) -> Page[Any]:
    """A page of a complete list, in the order of `key`."""
    ordered = sorted((key(each), number, each) for number, each in enumerate(found))
    rest = [each for cursor, _, each in ordered if after is None or cursor > after]
    return page(rest[: limit + 1], limit, key)


def _key(cursor: str | Callable[[Any], str]) -> Callable[[Any], str]:
    if not isinstance(cursor, str):
        return cursor
    names = cursor.split()
    return (lambda item: " ".join(_sortable(getattr(item, name)) for name in names)) if names else str


def _sortable(value: Any) -> str:
    """Return a text that sorts like the value."""
    if isinstance(value, datetime):
        return f"{value.timestamp():020.6f}"
    return f"{value:020}" if isinstance(value, int) else str(value)


def repeat_of(operation: Operation) -> Repeat:
    """The answer to a repeated POST whose answer was not stored."""
    kind = operation.idempotency
    if kind is Idempotency.REQUEST:
        return Repeat(by_store=True, finds=bool(operation.nothing))
    if kind is Idempotency.SECRET:
        return Repeat(secret=True)
    if kind is Idempotency.FILE:
        return Repeat(operation.status, file=True)
    if kind not in (Idempotency.KEY, Idempotency.PROVEN):
        return HARMLESS
    if operation.paged:
        return LIST
    status = 204 if operation.result is None else operation.status
    return Repeat(status, part=operation.part, without="request_id" if is_seen(operation.result) else "")


def _check_limit(call: ApiCall, arguments: Mapping[str, Any]) -> None:
    """NotAllowed, or UnknownName, for a caller with a scope limited to other names."""
    limit = call.operation.limit
    if limit is None:
        return
    if limit.argument in LIMITS:
        LIMITS[limit.argument](call, **arguments)
        return
    who, name = call.who, arguments[limit.argument] or ""
    if any(who.reach.has(word) for word in call.operation.scopes if word != limit.scope):
        return
    if limit.hidden and (name or who.reach.covers(limit.scope, name)):
        who.must_see(limit.hidden, limit.scope, name)
    elif limit.hidden:
        told = f"the API token of {who.token.name} is limited: name one {limit.hidden} that it has access to"
        raise NotAllowed(f"{told}, or use a token with the scope read", "read")
    who.must_reach(limit.scope, name)


def _check_forced(call: ApiCall, arguments: Mapping[str, Any]) -> None:
    """NotAllowed for a value that needs `admin:force`, from a caller without that scope."""
    for name, value in call.operation.forced.items():
        if arguments.get(name) == value and not call.who.reach.has("admin:force"):
            why = f"the API token of {call.who.token.name} does not allow {name}={value}"
            raise NotAllowed(f"{why}; it needs the scope admin:force", "admin:force")


def is_seen(shape: Any) -> bool:
    """Whether a result is also shown to onlookers."""
    return any(isinstance(each, Onlooker) for each in marks(shape)) or any(map(is_seen, get_args(bare(shape))))


class _Told(Mapping[str, Any]):
    """The OpenAPI of an operation, besides its arguments; built when it is requested."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @cached_property
    def _made(self) -> dict[str, Any]:
        from headgate.http.api import schemas

        operation = self._operation
        answers = schemas.answers(operation)
        words = operation.name.replace("_", " ").capitalize()
        return {
            "name": f"{operation.noun}_{operation.name}", "summary": words, "status_code": next(iter(answers)),
            "responses": answers, **schemas.special(operation),
        }  # fmt: skip

    def __getitem__(self, name: str) -> Any:
        return self._made[name]

    def __iter__(self) -> Any:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
