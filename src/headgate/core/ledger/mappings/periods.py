"""Periods: the hours of a day, the days of a week or month, the months of a quarter or year."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headgate.core.ledger.mappings.calendar import HOURS_OF_A_DAY, Unit, local, number_at, numbers_within, one, start_of
from headgate.core.ledger.mappings.sources import Listed, Matching, Sources
from headgate.core.ledger.mappings.stamps import Grain, stamp_format


@dataclass(frozen=True, slots=True)
class PeriodRule:
    """Data ids that are times belong to the period that contains them.

    Times with an hour are in UTC, and belong to the period that local clocks show when they begin.
    """

    period: Unit
    #: None: no calendar determines the input's data ids.
    unit: Unit | None
    format: str
    job_format: str
    zone: str

    def targets(self, upstream_id: str) -> tuple[str, ...]:
        """The data id of the period that contains an upstream id."""
        number = self._period_of(upstream_id)
        begin = None if number is None else start_of(self.period, number)
        return () if begin is None else (stamp_format(self.job_format).write(begin),)

    def sources(self, dataid: str) -> Sources:
        """The upstream ids of a period: all of its units, or whatever arrives until it is closed."""
        begin = stamp_format(self.job_format).read(dataid)
        if begin is None:
            return Listed(())
        number = number_at(self.period, begin)
        if self.unit is None:
            return Matching(self._prefix(number))
        write, numbers = stamp_format(self.format).write, self._parts(self.unit, number)
        return Listed(tuple(write(moment) for each in numbers if (moment := start_of(self.unit, each))))

    def fault(self, dataid: str) -> str:
        """Why a data id of the job does not name a period; empty if it does."""
        readable = stamp_format(self.job_format).read(dataid) is not None
        return "" if readable else f"{dataid} does not name {one(self.period)} as {self.job_format}"

    @property
    def _zoned(self) -> bool:
        return stamp_format(self.format).grain <= Grain.HOUR and self.period is not Unit.HOUR

    def _period_of(self, upstream_id: str) -> int | None:
        moment = stamp_format(self.format).read(upstream_id)
        if moment is not None and self._zoned:
            moment = local(moment, self.zone)
        return None if moment is None else number_at(self.period, moment)

    def _parts(self, unit: Unit, number: int) -> list[int]:
        """The numbers of the units of a period. The time zone determines the hours at both ends."""
        numbers = numbers_within(unit, self.period, number)
        if not self._zoned:
            return list(numbers)
        sure = range(numbers.start + HOURS_OF_A_DAY, numbers.stop - HOURS_OF_A_DAY)
        around = range(numbers.start - HOURS_OF_A_DAY, numbers.stop + HOURS_OF_A_DAY)
        return [each for each in around if each in sure or self._holds(number, each)]

    def _holds(self, number: int, hour: int) -> bool:
        begin = start_of(Unit.HOUR, hour)
        shown = None if begin is None else local(begin, self.zone)
        return shown is not None and number_at(self.period, shown) == number

    def _prefix(self, number: int) -> str:
        begin, after = start_of(self.period, number), start_of(self.period, number + 1)
        if begin is None or after is None:
            return ""
        margin = timedelta(days=1) if self._zoned else timedelta(0)
        try:
            return stamp_format(self.format).prefix(begin - margin, after + margin - timedelta(seconds=1))
        except OverflowError:
            return ""
