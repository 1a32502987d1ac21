"""Ranges of data ids: days and whole numbers, both ends included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from headgate.core.errors import BadValue

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: No range is longer.
LONGEST_RANGE = 100_000_000


def expand(word: str) -> Iterator[str]:
    """`2024-01-01..2026-10-31` day by day, `1..1000` number by number; any other word is itself.

    Numbers that are written with as many digits keep that width: `001..100`.
    """
    first, dots, last = word.partition("..")
    if dots and _DAY.fullmatch(first) and _DAY.fullmatch(last):
        return _days(word, first, last)
    if dots and first.isascii() and first.isdigit() and last.isascii() and last.isdigit():
        return _numbers(word, first, last)
    return iter((word,))


def _days(word: str, first: str, last: str) -> Iterator[str]:
    try:
        begin, end = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError as error:
        raise BadValue("range", word, f"has a day that there is not: {error}") from None
    _check(word, (end - begin).days + 1)
    return (str(begin + timedelta(days=day)) for day in range((end - begin).days + 1))


def _numbers(word: str, first: str, last: str) -> Iterator[str]:
    width = len(first) if len(first) == len(last) else 0
    _check(word, int(last) - int(first) + 1)
    return (str(number).zfill(width) for number in range(int(first), int(last) + 1))


def _check(word: str, count: int) -> None:
    if count < 1:
        raise BadValue("range", word, "ends before it begins")
    if count > LONGEST_RANGE:
        raise BadValue("range", word, f"has {count} members; {LONGEST_RANGE} are allowed")
