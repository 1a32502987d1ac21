"""The nouns of expectations."""

# ruff: noqa: DTZ001 - calendars have no zone
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, NamedTuple

from headgate.core.ledger.expectations.clocks import moment_of
from headgate.core.ledger.mappings.calendar import Unit, number_at, start_of
from headgate.core.ledger.mappings.model import InputMap, MapKind
from headgate.core.ledger.mappings.stamps import Grain, stamp_format
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural

#: The kind of incident that late chunks open, and the events that close one.
LATE = "late"
ARRIVED, WITHDRAWN = "arrival", "definition"
#: Seconds that the judge of lateness may work without renewing its turn.
JUDGE_LEASE = 30.0
#: The turn of the process that judges lateness.
JUDGE = "lateness"
#: Positions of cron expressions are minutes since this time.
_EPOCH = datetime(1, 1, 1)
_MINUTE = timedelta(minutes=1)
#: The offset of clocks from UTC is always less.
MARGIN = timedelta(days=2)


class ExpectedId(NamedTuple):
    """An expected data id."""

    #: Its position in the order of the expectation; it only grows, and never changes.
    position: int
    dataid: str
    #: When it is expected, and when it is late.
    at: datetime
    due: datetime


@dataclass(frozen=True, slots=True)
class Expectation:
    """The data ids that a dataset should have, and when each should be READY: by a calendar, by cron, or as a list."""

    #: The first expected data id, as the time that it names; for a list, the time at which all are expected.
    start: datetime
    #: One data id for each hour, day, week, month, quarter or year.
    every: Unit | None = None
    #: One data id for each time that a cron expression matches.
    cron: str = ""
    #: These data ids.
    ids: tuple[str, ...] = ()
    #: For a calendar: how long after the start of the period it is expected; for a list: how long after `start`, in
    #: seconds.
    at: int = 0
    zone: str = "UTC"
    #: Seconds after which it is late.
    grace: float = 0.0
    #: The format of the data ids; empty for a list.
    format: str = ""
    #: Seconds to add to the expected time, to get the time that the data id names.
    offset: float = 0.0

    @property
    def in_utc(self) -> bool:
        """Whether its data ids name hours or minutes, which are in UTC."""
        return bool(self.format) and stamp_format(self.format).grain <= Grain.HOUR

    def expected(self, after: int | None = None) -> Iterator[ExpectedId]:
        """Return the expected data ids in order, without an end (except for a list), starting after a position.

        Times with the same data id count once, as the first of them.

        :param after: The position; None: from the start.
        """
        grace = timedelta(seconds=self.grace)
        if self.ids:
            moment = moment_of(self.start + timedelta(seconds=self.at), self.zone)
            for position in range(0 if after is None else after + 1, len(self.ids) if moment else 0):
                yield ExpectedId(position, self.ids[position], moment, moment + grace)  # type: ignore[arg-type,operator]
            return
        last = None if after is None else self._dataid(self._shown_at(after))
        for position, shown in self._times(after):
            moment, dataid = moment_of(shown, self._clock), self._dataid(shown)
            if moment is None or dataid is None:
                return  # Outside the years up to 9999.
            if dataid not in ("", last):
                yield ExpectedId(position, dataid, moment, moment + grace)
            last = dataid or last

    def within(self, begin: datetime, end: datetime) -> Iterator[str]:
        """Return the data ids that name times from `begin` to before `end`, in order. For a list: all.

        :param begin: The first time, as named by data ids.
        :param end: The end of the range, exclusive.
        """
        last = None
        for shown in () if self.ids else (each for _, each in self._times(None, begin)):
            named = self._named(shown)
            if named is None or named >= end:
                return
            dataid = self._dataid(shown)
            if dataid and dataid != last and named >= begin:
                yield dataid
            last = dataid
        yield from self.ids

    def to_document(self) -> dict[str, Any]:
        """Return it in the form in which it is stored and can be defined again."""
        kinds: dict[str, Any] = {"every": None if self.every is None else str(self.every), "cron": self.cron}
        found = {name: value for name, value in kinds.items() if value}
        if self.ids:
            found["ids"] = list(self.ids)
        if not self.cron:
            found["at"] = f"{self.at // 3600:02}:{self.at // 60 % 60:02}"
        if self.every is not Unit.HOUR:
            found["zone"] = self.zone
        found |= {"grace": self.grace, "from": _written(self.start)}
        return found if self.ids else found | {"format": self.format, "id_offset": self.offset}

    def __str__(self) -> str:
        """Return it in words."""
        at = f"{self.at // 3600:02}:{self.at // 60 % 60:02}"
        when = f"every {self.every}, at {at}" if self.every else f"cron {self.cron}" if self.cron else (
            f"{plural(len(self.ids), 'data id')}, at {_written(self.start)} {at}")  # fmt: skip
        zone = "" if self.every is Unit.HOUR else f" {self.zone}"
        grace = f", late {in_words(self.grace)} after" if self.grace else ""
        return f"{when}{zone}{grace}"

    # ------------------------------------------------------------ local times

    @property
    def _clock(self) -> str:
        return "UTC" if self.every is Unit.HOUR else self.zone

    def _times(self, after: int | None, begin: datetime | None = None) -> Iterator[tuple[int, datetime]]:
        """Positions, each with its local time: from after one, or from before a time that data ids name."""
        first = max(begin or self.start, self.start) - timedelta(seconds=self.offset) - MARGIN
        if self.every is None:
            for shown in _cron_times(self.cron, first if after is None else self._shown_at(after)):
                yield (shown - _EPOCH) // _MINUTE, shown
            return
        number = number_at(self.every, first) if after is None else after + 1
        while start_of(self.every, number) is not None:
            yield number, self._shown_at(number)
            number += 1

    def _shown_at(self, position: int) -> datetime:
        """The local time at an existing position."""
        begin = None if self.every is None else start_of(self.every, position)
        return _EPOCH + position * _MINUTE if begin is None else begin + timedelta(seconds=self.at)

    def _named(self, shown: datetime) -> datetime | None:
        """The time named by the data id that is expected at this local time."""
        try:
            if self.in_utc:
                moment = moment_of(shown, self._clock)
                return None if moment is None else moment.replace(tzinfo=None) + timedelta(seconds=self.offset)
            return shown + timedelta(seconds=self.offset)
        except OverflowError:
            return None

    def _dataid(self, shown: datetime) -> str | None:
        """The data id that is expected at this local time; empty before the first, None beyond the year 9999."""
        named = self._named(shown)
        if named is None:
            return None
        return stamp_format(self.format).write(named) if named >= self.start else ""


