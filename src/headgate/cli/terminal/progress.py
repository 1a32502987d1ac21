"""Progress of long work: one line that is redrawn on a terminal, and a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headgate.cli.terminal.talk import talk
from headgate.core.values.durations import in_words

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console

#: Returns to the start of a terminal line.
AGAIN = "\r\x1b[K"
#: Terminals are not written to more often than this, and other outputs not more often than that.
DRAWN_SECONDS, TOLD_SECONDS = 0.1, 5.0
#: Progress is printed for work that takes longer than this.
PATIENCE_SECONDS = 1.0


#: Units of rates, each with its seconds.
UNITS = (("s", 1), ("min", 60), ("h", 3600))


class ProgressEstimate:
    """The finished amount, the rate, and the remaining time."""

    def __init__(self, total: int | None, unit: str = "") -> None:
        self._total = total
        self._unit = f" {unit}" if unit else ""
        self._begun = time.monotonic()

    def line(self, done: int) -> str:
        """For people: `5,000 of 20,000 (25%), 1,250/s, 12 s left`."""
        rate = done / max(time.monotonic() - self._begun, 0.001)
        of = "" if self._total is None else f" of {self._total:,}"
        percent = f" ({100 * done // self._total}%)" if self._total else ""
        left = "" if self._total is None or not rate else f", {in_words(max(self._total - done, 0) / rate)} left"
        return f"{done:,}{of}{self._unit}{percent}, {shown_rate(rate)}{left}"


def shown_rate(rate: float) -> str:
    """A rate for people: slow ones with a decimal, by the minute or by the hour."""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    number, unit = next((rate * length, unit) for unit, length in UNITS if rate * length >= 0.1 or unit == "h")
    return f"{number:.1f}/{unit}"


class StatusLine:
    """The progress line."""

    def __init__(self, console: Console) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._silent = console.quiet or console.as_json
        self._is_drawn = False
        self._written = -DRAWN_SECONDS if self._on_terminal else time.monotonic()

    def write(self, text: Callable[[], str], *, last: bool = False) -> None:
        """Print the line, unless it was printed just now. The last one is always printed."""
        pause = DRAWN_SECONDS if self._on_terminal else TOLD_SECONDS
        if self._silent or (time.monotonic() - self._written < pause and not (last and self._on_terminal)):
            return
        self._is_drawn = self._on_terminal
        self._written = time.monotonic()
        talk(AGAIN + text() if self._on_terminal else text() + "\n")

    def clear(self) -> None:
        """Erase the line."""
        if self._is_drawn:
            talk(AGAIN)


@contextmanager
def progress(console: Console, total: Callable[[], int], few: int, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the amount done: it prints the progress, the rate and the time left.

    Nothing is printed for `few`, which take less than a second.
    """
    count = total()
    pace, line = ProgressEstimate(count, unit), StatusLine(console)
    yield (lambda done: line.write(lambda: pace.line(done), last=done >= count)) if count > few else lambda _done: None
    line.clear()


@contextmanager
def working(console: Console, what: str) -> Iterator[None]:
    """On a terminal, print after a second what is running, and for how long."""
    if not sys.stderr.isatty() or console.quiet or console.as_json:
        yield
        return
    from threading import Event, Thread

    over = Event()
    begun = time.monotonic()

    def tell() -> None:
        while not over.wait(PATIENCE_SECONDS):
            talk(f"{AGAIN}{what}: {in_words(time.monotonic() - begun)}")

    teller = Thread(target=tell, name="headgate-working", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
        if time.monotonic() - begun > PATIENCE_SECONDS:
            talk(AGAIN)
