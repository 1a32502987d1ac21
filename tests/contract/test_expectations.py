"""Expectations: what is late and why, one incident each, and the judge; on every store that keeps a ledger."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import BadValue, Gate
from headgate.core.ledger.watches.model import FileMark, OnChange, Parcel, Sighting
from headgate.daemons.timekeeper import Timekeeper
from headgate.service.ledger.use_cases import Ledger
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import WHY, claimed, database, next_id
from tests.contract.over_http import LEDGER_STORES, behind

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
LONG, SHORT = 600.0, 0.05
#: Days of a past month.
DAYS = [f"2026-02-{day:02}" for day in range(1, 29)]
FEBRUARY: dict[str, Any] = {"ids": DAYS, "from": "2026-03-01"}
DEFINED_BEFORE = Statement("It was defined before all that.", "update hg_expectation set defined = 0")
ALL_BEFORE = Statement("All that happened so far was before it was late.", "update hg_history set at = 0")
EXPIRE_TURN = Statement("The judge died.", "update hg_turn set lease_until = {now} - 1")


def judge(gate: Gate, worker: str = "one") -> int:
    """One round of the daemon, on the store itself."""
    return Timekeeper(behind(gate).expectations, worker, LONG).round()


def late(gate: Gate, dataset: str | None = None) -> list[str]:
    return [f"{each.dataset}/{each.dataid}" for each in gate.expectations.late(dataset)]


def reason(gate: Gate, dataset: str, dataid: str) -> str:
    return next(each.reason for each in gate.expectations.late(dataset) if each.dataid == dataid)


def pipeline(gate: Gate, **expects: Any) -> Ledger:
    """Days are cleaned, and a month is made from those that are expected."""
    ledger = gate.ledger
    for name in ("raw", "days", "months"):
        ledger.define_dataset(name, expect=expects.get(name))
    ledger.define_job("clean", inputs=["raw"], outputs=["days"], max_attempts=1)
    monthly = {"kind": "period", "period": "month", "format": "%Y-%m-%d"}
    ledger.define_job("monthly", inputs=["days"], outputs=["months"], maps={"days": monthly})
    return ledger


def delivery(gate: Gate) -> Callable[[int], None]:
    """Delivers a file of raw/1 of the given size."""
    watches = behind(gate).watches
    token = watches.take_turn(Sighting("raw", "/data/in", "{x}.csv", "one", LONG, 2.0, None, looked=True)).token or 0

    def deliver(size: int) -> None:
        watches.land("raw", token, [Parcel("1", (FileMark("1.csv", size, 1),))], OnChange.NOTE)

    return deliver


def listed(*dataids: str) -> dict[str, Any]:
    return {"ids": list(dataids), "from": "2026-01-01"}


def test_a_dataset_says_what_it_expects_and_the_definition_comes_back(gate: Gate) -> None:
    ledger = gate.ledger
    assert ledger.define_dataset("raw", expect={"every": "day", "grace": "2h", "from": "2026-01-01"}).changes
    (found,) = ledger.datasets()
    assert found.expect["grace"] == 7200
    assert not ledger.define_dataset("raw", expect=found.expect).changes, "as it is printed, it can be defined again"
    assert "expect" in ledger.define_dataset("raw").changes[0]
    assert ledger.datasets()[0].expect == {}
    with pytest.raises(BadValue, match="has no from"):
        ledger.define_dataset("raw", expect={"every": "day"})
    with pytest.raises(BadValue, match="did you mean 'day'"):
        ledger.define({"raw": {"expect": {"every": "dya", "from": "2026-01-01"}}}, {})


def test_a_chunk_that_is_not_ready_in_time_is_late_with_one_incident_until_it_arrives(gate: Gate) -> None:
    ledger = pipeline(gate, raw=listed("1", "2", "3"))
    ledger.publish("raw", ["2"])
    assert late(gate) == [], "nobody has judged yet"
    assert judge(gate) == 3
    assert late(gate) == ["raw/1", "raw/3"]
    opened = gate.incidents.list(kind="late")
    assert sorted(each.subject for each in opened) == ["raw/1", "raw/3"]
    assert all("expected 2026-01-01 00:00 UTC" in each.message for each in opened)
    assert judge(gate, "two") == 0
    assert judge(gate) == 0
    ledger.publish("raw", ["1"])
    assert late(gate) == ["raw/3"], "what is READY is not shown, even before the judge has noticed"
    assert judge(gate) == 1
    assert [(each.subject, each.state, each.count) for each in gate.incidents.list(kind="late", closed=True)] == [
        ("raw/3", "open", 1), ("raw/1", "closed", 1)]  # fmt: skip
    assert gate.incidents.list(closed=True)[-1].closed_by == "arrival"
    assert judge(gate) == 0


def test_a_chunk_that_was_ready_in_time_is_not_late_when_it_is_made_again(gate: Gate) -> None:
    ledger = pipeline(gate, days=listed("1"))
    ledger.publish("raw", ["1"])
    ledger.success(claimed(ledger, "clean"))
    judge(gate)
    ledger.resubmit("clean", "1", reason=WHY)
    judge(gate)
    assert gate.incidents.list(closed=True) == []
    assert late(gate) == []


@pytest.mark.parametrize("end", ["READY", "RESUBMIT", "RUNNING"])
def test_the_history_says_that_a_chunk_was_ready_in_time_although_it_was_made_again_unjudged(
    gate: Gate, end: str
) -> None:
    """The judge was not running from before the deadline until after the chunk was redone."""
    ledger = pipeline(gate, raw=listed("1"), days=listed("1", "2"))
    deliver = delivery(gate)
    deliver(1)
    ledger.success(claimed(ledger, "clean"))
    database(gate).write(lambda tx: tx.run(DEFINED_BEFORE))
    database(gate).write(lambda tx: tx.run(ALL_BEFORE))
    deliver(2)
    ledger.resubmit("clean", "1", reason=WHY)
    if end != "RESUBMIT":
        claim = claimed(ledger, "clean")
        if end == "READY":
            ledger.success(claim)
    judge(gate)
    assert [each.subject for each in gate.incidents.list(closed=True)] == ["days/2"]
    assert late(gate) == ["days/2"]


def test_a_list_continues_after_a_chunk_that_has_arrived_meanwhile(gate: Gate) -> None:
    pipeline(gate, raw=listed("1", "2", "3", "4"))
    judge(gate)
    first = gate.expectations.late(limit=2)
    gate.ledger.publish("raw", "2")
    judge(gate)
    assert [each.dataid for each in first] == ["1", "2"]
    assert [each.dataid for each in gate.expectations.late(after=first[-1].id)] == ["3", "4"]
    gate.ledger.publish("raw", ["1", "3", "4"])
    judge(gate)
    assert gate.expectations.late(after=first[-1].id) == []


def test_a_deadline_in_the_future_is_waited_for(gate: Gate) -> None:
    soon = datetime.now(UTC) + timedelta(days=2)
    gate.ledger.define_dataset("raw", expect={"every": "day", "from": f"{soon:%Y-%m-%d}", "grace": "1h"})
    assert judge(gate) == 0
    (found,) = gate.expectations.lateness()
    assert (found.dataset, found.late, found.oldest, found.next) == ("raw", 0, None, f"{soon:%Y-%m-%d}")
    assert found.next_due == datetime(soon.year, soon.month, soon.day, 1, tzinfo=UTC)
    assert found.behind == 0


def test_many_data_ids_are_judged_in_steps(gate: Gate) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    start = yesterday - timedelta(days=364)
    gate.ledger.define_dataset("raw", expect={"every": "day", "from": f"{start:%Y-%m-%d}"})
    assert judge(gate) in (365, 366), "the day may end meanwhile"
    found = gate.expectations.late(limit=3)
    assert [each.dataid for each in found] == [f"{start + timedelta(days=day):%Y-%m-%d}" for day in range(3)]
    assert found[0].expected == found[0].due
    following = gate.expectations.late(after=found[-1].id, limit=1)
    assert [each.dataid for each in following] == [f"{start + timedelta(days=3):%Y-%m-%d}"]
    (standing,) = gate.expectations.lateness()
    assert (standing.late, standing.oldest) == (gate.incidents.count().count["late"], found[0].due)


def test_another_definition_withdraws_what_it_does_not_expect(gate: Gate) -> None:
    ledger = pipeline(gate, raw=listed("1", "2"))
    judge(gate)
    ledger.define_dataset("raw", expect=listed("2", "3"))
    judge(gate)
    assert late(gate) == ["raw/2", "raw/3"]
    states = {each.subject: (each.state, each.closed_by, each.count) for each in gate.incidents.list(closed=True)}
    assert states == {"raw/1": ("closed", "definition", 1), "raw/2": ("open", "", 1), "raw/3": ("open", "", 1)}
    ledger.define_dataset("raw")
    judge(gate)
    assert late(gate) == []
    assert gate.incidents.list() == []
    assert gate.expectations.lateness() == []


# ---------------------------------------------------------------- reasons


def test_the_reason_is_followed_upstream_to_where_it_begins(gate: Gate) -> None:
    ledger = pipeline(gate, months=listed("2026-02"), days=FEBRUARY)
    judge(gate)
    assert reason(gate, "months", "2026-02") == "raw/2026-02-01 was never published (27 other chunks missing too)"
    ledger.publish("raw", DAYS)
    text = "days/2026-02-01 can be claimed, and no worker of job clean has claimed it"
    assert reason(gate, "days", "2026-02-01") == text
    claim = claimed(ledger, "clean")
    assert "OUTPUT days/2026-02-01 of clean is RUNNING by" in reason(gate, "months", "2026-02")
    ledger.fail(claim, "disk full")
    assert "used up its attempts" in reason(gate, "months", "2026-02")
    ledger.pause("clean", reason="the disk is replaced")
    assert "paused: the disk is replaced" in reason(gate, "days", "2026-02-02")
    (found,) = gate.expectations.late("months")
    assert (found.status, found.cause) == ("absent", "days/2026-02-01")


@pytest.mark.parametrize("status", ["HOLD", "PENDING", "mine"])
def test_a_chunk_that_is_held_is_late_for_that_whatever_its_inputs_are(gate: Gate, status: str) -> None:
    """Arriving data would change nothing."""
    ledger = pipeline(gate, days=listed("1"))
    ledger.set_status("days", "1", "clean", "OUTPUT", status, reason=WHY)
    judge(gate)
    assert reason(gate, "days", "1").startswith(f"OUTPUT days/1 of clean is {status}")


def test_the_reason_says_what_the_watcher_saw(gate: Gate) -> None:
    pipeline(gate, raw=listed("2"))
    watches = behind(gate).watches
    seen = Sighting("raw", "/data/in", "{x}.csv", "one", LONG, 2.0, None, looked=True)
    watches.take_turn(seen)
    token = watches.take_turn(seen).token
    judge(gate)
    assert reason(gate, "raw", "2") == "raw/2 was never published; the folder watcher has seen no file"
    watches.land("raw", token or 0, [Parcel("1", (FileMark("1.csv", 1, 1),))], OnChange.NOTE)
    assert "the folder watcher last saw 1 on 20" in reason(gate, "raw", "2")
    watches.end_turn("raw", "one", token or 0)
    assert "it last polled on 20" in reason(gate, "raw", "2")


# ---------------------------------------------------------------- mappings


def test_a_period_is_complete_when_all_that_is_expected_is_ready(gate: Gate) -> None:
    weekdays = {"cron": "0 6 * * 1-5", "from": "2026-02-01"}
    ledger = pipeline(gate, days=weekdays)
    expected = [each for each in DAYS if datetime.fromisoformat(each).weekday() < 5]
    ledger.publish("raw", DAYS)
    for dataid in expected[1:]:
        ledger.success(ledger.claim("clean", dataid))
    assert next_id(ledger, "monthly") is None
    assert "19 of 20 data ids are READY; missing 2026-02-02" in ledger.explain("monthly", "2026-02").sentence()
    for dataid in ("2026-02-01", expected[0]):  # A Sunday that is not expected is read too.
        ledger.success(ledger.claim("clean", dataid))
    claim = claimed(ledger, "monthly")
    assert (claim.dataid, claim.inputs["days"].dataids) == ("2026-02", ("2026-02-01", *expected))
    ledger.success(claim)


def test_other_data_ids_do_not_stand_for_those_that_are_expected(gate: Gate) -> None:
    ledger = pipeline(gate, days={"cron": "0 6 * * 1", "from": "2026-02-01"})
    ledger.publish("raw", DAYS)
    for dataid in DAYS[2:]:
        ledger.success(ledger.claim("clean", dataid))
    assert next_id(ledger, "monthly") is None, "26 days are READY, of which three of four Mondays"
    ledger.success(ledger.claim("clean", "2026-02-02"))
    assert next_id(ledger, "monthly") == "2026-02"


def test_a_new_expectation_decides_what_may_be_claimed(gate: Gate) -> None:
    ledger = pipeline(gate)
    ledger.publish("raw", DAYS[:1])
    ledger.success(claimed(ledger, "clean"))
    assert next_id(ledger, "monthly") is None
    assert "headgate job close" in ledger.explain("monthly", "2026-02").sentence()
    ledger.define_dataset("days", expect=listed("2026-02-01"))
    assert next_id(ledger, "monthly") == "2026-02"


def test_a_period_of_which_nothing_is_expected_waits_until_it_is_closed(gate: Gate) -> None:
    ledger = pipeline(gate, days={"every": "day", "from": "2026-03-01"})
    ledger.publish("raw", DAYS[:1])
    ledger.success(claimed(ledger, "clean"))
    assert next_id(ledger, "monthly") is None
    ledger.close("monthly", "2026-02", reason=WHY)
    assert next_id(ledger, "monthly") == "2026-02"


def test_closing_gives_up_what_is_missing(gate: Gate) -> None:
    ledger = pipeline(gate, days={"every": "day", "from": "2026-02-01"})
    ledger.publish("raw", DAYS[:2])
    ledger.success(claimed(ledger, "clean"))
    ledger.success(claimed(ledger, "clean"))
    assert next_id(ledger, "monthly") is None
    ledger.close("monthly", "2026-02", reason=WHY)
    assert next_id(ledger, "monthly") == "2026-02"


# ---------------------------------------------------------------- turns


def test_one_judge_works_and_another_takes_over_when_it_dies_or_ends(gate: Gate) -> None:
    expectations = behind(gate).expectations
    pipeline(gate, raw=listed("1"))
    assert expectations.take_turn("one", LONG) == 1
    assert expectations.take_turn("one", LONG) == 1, "it renews"
    assert expectations.take_turn("two", LONG) is None
    assert judge(gate, "two") == 0
    assert late(gate) == []
    database(gate).write(lambda tx: tx.run(EXPIRE_TURN))
    assert expectations.take_turn("two", LONG) == 2
    assert expectations.judge(1) is None, "the first one's turn is over"
    assert expectations.recover(1) is None
    expectations.end_turn("one", 1)
    assert expectations.take_turn("one", LONG) is None, "an earlier turn ends nothing"
    expectations.end_turn("two", 2)
    assert expectations.take_turn("one", LONG) == 3
    assert judge(gate) == 1


def test_data_that_arrived_late_without_a_judge_is_still_recorded(gate: Gate) -> None:
    ledger = pipeline(gate, raw=listed("1"))
    ledger.publish("raw", ["1"])
    database(gate).write(lambda tx: tx.run(DEFINED_BEFORE))
    judge(gate)
    (found,) = gate.incidents.list(closed=True)
    assert (found.state, found.closed_by, found.count) == ("closed", "arrival", 1)
    assert "was READY only at" in found.message
    assert late(gate) == []


def test_an_alarm_is_raised_when_no_judge_runs(gate: Gate) -> None:
    pipeline(gate, raw=listed("1"))
    gate.expectations.lateness()
    assert [each for each in gate.alarms() if each.item == "timekeeper"] == []
    ago = Statement("It was due ten minutes ago.", "update hg_expectation set due = due - 600000000")
    database(gate).write(lambda tx: tx.run(ago))
    (alarm,) = [each for each in gate.alarms() if each.item == "timekeeper"]
    assert alarm.command == "headgate daemon timekeeper"
    assert gate.counts().chunks_late == 0
    judge(gate)
    assert [each for each in gate.alarms() if each.item == "timekeeper"] == []
    assert gate.counts().chunks_late == 1