@dataclass(frozen=True, slots=True)
class LateChunk:
    """A chunk that was not READY in time, and still is not."""

    #: Its number; lists continue after it.
    id: int
    #: The dataset.
    dataset: str
    #: The data id.
    dataid: str
    #: When it was expected.
    expected: datetime
    #: When it became late.
    due: datetime
    #: Its status; absent: it has no row.
    status: str
    #: Why it is not READY, across jobs and mappings.
    reason: str
    #: The chunk that the reason concerns, as DATASET/DATAID: itself, or one upstream.
    cause: str


@dataclass(frozen=True, slots=True)
class Lateness:
    """How well a dataset meets its expectation."""

    #: The dataset.
    dataset: str
    #: The expectation, in words.
    expects: str
    #: How many chunks are late.
    late: int
    #: When the oldest of them became late; null: none is late.
    oldest: datetime | None
    #: The next expected data id; null: there is none, or the judge is behind.
    next: str | None
    #: When that would be late.
    next_due: datetime | None
    #: Seconds by which the judge is behind; 0: it is on time.
    behind: float = 0.0


class Judged(NamedTuple):
    """The result of one step of the judge."""

    #: How many expected chunks it checked.
    seen: int
    #: How many of them are late.
    late: int
    #: Whether more are due already.
    more: bool


class Recovered(NamedTuple):
    """The result of one check of late chunks."""

    #: How many of them are READY by now.
    ready: int
    #: The number of the last one; the next check continues after it. None: there are no more.
    last: int | None


def late_subject(dataset: str, dataid: str) -> str:
    """The subject of a late chunk's incident."""
    return f"{dataset}/{dataid}"


def expected_sources(expectation: Expectation | None, mapping: InputMap, dataid: str, most: int) -> tuple[str, ...]:
    """The data ids of an input that are expected for a data id of a job, by its mapping, up to a limit.

    Empty if this is unknown: there is no expectation, or none for this data id.
    """
    found: Iterable[str] = ()
    if expectation is not None and expectation.ids:
        found = expectation.ids
    elif expectation is not None and mapping.kind is MapKind.PERIOD and mapping.period is not None:
        begin = stamp_format(mapping.job_format or "").read(dataid)
        after = None if begin is None else start_of(mapping.period, number_at(mapping.period, begin) + 1)
        if begin is not None and after is not None and begin.year > 1:
            # The time zone determines the hours at both ends.
            found = expectation.within(begin - timedelta(days=1), after + timedelta(days=1))
    return tuple(islice((each for each in found if dataid in mapping.targets(each)), most))


def due_by(expectation: Expectation, after: int | None, now: datetime, most: int) -> Sequence[ExpectedId]:
    """The data ids that should be READY by now, after a position, in order, up to a limit."""
    return [*islice(takewhile(lambda each: each.due <= now, expectation.expected(after)), most)]


def _cron_times(cron: str, after: datetime) -> Iterator[datetime]:
    """The times after a given one that a cron expression matches, without a time zone."""
    from cronsim import CronSim  # Imported late, because few pipelines need it.

    try:
        for found in CronSim(cron, after.replace(tzinfo=UTC)):
            yield found.replace(tzinfo=None)
    except OverflowError:
        return


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="minutes").removesuffix("T00:00")
