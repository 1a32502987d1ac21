"""Hours, days, ISO weeks, months, quarters and years, numbered consecutively."""

# ruff: noqa: DTZ001, DTZ901 - calendars have no zone
from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo


class Unit(StrEnum):
    """The length of time that one data id represents."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


#: The units that divide a period without a remainder, itself included. A week does not belong to a month.
PARTS: dict[Unit, tuple[Unit, ...]] = {
    Unit.HOUR: (Unit.HOUR,),
    Unit.DAY: (Unit.HOUR, Unit.DAY),
    Unit.WEEK: (Unit.HOUR, Unit.DAY, Unit.WEEK),
    Unit.MONTH: (Unit.HOUR, Unit.DAY, Unit.MONTH),
    Unit.QUARTER: (Unit.HOUR, Unit.DAY, Unit.MONTH, Unit.QUARTER),
    Unit.YEAR: (Unit.HOUR, Unit.DAY, Unit.MONTH, Unit.QUARTER, Unit.YEAR),
}
HOURS_OF_A_DAY, DAYS_OF_A_WEEK, MONTHS_OF_A_QUARTER, MONTHS_OF_A_YEAR, QUARTERS_OF_A_YEAR = 24, 7, 3, 12, 4


def one(unit: Unit) -> str:
    """An hour, a day."""
    return f"an {unit}" if unit is Unit.HOUR else f"a {unit}"


def number_at(unit: Unit, moment: datetime) -> int:
    """The number of the hour, day, … that contains a moment. The zone is ignored."""
    day = moment.toordinal()
    if unit is Unit.HOUR:
        return day * HOURS_OF_A_DAY + moment.hour
    if unit is Unit.WEEK:
        return (day - 1) // DAYS_OF_A_WEEK  # Day 1 is a Monday.
    if unit is Unit.MONTH:
        return moment.year * MONTHS_OF_A_YEAR + moment.month - 1
    if unit is Unit.QUARTER:
        return moment.year * QUARTERS_OF_A_YEAR + (moment.month - 1) // MONTHS_OF_A_QUARTER
    return day if unit is Unit.DAY else moment.year


def start_of(unit: Unit, number: int) -> datetime | None:
    """The first moment of the hour, day, … of this number; None outside the years 1 to 9999."""
    try:
        if unit is Unit.HOUR:
            return datetime.fromordinal(number // HOURS_OF_A_DAY).replace(hour=number % HOURS_OF_A_DAY)
        if unit is Unit.DAY:
            return datetime.fromordinal(number)
        if unit is Unit.WEEK:
            return datetime.fromordinal(number * DAYS_OF_A_WEEK + 1)
        if unit is Unit.YEAR:
            return datetime(number, 1, 1)
        months = number if unit is Unit.MONTH else number * MONTHS_OF_A_QUARTER
        return datetime(months // MONTHS_OF_A_YEAR, months % MONTHS_OF_A_YEAR + 1, 1)
    except (ValueError, OverflowError):
        return None


def numbers_within(part: Unit, whole: Unit, number: int) -> range:
    """The numbers of all parts of a period; empty outside the years 1 to 9999."""
    begin = start_of(whole, number)
    if begin is None:
        return range(0)
    after = start_of(whole, number + 1)
    last = datetime.max
    end = number_at(part, last) + 1 if after is None else number_at(part, after)
    return range(number_at(part, begin), end)


@lru_cache(maxsize=100)
def zone_named(name: str) -> tzinfo:
    """A time zone by its IANA name; LookupError or ValueError if it is unknown."""
    return UTC if name in ("", "UTC") else ZoneInfo(name)


def local(moment: datetime, zone: str) -> datetime | None:
    """The local time in a zone at a moment in UTC; None outside the years 1 to 9999."""
    try:
        return moment.replace(tzinfo=UTC).astimezone(zone_named(zone)).replace(tzinfo=None)
    except OverflowError:
        return None
