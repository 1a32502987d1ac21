"""Measuring on a shared, noisy machine: short rounds of all contestants in turn, and the median of the ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: One round of one contestant.
ROUND_SECONDS = 1.0
ROUNDS = 7

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one contestant: its median rate, and its median ratio to each other one in the same round."""

    rate: float
    rates: tuple[float, ...]

    def ratio_to(self, other: Result) -> float:
        """The median of the ratios of neighbouring rounds: noise that hits both is left out."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True))


def compare(contestants: Mapping[str, Step], rounds: int = ROUNDS, seconds: float = ROUND_SECONDS) -> dict[str, Result]:
    """Steps per second of each, in turns."""
    for step in contestants.values():
        _rate(step, seconds / 4)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, step in contestants.items():
            rates[name].append(_rate(step, seconds))
    return {name: Result(statistics.median(found), tuple(found)) for name, found in rates.items()}


def _rate(step: Step, seconds: float) -> float:
    began = time.perf_counter()
    count = 0
    while (passed := time.perf_counter() - began) < seconds:
        step()
        count += 1
    return count / passed


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table for a terminal."""
    cells = [list(header)] + [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([title, "", lines[0], "  ".join("-" * width for width in widths), *lines[1:], ""])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return str(value)


def verdict(ratio: float, target: float) -> str:
    """Whether a figure meets its target."""
    return "ok" if ratio >= target else "MISSED"
