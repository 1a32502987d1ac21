"""Checks of the values that callers pass."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from headgate.core.errors import BadValue
from headgate.core.values.durations import LONGEST
from headgate.core.values.names import NOTE_LENGTH, check_name
from headgate.core.values.redaction import redact

#: Longest URI of a dataset.
URI_LENGTH = 2048
TEXT_LENGTH = 10_000


def check_seconds(what: str, value: object) -> float:
    """A number of seconds, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValue(what, value, "is not a number of seconds")
    if (isinstance(value, float) and math.isnan(value)) or value < 0:
        raise BadValue(what, value, "is not a number of seconds of 0 or more")
    return math.inf if value > sys.float_info.max else float(value)


def check_span(what: str, value: object) -> float:
    """A finite number of seconds."""
    seconds = check_seconds(what, value)
    if seconds > LONGEST:
        raise BadValue(what, value, f"is too long; at most {LONGEST:.0f} seconds (100 years) are allowed")
    return seconds


def check_lease(value: object) -> float | None:
    """A lease: None for a persistent lock, else seconds, positive and finite."""
    if value is None:
        return None
    seconds = check_span("lease", value)
    if seconds == 0:
        raise BadValue("lease", value, "is not a duration; leave it out for a persistent lock")
    return seconds


def check_limit(value: object) -> int:
    """A maximum number: a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise BadValue("limit", value, "is not a whole number of 1 or more")
    return value


def check_positive_lease(value: object) -> float:
    """A lease of a claim: seconds, positive and finite."""
    seconds = check_lease(value)
    if seconds is None:
        raise BadValue("lease", value, "is missing; a claim needs a lease, which heartbeats renew")
    return seconds


def check_token(value: object) -> int:
    """A token: a whole number from 1 on."""
    if value is None:
        raise BadValue("token", value, "is missing; a report needs the token of its claim")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise BadValue("token", value, "is not a whole number of 1 or more")
    return value


def check_names(what: str, values: object) -> tuple[str, ...]:
    """Several names; a single text is rejected, since it would be taken for its letters."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise BadValue(what, values, "is not a list of names")
    return tuple(check_name(what, each) for each in values)


def check_texts(what: str, values: object) -> dict[str, str]:
    """Names with their texts."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise BadValue(what, values, "is not a mapping of names to texts")
    for name, value in values.items():
        check_name(what, name)
        if not isinstance(value, str) or len(value) > TEXT_LENGTH or "\0" in value:
            raise BadValue(f"{what} {name}", value, f"is not a text of at most {TEXT_LENGTH} characters")
    return dict(values)


def printable(value: object) -> str:
    """A worker's message: secrets are removed, and it is made printable and short rather than refused, because the
    outcome must be recorded.
    """
    text = "" if value is None else redact(str(value))
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text.strip()[:NOTE_LENGTH]


def check_uri(value: object) -> str:
    """The location of data; empty if it is not given."""
    if value == "":
        return ""
    if not isinstance(value, str) or len(value) > URI_LENGTH or not value.isprintable():
        raise BadValue("uri", value, f"is not printable text of at most {URI_LENGTH} characters")
    return value
