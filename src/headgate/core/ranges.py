"""Ranges of data ids: days and whole numbers, both ends included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from headgate.core.errors import BadValue

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: No range is longer.
LONGEST_RANGE = 100_000_000
#: Digits of a number at the end of a range.
MOST_DIGITS = 200


@dataclass(frozen=True, slots=True)
class Members:
    """The data ids that a word stands for: made one by one, and counted without being made."""

    #: How many there are.
    count: int
    #: The one at a place.
    at: Callable[[int], str]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return map(self.at, range(self.count))


def expand(word: str) -> Members:
    """`2024-01-01..2026-10-31` day by day, `1..1000` number by number; any other word is itself.

    Numbers that are written with as many digits keep that width: `001..100`.
    """
    first, dots, last = word.partition("..")
    if dots and _DAY.fullmatch(first) and _DAY.fullmatch(last):
        return _days(word, first, last)
    if dots and first.isascii() and first.isdigit() and last.isascii() and last.isdigit():
        return _numbers(word, first, last)
    return Members(1, lambda _: word)


def _days(word: str, first: str, last: str) -> Members:
    try:
        begin, end = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError as error:
        raise BadValue("range", word, f"contains an invalid date: {error}") from None
    return _checked(word, (end - begin).days + 1, lambda day: str(begin + timedelta(days=day)))


def _numbers(word: str, first: str, last: str) -> Members:
    if max(len(first), len(last)) > MOST_DIGITS:
        raise BadValue("range", word, f"contains a number with more than {MOST_DIGITS} digits")
    width = len(first) if len(first) == len(last) else 0
    begin = int(first)
    return _checked(word, int(last) - begin + 1, lambda number: str(begin + number).zfill(width))


def _checked(word: str, count: int, at: Callable[[int], str]) -> Members:
    if count < 1:
        raise BadValue("range", word, "ends before it starts")
    if count > LONGEST_RANGE:
        raise BadValue("range", word, f"has {count} members; at most {LONGEST_RANGE} are allowed")
    return Members(count, at)
