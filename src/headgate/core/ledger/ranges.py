"""Ranges of data ids: days, months and whole numbers, both ends included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from headgate.core.errors import BadValue

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MONTH = re.compile(r"(\d{4})-(\d\d)", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)
#: The longest range.
LONGEST_RANGE = 100_000_000
#: Most digits of a number in a range.
MOST_DIGITS = 200


@dataclass(frozen=True, slots=True)
class Members:
    """The data ids of a range: generated one by one, and counted without being generated."""

    #: The number of data ids.
    count: int
    #: The data id at a position.
    at: Callable[[int], str]
    #: Whether a data id is in the range.
    has: Callable[[str], bool]
    #: The first and the last one as text; the last one is None if others may follow it in text order.
    bounds: tuple[str, str | None]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return map(self.at, range(self.count))


def expand(word: str, *, exact: bool = False) -> Members:
    """`2024-01-01..2026-10-31` day by day, `2026-01..2026-12` month by month, `1..1000` number by number.

    A word without `..` stands for itself, and so does every word with `exact`. Numbers that are written with the same
    number of digits keep that width: `001..100`. BadValue for any other word with `..`, which would otherwise name one
    chunk by mistake.
    """
    first, dots, last = word.partition("..")
    if exact or not dots:
        return Members(1, lambda _: word, word.__eq__, (word, word))
    for written, members in ((_DAY, _days), (_MONTH, _months), (_NUMBER, _numbers)):
        if written.fullmatch(first) and written.fullmatch(last):
            return members(word, first, last)
    raise BadValue(
        "range", word,
        "is not a range of days (2026-11-01..2026-11-30), months (2026-01..2026-12) or whole numbers (1..30)\n"
        "To name one chunk whose data id contains `..`, add --exact",
    )  # fmt: skip


def _days(word: str, first: str, last: str) -> Members:
    try:
        begin, end = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError as error:
        raise BadValue("range", word, f"has a day that does not exist: {error}") from None

    def has(dataid: str) -> bool:
        try:
            return bool(_DAY.fullmatch(dataid)) and begin <= date.fromisoformat(dataid) <= end
        except ValueError:  # For example the 31st of June.
            return False

    count = _checked(word, (end - begin).days + 1)
    return Members(count, lambda day: str(begin + timedelta(days=day)), has, (first, last))


def _months(word: str, first: str, last: str) -> Members:
    begin, end = (int(month[:4]) * 12 + int(month[5:]) - 1 for month in (first, last))
    if not all(1 <= int(month[5:]) <= 12 for month in (first, last)):
        raise BadValue("range", word, "has a month that does not exist")

    def has(dataid: str) -> bool:
        return bool(_MONTH.fullmatch(dataid)) and first <= dataid <= last and 1 <= int(dataid[5:]) <= 12

    count = _checked(word, end - begin + 1)
    return Members(count, lambda month: "{:04}-{:02}".format(*_year_and_month(begin + month)), has, (first, last))


def _year_and_month(months: int) -> tuple[int, int]:
    return months // 12, months % 12 + 1


def _numbers(word: str, first: str, last: str) -> Members:
    if max(len(first), len(last)) > MOST_DIGITS:
        raise BadValue("range", word, f"contains a number with more than {MOST_DIGITS} digits")
    width = len(first) if len(first) == len(last) else 0
    begin = int(first)

    def has(dataid: str) -> bool:
        if not _NUMBER.fullmatch(dataid) or len(dataid) > MOST_DIGITS:
            return False
        return begin <= int(dataid) <= int(last) and dataid == str(int(dataid)).zfill(width)

    count = _checked(word, int(last) - begin + 1)
    return Members(count, lambda number: str(begin + number).zfill(width), has, (first, last) if width else ("", None))


def _checked(word: str, count: int) -> int:
    if count < 1:
        raise BadValue("range", word, "ends before it starts")
    if count > LONGEST_RANGE:
        raise BadValue("range", word, f"has {count:,} members; at most {LONGEST_RANGE:,} are allowed")
    return count
