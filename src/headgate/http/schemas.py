"""What is sent and answered. Answers are the domain's own nouns; their descriptions are the code's own comments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Header, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from headgate.core import claims, credentials, history, inventory, ledger, locks, queue, scopes
from headgate.core.errors import BadValue
from headgate.core.locks import Lock
from headgate.core.wire import plain
from headgate.operations import ledger as declared_ledger
from headgate.operations import locks as declared_locks
from headgate.operations import secrets as declared_secrets

T = TypeVar("T")
Responses = dict[int | str, dict[str, Any]]
#: Of a page, at most and unless said otherwise.
MOST, USUAL = 1000, 100
#: The longest that a caller may wait in one request.
LONGEST_WAIT = 3600.0
_COMMENT = re.compile(r"^ {4}#: (.*(?:\n {4}#: .*)*)\n {4}(\w+):", re.MULTILINE)

Limit = Annotated[int, Query(ge=1, le=MOST, description="Largest number of results.")]
After = Annotated[str | None, Query(min_length=1, description="The `next` of the previous page.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=200,
        description="A repeat within 24 hours returns the same response and has no second effect.",
    ),
]  # fmt: skip
RequestId = Annotated[
    str | None,
    Header(
        alias="Headgate-Request", min_length=1, max_length=200,
        description="The caller's own id of this request. A repeat returns the same result while that is held.",
    ),
]  # fmt: skip
Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT, description="Seconds to wait.")]
Lease = Annotated[float, Field(gt=0, description="Lease length in seconds.")]
TokenNumber = Annotated[int, Field(ge=1, lt=2**63, description="Token of the grant.")]
Reason = Annotated[
    str, Field(min_length=1, description="Reason, recorded in the history.", examples=["the disk is full"])
]
By = Annotated[str | None, Field(description="Name of the acting person or process, if the token does not say it.")]


class Body(BaseModel):
    """Something that is sent: nothing that is not known, nothing bent to fit."""

    model_config = ConfigDict(extra="forbid", strict=True)


class BodyOfNouns(Body):
    """The same with nouns in it: strictly, a list in JSON is no tuple, and a word no member of an enumeration."""

    model_config = ConfigDict(strict=False)


class Page(BaseModel, Generic[T]):
    """One page of a list: every list has this form."""

    items: list[T]
    next: str | None = Field(description="Cursor: send it as `after` for the next page. Null on the last page.")


class Problem(BaseModel):
    """Why not, as RFC 9457 has it; the error's own data stand beside."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(examples=["urn:headgate:lock-refused"])
    title: str
    status: int
    detail: str


class Count(BaseModel):
    """How many."""

    count: int


# ---------------------------------------------------------------- locks


class Tokened(Body):
    """What proves a grant."""

    token: TokenNumber


class Acted(Body):
    """An operator's act."""

    reason: Reason
    by: By = None


class ActedLightly(Body):
    """An operator's act that may go without a reason."""

    reason: str = ""
    by: By = None


# ---------------------------------------------------------------- the ledger


class Worker(Body):
    """Who asks for work."""

    worker: str | None = Field(None, description="Name of the worker (default: the calling process).")
    lease: Lease = 60


class WorkerWaiting(Worker):
    """Who asks for work, and waits for it."""

    wait: Wait = 0


# ---------------------------------------------------------------- answers


def answer(value: Any, status: int = 200) -> Response:
    """A value in JSON's own types."""
    return JSONResponse(plain(value), status)


def nothing() -> Response:
    """Done, or nothing to do."""
    return Response(status_code=204)


def page(found: Sequence[T], limit: int, key: Callable[[T], object], show: Callable[[T], Any] = plain) -> Response:
    """A page, made from up to `limit + 1` items; `key` of its last item is the cursor."""
    shown = found[:limit]
    more = str(key(shown[-1])) if len(found) > limit else None
    return listing(shown, more, show)


def page_after(
    found: Iterable[T], after: str | None, limit: int, key: Callable[[T], str], show: Callable[[T], Any] = plain
) -> Response:
    """A page of a complete list that is ordered by `key`."""
    rest = (each for each in found if after is None or key(each) > after)
    return page(list(islice(rest, limit + 1)), limit, key, show)


def listing(items: Iterable[T], more: str | None = None, show: Callable[[T], Any] = plain) -> Response:
    """The form of every list. `more`: the cursor of the next page; None: these are all."""
    return JSONResponse({"items": [show(each) for each in items], "next": more})


def shown_lock(lock: Lock) -> dict[str, Any]:
    """A lock; its request's id is left out, since it is the holder's own."""
    document: dict[str, Any] = plain(lock)
    del document["request_id"]
    return document


def documented(status: int, model: Any, description: str, *, nothing: str = "") -> Responses:
    """What a route answers when all is well, for the OpenAPI. `nothing`: what 204 means."""
    found: Responses = {status: {"model": model, "description": description}}
    return {**found, 204: {"description": nothing}} if nothing else found


def comments() -> Mapping[str, Mapping[str, str]]:
    """The comment of every field of the nouns, by class: what the OpenAPI tells of them."""
    found: dict[str, dict[str, str]] = {}
    declared = (declared_ledger, declared_locks, declared_secrets)
    for module in (claims, credentials, history, inventory, ledger, locks, queue, scopes, *declared):
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and kind.__module__ == module.__name__:
                texts = _COMMENT.findall(inspect.getsource(kind))
                found[name] = {field: text.replace("\n    #: ", " ") for text, field in texts}
    return found


_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
_EXAMPLE = "2026-11-15T04:50:00Z"
Since = Annotated[str | None, Query(pattern=_TIME, description="Earliest time (RFC 3339).", examples=[_EXAMPLE])]
Until = Annotated[str | None, Query(pattern=_TIME, description="Latest time (RFC 3339).", examples=[_EXAMPLE])]


def moment(text: str | None) -> datetime | None:
    """The time that was given."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError as error:
        raise BadValue("since", text, f"is not a time: {error}") from None
