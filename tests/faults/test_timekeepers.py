"""Years of days on a moved clock, with killed timekeepers: late to the minute, with one incident each."""

import calendar
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import headgate
from headgate import Gate
from headgate.core.ledger.expectations.model import LATE
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import database
from tests.faults.conftest import Report
from tests.faults.processes import Child, Zygote
from tests.faults.test_clock import library, unlink_shared
from tests.faults.timekeepers import DATASET, keep_time, publish
from tests.figures import FULL
from tests.waiting import until

pytestmark = pytest.mark.torture
#: The local time that is skipped, and shown twice, when clocks change in Berlin.
AT, GRACE = timedelta(hours=2, minutes=30), timedelta(minutes=45)
EXPECT = {"every": "day", "at": "02:30", "zone": "Europe/Berlin", "grace": "45m"}
#: The first day, a fortnight before a clock change, and the number of days.
SPANS = [(date(2026, 3, 15), 1000)] if FULL else [(date(2026, 3, 15), 30), (date(2026, 10, 12), 30)]
#: One day in this many a timekeeper is killed; one day in this many all of them, until the day is late.
KILL_EVERY, AWAY_EVERY = 5, 11
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
READ_LEASE = Statement("The turn.", "select lease_until from hg_turn where lease_until > {now}")


def due_on(day: date) -> datetime:
    """When a day is late, computed from the rules of the European Union and without a library."""

    def change(month: int) -> date:
        last = calendar.monthrange(day.year, month)[1]
        return next(each for each in (date(day.year, month, last - back) for back in range(7)) if each.weekday() == 6)

    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if day == change(3):
        return midnight + HOUR + GRACE  # Clocks go from 2 to 3 at one o'clock UTC.
    summer = change(3) < day <= change(10)  # In October half past two is shown in summer time first.
    return midnight + AT - (2 if summer else 1) * HOUR + GRACE


class Night:
    """Two timekeepers and a publisher, and their clock."""

    def __init__(self, url: str, folder: Path, first: date) -> None:
        self._url, self._clock = url, folder / "clock"
        self.set(due_on(first) - timedelta(days=3))
        self._processes = Zygote(
            LD_PRELOAD=library(), FAKETIME_TIMESTAMP_FILE=str(self._clock), FAKETIME_NO_CACHE="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1", DONT_FAKE_MONOTONIC="1", FAKETIME_DISABLE_SHM="1", TZ="UTC",
        )  # fmt: skip
        self._started = 0
        self._publisher = self._spawn(publish.__name__, expect=EXPECT | {"from": f"{first}"})
        unlink_shared(self._processes.pid)
        self.keepers: list[Child] = []
        self.kills = 0

    def _spawn(self, work: str, **arguments: object) -> Child:
        child = self._processes.spawn(f"{keep_time.__module__}:{work}", url=self._url, **arguments)
        child.expect("ready")
        return child

    def start(self) -> None:
        """Start two timekeepers."""
        while len(self.keepers) < 2:
            self._started += 1
            self.keepers.append(self._spawn(keep_time.__name__, worker=f"keeper {self._started}"))

    def kill(self, count: int) -> None:
        """Kill some of them; which one judges is unknown."""
        for _ in range(count):
            self.keepers.pop(random.randrange(len(self.keepers))).kill()
            self.kills += 1

    def set(self, moment: datetime) -> None:
        """Stop their clock at a moment."""
        written = self._clock.with_suffix(".new")
        written.write_text(f"{moment:%Y-%m-%d %H:%M:%S}")
        written.replace(self._clock)
        self.now = moment

    def publish(self, *days: date) -> None:
        """Publish these days now."""
        self._publisher.channel.send("publish", dataids=[f"{day}" for day in days])
        seen = self._publisher.expect("done")["now"]
        assert abs(seen - self.now.timestamp()) < 60, "the publisher's clock is another one"

    def close(self) -> None:
        self._processes.close()


