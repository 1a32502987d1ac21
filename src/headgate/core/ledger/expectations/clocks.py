"""Conversion of local times to UTC, including days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from headgate.core.ledger.mappings.calendar import zone_named

_SECOND = timedelta(seconds=1)


def moment_of(shown: datetime, zone: str) -> datetime | None:
    """The moment, in UTC, at which clocks in a time zone first show a time; None outside the years 1 to 9999.

    A skipped time is the first moment after it; a repeated one is the first of both.

    :param shown: The time without a zone.
    :param zone: The zone's IANA name.
    """
    place = zone_named(zone)
    try:
        early, late = (shown.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1))
        if early <= late:  # Shown once or twice: fold 0 is the first time.
            return early
        return _change_between(late, early, place)
    except (OverflowError, ValueError):
        return None


def _change_between(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The first moment with the offset of `after`; the clocks change once in between."""
    offset = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after
