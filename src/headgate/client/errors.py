"""Converting errors that a service reports back to exceptions."""

from __future__ import annotations

from typing import Any, NoReturn

from headgate.core.errors import BadValue, HeadgateError, NotAllowed, StoreUnavailable
from headgate.core.problems import TYPE, error_of


def raise_problem(service: str, answer: Any, key: str | None) -> NoReturn:
    """The error that an answer reports, with the service's own text."""
    try:
        document = answer.json()
        error = _error(service, document, answer.status_code, key)
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):  # From a proxy, or another version.
        raise StoreUnavailable(
            service, f"it answers {answer.status_code} without a problem document of Headgate", key
        ) from None
    raise error


def _error(service: str, document: dict[str, Any], status: int, key: str | None) -> HeadgateError:
    detail = document["detail"]
    if "errors" in document:  # It is not a valid argument of the operation.
        first = document["errors"][0]
        bad = BadValue(first["where"].rpartition(".")[2], None, first["why"])
        bad.args = (detail,)
        return bad
    if (error := error_of(document["type"].removeprefix(TYPE), detail, document)) is not None:
        return error
    if status in (400, 413, 422):
        return BadValue("request", "", detail)
    if status in (401, 403):
        return NotAllowed(detail)
    return StoreUnavailable(service, f"{status}: {detail}", key)
