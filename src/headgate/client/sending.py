"""Declared operations, asked of a service: the request that a declaration describes, and the answer as its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headgate.client.connection import Connection
from headgate.core.errors import BadValue
from headgate.core.ledger import Asker
from headgate.core.wire import parse, plain
from headgate.operations.declaring import Idempotency, Operation, Page

#: A request that is sent again has to be recognised by a key that the client adds.
KEYED = (Idempotency.KEY, Idempotency.SECRET)


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
        raise _of_caller(operation, arguments, error) from None
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
        raise _of_caller(operation, arguments, error) from None
    return Page([parse(operation.shape, each) for each in document["items"]], document["next"])


def send_file(connection: Connection, operation: Operation, file: Path, /, **arguments: Any) -> Any:
    """Ask for an operation whose body is a file."""
    path, placed = _placed(operation, arguments)
    return parse(operation.result, connection.upload(file, *path, **placed["query"]))


def _placed(operation: Operation, arguments: Mapping[str, Any]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The parts of the path, and what stands elsewhere in the request."""
    placed: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}, "header": {}}
    for name, value in arguments.items():
        if value is not None:
            placed[operation.arguments[name].place][name] = plain(value)
    parts = operation.path[1:].split("/")
    return [str(placed["path"][each[1:-1]]) if each[0] == "{" else each for each in parts], placed


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


def _of_caller(operation: Operation, arguments: Mapping[str, Any], error: BadValue) -> BadValue:
    """The error with the caller's own value, which the service found bad."""
    known = operation.arguments.get(error.what)
    if error.value is None and known is not None and known.place in ("path", "query"):  # No secret is there.
        return BadValue(error.what, arguments.get(error.what), error.why)
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
