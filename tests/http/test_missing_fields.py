"""Every missing field of a request is named, for every documented operation."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from headgate.http.api.description import openapi
from headgate.http.app import API

#: Values of path parameters that cannot be any text.
NAMES = {
    "batch": "bid0000000001", "job": "jid0000000001", "item": "bid0000000001", "number": "1", "version": "1",
    "ark": "ark:/99999/fk4x", "token": "1",
}  # fmt: skip


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def needed(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    """The required fields, by where they are missing."""
    for each in operation.get("parameters", ()):
        if each.get("required") and each["in"] == "query":
            yield f"query.{each['name']}"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if kind == "application/json":
            yield from (f"body.{name}" for name in resolved(document, content["schema"]).get("required", ()))


def operations() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    document = openapi(API)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if found := tuple(needed(document, operation)):
                yield method.upper(), path, found


FOUND = list(operations())


def test_some_operations_have_required_fields() -> None:
    assert len(FOUND) > 40


@pytest.mark.parametrize(("method", "path", "fields"), FOUND, ids=[f"{each[0]} {each[1]}" for each in FOUND])
def test_every_missing_field_is_named(admin: httpx2.Client, method: str, path: str, fields: tuple[str, ...]) -> None:
    words = [NAMES.get(part[1:-1].partition(":")[0], "x") if part.startswith("{") else part for part in path.split("/")]
    body: dict[str, object] | None = {} if method in ("POST", "PUT", "PATCH") else None
    answer = admin.request(method, "/".join(words), json=body)
    assert answer.status_code == 422, answer.text
    assert {each["where"] for each in answer.json()["errors"]} >= set(fields)
    assert all(f"{each}: Field required" in answer.json()["detail"] for each in fields)
