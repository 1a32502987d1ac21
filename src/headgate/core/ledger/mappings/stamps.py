"""Times as data ids: fixed-width formats, so that parsing is the inverse of formatting."""

# ruff: noqa: DTZ001 - calendars have no zone
from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from headgate.core.ledger.mappings.calendar import MONTHS_OF_A_QUARTER, Unit


class Grain(IntEnum):
    """The shortest length of time that a format distinguishes."""

    SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR = range(8)


class Directive(NamedTuple):
    """A directive of a format."""

    #: How many digits.
    width: int
    #: Its position from long to short: a format in this order sorts by time.
    rank: int
    #: Its replacement field for `str.format`: of the moment, or of values computed from it.
    written: str
    meaning: str


DIRECTIVES = {
    "%Y": Directive(4, 0, "{0.year:04}", "year"),
    "%G": Directive(4, 0, "{1[0]:04}", "ISO year, that of the week"),
    "%q": Directive(1, 1, "{2}", "quarter, 1 to 4"),
    "%m": Directive(2, 2, "{0.month:02}", "month"),
    "%V": Directive(2, 2, "{1[1]:02}", "ISO week"),
    "%d": Directive(2, 3, "{0.day:02}", "day of the month"),
    "%j": Directive(3, 3, "{3:03}", "day of the year"),
    "%u": Directive(1, 3, "{1[2]}", "day of the week, 1 (Monday) to 7"),
    "%H": Directive(2, 4, "{0.hour:02}", "hour, in UTC"),
    "%M": Directive(2, 5, "{0.minute:02}", "minute"),
    "%S": Directive(2, 6, "{0.second:02}", "second"),
}
FORMATS = {
    Unit.HOUR: "%Y-%m-%dT%H",
    Unit.DAY: "%Y-%m-%d",
    Unit.WEEK: "%G-W%V",
    Unit.MONTH: "%Y-%m",
    Unit.QUARTER: "%Y-Q%q",
    Unit.YEAR: "%Y",
}
#: The directives that name a day, and those that name a longer time when they are alone.
_DAYS = (frozenset(("%Y", "%m", "%d")), frozenset(("%Y", "%j")), frozenset(("%G", "%V", "%u")))
_LONGER = {
    frozenset(("%G", "%V")): Grain.WEEK,
    frozenset(("%Y", "%m")): Grain.MONTH,
    frozenset(("%Y", "%m", "%q")): Grain.MONTH,
    frozenset(("%Y", "%q")): Grain.QUARTER,
    frozenset(("%Y",)): Grain.YEAR,
}
_PARTS = re.compile(r"%.?|[^%]+", re.DOTALL)


class StampFormat:
    """A format of data ids that are times. ValueError, with the reason, for one that does not name a time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = _PARTS.findall(text)
        found = [part for part in self._parts if part.startswith("%") and part != "%%"]
        unknown = next((part for part in found if part not in DIRECTIVES), None)
        if unknown is not None:
            raise ValueError(f"has {unknown!r}, which is not one of {', '.join(DIRECTIVES)}")
        self.grain = _grain(frozenset(found))
        ranks = [DIRECTIVES[part].rank for part in found]
        self._sorts = all(first < second for first, second in pairwise(ranks))
        self._template = "".join(_template(part) for part in self._parts)
        self._computes = any(not DIRECTIVES[part].written.startswith("{0.") for part in found)
        groups: set[str] = set()
        self._pattern = re.compile("".join(_pattern(part, groups) for part in self._parts), re.ASCII)

    def read(self, dataid: str) -> datetime | None:
        """The first moment of the time that a data id names; None if it does not match this format."""
        found = self._pattern.fullmatch(dataid)
        if found is None:
            return None
        try:
            moment = _moment({f"%{name}": int(digits) for name, digits in found.groupdict().items()})
        except (ValueError, OverflowError):
            return None
        return moment if self.write(moment) == dataid else None

    def write(self, moment: datetime) -> str:
        """The data id of the time that contains a moment."""
        if not self._computes:
            return self._template.format(moment)
        quarter = (moment.month - 1) // MONTHS_OF_A_QUARTER + 1
        return self._template.format(moment, moment.isocalendar(), quarter, moment.timetuple().tm_yday)

    def prefix(self, first: datetime, last: datetime) -> str:
        """The common prefix of the data ids of all moments from `first` to `last`."""
        one, other = self.write(first), self.write(last)
        if not self._sorts:
            one = other = "" if self._parts[0] in DIRECTIVES else _template(self._parts[0]).format()
        same = next((place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))
        return one[:same]


@lru_cache(maxsize=1000)
def stamp_format(text: str) -> StampFormat:
    """The format of that text, parsed once."""
    return StampFormat(text)


def _grain(found: frozenset[str]) -> Grain:
    clock = [part for part in ("%H", "%M", "%S") if part in found]
    if any(days <= found for days in _DAYS):
        if clock == ["%H", "%M", "%S"][: len(clock)]:
            return (Grain.DAY, Grain.HOUR, Grain.MINUTE, Grain.SECOND)[len(clock)]
        raise ValueError(f"has {clock[-1]} without the longer time before it")
    if found in _LONGER:
        return _LONGER[found]
    raise ValueError(f"does not name a time; examples: {', '.join(FORMATS.values())}")


def _pattern(part: str, groups: set[str]) -> str:
    if part not in DIRECTIVES:
        return re.escape("%" if part == "%%" else part)
    if part in groups:
        return rf"\d{{{DIRECTIVES[part].width}}}"  # Formatting it again shows whether both agree.
    groups.add(part)
    return rf"(?P<{part[1]}>\d{{{DIRECTIVES[part].width}}})"


def _moment(found: dict[str, int]) -> datetime:
    day = _day(found)
    hour, minute, second = (found.get(part, 0) for part in ("%H", "%M", "%S"))
    return datetime(day.year, day.month, day.day, hour, minute, second)


def _day(found: dict[str, int]) -> date:
    if "%G" in found and "%V" in found and "%Y" not in found:
        return date.fromisocalendar(found["%G"], found["%V"], found.get("%u", 1))
    year = found["%Y"]
    if "%j" in found:
        return date(year, 1, 1) + timedelta(days=found["%j"] - 1)
    month = found["%m"] if "%m" in found else (found.get("%q", 1) - 1) * MONTHS_OF_A_QUARTER + 1
    return date(year, month, found.get("%d", 1))


def _template(part: str) -> str:
    if part in DIRECTIVES:
        return DIRECTIVES[part].written
    return "%" if part == "%%" else part.replace("{", "{{").replace("}", "}}")
