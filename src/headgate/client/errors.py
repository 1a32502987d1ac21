"""Errors that a service reports, raised again in the client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, get_type_hints

from headgate.core import errors
from headgate.core.errors import BadValue, HeadgateError, NotAllowed, StoreUnavailable
from headgate.core.ledger.verdicts import Verdict
from headgate.core.locks.model import Blocker, Request
from headgate.core.values.wire import parse

TYPE = "urn:headgate:"
#: Types that the error tree names without importing them.
NOUNS = {"Sequence": Sequence, "Request": Request, "Blocker": Blocker, "Verdict": Verdict}


def raise_problem(service: str, answer: Any, key: str | None) -> NoReturn:
    """The error that an answer reports; its text is the service's own."""
    try:
        document = answer.json()
        error = _error(service, document, answer.status_code, key)
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):  # A proxy's, or of another version.
        raise StoreUnavailable(
            service, f"it answers {answer.status_code} without a problem document of Headgate", key
        ) from None
    raise error


def _error(service: str, document: dict[str, Any], status: int, key: str | None) -> HeadgateError:
    name = _class_name(document["type"])
    kind = getattr(errors, name, None)
    if kind is BadValue and "errors" in document:  # It is not what the operation takes.
        first = document["errors"][0]
        error: HeadgateError = BadValue(first["where"].rpartition(".")[2], None, first["why"])
        error.args = (document["detail"],)
        return error
    if isinstance(kind, type) and issubclass(kind, HeadgateError):
        shape = get_type_hints(kind.__init__, localns=NOUNS) if "__init__" in vars(kind) else {}
        given = {field: parse(each, document.get(field)) for field, each in shape.items() if field != "return"}
        error = kind(**given) if shape else kind(document["detail"])
        error.args = (document["detail"],)
        return error
    if status in (400, 413, 422):
        return BadValue("request", "", document["detail"])
    if status in (401, 403):
        return NotAllowed(document["detail"])
    return StoreUnavailable(service, f"{status}: {document['detail']}", key)


def _class_name(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.removeprefix(TYPE).split("-"))
