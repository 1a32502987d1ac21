"""Fan-out parts are gathered again by mapped jobs, which do not wait for parts that a later attempt no longer lists."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import Gate, UnknownName
from headgate.service.ledger.use_cases import Ledger
from tests.contract.ledger_steps import WHY, claimed, next_id, status_of
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)
BY_RUN = {"kind": "split", "format": "{run}.{sample}", "job_format": "{run}"}
BY_DAY = {"kind": "period", "period": "month", "format": "%Y-%m-%d"}


def gathering(gate: Gate, **mapping: Any) -> Ledger:
    """A run is split into samples, and a report gathers them."""
    ledger = gate.ledger
    for name in ("runs", "samples", "reports"):
        ledger.define_dataset(name)
    ledger.define_job("split", inputs=["runs"], fan_out=["samples"])
    ledger.define_job("gather", inputs=["samples"], outputs=["reports"], maps={"samples": mapping})
    ledger.publish("runs", ["r1", "r2"])
    return ledger


def split(ledger: Ledger, run: str, *samples: str) -> None:
    ledger.success(ledger.claim("split", run), outputs={"samples": samples})


def split_again(ledger: Ledger, run: str, *samples: str) -> None:
    ledger.resubmit("split", run, reason=WHY, downstream=True)
    split(ledger, run, *samples)


@pytest.mark.parametrize(
    ("mapping", "gathered", "before", "after"),
    [
        (BY_RUN, "r1", ("r1.a", "r1.b", "r1.c"), ("r1.a", "r1.c")),
        (BY_DAY, "2026-02", ("2026-02-01", "2026-02-02"), ("2026-02-02",)),
        ({"kind": "all"}, "any", ("a", "b"), ("b",)),
    ],
    ids=["split", "period", "all"],
)
def test_parts_that_are_no_longer_listed_are_not_waited_for(
    gate: Gate, mapping: dict[str, Any], gathered: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    ledger = gathering(gate, **mapping)
    split(ledger, "r1", *before)
    if mapping["kind"] != "all":
        ledger.close("gather", gathered)
    claim = ledger.claim("gather", gathered)
    assert claim.inputs["samples"].dataids == before
    ledger.success(claim)
    split_again(ledger, "r1", *after)
    assert status_of(ledger, "samples", next(iter({*before} - {*after})), "split") == "HOLD"
    (fan_in,) = ledger.fan_in("gather", [gathered])
    assert (fan_in.needed, fan_in.ready, fan_in.complete) == (len(after), len(after), True)
    assert [each.dataid for each in ledger.plan("gather").next] == [gathered]
    assert claimed(ledger, "gather").inputs["samples"].dataids == after


def test_a_window_in_order_closes_over_what_is_no_longer_listed(gate: Gate) -> None:
    ledger = gathering(gate, kind="window", before=1)
    split(ledger, "r1", "1", "2", "3")
    split_again(ledger, "r1", "1", "3")
    assert [next_id(ledger, "gather") for _ in range(2)] == ["1", "3"]
    assert ledger.fan_in("gather", ["3"])[0].needed == 2


def test_a_job_that_waited_for_a_part_is_found_when_the_part_is_left_out(gate: Gate) -> None:
    ledger = gathering(gate, **BY_RUN | {"job_format": "{sample}", "format": "{sample}.{run}"})
    split(ledger, "r1", "s.r1")
    split(ledger, "r2", "s.r2")
    ledger.close("gather", "s")
    ledger.resubmit("split", "r2", reason=WHY)
    assert [next_id(ledger, "gather") for _ in range(2)] == [None, None]
    split(ledger, "r2")
    assert claimed(ledger, "gather").inputs["samples"].dataids == ("s.r1",)


def test_a_part_that_is_listed_again_is_late_for_what_was_made_without_it(gate: Gate) -> None:
    ledger = gathering(gate, **BY_RUN | {"on_late": "redo", "late_delay": 0})
    split(ledger, "r1", "r1.a", "r1.b")
    split_again(ledger, "r1", "r1.a")
    ledger.close("gather", "r1")
    ledger.success(claimed(ledger, "gather"))
    ledger.resubmit("split", "r1", reason=WHY)
    split(ledger, "r1", "r1.a", "r1.b")
    assert claimed(ledger, "gather").inputs["samples"].dataids == ("r1.a", "r1.b")


def test_a_part_on_hold_that_is_listed_is_waited_for(gate: Gate) -> None:
    ledger = gathering(gate, **BY_RUN)
    split(ledger, "r1", "r1.a")
    ledger.close("gather", "r1")
    ledger.hold("split", "r1", reason=WHY)
    assert next_id(ledger, "gather") is None
    assert ledger.fan_in("gather", ["r1"])[0].text == "input samples: 0 of 1 data id is READY; missing r1.a (HOLD)"
    ledger.unhold("split", "r1")
    assert next_id(ledger, "gather") == "r1"


def test_a_list_that_names_a_part_waits_for_it_even_if_it_is_left_out(gate: Gate) -> None:
    ledger = gathering(gate, kind="list", ids=["a", "b"])
    split(ledger, "r1", "a", "b")
    split_again(ledger, "r1", "a")
    verdict = ledger.explain("gather", "x")
    assert not verdict.granted
    assert "missing b (HOLD)" in verdict.sentence()


@pytest.mark.parametrize("act", ["hold", "unhold", "resubmit", "forget"])
def test_an_act_on_a_part_says_what_it_was_made_from_and_changes_nothing(gate: Gate, act: str) -> None:
    ledger = gathering(gate, **BY_RUN)
    split(ledger, "r1", "r1.a")
    with pytest.raises(UnknownName, match=r"samples/r1\.a was made from r1, and has the status of split r1"):
        getattr(ledger, act)("split", "r1.a", reason=WHY)
    assert [(row.dataset, row.status) for row in ledger.status(dataid="r1.a")] == [("samples", "READY")]


def test_a_chunk_that_has_the_name_of_a_part_is_held_itself(gate: Gate) -> None:
    ledger = gathering(gate, **BY_RUN)
    split(ledger, "r1", "r2")
    ledger.hold("split", "r2", reason=WHY)
    assert status_of(ledger, "runs", "r2", "split", kind="INPUT") == "HOLD"
    assert status_of(ledger, "samples", "r2", "split") == "READY"
