"""Expectations: which data ids are expected and when, also in zones with clock changes."""

# ruff: noqa: DTZ001 - calendars have no zone
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import BadValue
from headgate.core.ledger.expectations.clocks import moment_of
from headgate.core.ledger.expectations.model import Expectation, due_by, expected_sources
from headgate.core.ledger.expectations.parsing import expectation_of, parse_expectation
from headgate.core.ledger.mappings.parsing import parse_map
from headgate.core.ledger.mappings.stamps import stamp_format

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "America/St_Johns",
         "Pacific/Apia", "America/Havana", "Asia/Kathmandu")  # fmt: skip
CRONS = ("0 6 * * 1-5", "*/15 * * * *", "30 2 * * *", "0 0 1 * *", "0 12 L * *", "59 23 31 * *")
NEAR = st.datetimes(datetime(1971, 1, 1), datetime(2037, 12, 1))
DAILY: dict[str, Any] = {"every": "day", "at": "06:00", "zone": "Europe/Berlin", "from": "2026-01-01"}


def written(**keys: Any) -> Expectation:
    return parse_expectation({name.removesuffix("_"): value for name, value in keys.items()})


def dues(expectation: Expectation, count: int) -> list[tuple[str, str]]:
    return [(each.dataid, f"{each.due:%m-%d %H:%M}") for each in islice(expectation.expected(), count)]


documents = st.one_of(
    st.fixed_dictionaries(
        {"every": st.sampled_from(["day", "week", "month", "quarter", "year"]), "zone": st.sampled_from(ZONES),
         "at": st.sampled_from(["00:00", "00:30", "02:30", "23:59"]), "id_offset": st.sampled_from([0, "-1d", "-7h"])}
    ),
    st.fixed_dictionaries({"every": st.just("hour"), "at": st.sampled_from(["00:00", "00:15"]),
                           "id_offset": st.sampled_from([0, "-1h"])}),
    st.fixed_dictionaries(
        {"cron": st.sampled_from(CRONS), "zone": st.sampled_from(ZONES),
         "format": st.sampled_from(["%Y-%m-%d", "%Y-%m-%dT%H", "%Y%m%d%H%M"]), "id_offset": st.sampled_from([0, "-1d"])}
    ),
)  # fmt: skip


@st.composite
def expectations(draw: st.DrawFn) -> Expectation:
    start = draw(st.dates(date(1975, 1, 1), date(2036, 1, 1)))
    return parse_expectation({**draw(documents), "from": start.isoformat(), "grace": draw(st.sampled_from([0, 5400]))})


# ---------------------------------------------------------------- times


@given(NEAR, st.sampled_from(ZONES))
def test_a_time_is_the_first_moment_at_which_clocks_show_it_or_a_later_time(shown: datetime, zone: str) -> None:
    shown = shown.replace(microsecond=0)
    found = moment_of(shown, zone)
    assert found is not None

    def clock(moment: datetime) -> datetime:
        return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)

    assert clock(found) >= shown
    assert clock(found - timedelta(seconds=1)) < shown, "a second earlier they do not show it yet"
    # A time that was shown twice was not shown at any moment of the day and a half before.
    assert all(clock(found - timedelta(minutes=minutes)) < shown for minutes in range(1, 2160, 15))


@pytest.mark.parametrize(
    ("shown", "zone", "moment"),
    [
        (datetime(2026, 3, 29, 2, 30), "Europe/Berlin", "2026-03-29 01:00"),
        (datetime(2026, 10, 25, 2, 30), "Europe/Berlin", "2026-10-25 00:30"),
        (datetime(2026, 10, 4, 2, 15), "Australia/Lord_Howe", "2026-10-03 15:30"),
        (datetime(2011, 12, 30, 6), "Pacific/Apia", "2011-12-30 10:00"),
        (datetime(2018, 11, 4), "America/Sao_Paulo", "2018-11-04 03:00"),
    ],
)
def test_a_skipped_time_becomes_the_next_existing_one(shown: datetime, zone: str, moment: str) -> None:
    assert f"{moment_of(shown, zone):%Y-%m-%d %H:%M}" == moment


def test_days_around_a_clock_change_are_due_at_the_right_moment() -> None:
    spring = written(every="day", at="02:30", zone="Europe/Berlin", grace="1h", from_="2026-03-28")
    assert dues(spring, 3) == [("2026-03-28", "03-28 02:30"), ("2026-03-29", "03-29 02:00"),
                               ("2026-03-30", "03-30 01:30")]  # fmt: skip


