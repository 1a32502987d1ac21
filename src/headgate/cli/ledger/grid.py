"""The status of chunks as a grid: a line for each data id, a column for each dataset, in the order of the flow."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from headgate.cli.terminal.output import painted, terminal_width
from headgate.cli.terminal.tables import cells
from headgate.core.ledger.model import ERROR, HOLD, PENDING, READY, RESUBMIT, RUNNING
from headgate.core.values.visible import visible

#: A letter for each status: the grid is read without colours.
SIGNS = {
    READY: "#",
    RUNNING: ">",
    ERROR: "x",
    RESUBMIT: "r",
    HOLD: "h",
    PENDING: "p",
}
NOTHING, UNKNOWN = ".", "?"
GAP = "  "


def draw(names: Sequence[str], document: Mapping[str, Mapping[str, str | None]]) -> str:
    """The grid as letters, with a legend. Names that are too long for the terminal become numbers."""
    if not document:
        return "no chunks yet"
    dataids = [visible(each, lines=False) for each in document]
    first = max(map(cells, ("DATAID", *dataids)))
    titles = [visible(each, lines=False) for each in names]
    room = terminal_width() if sys.stdout.isatty() else None
    numbers: list[str] = []
    if room is not None and first + sum(cells(each) + len(GAP) for each in titles) > room:
        numbers = [f"{number} {title}" for number, title in enumerate(titles, 1)]
        titles = [str(number) for number in range(1, len(names) + 1)]
    lines = [_line("DATAID", first, titles)]
    for shown, statuses in zip(dataids, document.values(), strict=True):
        signs = [_sign(statuses[name], cells(title)) for name, title in zip(names, titles, strict=True)]
        lines.append(_line(shown, first, signs))
    return "\n".join([*lines, "", *([", ".join(numbers)] if numbers else []), _legend()])


def sign(status: str | None) -> str:
    """The letter for a status."""
    return NOTHING if status is None else SIGNS.get(status, UNKNOWN)


def _sign(status: str | None, width: int) -> str:
    letter = sign(status)
    return (painted(status, letter) if status else letter) + " " * (width - 1)


def _line(dataid: str, first: int, parts: Sequence[str]) -> str:
    return f"{dataid}{' ' * (first - cells(dataid))}{GAP}{GAP.join(parts)}".rstrip()


def _legend() -> str:
    known = ", ".join(f"{painted(status, letter)} {status}" for status, letter in SIGNS.items())
    return f"{known}, {UNKNOWN} other, {NOTHING} nothing"
