"""The status of chunks as a grid: a line for each data id, and a column for each dataset, in flow order."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headgate.cli.terminal.output import painted, terminal_width
from headgate.cli.terminal.tables import cells
from headgate.core.ledger.expectations.model import LATE
from headgate.core.ledger.fan import MOST_FANNED
from headgate.core.ledger.model import ERROR, HOLD, PENDING, READY, RESUBMIT, RUNNING
from headgate.core.ledger.rules import OTHER
from headgate.core.values.visible import visible

if TYPE_CHECKING:
    from headgate.core.ledger.model import Row
    from headgate.service.ledger.use_cases import Ledger

#: A letter for each status, so that the grid is readable without colours.
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
#: The READY share of a mapped input; a status; or nothing.
Share: TypeAlias = dict[str, int]
Cell: TypeAlias = Share | str | None


def fan_ins(ledger: Ledger, names: Sequence[str], rows: Sequence[Row], limit: int) -> dict[tuple[str, str], Share]:
    """For data ids of jobs with mappings: the READY share of each mapped input.

    This includes data ids that wait for inputs and have no rows yet, up to a number for each job.
    """
    found: dict[tuple[str, str], Share] = {}
    for job in ledger.jobs():
        if set(names).isdisjoint(job.maps) or set(names).isdisjoint(job.outputs):
            continue
        plan = ledger.plan(job.name, limit)
        own = [row.dataid for row in rows if row.dataset in job.outputs][-limit:]
        mine = list(dict.fromkeys([*own, *(each.dataid for each in (*plan.next, *plan.blocked))]))
        for each in ledger.fan_in(job.name, mine[:MOST_FANNED], 1) if mine else ():
            if each.dataset in names and each.dataset in job.maps:
                found[each.dataid, each.dataset] = {"ready": each.ready, "needed": each.needed}
    return found


def draw(names: Sequence[str], document: Mapping[str, Mapping[str, Cell]]) -> str:
    """The grid as letters, with a legend. Names that are too long for the terminal are replaced by numbers."""
    if not document:
        return "no chunks yet"
    dataids = [visible(each, lines=False) for each in document]
    first = max(map(cells, ("DATAID", *dataids)))
    titles = [visible(each, lines=False) for each in names]
    room = terminal_width() if sys.stdout.isatty() else None
    numbers: list[str] = []
    wide = [max((len(_text(row[name])) for row in document.values()), default=1) for name in names]
    if room is not None and first + sum(max(cells(t), w) + len(GAP) for t, w in zip(titles, wide, strict=True)) > room:
        numbers = [f"{number} {title}" for number, title in enumerate(titles, 1)]
        titles = [str(number) for number in range(1, len(names) + 1)]
    titles = [title + " " * (width - cells(title)) for title, width in zip(titles, wide, strict=True)]
    lines = [_line("DATAID", first, titles)]
    for shown, statuses in zip(dataids, document.values(), strict=True):
        signs = [_sign(statuses[name], cells(title)) for name, title in zip(names, titles, strict=True)]
        lines.append(_line(shown, first, signs))
    return "\n".join(
        [
            *lines,
            "",
            *([_folded([(each, cells(each)) for each in numbers], room)] if numbers else []),
            _legend(document, room),
        ]
    )


def sign(status: str | None) -> str:
    """The letter for a status."""
    return NOTHING if status is None else LATE[0] if status == LATE else SIGNS.get(status, UNKNOWN)


def _text(cell: Cell) -> str:
    return sign(cell) if cell is None or isinstance(cell, str) else f"{cell['ready']}/{cell['needed']}"


def _sign(cell: Cell, width: int) -> str:
    text = _text(cell)
    return (painted(cell, text) if isinstance(cell, str) else text) + " " * (width - len(text))


def _line(dataid: str, first: int, parts: Sequence[str]) -> str:
    return f"{dataid}{' ' * (first - cells(dataid))}{GAP}{GAP.join(parts)}".rstrip()


def _legend(document: Mapping[str, Mapping[str, Cell]], room: int | None) -> str:
    """What the letters mean."""
    late = [(LATE[0], LATE)] if any(LATE in row.values() for row in document.values()) else []
    signs = [*((letter, status) for status, letter in SIGNS.items()), *late, (UNKNOWN, OTHER), (NOTHING, "nothing")]
    return _folded([(f"{painted(word, letter)} {word}", len(letter) + 1 + len(word)) for letter, word in signs], room)


def _folded(parts: Sequence[tuple[str, int]], room: int | None) -> str:
    """Texts, each with the columns that it takes, in lines that fit the terminal."""
    lines, width = [[parts[0][0]]], parts[0][1]
    for text, wide in parts[1:]:
        if room is not None and width + len(", ") + wide + len(",") > room:
            lines.append([])
            width = -len(", ")
        lines[-1].append(text)
        width += len(", ") + wide
    return ",\n".join(", ".join(line) for line in lines)
