"""The OpenAPI: what the framework reads off the routes' signatures, and the code's own comments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from headgate import __version__
from headgate.http import schemas
from headgate.http.direct import Routes
from headgate.http.errors import PROBLEMS

DESCRIPTION = """\
Ask before you touch shared data: may I read this, may I write this, what should I work on next?

Errors are problems as RFC 9457 has them; `type` names the error, and its data stand beside. 409: refused, or lost.
Send `Idempotency-Key` with a POST, and sending it again does not do it again. Lists come in pages: go on with `next`.
"""


@lru_cache(maxsize=1)
def openapi(routes: tuple[Routes, ...]) -> dict[str, Any]:
    """Of these routes. It takes a while: made when somebody asks for it."""
    document = _read(routes)
    known = document["components"]["schemas"]
    known["Problem"] = schemas.Problem.model_json_schema()
    known.pop("HTTPValidationError", None)
    known.pop("ValidationError", None)
    texts = schemas.comments()
    for name, schema in known.items():
        for field, text in texts.get(name, {}).items():
            if field in schema.get("properties", {}):
                schema["properties"][field].setdefault("description", text)
    return document


def _read(routes: Iterable[Routes]) -> dict[str, Any]:
    app = FastAPI(
        title="Headgate", version=__version__, description=DESCRIPTION, generate_unique_id_function=_operation
    )
    for part in routes:
        for each in part.declared:
            told = dict(each.told)
            answers = {**(PROBLEMS if each.path.startswith("/v1/") else {}), **told.pop("responses", {})}
            app.add_api_route(each.path, each.call, methods=[each.method], tags=[part.tag], responses=answers, **told)
    return app.openapi()


def _operation(route: APIRoute) -> str:
    return route.name.replace(" ", "_")
