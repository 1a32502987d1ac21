"""Mappings: the data ids that one data id reads, and the readers of an upstream data id, are inverse to each other."""

# ruff: noqa: DTZ001, DTZ901 - calendars have no zone
import calendar
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from headgate.core.ledger.mappings.calendar import PARTS, Unit, number_at, start_of
from headgate.core.ledger.mappings.model import SAME, InputMap
from headgate.core.ledger.mappings.parsing import most_sources, parse_map
from headgate.core.ledger.mappings.sources import Everything, Listed, Matching, Neighbours
from headgate.core.ledger.mappings.stamps import FORMATS, stamp_format
from headgate.core.ledger.mappings.windows import targets_in_order, window_in_order

#: Zones whose clocks change at midnight, by half an hour, at one minute past midnight, and over a whole day.
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo",
         "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "America/Havana")  # fmt: skip
PAIRS = [(period, unit) for period in Unit for unit in PARTS[period]]
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
NEAR = st.datetimes(datetime(1970, 1, 1), datetime(2037, 12, 30))


def mapping(**document: Any) -> InputMap:
    return parse_map("upstream", document)


def listed(found: InputMap, dataid: str) -> tuple[str, ...]:
    sources = found.sources(dataid)
    assert isinstance(sources, Listed)
    return sources.ids


# ---------------------------------------------------------------- compared with independent calendars


@pytest.fixture
def clocks_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the zone of `time.localtime`, the C library's, which does not use zoneinfo."""

    def set_zone(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "first", "days"),
    [("Europe/Berlin", "2026-01-01", 365), ("Australia/Lord_Howe", "2026-03-20", 30),
     ("America/Sao_Paulo", "2011-10-01", 30), ("America/St_Johns", "2009-10-20", 30),
     ("Pacific/Apia", "2011-12-15", 30), ("Asia/Kathmandu", "2024-02-20", 30)],
)  # fmt: skip
def test_hours_belong_to_the_local_day_of_the_zone(
    zone: str, first: str, days: int, clocks_in: Callable[[str], None]
) -> None:
    """Every hour is assigned to its day with the C library's zones, then compared."""
    clocks_in(zone)
    found = mapping(kind="period", period="day", unit="hour", zone=zone)
    hours_of, begin = defaultdict(list), datetime.fromisoformat(first)
    for number in range(-48, days * 24 + 48):
        hour = begin + timedelta(hours=number)
        day = time.strftime("%Y-%m-%d", time.localtime(hour.replace(tzinfo=UTC).timestamp()))
        hours_of[day].append(hour.strftime("%Y-%m-%dT%H"))
        assert found.targets(hours_of[day][-1]) == (day,)
    for each in (f"{begin + timedelta(days=number):%Y-%m-%d}" for number in range(days)):
        assert list(listed(found, each)) == hours_of[each]


def test_days_have_23_and_25_hours_where_clocks_change_and_a_skipped_day_has_none() -> None:
    berlin = mapping(kind="period", period="day", unit="hour", zone="Europe/Berlin")
    assert [len(listed(berlin, day)) for day in ("2026-03-29", "2026-10-25", "2026-11-18")] == [23, 25, 24]
    assert listed(berlin, "2026-10-25")[0] == "2026-10-24T22"
    apia = mapping(kind="period", period="day", unit="hour", zone="Pacific/Apia")
    assert [len(listed(apia, f"2011-12-{day}")) for day in (29, 30, 31)] == [24, 0, 24]


@pytest.mark.parametrize("year", [2000, 2020, 2026])
def test_days_belong_to_the_weeks_months_quarters_and_years_of_the_standard_library(year: int) -> None:
    names: dict[Unit, Callable[[date], str]] = {
        Unit.WEEK: lambda day: "{}-W{:02}".format(*day.isocalendar()[:2]),
        Unit.MONTH: lambda day: day.strftime("%Y-%m"),
        Unit.QUARTER: lambda day: f"{day.year}-Q{(day.month + 2) // 3}",
        Unit.YEAR: lambda day: str(day.year),
    }
    for period, name in names.items():
        found = mapping(kind="period", period=str(period), unit="day")
        groups = defaultdict(list)
        for number in range(-100, 500):
            day = date(year, 1, 1) + timedelta(days=number)
            groups[name(day)].append(day.isoformat())
            assert found.targets(day.isoformat()) == (name(day),)
        whole = list(groups)[1:-1]
        assert {each: list(listed(found, each)) for each in whole} == {each: groups[each] for each in whole}


def test_months_make_quarters_and_years_and_leap_years_have_one_day_more() -> None:
    quarter, year = (mapping(kind="period", period=each, unit="month") for each in ("quarter", "year"))
    assert listed(quarter, "2026-Q4") == ("2026-10", "2026-11", "2026-12")
    assert listed(year, "2026") == tuple(f"2026-{month:02}" for month in range(1, 13))
    days = mapping(kind="period", period="year", unit="day")
    assert [len(listed(days, str(each))) for each in (1900, 2000, 2024, 2026)] == [
        366 if calendar.isleap(each) else 365 for each in (1900, 2000, 2024, 2026)
    ]


