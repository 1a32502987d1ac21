"""The state of mapped inputs in words: how much is READY, and what is missing."""

from typing import Any

import pytest

from headgate.core.ledger.mappings.parsing import parse_map
from headgate.core.ledger.model import Kind, Row
from headgate.core.ledger.sources import SourceSet, source_set

MONTH = {"kind": "period", "period": "month", "unit": "day"}
SPLIT = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"}
DAYS = [f"2026-10-{day:02}" for day in range(1, 32)]


def source(dataid: str, ready: list[str], mapping: dict[str, Any], **statuses: str) -> SourceSet:
    rows = [Row("days", each, "clean", Kind.OUTPUT, "READY") for each in ready]
    rows += [Row("days", each.replace("_", "-"), "clean", Kind.OUTPUT, status) for each, status in statuses.items()]
    return source_set("days", parse_map("days", mapping), "monthly", dataid, rows, closed=False, most=10_000)


CASES: list[tuple[SourceSet, bool, str]] = [
    (source("2026-10", DAYS, MONTH), True, "31 of 31 days are READY"),
    (
        source("2026-10", DAYS[2:], MONTH, **{DAYS[1]: "ERROR"}), False,
        "29 of 31 days are READY; missing 2026-10-01, 2026-10-02 (ERROR)",
    ),
    (
        source("2026-10", DAYS[8:], MONTH), False,
        "23 of 31 days are READY; missing 2026-10-01, 2026-10-02, 2026-10-03, 2026-10-04, 2026-10-05 and 3 more",
    ),
    (
        source("2026-10", DAYS[1:], {**MONTH, "need": 30}), True,
        "30 of 31 days are READY, at least 30 needed; without 2026-10-01",
    ),
    (
        source("2026-10", [], {"kind": "list", "ids": ["eu"], "need": "any"}), False,
        "0 of 1 data id is READY, at least 1 needed; missing eu",
    ),
    (source("2026-13", [], MONTH), False, "2026-13 does not name a month as %Y-%m"),
    (
        source("S1", ["S1.1", "S1.2"], SPLIT), False,
        "2 of 2 data ids are READY; more may arrive until it is closed with: headgate job close monthly S1",
    ),
    (source("S1", ["S1.1", "S1.2"], {**SPLIT, "need": 2}), True, "2 of 2 data ids are READY, at least 2 needed"),
    (source("x", [], {"kind": "all"}), False, "it has no data ids yet"),
    (
        source("b", ["a"], {"kind": "window", "before": 1, "need": "any"}), False,
        "1 of 2 data ids are READY, at least 1 needed, among them b; missing b",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("found", "complete", "words"), CASES, ids=[words for _, _, words in CASES])
def test_an_input_says_how_much_of_it_is_ready_and_what_is_missing(
    found: SourceSet, words: str, *, complete: bool
) -> None:
    assert (found.complete, found.sentence()) == (complete, f"input days: {words}")


@pytest.mark.parametrize(
    ("found", "share"),
    [
        (source("2026-10", DAYS, MONTH), 1.0),
        (source("2026-10", DAYS[1:], MONTH), 30 / 31),
        (source("2026-10", DAYS[:10], {**MONTH, "need": 20}), 0.5),
        (source("2026-10", DAYS[:10], {**MONTH, "need": "any"}), 1.0),
        (source("2026-13", [], MONTH), 0.0),
    ],
)
def test_the_share_that_is_ready_counts_what_is_needed(found: SourceSet, share: float) -> None:
    assert found.share == pytest.approx(share)