def test_hours_are_in_utc_and_a_day_of_25_hours_has_no_special_one() -> None:
    found = written(every="hour", at="00:15", from_="2026-10-25", id_offset="-1h")
    assert [each for each, _ in dues(found, 4)] == [f"2026-10-25T{hour:02}" for hour in range(4)]
    assert dues(found, 1) == [("2026-10-25T00", "10-25 01:15")]


def test_an_offset_expects_the_data_of_the_day_before_and_from_is_a_data_id() -> None:
    assert dues(written(**DAILY, id_offset="-1d"), 2) == [("2026-01-01", "01-02 05:00"), ("2026-01-02", "01-03 05:00")]
    monthly = written(every="month", at="06:00", from_="2026-01", id_offset="-1d")
    assert dues(monthly, 2) == [("2026-01", "02-01 06:00"), ("2026-02", "03-01 06:00")]


def test_cron_counts_the_first_time_of_a_data_id() -> None:
    found = written(cron="0 6,18 * * 1-5", zone="America/New_York", from_="2026-01-02")
    assert dues(found, 3) == [("2026-01-02", "01-02 11:00"), ("2026-01-05", "01-05 11:00"),
                              ("2026-01-06", "01-06 11:00")]  # fmt: skip


def test_a_list_is_expected_at_one_time() -> None:
    found = written(ids=["a", "b"], at="06:00", zone="Europe/Berlin", grace="1h", from_="2026-07-01")
    assert dues(found, 5) == [("a", "07-01 05:00"), ("b", "07-01 05:00")]
    assert [each.dataid for each in found.expected(0)] == ["b"]


# ---------------------------------------------------------------- properties


@given(expectations())
def test_expected_data_ids_grow_and_each_is_named_once(expectation: Expectation) -> None:
    found = list(islice(expectation.expected(), 30))
    assert len({each.dataid for each in found}) == len(found)
    for first, second in pairwise(found):
        assert first.position < second.position
        assert first.due <= second.due
    named = [stamp_format(expectation.format).read(each.dataid) for each in found]
    assert all(each is not None for each in named)
    assert all(each.due - each.at == timedelta(seconds=expectation.grace) for each in found)


@given(expectations(), st.integers(0, 20))
def test_a_judge_that_continues_finds_the_same_as_one_that_never_stopped(expectation: Expectation, count: int) -> None:
    whole = list(islice(expectation.expected(), 30))
    assert list(islice(expectation.expected(whole[count].position), 29 - count)) == whole[count + 1 :]
    now = whole[count].due
    due = due_by(expectation, None, now, 1000)
    assert [each for each in whole if each.due <= now] == due[: len(whole)]
    assert due_by(expectation, None, now, 3) == due[:3]


@given(expectations(), st.integers(0, 20), st.integers(1, 9))
def test_the_data_ids_of_a_time_are_those_that_are_expected(expectation: Expectation, begin: int, length: int) -> None:
    whole = [each.dataid for each in islice(expectation.expected(), 30)]
    first, last = (stamp_format(expectation.format).read(whole[place]) for place in (begin, begin + length))
    assert first is not None
    assert last is not None
    assert list(expectation.within(first, last)) == whole[begin : begin + length]


@given(expectations())
def test_an_expectation_is_read_as_it_is_written(expectation: Expectation) -> None:
    assert expectation_of(expectation.to_document()) == expectation


# ---------------------------------------------------------------- periods


def test_a_period_needs_the_data_ids_expected_in_it() -> None:
    weekly = parse_map("days", {"kind": "period", "period": "week", "format": "%Y-%m-%d"})
    weekdays = written(cron="0 6 * * 1-5", from_="2026-01-01")
    assert expected_sources(weekdays, weekly, "2026-W03", 100) == tuple(f"2026-01-{day}" for day in range(12, 17))
    assert expected_sources(weekdays, weekly, "2026-W01", 100) == ("2026-01-01", "2026-01-02"), "from is the first"
    assert expected_sources(weekdays, weekly, "2025-W01", 100) == ()
    assert expected_sources(weekdays, weekly, "2026-W03", 2) == ("2026-01-12", "2026-01-13"), "no more than asked for"
    assert expected_sources(None, weekly, "2026-W03", 100) == ()
    months = written(every="month", from_="2026-01")
    assert expected_sources(months, weekly, "2026-W03", 100) == (), "data ids of another format belong to no week"