def test_iso_years_begin_and_end_in_other_years_than_their_days() -> None:
    weeks = mapping(kind="period", period="week", unit="day")
    assert listed(weeks, "2026-W53")[::6] == ("2026-12-28", "2027-01-03")
    assert weeks.targets("2027-01-01") == ("2026-W53",)
    assert listed(weeks, "2025-W53") == ()
    assert weeks.fault("2025-W53") == "2025-W53 does not name a week as %G-W%V"


# ---------------------------------------------------------------- both directions


@given(NEAR, st.sampled_from(PAIRS), st.sampled_from(ZONES))
@example(datetime(2011, 12, 30, 9), (Unit.DAY, Unit.HOUR), "Pacific/Apia")
@example(datetime(2026, 10, 25, 0), (Unit.WEEK, Unit.HOUR), "Europe/Berlin")
def test_a_period_lists_exactly_the_ids_whose_target_it_is(
    moment: datetime, pair: tuple[Unit, Unit], zone: str
) -> None:
    period, unit = pair
    hourly = unit is Unit.HOUR and period is not Unit.HOUR
    found = mapping(kind="period", period=str(period), unit=str(unit), zone=zone if hourly else None)
    upstream = stamp_format(FORMATS[unit]).write(moment)
    (target,) = found.targets(upstream)
    ids = listed(found, target)
    assert upstream in ids
    assert len(ids) <= (most_sources(found) or 0)
    assert len(set(ids)) == len(ids)
    # Data ids at both ends and next to them; the middle follows from the numbers.
    assert {each for end in (ids[0], ids[-1]) for each in found.targets(end)} == {target}
    number = number_at(unit, stamp_format(FORMATS[unit]).read(ids[0]) or moment)
    beyond = start_of(unit, number - 1)
    assert beyond is not None
    assert found.targets(stamp_format(FORMATS[unit]).write(beyond)) != (target,) or zone == "America/St_Johns"


@given(MOMENTS, st.sampled_from(list(Unit)))
def test_a_format_writes_the_text_that_it_read(moment: datetime, unit: Unit) -> None:
    form = stamp_format(FORMATS[unit])
    text = form.write(moment)
    begin = form.read(text)
    assert begin is not None
    assert form.write(begin) == text
    assert number_at(unit, begin) == number_at(unit, moment)
    assert start_of(unit, number_at(unit, moment)) == begin


@given(st.text("0123456789-WQT", max_size=13), st.sampled_from(list(Unit)))
def test_a_format_reads_nothing_that_it_would_not_write(text: str, unit: Unit) -> None:
    moment = stamp_format(FORMATS[unit]).read(text)
    assert moment is None or stamp_format(FORMATS[unit]).write(moment) == text


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%dT%H:%M:%S", "%Y%m%d", "%Y%j", "%G%V%u", "event_%Y-%m-%d_%H%M", "%S-%M-%H_%d.%m.%Y", "100%%_%d%m%Y", "%Y"],
)
@given(moment=NEAR, other=NEAR, zone=st.sampled_from(ZONES))
def test_a_period_without_a_calendar_matches_what_begins_with_its_prefix(
    form: str, moment: datetime, other: datetime, zone: str
) -> None:
    period = "year" if form == "%Y" else "month" if "%m" in form else "day"
    found = mapping(kind="period", period=period, format=form, zone=zone if "%H" in form else None)
    for each in (moment, other):
        upstream = stamp_format(form).write(each)
        (target,) = found.targets(upstream)
        sources = found.sources(target)
        assert isinstance(sources, Matching)
        assert not sources.complete
        assert upstream.startswith(sources.prefix)


def test_a_prefix_narrows_the_search_where_the_format_sorts_as_time_does() -> None:
    found = mapping(kind="period", period="month", format="orders_%Y-%m-%d")
    assert found.sources("2026-10") == Matching("orders_2026-10-")
    assert mapping(kind="period", period="month", format="orders_%d.%m.%Y").sources("2026-10") == Matching("orders_")


@given(
    moment=MOMENTS, unit=st.sampled_from(list(Unit)), before=st.integers(0, 40), after=st.integers(0, 40),
    steps=st.integers(-90, 90),
)  # fmt: skip
def test_windows_by_the_calendar_are_inverse(moment: datetime, unit: Unit, before: int, after: int, steps: int) -> None:
    assume(before + after)
    found = mapping(kind="window", before=before, after=after, unit=str(unit))
    form, number = stamp_format(FORMATS[unit]), number_at(unit, moment)
    other = start_of(unit, number + steps)
    assume(other is not None)
    mine, theirs = form.write(moment), form.write(other or moment)
    assert (theirs in listed(found, mine)) == (-before <= steps <= after)
    assert (mine in found.targets(theirs)) == (theirs in listed(found, mine))
    assert found.created(mine) == found.required(mine) == (mine,)


