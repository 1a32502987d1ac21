"""The first line of an archive: every field must exist, have the right type, and agree with the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from headgate.core.errors import BadPayload
from headgate.core.jumps import LAST_NUMBER, LAST_TOKEN, NUMBERED, Jump
from headgate.stores.ports.moving import Contents

#: Moments are microseconds in 64 bits.
LAST_MOMENT = 2**63 - 1
#: In the form in which the table of facts stores them.
LONGEST_NAME, LONGEST_VALUE = 64, 255


def read_header(header: Mapping[str, Any], name: str) -> Contents:
    """The contents announced by a first line; BadPayload names the field that is wrong."""
    known = {field.name for field in fields(Contents)}
    if set(header) != known:
        odd = ", ".join(sorted(str(each)[:40] for each in set(header) ^ known))
        raise BadPayload(name, f"its first line was not written by this Headgate: {odd}")
    for field, fits in HEADER.items():
        if not fits(header[field]):
            raise BadPayload(name, f"its first line was not written by Headgate: {field} is not valid")
    if set(header["counts"]) != set(header["tables"]):
        raise BadPayload(name, "its first line was not written by Headgate: counts and tables differ")
    return Contents(**{**header, "jumped": Jump(**header["jumped"])})


def is_number(value: object, most: int = LAST_MOMENT) -> bool:
    """A whole number from 0 to the most."""
    return type(value) is int and 0 <= value <= most


def is_text(value: object, longest: int) -> bool:
    """Text that every store can hold: without NUL and lone surrogates."""
    return isinstance(value, str) and len(value) <= longest and "\0" not in value and not _HALF.search(value)


_HALF = re.compile("[\ud800-\udfff]")


def _numbers(value: object, names: tuple[str, ...], *most: int) -> bool:
    if not isinstance(value, dict) or set(value) != set(names):
        return False
    return all(is_number(value[name], limit) for name, limit in zip(names, most, strict=True))


def _facts(value: object) -> bool:
    return isinstance(value, dict) and all(
        is_text(name, LONGEST_NAME) and is_text(fact, LONGEST_VALUE) for name, fact in value.items()
    )


def _tables(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(columns, list) and all(is_text(column, LONGEST_NAME) for column in columns)
        for columns in value.values()
    )


#: Each field with its condition.
HEADER: Mapping[str, Callable[[Any], bool]] = {
    "schema": lambda value: is_text(value, LONGEST_NAME),
    "tag": lambda value: isinstance(value, str) and bool(re.fullmatch("[a-z0-9]{4}", value)),
    "at": is_number,
    "now": is_number,
    "token": lambda value: is_number(value, LAST_TOKEN),
    "numbers": lambda value: _numbers(value, NUMBERED, LAST_NUMBER, LAST_NUMBER),
    "jumped": lambda value: _numbers(value, ("tokens", "ids"), LAST_TOKEN, LAST_NUMBER),
    "facts": _facts,
    "tables": _tables,
    "counts": lambda value: isinstance(value, dict) and all(map(is_number, value.values())),
}