def test_a_day_of_a_zone_needs_its_hours() -> None:
    daily = parse_map("hours", {"kind": "period", "period": "day", "format": "%Y-%m-%dT%H", "zone": "Europe/Berlin"})
    hours = written(every="hour", from_="2026-01-01")
    assert len(expected_sources(hours, daily, "2026-03-29", 100)) == 23
    assert len(expected_sources(hours, daily, "2026-10-25", 100)) == 25


def test_a_split_needs_its_data_ids_in_the_list() -> None:
    lanes = parse_map("lanes", {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"})
    listed = written(ids=["S1.L1", "S2.L1", "S1.L2"], from_="2026-01-01")
    assert expected_sources(listed, lanes, "S1", 100) == ("S1.L1", "S1.L2")
    assert expected_sources(written(**DAILY), lanes, "S1", 100) == ()


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"every": "dya", "from": "2026-01-01"}, "did you mean 'day'"),
        ({"evry": "day", "from": "2026-01-01"}, "did you mean 'every'"),
        ({"from": "2026-01-01"}, "neither every nor cron nor ids"),
        ({"every": "day", "cron": "0 6 * * *", "from": "2026-01-01"}, "every and cron"),
        ({"every": "day"}, "has no from"),
        ({**DAILY, "from": "2026-1-1"}, "2026-01-01T06:00"),
        ({"every": "week", "from": "2026-1"}, "write 2026-W01 or"),
        ({**DAILY, "from": datetime(2026, 1, 1, tzinfo=UTC)}, "without a zone"),
        ({**DAILY, "from": "0001-01-01"}, "1900"),
        ({**DAILY, "at": "6:00"}, "write 06:00"),
        ({**DAILY, "at": "24:00"}, "write 06:00"),
        ({**DAILY, "zone": "Europe/Berln"}, "did you mean 'Europe/Berlin'"),
        ({**DAILY, "grace": "-1h"}, "from 0 to 400 days"),
        ({**DAILY, "grace": "2 hours"}, "2h"),
        ({**DAILY, "id_offset": "999d"}, "400 days"),
        ({**DAILY, "format": "%Y-%m"}, "does not name a day"),
        ({"every": "hour", "at": "01:00", "from": "2026-01-01"}, "more than an hour"),
        ({"every": "hour", "zone": "Europe/Berlin", "from": "2026-01-01"}, "hours are in UTC"),
        ({"cron": "0 6 * *", "from": "2026-01-01"}, "five fields"),
        ({"cron": "0 25 * * *", "from": "2026-01-01"}, "bad hour"),
        ({"cron": "0 0 30 2 *", "from": "2026-01-01"}, "day-of-month"),
        ({"cron": "0 6 * * *", "at": "06:00", "from": "2026-01-01"}, "does not belong to cron"),
        ({"cron": "0 6 * * *", "format": "%Y%m%d%H%M%S", "from": "2026-01-01"}, "seconds"),
        ({"ids": [], "from": "2026-01-01"}, "at least one"),
        ({"ids": ["a", "a"], "from": "2026-01-01"}, "listed twice"),
        ({"ids": ["a"], "format": "%Y", "from": "2026-01-01"}, "does not belong to ids"),
        ("daily", "not a table"),
    ],
)
def test_a_mistake_is_named(keys: Any, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        parse_expectation(keys)


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ({"every": "week", "from": "2026-W02"}, "2026-W02"),
        ({"every": "quarter", "from": "2026-Q3"}, "2026-Q3"),
        ({"every": "day", "format": "%Y%m%d", "from": "20260214"}, "20260214"),
        ({"cron": "0 6 * * 1", "format": "%Y-%j", "from": "2026-005"}, "2026-005"),
    ],
)
def test_the_first_data_id_may_be_written_in_the_format_of_data_ids(keys: Any, first: str) -> None:
    found = parse_expectation(keys)
    assert next(found.expected()).dataid == first
    assert parse_expectation(found.to_document()) == found


def test_a_day_may_be_a_date_and_defaults_are_written_out() -> None:
    found = parse_expectation({"every": "day", "from": date(2026, 1, 1), "grace": "90m"})
    assert found.to_document() == {
        "every": "day", "at": "00:00", "zone": "UTC", "grace": 5400.0, "from": "2026-01-01", "format": "%Y-%m-%d",
        "id_offset": 0.0,
    }  # fmt: skip
    assert str(written(**DAILY, grace="2h")) == "every day, at 06:00 Europe/Berlin, late 2 h after"