@given(st.lists(st.text("ab12", min_size=1), unique=True, min_size=1), st.integers(0, 5), st.integers(0, 5))
def test_windows_in_the_input_s_order_are_inverse(ids: list[str], before: int, after: int) -> None:
    reads = {
        each: window_in_order(before, after, ids[:place], each, ids[place + 1 :]) for place, each in enumerate(ids)
    }
    for place, each in enumerate(ids):
        readers = targets_in_order(before, after, ids[:place], each, ids[place + 1 :])
        assert sorted(readers) == sorted(other for other in ids if each in reads[other])


def test_a_window_in_the_input_s_order_requests_its_neighbours() -> None:
    found = mapping(kind="window", before=2)
    assert found.in_order
    assert found.sources("b") == Neighbours(2, 0)
    with pytest.raises(ValueError, match="targets_in_order"):
        found.targets("b")


NAMES = st.text("abc._-", min_size=1, max_size=8)


@given(sample=NAMES, lane=NAMES, other=NAMES)
@example(sample="a.b", lane="c", other="a")
def test_a_split_matches_what_begins_with_its_prefix(sample: str, lane: str, other: str) -> None:
    found = mapping(kind="split", format="{sample}.{lane}", job_format="{sample}")
    upstream = f"{sample}.{lane}"
    (target,) = found.targets(upstream)
    assert upstream.startswith(f"{target}.")
    sources = found.sources(target)
    assert sources == Matching(f"{target}.")
    assert found.targets(other + upstream) != ()
    assert found.fault(target) == ""


@given(
    form=st.sampled_from(["{a}.{b}.{c}", "x{a}.{b}_{c}y", "{c}_{a}-{b}"]),
    shown=st.sampled_from(["{a}.{b}", "{b}_{a}", "x.{a}._{b}.", "{c}.{a}.{b}", "{b}"]),
    a=NAMES, b=NAMES, c=NAMES,
)  # fmt: skip
@example(form="{a}.{b}.{c}", shown="{a}.{b}", a="a", b="b", c="c.a")
@example(form="{c}_{a}-{b}", shown="{b}_{a}", a="_", b="_", c="_")
def test_every_split_matches_what_begins_with_its_prefix(form: str, shown: str, a: str, b: str, c: str) -> None:
    found, upstream = mapping(kind="split", format=form, job_format=shown), form.format(a=a, b=b, c=c)
    for target in found.targets(upstream):
        sources = found.sources(target)
        assert isinstance(sources, Matching)
        assert upstream.startswith(sources.prefix)


@pytest.mark.parametrize(
    ("form", "shown", "upstream", "target", "prefix"),
    [
        ("{sample}.{lane}", "{sample}", "a.b.c", "a", "a."),
        ("run-{run}_{sample}", "{sample}@{run}", "run-7_x", "x@7", "run-7_x"),
        ("{lane}.{sample}", "{sample}", "1.x", "x", ""),
        ("{a}.{b}.{c}", "{a}.{b}", "1.2.3", "1.2", "1.2."),
        ("{a}_{b}.{c}", "{a}_{b}", "1_2_3.4", "1_2_3", "1"),
        ("{a}.{b}.{c}", "{c}-{a}", "1.2.3", "3-1", "1."),
        ("v{n}", "{n}", "v1", "1", "v1"),
    ],
)
def test_splits_keep_the_fields_that_the_job_s_data_id_has(
    form: str, shown: str, upstream: str, target: str, prefix: str
) -> None:
    found = mapping(kind="split", format=form, job_format=shown)
    assert found.targets(upstream) == found.created(upstream) == (target,)
    assert found.sources(target) == Matching(prefix)
    assert found.targets("nothing") == ()


def test_all_and_lists_create_no_data_ids() -> None:
    everything, some = mapping(kind="all"), mapping(kind="list", ids=["eu", "us"])
    assert (everything.sources("x"), some.sources("x")) == (Everything(), Listed(("eu", "us")))
    assert [each.creates for each in (everything, some, SAME)] == [False, False, True]
    assert [each.targets("eu") + each.created("eu") for each in (everything, some)] == [(), ()]
    assert (SAME.targets("x"), SAME.sources("x")) == (("x",), Listed(("x",)))


@pytest.mark.parametrize(("need", "least"), [("all", 31), ("any", 1), (20, 20)])
def test_need_sets_how_many_must_be_ready(need: str | int, least: int) -> None:
    assert mapping(kind="period", period="month", unit="day", need=need).least(31) == least


# ---------------------------------------------------------------- the ends of time


@pytest.mark.parametrize("period", list(Unit))
def test_the_first_and_the_last_year_have_an_end(period: Unit) -> None:
    for unit in PARTS[period]:
        hourly = unit is Unit.HOUR and period is not Unit.HOUR
        found = mapping(kind="period", period=str(period), unit=str(unit), zone="Asia/Kolkata" if hourly else None)
        for moment in (datetime(1, 1, 3), datetime(9999, 12, 20)):
            assert listed(found, stamp_format(FORMATS[period]).write(moment))
        for moment in (datetime(1, 1, 1), datetime.max):
            assert len(found.targets(stamp_format(FORMATS[unit]).write(moment))) <= 1
    assert listed(mapping(kind="window", before=3, unit="day"), "0001-01-02") == ("0001-01-01", "0001-01-02")
