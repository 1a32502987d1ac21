"""Valid names of clients, resources, datasets, jobs and profiles."""

from __future__ import annotations

from headgate.core.errors import BadValue
from headgate.core.values.redaction import redact

NAME_LENGTH = 255
RESOURCE_LENGTH = 2048
NOTE_LENGTH = 1000
#: Resources that one lock request may name, unless set otherwise: all are locked during the decision.
RESOURCE_LIMIT = 1000
REQUEST_ID_LENGTH = 200


def check_name(what: str, value: object) -> str:
    """A client, dataset, job, profile or dataid: printable, no slash, at most 255 characters."""
    text = _check_text(what, value, NAME_LENGTH)
    if "/" in text:
        raise BadValue(what, value, "has a slash; names are printable text without '/'")
    return text


def check_resource(value: object) -> str:
    """A resource: any printable text up to 2,048 characters, used exactly as written."""
    return _check_text("resource", value, RESOURCE_LENGTH)


def check_reason(value: object) -> str:
    """An operator's reason: required, and recorded in the history without secrets."""
    return redact(_check_text("reason", value, NOTE_LENGTH))


def check_note(what: str, value: object) -> str:
    """An optional remark, stored without secrets."""
    return "" if value in (None, "") else redact(_check_text(what, value, NOTE_LENGTH))


def check_request_id(value: object) -> str:
    """The caller's own id of one request, by which a repeat is recognised."""
    return _check_text("request id", value, REQUEST_ID_LENGTH)


def _check_text(what: str, value: object, most: int) -> str:
    if not isinstance(value, str):
        raise BadValue(what, value, f"is {type(value).__name__}, not text")
    if not value or value.isspace():
        raise BadValue(what, value, "is empty; choose a name")
    if len(value) > most:
        raise BadValue(what, value, f"has {len(value)} characters; at most {most} are allowed")
    if not value.isprintable():
        raise BadValue(what, value, "has a control character or an unprintable character")
    return value
