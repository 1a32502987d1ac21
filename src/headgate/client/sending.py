"""Sends declared operations to a service: the request is built from the declaration, and the answer is read by it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from headgate.client.connection import ServiceConnection
from headgate.core.errors import BadValue
from headgate.core.values.names import check_request_id
from headgate.core.values.redaction import redact
from headgate.core.values.wire import parse, plain
from headgate.operations.arguments import MOST
from headgate.operations.declaring import Argument, Declarations, Idempotency, Operation, Page, without_none
from headgate.service.access.identity import new_request_id

#: A repeated request has to be recognised by a key that the client adds.
KEYED = (Idempotency.KEY, Idempotency.SECRET)
Method = TypeVar("Method", bound=Callable[..., Any])
Kind = TypeVar("Kind")


def send(connection: ServiceConnection, operation: Operation, /, **arguments: Any) -> Any:
    """Send an operation and return its result. Arguments that are None get the service's default.

    A paged list is returned completely, or up to `limit`. The declaration determines how a lost answer is requested
    again: with a key, with the caller's request id, unchanged, or not at all.
    """
    if operation.method == "GET" and operation.paged:
        return send_pages(connection, operation, **arguments).items
    path, placed = _placed(operation, arguments)
    try:
        document = _send(connection, operation, path, placed)
    except BadValue as error:
        raise _of_caller(arguments, error) from None
    if document is None:
        return None
    if operation.paged:
        return [_read(operation, each) for each in document["items"]]
    if operation.record is not None:
        return _read(operation, document)
    part, shape = next(each for each in operation.answers if not each[0] or each[0] in document)
    return parse(shape, document[part] if part else document)


def send_pages(connection: ServiceConnection, operation: Operation, /, **arguments: Any) -> Page[Any]:
    """Request a list, page by page: all of it, or the first `limit` items and where to continue."""
    path, placed = _placed(operation, arguments)
    query = placed["query"]
    limit = query.get("limit", math.inf)
    items: list[Any] = []
    while True:
        try:
            document = connection.get(*path, **query | {"limit": min(limit - len(items), MOST)})
        except BadValue as error:
            raise _of_caller(arguments, error) from None
        items += [_read(operation, each) for each in document["items"]]
        query["after"] = document["next"]
        if document["next"] is None or len(items) >= limit:
            return Page(items, document["next"])


def send_file(connection: ServiceConnection, operation: Operation, file: Path, /, **arguments: Any) -> Any:
    """Send an operation whose body is a file."""
    path, placed = _placed(operation, arguments)
    return parse(operation.result, connection.upload(file, *path, **placed["query"]))


def _read(operation: Operation, document: Any) -> Any:
    """A result, or an item of it."""
    found = parse(operation.shape, document)
    return found if operation.record is None else tuple(getattr(found, each.name) for each in fields(operation.record))


def _placed(operation: Operation, arguments: Mapping[str, Any]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The segments of the path, and the other arguments of the request."""
    placed: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}, "header": {}}
    for name, value in arguments.items():
        argument = operation.arguments[name]
        if value is not None or argument.required:
            placed[argument.place][name] = _fitted(argument, value)
    parts = operation.path[1:].split("/")
    return [str(placed["path"][each[1:-1]]) if each[0] == "{" else each for each in parts], placed


def _fitted(argument: Argument, value: Any) -> Any:
    """The value in JSON types; BadValue if it is not of the declared type and cannot be sent.

    The service checks everything else, since it has to do so in any case.
    """
    name, shape = argument.name.replace("_", " "), without_none(argument.shape)
    if shape is str and not isinstance(value, datetime):
        text = check_text(name, value)
        if argument.place == "path" and (not text or "/" in text or not text.isprintable()):
            raise BadValue(name, value, "is not printable text without '/'")
        return redact(text) if argument.about.kept else plain(text)
    if shape is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadValue(name, value, "is not a whole number")
    if shape is float and not _is_number(value):
        raise BadValue(name, value, "is not a number")
    return plain(value)


