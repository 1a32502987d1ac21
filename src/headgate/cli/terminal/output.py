"""How answers look: JSON output, tables and plain text.

All text from stores, servers and files is printed here, with control characters made visible.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.cli.terminal.talk import talk
from headgate.core.tables.tones import TONES, Tone
from headgate.core.values.durations import in_words
from headgate.core.values.visible import visible, visible_json
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.locks.model import Lock

T = TypeVar("T")
RED, GREEN, YELLOW, BLUE, MAGENTA = "31", "32", "33", "34", "35"
COLOURS = {
    Tone.OK: GREEN, Tone.RUNNING: BLUE, Tone.FAILED: RED, Tone.HELD: YELLOW, Tone.QUEUED: MAGENTA, Tone.FORCED: RED,
    Tone.SHARED: GREEN, Tone.EXCLUSIVE: YELLOW,
}  # fmt: skip
#: Colours for words that have the same meaning, as terminal colour numbers.
STYLES = {
    **{word: COLOURS[tone] for word, tone in TONES.items()},
    "waits": MAGENTA, "first": MAGENTA, "next": GREEN, "blocked": YELLOW,
}  # fmt: skip
#: Whether tables are printed whole even on a terminal.
_everything = False


#: Placeholder for the start of a terminal code until a text is printed. It is random, so no name contains it.
_CODE = "\ufdd0" + os.urandom(8).hex()


def shown(text: str) -> str:
    """Return a text for printing: with our own colours, and other control characters made visible."""
    return "\x1b[".join(visible(part) for part in text.split(_CODE))


def say(text: str) -> None:
    """Write lines for people to stderr."""
    talk(shown(text) + "\n")


def to_json(document: object) -> str:
    """One JSON document: indented on a terminal, else one line."""
    indent = 2 if sys.stdout.isatty() else None
    return visible_json(json.dumps(plain(document), ensure_ascii=False, indent=indent))


def list_document(items: Iterable[object], more: str | None = None, **beside: object) -> dict[str, object]:
    """A list as JSON, in the form of every list; `more`: the cursor of the next page."""
    return {"items": list(items), "next": more, **beside}


def page(found: Sequence[T], limit: int, cursor: str = "id") -> tuple[Sequence[T], str | None]:
    """The first items, and the cursor of the next page if more were found than requested."""
    shown = found[:limit]
    return shown, getattr(shown[-1], cursor) if len(found) > limit else None


def lock_document(lock: Lock) -> dict[str, Any]:
    """A lock as JSON data. The request's id is left out, because it is private to the holder."""
    document: dict[str, Any] = plain(lock)
    del document["request_id"]
    ends = None if lock.expires_in is None else datetime.now(UTC) + timedelta(seconds=lock.expires_in)
    return {**document, "expires_at": plain(ends)}


def ago(moment: datetime) -> str:
    """How long ago, in words. Small differences between clocks are shown as 0 s."""
    return f"{in_words((datetime.now(UTC) - moment).total_seconds())} ago"


def lease_words(expires_in: float | None) -> str:
    """When a lock expires."""
    return "persistent" if expires_in is None else f"ends in {in_words(expires_in)}"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as a table: fitted to a terminal, else plain aligned columns."""
    texts = [[str(cell) for cell in row] for row in rows]
    return _fitted_table(headings, texts) if sys.stdout.isatty() and not _everything else aligned([headings, *texts])


def pairs(values: Mapping[str, object]) -> str:
    """Names and values, one per line."""
    return aligned([[f"{name}:", "-" if value in (None, "") else str(value)] for name, value in values.items()])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, two blanks between them, nothing cut off, one row per line."""
    rows = [[visible(cell, lines=False) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def colours() -> bool:
    """Whether the terminal shows colours and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(word: str, text: str = "") -> str:
    """Return a word, or a text for it, in the word's colour; plain text if colours are off."""
    return _styled(text or word, "1", STYLES.get(word, ""))


def _styled(text: str, *styles: str) -> str:
    codes = ";".join(filter(None, styles))
    return f"{_CODE}{codes}m{text}{_CODE}0m" if codes and colours() else text


def terminal_width() -> int:
    """Columns of the terminal."""
    from shutil import get_terminal_size

    return get_terminal_size().columns


def show_everything() -> None:
    """Cut no table from now on: the user gave `--wide`."""
    global _everything  # noqa: PLW0603 - it is a property of this run's terminal, like its colours
    _everything = True


def _fitted_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from headgate.cli.terminal.tables import fitted

    width = terminal_width()
    safe = [[visible(cell, lines=False) for cell in row] for row in rows]
    (first, *lines), is_cut = fitted(headings, safe, width)
    drawn = ["  ".join(_styled(cell, "1") for cell in first)]
    drawn += ["  ".join(_styled(cell, STYLES.get(cell.rstrip(), "")) for cell in line) for line in lines]
    note = [_styled(f"(cut to {width} columns: --wide shows everything)", "2")] if is_cut else []
    return "\n".join([*(line.rstrip() for line in drawn), *note])
