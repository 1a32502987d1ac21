"""Declared operations, asked of a service: the request that a declaration describes, and the answer as its result."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from headgate.client.connection import Connection
from headgate.core.errors import BadValue
from headgate.core.ledger import Asker
from headgate.core.redaction import redact
from headgate.core.wire import parse, plain
from headgate.operations.declaring import Argument, Idempotency, Operation, Page, without_none

#: A request that is sent again has to be recognised by a key that the client adds.
KEYED = (Idempotency.KEY, Idempotency.SECRET)
Method = TypeVar("Method", bound=Callable[..., Any])


def send(connection: Connection, operation: Operation, /, **arguments: Any) -> Any:
    """Ask for an operation, and return its result. What is None is left to the service's default.

    A list that has pages comes whole, or up to `limit`. How a lost answer is asked for again follows from the
    declaration: with a key, with the caller's request id, as it was, or not at all.
    """
    path, placed = _placed(operation, arguments)
    try:
        if operation.method == "GET" and operation.paged:
            return [parse(operation.shape, each) for each in connection.pages(*path, **placed["query"])]
        document = _send(connection, operation, path, placed)
    except BadValue as error:
        raise _of_caller(arguments, error) from None
    if document is None:
        return None
    if operation.paged:
        return [parse(operation.shape, each) for each in document["items"]]
    part, shape = next(each for each in operation.answers if not each[0] or each[0] in document)
    return parse(shape, document[part] if part else document)


def send_page(connection: Connection, operation: Operation, /, **arguments: Any) -> Page[Any]:
    """Ask for one page of a list."""
    path, placed = _placed(operation, arguments)
    try:
        document = connection.get(*path, **placed["query"])
    except BadValue as error:
        raise _of_caller(arguments, error) from None
    return Page([parse(operation.shape, each) for each in document["items"]], document["next"])


def send_file(connection: Connection, operation: Operation, file: Path, /, **arguments: Any) -> Any:
    """Ask for an operation whose body is a file."""
    path, placed = _placed(operation, arguments)
    return parse(operation.result, connection.upload(file, *path, **placed["query"]))


def _placed(operation: Operation, arguments: Mapping[str, Any]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The parts of the path, and what stands elsewhere in the request."""
    placed: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}, "header": {}}
    for name, value in arguments.items():
        argument = operation.arguments[name]
        if value is not None or argument.required:
            placed[argument.place][name] = _fitted(argument, value)
    parts = operation.path[1:].split("/")
    return [str(placed["path"][each[1:-1]]) if each[0] == "{" else each for each in parts], placed


def _fitted(argument: Argument, value: Any) -> Any:
    """The value as JSON has it; BadValue if it is not of the kind that the declaration says, and cannot be sent.

    The service checks everything else, since it has to in any case.
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
    """Text that can be sent."""
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


def _send(connection: Connection, operation: Operation, path: list[str], placed: dict[str, dict[str, Any]]) -> Any:
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
    """The error with the caller's own value, which the service found bad."""
    given = arguments.get(error.what)
    if error.value is None and isinstance(given, str | int | float):  # The service repeats nothing that is malformed.
        return BadValue(error.what.replace("_", " "), given, error.why.removeprefix("Input "))
    error.value = next((each for each in arguments.values() if each == error.value), error.value)
    return error


def of_asker(asker: Asker) -> dict[str, Any]:
    """The arguments of a declaration that tell who asks."""
    return {"worker": asker.worker, "lease": asker.lease, "request_id": asker.request_id}


def sends(operation: Operation) -> Callable[..., Any]:
    """The method of a remote noun that asks for this operation, with the arguments of its declaration."""
    names = tuple(inspect.signature(operation.declared).parameters)

    def call(self: Any, *given: Any, **named: Any) -> Any:
        if len(given) > len(names):
            raise TypeError(f"{operation.name} takes {len(names)} arguments, not {len(given)}")
        return send(self.connection, operation, **dict(zip(names, given, strict=False)), **named)

    call.__name__, call.__doc__ = operation.name, operation.sentence
    return call


def asks(method: Method, operation: Operation) -> Method:
    """A method of a service, asked of a remote one: with the same signature. What the path names comes first.

    Arguments that are not declared must not be given.
    """
    signature = inspect.signature(method)
    declared = dict(zip([*signature.parameters][1:], operation.names, strict=False))

    @wraps(method)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        bound = signature.bind(self, *given, **named).arguments
        bound.pop("self")
        return send(self.connection, operation, **{declared.get(name, name): each for name, each in bound.items()})

    return call  # type: ignore[return-value] # It has the method's own signature.