def check_text(name: str, value: object) -> str:
    """Return the text. Raises BadValue if it cannot be sent."""
    if not isinstance(value, str):
        raise BadValue(name, value, f"is {type(value).__name__}, not text")
    try:
        value.encode()
        is_sendable = "\0" not in value
    except UnicodeEncodeError:
        is_sendable = False
    if not is_sendable:
        raise BadValue(name, value, "has a control character or an unprintable character")
    return value


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _send(
    connection: ServiceConnection, operation: Operation, path: list[str], placed: dict[str, dict[str, Any]]
) -> Any:
    if operation.method == "GET":
        return connection.get(*path, **placed["query"])
    body = placed["body"] if operation.has_body else None
    if operation.idempotency in KEYED:
        return connection.once(*path, body=body, **placed["query"])
    return connection.send(
        operation.method, *path, body=body, request_id=placed["header"].get("request_id"),
        again=operation.idempotency is not Idempotency.ONCE, wait=placed["body"].get("wait", 0), **placed["query"],
    )  # fmt: skip


def _of_caller(arguments: Mapping[str, Any], error: BadValue) -> BadValue:
    """The error for the caller's own value, which the service rejected."""
    given = arguments.get(error.what)
    if error.value is None and isinstance(given, str | int | float):  # The service never repeats a malformed one.
        return BadValue(error.what.replace("_", " "), given, error.why.removeprefix("Input "))
    error.value = next((each for each in arguments.values() if each == error.value), error.value)
    return error


def known_by(given: str | None) -> str:
    """The id by which the service recognises a repeated request: the caller's own, or a new one."""
    return new_request_id() if given is None else check_request_id(given)  # It is sent in a header.


# ---------------------------------------------------------------- methods


class ServicePart:
    """A part of a service: its methods send requests."""

    def __init__(self, connection: ServiceConnection) -> None:
        self.connection, self.options = connection, connection.options


def remote(
    service: str, *declared: Declarations, here: Sequence[str] = (), **others: Operation
) -> Callable[[type[Kind]], type[Kind]]:
    """Let a class send every declared operation of this service of a gate, except those that it defines itself.

    A method that checks its arguments and then calls a private step (`release` and `_release`) stays unchanged: the
    step is sent.

    :param here: Methods that run in the caller's process, although there is an operation with that name.
    :param others: The operations of methods with another name.
    """

    def complete(kind: type[Kind]) -> type[Kind]:
        sent = dict(others)
        for operation in (each for part in declared for each in part.operations):
            of, _, name = operation.call.rpartition(".")
            target = f"_{name}" if hasattr(kind, f"_{name}") else name
            if of == service and name not in here and hasattr(kind, target):
                sent.setdefault(target, operation)
        for target in sent.keys() - vars(kind).keys():
            setattr(kind, target, _sending(getattr(kind, target), sent[target]))
        return kind

    return complete


def same_as(method: Method) -> Callable[[Callable[..., Any]], Method]:
    """Give a method of a remote service the signature of the one that it replaces. It gets all arguments by name."""

    def replace(function: Callable[..., Any]) -> Method:
        @wraps(method)
        def call(*given: Any, **named: Any) -> Any:
            bound = _signature(method).bind(*given, **named)
            bound.apply_defaults()
            return function(**bound.arguments)

        return cast("Method", call)

    return replace


#: Resolved on first use, so that importing a class with many methods stays fast.
_signature = cache(inspect.signature)


def _sending(method: Callable[..., Any], operation: Operation) -> Callable[..., Any]:
    @same_as(method)
    def call(self: Any, **asked: Any) -> Any:
        return send(self.connection, operation, **_declared(operation, asked))

    return call


def _declared(operation: Operation, asked: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a method by their declared names. It may use other names for those in the path."""
    declared_as = {other: name for name, other in operation.renamed.items()}
    asked = {declared_as.get(name, name): value for name, value in asked.items()}
    for name in operation.packed:
        asked |= plain(asked.pop(name))
    others = [name for name in asked if name not in operation.arguments]
    for more in [name for name in others if isinstance(asked[name], dict)]:
        asked |= asked.pop(more)
        others.remove(more)
    if "request_id" in asked:
        asked["request_id"] = known_by(asked["request_id"])
    in_path = [name for name in operation.names if name not in asked]
    return asked | {name: asked.pop(other) for name, other in zip(in_path, others, strict=True)}
