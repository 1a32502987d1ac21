"""Mappings as users write them: what is accepted, how it is written out, and the messages of refusals."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from headgate import BadValue
from headgate.core.ledger.mappings.model import InputMap, MapKind
from headgate.core.ledger.mappings.parsing import KEYS, KEYS_OF, parse_map, parse_maps
from headgate.core.ledger.model import Job
from headgate.core.ledger.pipeline import warnings_for
from headgate.core.values.durations import DAY
from headgate.core.values.wire import parse, plain

MONTH = {"kind": "period", "period": "month", "unit": "day"}
GOOD: list[dict[str, Any]] = [
    {"kind": "period", "period": "month", "unit": "day"},
    {"kind": "period", "period": "day", "unit": "hour", "zone": "Europe/Berlin", "need": 20, "on_late": "redo"},
    {"kind": "period", "period": "month", "format": "%Y%m%d", "job_format": "%Y.%m", "need": "any"},
    {"kind": "window", "before": 2, "after": 1},
    {"kind": "window", "before": 2, "unit": "week", "format": "%GW%V", "late_delay": 5},
    {"kind": "all"},
    {"kind": "list", "ids": ["eu", "us"], "need": 1},
    {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}", "need": 4},
]


@pytest.mark.parametrize("document", GOOD, ids=str)
def test_a_mapping_can_be_defined_again_as_it_is_written(document: dict[str, Any]) -> None:
    found = parse_map("days", document)
    assert parse_map("days", found.to_document()) == found
    assert parse_map("days", plain(found)) == found
    assert parse(InputMap, plain(found)) == found
    assert set(found.to_document()) <= set(KEYS_OF[found.kind])
    assert found.to_document() | document == found.to_document()


@pytest.mark.parametrize(
    ("written", "seconds"), [("10m", 600), ("90", 90), ("0", 0), ("1.5h", 5400), ("30d", 30 * DAY)]
)
def test_the_delay_of_a_redo_may_be_written_with_a_unit(written: str, seconds: float) -> None:
    found = parse_map("days", {**MONTH, "on_late": "redo", "late_delay": written})
    assert found.late_delay == seconds
    assert parse_map("days", found.to_document()) == found


def test_an_input_without_a_mapping_has_same() -> None:
    assert parse_maps({"days": {"kind": "same"}}, ["days"]) == {}
    assert parse_map("days", plain(InputMap())) == InputMap()
    assert KEYS[0] == "kind"
    assert set(KEYS_OF) == set(MapKind)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (GOOD[0], "every day of the month"),
        (GOOD[1], "every hour of the day in Europe/Berlin, at least 20, redone 10 min after a late input"),
        (GOOD[2], "whatever arrives as %Y%m%d of the month (%Y.%m), at least one"),
        (GOOD[3], "2 before and 1 after, in its order"),
        (GOOD[4], "2 before and 0 after, by week (%GW%V)"),
        (GOOD[5], "all data ids"),
        (GOOD[6], "a list of 2 data ids, at least 1"),
        (GOOD[7], "every {sample}.{lane} of {sample}, at least 4"),
    ],
)
def test_a_mapping_is_described_in_words(document: dict[str, Any], words: str) -> None:
    assert str(parse_map("days", document)) == words


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (3, "maps.days 3 is not a table"),
        ({}, "has no kind; kinds: same, period, window"),
        ({"kind": "perod"}, "maps.days.kind 'perod' is not one of .* did you mean 'period'"),
        ({"kind": "period"}, "has no period; units: hour, day"),
        ({"kind": "period", "period": "moth"}, "maps.days.period 'moth' .* did you mean 'month'"),
        ({"kind": "period", "period": "month"}, "neither unit nor format; write unit = 'day'"),
        ({**MONTH, "unit": "week"}, "is not a part of a month; a month consists of: hour, day, month"),
        ({**MONTH, "unit": "dya"}, "did you mean 'day'"),
        ({**MONTH, "zone": "UTC"}, "maps.days.zone 'UTC' has no effect here"),
        ({**MONTH, "unit": "hour", "zone": "Europe/Berln"}, "is not a time zone; did you mean 'Europe/Berlin'"),
        ({**MONTH, "unit": "hour", "zone": "../etc/passwd"}, "is not a time zone"),
        ({**MONTH, "unit": "hour", "zone": 5}, "is int"),
        ({**MONTH, "format": "%d.%m.%y"}, "has '%y', which is not one of %Y"),
        ({**MONTH, "format": "%Y-%m"}, "names a month, not a day; for example: %Y-%m-%d"),
        ({**MONTH, "format": "%Y-%m-%dT%M"}, "has %M without the longer time before it"),
        ({**MONTH, "format": "%d"}, "does not name a time; examples"),
        ({**MONTH, "format": "%Y/%m/%d"}, "has a slash"),
        ({**MONTH, "format": "%Y-%m-%d%"}, "has '%'"),
        ({**MONTH, "job_format": "%Y"}, "maps.days.job_format '%Y' names a year, not a month"),
        ({"kind": "period", "period": "month", "format": "%G-W%V"}, "names a week, which is not a part of a month"),
        ({**MONTH, "before": 3}, "does not belong to kind 'period'; its keys: need"),
        ({**MONTH, "need": 32}, "is more than there can be: 31 data ids"),
        ({**MONTH, "need": 0}, "is neither all nor any nor a number from 1"),
        ({**MONTH, "need": True}, "is neither all nor any"),
        ({**MONTH, "need": "al"}, "did you mean 'all'"),
        ({**MONTH, "on_late": "reddo"}, "did you mean 'redo'"),
        ({**MONTH, "late_delay": -1}, "is not a time from 0 to 30 days"),
        ({**MONTH, "late_delay": float("nan")}, "is not a time"),
        ({**MONTH, "late_delay": True}, "is not a time"),
        ({**MONTH, "late_delay": "31d"}, "is not a time from 0 to 30 days"),
        ({**MONTH, "late_delay": "soon"}, "is not a duration; write 30, 30s, 10m"),
        ({**MONTH, "late_dely": 3}, "is unknown; did you mean 'late_delay'"),
        ({"kind": "window"}, "has neither before nor after"),
        ({"kind": "window", "before": -1}, "maps.days.before -1 is not a whole number"),
        ({"kind": "window", "before": 9999, "after": 9999}, "is too much; at most 10,000 are read"),
        ({"kind": "window", "before": 1, "format": "%Y"}, "needs a unit"),
        ({"kind": "window", "before": 1, "need": 3}, "is more than there can be: 2 data ids"),
        ({"kind": "split", "job_format": "{a}"}, "has no format"),
        ({"kind": "split", "format": "{a}{b}", "job_format": "{a}"}, "two fields with nothing between them"),
        ({"kind": "split", "format": "{a}.{a}", "job_format": "{a}"}, "has the field {a} twice"),
        ({"kind": "split", "format": "{a}.{", "job_format": "{a}"}, "a field is a name in braces"),
        ({"kind": "split", "format": "plain", "job_format": "{a}"}, "has no field in braces"),
        (
            {"kind": "split", "format": "{lane}.{b}", "job_format": "{lnae}"},
            "which format does not have; did you mean 'lane'",
        ),
        ({"kind": "list"}, "is not a list of at least one data id"),
        ({"kind": "list", "ids": ["a", "a"]}, "'a' is listed twice"),
        ({"kind": "list", "ids": ["a/b"]}, "has a slash"),
        ({"kind": "list", "ids": "eu"}, "is not a list"),
        ({"kind": "same", "need": "any"}, "does not belong to kind 'same'"),
    ],
    ids=str,
)
def test_mistakes_are_refused_with_the_key_and_what_is_allowed(document: object, said: str) -> None:
    with pytest.raises(BadValue, match=said) as refused:
        parse_map("days", document)
    assert re.match(r"maps\.days", str(refused.value))


def test_a_mapping_of_something_other_than_an_input_is_refused() -> None:
    with pytest.raises(BadValue, match="'dayz' is not an input of the job; did you mean 'days'"):
        parse_maps({"dayz": {"kind": "all"}}, ["days"])
    with pytest.raises(BadValue, match="the job has no inputs"):
        parse_maps({"days": {"kind": "all"}}, [])
    with pytest.raises(BadValue, match="is not a table"):
        parse_maps(["days"], ["days"])
    assert parse_maps(None, ["days"]) == {}


# ---------------------------------------------------------------- warnings


def warned(*jobs: Job, **there: Sequence[str]) -> list[str]:
    return [line for line in warnings_for(jobs, {"days": (), **there}) if "no job produces" not in line]


def job_of(name: str, outputs: Sequence[str] = (), **documents: dict[str, Any]) -> Job:
    return Job(name, tuple(documents), tuple(outputs), maps=parse_maps(documents, list(documents)))


def test_a_format_that_no_data_id_of_the_input_has_causes_a_warning() -> None:
    monthly = job_of("monthly", days=MONTH)
    assert warned(monthly, days=["2026-10-01"]) == warned(monthly) == []
    assert warned(monthly, days=["x", "2026-10-01"]) == []
    said = "job monthly reads days as %Y-%m-%d, but days has no such data ids; it has, for example, 20261001"
    assert warned(monthly, days=["20261001"]) == [said]


def test_a_format_that_the_producing_job_does_not_write_causes_a_warning() -> None:
    year = {"kind": "period", "period": "year", "unit": "month", "format": "%Y%m"}
    monthly, yearly = job_of("monthly", ["months"], days=MONTH), job_of("yearly", months=year)
    assert ["has, for example, 2026-11" in line for line in warned(monthly, yearly)] == [True]
    assert warned(job_of("monthly", ["months"], days={**MONTH, "job_format": "%Y%m"}), yearly) == []


def test_inputs_that_never_create_the_same_data_id_cause_a_warning() -> None:
    week = {"kind": "period", "period": "week", "unit": "day"}
    assert ["never has one in common" in line for line in warned(job_of("both", days=MONTH, weeks=week))] == [True]
    assert warned(job_of("both", days=MONTH, others=MONTH)) == []


def test_a_definition_that_waits_for_a_person_says_so() -> None:
    split = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"}
    assert ["headgate job close merge DATAID" in line for line in warned(job_of("merge", lanes=split))] == [True]
    assert warned(job_of("merge", lanes={**split, "need": 4})) == []
    assert ["--dataid DATAID" in line for line in warned(job_of("convert", rates={"kind": "all"}))] == [True]