def next_day(gate: Gate) -> str | None:
    """The first day that was not judged."""
    (found,) = gate.expectations.lateness()
    return found.next


def see_two_rounds(gate: Gate) -> None:
    """The judge has finished two rounds since; only a living one's lease is renewed."""
    last, seen = 0, 0

    def grown() -> bool:
        nonlocal last, seen
        row = database(gate).read(lambda tx: tx.one(READ_LEASE))
        if row is not None and int(row[0]) > last:
            last, seen = int(row[0]), seen + 1
        return seen > 4

    until(grown, "two rounds of a judge")


class Days:
    """Days that pass, one after another."""

    def __init__(self, gate: Gate, night: Night) -> None:
        self._gate, self._night = gate, night
        #: Published after their time; the same while no timekeeper ran; late and not published yet.
        self.late, self.missed, self.outstanding = set[date](), set[date](), list[date]()

    def pass_by(self, number: int, day: date) -> None:
        """One day in three is late; some of them while no timekeeper runs."""
        night, due = self._night, due_on(day)
        night.set(due - 2 * HOUR)
        if number % AWAY_EVERY == AWAY_EVERY - 1:
            self._while_nobody_judges(day, due)
        else:
            self._while_somebody_judges(number, day, due)
        until(lambda: next_day(self._gate) == f"{day + timedelta(days=1)}", f"{day} to be judged")
        night.set(due + 2 * HOUR)
        if len(self.outstanding) > max(number % 4, 1):
            self._arrive()

    def _while_nobody_judges(self, day: date, due: datetime) -> None:
        self._night.kill(len(self._night.keepers))
        self._night.set(due + HOUR)
        self._night.publish(day)
        self.missed.add(day)
        self._night.start()

    def _while_somebody_judges(self, number: int, day: date, due: datetime) -> None:
        night = self._night
        night.start()
        if number % 3 == 1:
            self.late.add(day)
            self.outstanding.append(day)
        else:
            night.publish(day)
        if number % 10 == 0 or day.month in (3, 10):
            night.set(due - MINUTE / 2)
            see_two_rounds(self._gate)
            assert next_day(self._gate) == f"{day}", "judged before its time"
        if number % KILL_EVERY == 0:
            night.kill(1)
        night.set(due + MINUTE / 2)

    def _arrive(self) -> None:
        """All but the newest arrive."""
        self._night.publish(*self.outstanding[:-1])
        self.outstanding = self.outstanding[-1:]
        left = len(self.outstanding)
        until(lambda: self._gate.incidents.count().count.get(LATE, 0) == left, "incidents to close")

    def check(self) -> int:
        """One incident for each late day, at its minute. Returns how many."""
        found = self._gate.incidents.list(closed=True)
        by_day = {date.fromisoformat(each.subject.partition("/")[2]): each for each in found}
        assert len(by_day) == len(found), "a day has two incidents"
        assert set(by_day) == self.late | self.missed
        assert all(each.subject.startswith(f"{DATASET}/") and each.count == 1 for each in found)
        assert all(timedelta() <= by_day[day].since - due_on(day) <= MINUTE for day in self.late)
        assert {day for day, each in by_day.items() if each.closed is None} == set(self.outstanding)
        return len(found)


@pytest.mark.timeout(1500 if FULL else 120)
@pytest.mark.parametrize(("first", "count"), SPANS)
def test_days_are_late_to_the_minute_with_one_incident_each(
    tmp_path: Path, report: Report, first: date, count: int
) -> None:
    url = f"sqlite:///{tmp_path}/headgate.db"
    night = Night(url, tmp_path, first)
    try:
        with headgate.connect(url) as gate:
            days = Days(gate, night)
            for number in range(count):
                days.pass_by(number, first + timedelta(days=number))
            incidents = days.check()
    finally:
        night.close()
    assert night.kills >= count // KILL_EVERY
    report(store="sqlite", days=count, faults=night.kills, calls=incidents, violations=0)
