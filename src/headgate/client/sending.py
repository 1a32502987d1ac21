"""Declared operations, asked of a service: the request that a declaration describes, and the answer as its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headgate.client.connection import Connection
from headgate.core.wire import parse, plain
from headgate.operations.declaring import Idempotency, Operation, part_of

#: A request that is sent again has to be recognised by a key that the client adds.
KEYED = (Idempotency.KEY, Idempotency.SECRET)


def send(connection: Connection, operation: Operation, **arguments: Any) -> Any:
    """Ask for an operation, and return its result. What is None is left to the service's default.

    A list that has pages comes whole, or up to `limit`. How a lost answer is asked for again follows from the
    declaration: with a key, with the caller's request id, as it was, or not at all.
    """
    placed: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}, "header": {}}
    for name, value in arguments.items():
        if value is not None:
            placed[operation.arguments[name].place][name] = plain(value)
    path = [str(placed["path"][part[1:-1]]) if part[0] == "{" else part for part in operation.path[1:].split("/")]
    if operation.method == "GET" and operation.paged:
        return [parse(operation.shape, each) for each in connection.pages(*path, **placed["query"])]
    document = _send(connection, operation, path, placed)
    if document is None:
        return None
    if operation.paged:
        return [parse(operation.shape, each) for each in document["items"]]
    shapes = (operation.result, *(shape for _, shape, _ in operation.or_answers))
    shape = next(each for each in shapes if not part_of(each) or part_of(each) in document)
    return parse(shape, document[part_of(shape)] if part_of(shape) else document)


def _send(connection: Connection, operation: Operation, path: list[str], placed: dict[str, dict[str, Any]]) -> Any:
    if operation.method == "GET":
        return connection.get(*path, **placed["query"])
    body = placed["body"] if any(each.place == "body" for each in operation.arguments.values()) else None
    if operation.idempotency in KEYED:
        return connection.once(*path, body=body, **placed["query"])
    return connection.send(
        operation.method, *path, body=body, request_id=placed["header"].get("request_id"),
        again=operation.idempotency is not Idempotency.ONCE, wait=placed["body"].get("wait", 0), **placed["query"],
    )  # fmt: skip


def sends(operation: Operation) -> Callable[..., Any]:
    """The method of a remote noun that asks for this operation, with the arguments of its declaration."""
    signature = inspect.signature(operation.declared)

    def call(self: Any, *given: Any, **named: Any) -> Any:
        return send(self.connection, operation, **signature.bind_partial(*given, **named).arguments)

    call.__name__, call.__doc__ = operation.name, operation.sentence
    return call
