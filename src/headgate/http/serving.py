"""Operations as routes: what a request must look like, who may send it, and how its result is answered, all derived
from the declarations in `headgate.operations`.

An operation is carried out by the method that it names of the gate's service. Where HTTP needs more (waiting without a
thread, what a caller may see), a handler in `routes/` does it: `Handlers.of`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from headgate.calls.deadlines import asked_at
from headgate.core.wire import plain
from headgate.gate import Gate
from headgate.http.auth import Caller
from headgate.http.direct import Declared, Routes
from headgate.http.repeats import HARMLESS, LIST, Repeat
from headgate.http.service import Service
from headgate.operations.declaring import (
    Declarations,
    Idempotency,
    Onlooker,
    Operation,
    Page,
    bare,
    marks,
    without_none,
)

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Call:
    """One request for an operation."""

    operation: Operation
    request: Request
    service: Service
    #: What the caller may see of everything.
    gate: Gate
    who: Caller


class Handlers:
    """The routes of a noun, with the handlers of those that need one."""

    def __init__(self, declared: Declarations) -> None:
        self._declared = declared
        self._handlers: dict[str, Callable[..., Any]] = {}

    def of(self, operation: Operation) -> Callable[[Handler], Handler]:
        """Carry an operation out by this function: it gets the call, and the operation's arguments by name."""

        def keep(handler: Handler) -> Handler:
            self._handlers[operation.name] = handler
            return handler

        return keep

    def routes(self) -> Routes:
        """For the app."""
        found = Routes(self._declared.noun)
        for each in self._declared.operations:
            repeat = repeat_of(each) if each.method == "POST" else None
            served = Served(each, self._handlers.get(each.name, carry_out))
            found.declared.append(Declared(each.method, f"/v1{each.path}", served, _Told(each), repeat))
        return found


class Served:
    """An operation, as a route calls it."""

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
        call = Call(self.operation, request, service, gate, who)
        arguments = named if body is None else {**named, **body.__dict__}
        for name, way in self._completed:
            given = arguments.get(name)
            if way == "request":
                arguments[name] = who.request_id(idempotency_key, headgate_request)
            else:
                arguments[name] = who.by(given) if way == "by" else given or who.by()
        result = await self._carry_out(call, arguments)
        return result if isinstance(result, Response) else self._answer(result, who)

    async def _carry_out(self, call: Call, arguments: dict[str, Any]) -> Any:
        if self._is_async:
            _check_limit(call, arguments)
            return await self._handler(call, **arguments)

        def work() -> Any:
            _check_limit(call, arguments)
            return self._handler(call, **arguments)

        if self.operation.quick:
            return await call.service.crew.run(work)
        with asked_at(time.monotonic()):  # A thread takes it over: deadlines run from now, whenever one is free.
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

    @cached_property
    def _show(self) -> Callable[[Any, Caller], Any]:
        """What makes a result plain, for a caller."""
        shape, is_seen = _item(self.operation.result)
        return SHOWN.get((shape, is_seen)) or SHOWN.get((shape, False)) or _plain

    @cached_property
    def _completed(self) -> list[tuple[str, str]]:
        found = self.operation.arguments.values()
        return [(each.name, each.about.caller) for each in found if each.about.caller]

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """What a route reads from a request, and the OpenAPI describes."""
        from headgate.http import schemas

        return schemas.signature(self.operation)


#: How a noun is shown to a caller, where its fields alone do not say it: by type, and whether an onlooker asks.
SHOWN: dict[tuple[Any, bool], Callable[[Any, Caller], Any]] = {}
#: How the name is found to which a limited scope is compared, by the argument; else it is the argument's value.
LIMITS: dict[str, Callable[..., None]] = {}


def carry_out(call: Call, **arguments: Any) -> Any:
    """The result of the method of the gate's service that the operation names. What the path names comes first."""
    operation = call.operation
    method = attrgetter(operation.call)(call.gate)
    names = [arguments.pop(name) for name in operation.names]
    if not operation.paged:
        return method(*names, **arguments)
    if "after" not in arguments:
        return Page(list(method(*names, **arguments)))
    if operation.whole:
        after, limit = arguments.pop("after"), arguments.pop("limit")
        return page_after(method(*names, **arguments), after, limit, _key(operation.cursor))
    limit = arguments.pop("limit")
    return page(method(*names, **arguments, limit=limit + 1), limit, _key(operation.cursor))


def page(found: Sequence[Any], limit: int, key: Callable[[Any], str]) -> Page[Any]:
    """A page, made from up to `limit + 1` items; `key` of its last item is the cursor."""
    return Page(found[:limit], key(found[limit - 1]) if len(found) > limit else None)


def page_after(found: Iterable[Any], after: str | None, limit: int, key: Callable[[Any], str]) -> Page[Any]:
    """A page of a complete list, which `key` orders."""
    ordered = sorted((key(each), number, each) for number, each in enumerate(found))
    rest = [each for cursor, _, each in ordered if after is None or cursor > after]
    return page(rest[: limit + 1], limit, key)


def _key(attribute: str) -> Callable[[Any], str]:
    return attrgetter(attribute) if attribute else str


def repeat_of(operation: Operation) -> Repeat:
    """What a repeat of a POST answers whose answer was not stored."""
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
    is_seen = _item(operation.result)[1]
    status = 204 if operation.result is None else operation.status
    return Repeat(status, part=operation.part, without="request_id" if is_seen else "")


def _check_limit(call: Call, arguments: Mapping[str, Any]) -> None:
    """NotAllowed, or UnknownName, for a caller whose scope is limited to other names."""
    limit = call.operation.limit
    if limit is None:
        return
    if limit.argument in LIMITS:
        LIMITS[limit.argument](call, **arguments)
        return
    who, name = call.who, arguments[limit.argument] or ""
    if any(who.reach.has(word) for word in call.operation.scopes if word != limit.scope):
        return
    if limit.hidden:
        who.must_see(limit.hidden, limit.scope, name)
    who.must_reach(limit.scope, name)


def _plain(value: Any, _who: Caller) -> Any:
    return plain(value)


def _item(shape: Any) -> tuple[Any, bool]:
    """The noun in a result (of a list, what is in it), and whether it is shown to an onlooker."""
    is_seen = any(isinstance(each, Onlooker) for each in marks(shape))
    inner = bare(shape)
    part = get_args(inner)[0] if get_origin(inner) in (Page, list, tuple) else without_none(inner)
    if part is inner:
        return inner, is_seen
    found, seen = _item(part)
    return found, is_seen or seen


class _Told(Mapping[str, Any]):
    """What the OpenAPI tells of an operation besides its arguments; made when it is asked for."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @cached_property
    def _made(self) -> dict[str, Any]:
        from headgate.http import schemas

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
