"""The tables as documents: Markdown and JSON. The docs show exactly what the code executes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.core.locks.model import COMPATIBLE, Mode
from headgate.core.locks.parsing import MODE_WORDS
from headgate.core.tables.machine import Machine


def machine_table(machine: Machine) -> str:
    """A state table in Markdown."""
    rows = [
        (
            row.source,
            row.event,
            row.target + (f" (when {row.when})" if row.when else ""),
            row.by.value + (f"; needs: {row.needs}" if row.needs else ""),
            row.also.words(),
            row.meaning,
        )
        for row in machine.rows
    ]
    return table(("from", "event", "to", "who may", "also, in the same write", "meaning"), rows)


def machine_data(machine: Machine) -> dict[str, object]:
    """A state table as plain data, for JSON."""
    return {
        "name": machine.name,
        "start": machine.start,
        "states": list(machine.states),
        "ends": list(machine.ends),
        "events": list(machine.events),
        "rows": [
            {
                "from": row.source,
                "event": row.event,
                "to": row.target,
                "when": row.when,
                "needs": row.needs,
                "by": row.by.name.lower(),
                "also": row.also.words(),
                "meaning": row.meaning,
            }
            for row in machine.rows
        ],
    }


def compatibility_table() -> str:
    """Which modes are compatible, in Markdown."""
    words = {mode: [word for word, means in MODE_WORDS.items() if means is mode] for mode in Mode}
    rows = [
        (
            f"{mode} (also: {words[mode][1]})",
            "granted",
            *("granted" if COMPATIBLE[mode, held] else "refused" for held in Mode),
        )
        for mode in Mode
    ]
    return table(("wanted \\ held by anyone", "nothing", *(str(mode) for mode in Mode)), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [_row(header), _row("---" for _ in header), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
