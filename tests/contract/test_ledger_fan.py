"""The chunks that chunks are made from, and those made from them: in both directions across mappings."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import BadValue, Gate, UnknownName
from headgate.core.ledger.fan import ChunkLink
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
DAYS = [f"2026-02-{day:02}" for day in range(1, 29)]


def monthly(gate: Gate) -> Ledger:
    ledger = gate.ledger
    for name in ("raw", "days", "rates", "months"):
        ledger.define_dataset(name)
    ledger.define_job("clean", inputs=["raw"], outputs=["days"])
    month = {"kind": "period", "period": "month", "unit": "day"}
    maps: dict[str, dict[str, Any]] = {"days": month, "rates": {"kind": "list", "ids": ["eur"]}}
    ledger.define_job("monthly", inputs=["days", "rates"], outputs=["months"], maps=maps)
    return ledger


def clean(ledger: Ledger, *dataids: str) -> None:
    ledger.publish("raw", list(dataids))
    for dataid in dataids:
        ledger.success(ledger.claim("clean", dataid))


def test_a_month_shows_which_of_its_days_are_ready(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS[2:])
    ledger.hold("clean", DAYS[1], reason=WHY)
    days, rates = ledger.fan_in("monthly", ["2026-02"])
    assert (days.dataid, days.dataset, days.needed, days.ready, days.complete) == ("2026-02", "days", 28, 26, False)
    assert days.text == "input days: 26 of 28 days are READY; missing 2026-02-01, 2026-02-02 (HOLD)"
    assert days.links[:3] == (
        ChunkLink("clean", "days", "2026-02-01", "absent"), ChunkLink("clean", "days", "2026-02-02", "HOLD"),
        ChunkLink("clean", "days", "2026-02-03", "READY"),
    )  # fmt: skip
    assert len(days.links) == 28
    assert rates.links == (ChunkLink("external", "rates", "eur", "absent"),)


def test_where_not_all_links_are_asked_for_the_missing_ones_come_first(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS[:10])
    days, _ = ledger.fan_in("monthly", ["2026-02"], 2)
    assert [each.dataid for each in days.links] == DAYS[10:12]
    assert (days.ready, days.needed) == (10, 28)


def test_several_data_ids_are_answered_in_their_order_without_mappings_too(gate: Gate) -> None:
    ledger = monthly(gate)
    ledger.publish("raw", "a")
    found = ledger.fan_in("clean", ["b", "a", "b"])
    assert [(each.dataid, each.ready) for each in found] == [("b", 0), ("a", 1)]
    with pytest.raises(UnknownName):
        ledger.fan_in("cleen", ["a"])
    with pytest.raises(BadValue):
        ledger.fan_in("clean", [str(number) for number in range(1001)])


def test_a_day_shows_the_month_that_reads_it_and_a_rate_the_months_that_were_made_with_it(gate: Gate) -> None:
    ledger = monthly(gate)
    clean(ledger, *DAYS)
    assert ledger.readers("raw", DAYS[0]) == [ChunkLink("clean", "days", DAYS[0], "READY")]
    assert ledger.readers("days", DAYS[0]) == [ChunkLink("monthly", "months", "2026-02", "absent")]
    assert ledger.readers("rates", "eur") == ledger.readers("months", "2026-02") == []
    ledger.publish("rates", "eur")
    claim = ledger.find_next("monthly")
    assert claim
    ledger.success(claim)
    month = [ChunkLink("monthly", "months", "2026-02", "READY")]
    assert ledger.readers("days", DAYS[0]) == ledger.readers("rates", "eur") == month
    with pytest.raises(UnknownName):
        ledger.readers("dayz", DAYS[0])
