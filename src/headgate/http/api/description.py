"""The OpenAPI: what the framework derives from the routes' signatures, and the code's own comments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any

from fastapi import FastAPI

from headgate import __version__
from headgate.http.api import schemas
from headgate.http.api.direct import Routes
from headgate.http.errors import PROBLEMS

DESCRIPTION = """\
Ask before you touch shared data: may I read this, may I write this, what should I work on next?

Errors are problem documents (RFC 9457); `type` identifies the error, and its data are further members. 409: refused, or
lost.

Every list is answered as `{"items": [...], "next": CURSOR}`. Send `next` as `after` to get the next page; it is null on
the last one. `limit` is the length of a page, at most 1000 (default: 100).

Send your own `Idempotency-Key` with a POST, and a repeat within 24 hours has no second effect: it returns the same
response, even after a restart and from another replica. Keys belong to the principal of the API token that sends
them. The same key with another request, or from a token with other scopes: 422. While the first request is running: 409
`key-in-use`; repeat it later. A request that was refused does not use up its key. Creating an API token is not answered
twice: 409 `already-done`, with the token's id.

`Headgate-Request` is lighter: the store keeps it with the lock, claim, batch or item that the request received, and
returns the same one while that is held. A repeat of a request that is waiting joins it.

Everything acquired belongs to the principal of the API token. Acting on something that another principal holds is 403
`not-owner`; with the scope `admin:force`, the header `Headgate-Override: REASON` (percent-encoded UTF-8) allows it, and
the reason is recorded.

Waiting requests and event streams end (with 401 if possible) within about a second after their API token was revoked or
has expired.
"""


@lru_cache(maxsize=1)
def openapi(routes: tuple[Routes, ...]) -> dict[str, Any]:
    """Return the OpenAPI of these routes. Building it takes a while, so it is built on request."""
    document = _read(routes)
    known = document["components"]["schemas"]
    known["Problem"] = schemas.ProblemDocument.model_json_schema()
    known.pop("HTTPValidationError", None)
    known.pop("ValidationError", None)
    texts = schemas.comments()
    for name, schema in known.items():
        for field, text in texts.get(name, {}).items():
            if field in schema.get("properties", {}):
                schema["properties"][field].setdefault("description", text)
    return document


@lru_cache(maxsize=1)
def openapi_text(routes: tuple[Routes, ...]) -> bytes:
    """Return it as JSON, encoded once: any client may request it."""
    return json.dumps(openapi(routes), ensure_ascii=False, separators=(",", ":")).encode()


def _read(routes: Iterable[Routes]) -> dict[str, Any]:
    names = attrgetter("name")
    app = FastAPI(title="Headgate", version=__version__, description=DESCRIPTION, generate_unique_id_function=names)
    for part in routes:
        for each in part.declared:
            told = dict(each.told)
            answers = {**(PROBLEMS if each.path.startswith("/v1/") else {}), **told.pop("responses", {})}
            app.add_api_route(each.path, each.call, methods=[each.method], tags=[part.tag], responses=answers, **told)
    return app.openapi()
