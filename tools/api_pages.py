"""The reference of the HTTP API: an overview, and for each noun a page with requests and answers of a real service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from headgate.core.access.scopes import SCOPES
from headgate.core.tables import describe
from headgate.http.api.description import openapi
from headgate.http.app import API
from headgate.http.errors import PROBLEMS

#: Answers of a real service, recorded by `make pages`.
EXAMPLES = Path(__file__).parent.parent / "docs/reference/api-examples.json"
WIDTH = 110
#: Items of a list that are shown.
MOST_SHOWN = 2
Operation = tuple[str, dict[str, Any]]


def operations() -> dict[str, list[Operation]]:
    """`GET /v1/locks` and its part of the OpenAPI, by noun."""
    found: dict[str, list[Operation]] = {}
    for path, methods in openapi(API)["paths"].items():
        for method, what in methods.items():
            found.setdefault(what["tags"][0], []).append((f"{method.upper()} {path}", what))
    return found


def page_names() -> list[str]:
    """The nouns that have a page."""
    return list(operations())


def overview_page() -> str:
    """The rules that all requests share, and every request in a line."""
    document = openapi(API)
    scopes = [(f"`{word}`", text) for word, text in SCOPES.items()]
    parts = ["# HTTP API\n", document["info"]["description"]]
    parts += ["`GET /openapi.json` has all details. Each noun has a page with requests and answers.\n"]
    parts += ["## Scopes\n", describe.table(("scope", "lets"), scopes) + "\n"]
    parts += ["## Errors\n", "Every request can fail with these; the page of a noun lists what else.\n"]
    problems = [(str(status), each["description"]) for status, each in PROBLEMS.items()]
    parts += [describe.table(("status", "meaning"), problems) + "\n"]
    for noun, found in operations().items():
        rows = [(f"`{name}`", _scope(what), _sentence(what)) for name, what in found]
        parts += [f"## {noun.capitalize()}\n", f"Requests and answers: [{noun}](api-{noun}.md).\n"]
        parts += [describe.table(("request", "scope", "meaning"), rows) + "\n"]
    return "\n".join(parts)


def noun_page(noun: str) -> str:
    """Every request of a noun, with its arguments, an example and its errors."""
    shown = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    schemas = openapi(API)["components"]["schemas"]
    lead = (
        "The examples are what a service received and answered; of lists, the first items. See [the API](api.md) for\n"
        "errors, scopes, lists and repeats.\n"
    )
    parts = [f"# HTTP API: {noun}\n", lead]
    for name, what in operations()[noun]:
        parts += [f"## `{name}`\n", f"{_sentence(what)}\n", f"Scope: {_scope(what)}.\n"]
        if rows := [*_parameters(what), *_fields(what, schemas)]:
            parts += [describe.table(("argument", "in", "default", "meaning"), rows) + "\n"]
        parts += _errors(what)
        parts += _example(name, shown[name]) if name in shown else []
    return "\n".join(parts)


def _errors(what: dict[str, Any]) -> list[str]:
    """The errors specific to an operation, by name."""
    told = [(status, re.findall("`([a-z-]+)`", each["description"])) for status, each in what["responses"].items()]
    found = [f"{status} {', '.join(f'`{name}`' for name in names)}" for status, names in told if names and status > "3"]
    return [f"Errors: {', '.join(found)}.\n"] if found else []


def _scope(what: dict[str, Any]) -> str:
    words = [f"`{word}`" for each in what.get("security", []) for found in each.values() for word in found]
    return " or ".join(words) or "-"


def _sentence(what: dict[str, Any]) -> str:
    return " ".join(what["description"].split())


def _parameters(what: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [
        (f"`{each['name']}`", each["in"], _default(each["schema"], required=each.get("required", False)),
         " ".join(each.get("description", "").split()))
        for each in what.get("parameters", [])
    ]  # fmt: skip


def _fields(what: dict[str, Any], schemas: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    content = what.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = schemas.get(content.get("$ref", "").rpartition("/")[2], content)
    required = schema.get("required", [])
    return [
        (f"`{name}`", "body", _default(each, required=name in required), " ".join(each.get("description", "").split()))
        for name, each in schema.get("properties", {}).items()
    ]


def _default(schema: dict[str, Any], *, required: bool) -> str:
    if required:
        return "required"
    found = schema.get("default")
    return "" if found in (None, "", [], {}) else f"`{json.dumps(found)}`"


def _example(name: str, shown: dict[str, Any]) -> list[str]:
    parts = _exchange(name, shown)
    return [*parts, "Refused:\n", *_exchange(name, shown["refused"])] if "refused" in shown else parts


def _exchange(name: str, shown: dict[str, Any]) -> list[str]:
    method = name.split(maxsplit=1)[0]
    lines = [f"{method} {shown['path']}", *(f"{key}: {value}" for key, value in shown["headers"].items())]
    if shown["body"] is not None:
        lines += ["", shown["body"] if isinstance(shown["body"], str) else _written(shown["body"])]
    parts = ["```text", *lines, "```\n"]
    if shown["answer"] is None:
        return [*parts, f"Answer: {shown['status']}, without content.\n"]
    return [*parts, f"Answer: {shown['status']}\n", "```json", _written(_shortened(shown["answer"])), "```\n"]


def _shortened(value: Any) -> Any:
    """The same, with the first few items of long lists."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    return [_shortened(each) for each in value[:MOST_SHOWN]] if isinstance(value, list) else value


def _written(value: Any, indent: int = 0) -> str:
    """JSON, with everything that fits on one line on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, list):
        rows = [inner + _written(each, indent + 2) for each in value]
        return "[\n" + ",\n".join(rows) + "\n" + " " * indent + "]"
    rows = [f"{inner}{json.dumps(key)}: {_written(each, indent + 2)}" for key, each in value.items()]
    return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
