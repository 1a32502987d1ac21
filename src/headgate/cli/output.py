"""How answers look: JSON for programs, tables and plain words for people.

Whatever comes from a store, a server or a file is written through here: what a terminal would obey is made visible.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headgate.core.durations import in_words
from headgate.core.visible import visible, visible_json
from headgate.core.wire import plain

if TYPE_CHECKING:
    from headgate.cli.session import Session
    from headgate.core.locks import Lock

#: What takes longer than this is told of.
PATIENCE_SECONDS = 1.0
#: From this width on, no id is broken in a table.
WIDE = 110
#: Colours beside words that say the same.
STYLES = {
    "exclusive": "yellow",
    "shared": "green",
    "waits": "magenta",
    "break": "red",
    "expire": "red",
    "failed": "red",
    "held": "yellow",
    "completed": "green",
}


#: Begins a terminal's code in texts of ours until they are written. Nobody can guess it, so no name contains it.
_CODE = "\ufdd0" + os.urandom(8).hex()


def shown(text: str) -> str:
    """A text as it is written: with our own colours, and all else that a terminal would obey made visible."""
    return "\x1b[".join(visible(part) for part in text.split(_CODE))


def say(text: str) -> None:
    """Write lines for people to stderr."""
    sys.stderr.write(shown(text) + "\n")


def to_json(document: object) -> str:
    """One JSON document: spread out for a terminal, else one line."""
    indent = 2 if sys.stdout.isatty() else None
    return visible_json(json.dumps(plain(document), ensure_ascii=False, indent=indent))


def lock_document(lock: Lock) -> dict[str, Any]:
    """A lock for programs. The request's id is left out: it is the holder's own."""
    document: dict[str, Any] = plain(lock)
    del document["request_id"]
    ends = None if lock.expires_in is None else datetime.now(UTC) + timedelta(seconds=lock.expires_in)
    return {**document, "expires_at": plain(ends)}


def ago(moment: datetime) -> str:
    """How long ago, for people. Two clocks that differ a little give 0 s."""
    return f"{in_words((datetime.now(UTC) - moment).total_seconds())} ago"


def lease_words(expires_in: float | None) -> str:
    """When a lock goes by itself."""
    return "persistent" if expires_in is None else f"ends in {in_words(expires_in)}"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as a table: fitted to the terminal, or plain aligned columns when nobody looks."""
    texts = [[str(cell) for cell in row] for row in rows]
    return _rich_table(headings, texts) if sys.stdout.isatty() else aligned([headings, *texts])


def pairs(values: Mapping[str, object]) -> str:
    """Names and values, one a line."""
    return aligned([[f"{name}:", "-" if value in (None, "") else str(value)] for name, value in values.items()])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, two blanks between them, nothing cut off, a row a line."""
    rows = [[visible(cell, lines=False) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def progress(session: Session, total: Callable[[], int], few: int) -> Iterator[Callable[[int], None]]:
    """Something to call with how much is done: a bar on a terminal, a line where nobody looks, nothing for a few."""
    bar = sys.stderr.isatty() and not session.quiet and not session.as_json
    if bar and (count := total()) > few:
        with _bar(count) as tell:
            yield tell
    else:
        yield lambda done: session.say(f"{done} so far") if done > few and not bar else None


@contextmanager
def working(session: Session, what: str) -> Iterator[None]:
    """On a terminal, say after a second that something goes on whose end nobody can tell."""
    if not sys.stderr.isatty() or session.quiet or session.as_json:
        yield
        return
    from threading import Timer

    from rich.console import Console

    shown = Console(stderr=True).status(what)
    timer = Timer(PATIENCE_SECONDS, shown.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        shown.stop()


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda done: shown.update(task, completed=done)


def colours() -> bool:
    """Whether a terminal shows them and nobody objects."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(word: str) -> str:
    """A word in its colour, or just the word."""
    if not colours():
        return word
    import click

    return click.style(visible(word), fg=STYLES.get(word), bold=True).replace("\x1b[", _CODE)


def _rich_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = Console().width
    grid = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for column in grid.columns:
        # An id in pieces cannot be copied; on a narrow terminal there is no other way.
        column.overflow, column.no_wrap = "fold", column.header == "ID" and width >= WIDE
    for row in rows:
        grid.add_row(*(Text(visible(cell, lines=False), style=STYLES.get(cell, "")) for cell in row))
    # Written into a buffer first: a table is printed whole, or not at all.
    buffer = StringIO()
    Console(file=buffer, width=width, force_terminal=colours()).print(grid)
    lines = buffer.getvalue().rstrip("\n").replace("\x1b[", _CODE).split("\n")
    return "\n".join(line.rstrip() for line in lines)
