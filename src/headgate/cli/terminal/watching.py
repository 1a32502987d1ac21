"""`--watch`: the same answer repeatedly; redrawn on a terminal, a JSON line for each change elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.values import DURATION
from headgate.core.errors import BadValue, Unavailable

if TYPE_CHECKING:
    from headgate.gate import Gate
    from headgate.service.leases.ending import EndWait

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
#: Clears a terminal, and returns to its top.
CLEAR = "\x1b[2J\x1b[H"
#: Pause before an unavailable store is retried.
REST_SECONDS = 0.5


def watchable(function: F) -> F:
    """Add the options --watch and --every."""
    every = click.option("--every", type=DURATION, default=2, help="Interval of --watch (default: 2s).")
    watch = click.option("--watch", is_flag=True, help="Repeat until it ends or you press Ctrl-C.")
    return watch(every(function))


def answer(
    console: Console,
    ask: Callable[[Gate], T],
    document: Callable[[T], object],
    text: Callable[[T], str],
    *,
    watch: bool,
    every: float,
    ended: Callable[[T], bool] = lambda _found: False,
) -> T:
    """Query and print, once or repeatedly until it has ended. Returns the last result."""
    if not watch:
        with console.gate() as gate:
            found = ask(gate)
        console.answer(document(found), lambda: text(found))
        return found
    if not every > 0:
        raise BadValue("every", every, "must be more than 0 seconds")
    return _watch(console, ask, document, text, every, ended)


def _watch(
    console: Console, ask: Callable[[Gate], T], document: Callable[[T], object], text: Callable[[T], str], every: float,
    ended: Callable[[T], bool],
) -> T:  # fmt: skip
    from headgate.cli.terminal.output import shown as as_shown
    from headgate.cli.terminal.output import to_json

    drawn = sys.stdout.isatty() and not console.as_json
    before = ""
    with console.gate() as gate:
        while True:
            try:
                found = ask(gate)
                shown = CLEAR + as_shown(text(found)) if drawn else to_json(document(found)).replace("\n", " ")
            except Unavailable as error:
                # Keep watching until it is available again.
                console.say(f"headgate: {error}")
            else:
                if shown != before:
                    sys.stdout.write(shown + "\n")
                    sys.stdout.flush()
                before = shown
                if ended(found):
                    return found
            time.sleep(every)


def wait_until(
    console: Console, following: EndWait[T], sentence: Callable[[T], str], timeout: float | None
) -> tuple[T, bool]:
    """Follow something until it has ended or `timeout` seconds have passed; print changes on stderr.

    Returns its state, and whether it has ended. An unavailable store is retried.
    """
    said = _Said(console, math.inf if timeout is None else time.monotonic() + timeout)
    while True:
        try:
            found = following.change(said.left)
        except Unavailable as error:
            if not said.left:
                raise
            said.say(f"headgate: {error}")
            time.sleep(min(REST_SECONDS, said.left))
        else:
            if following.ended(found) or not said.left:
                return found, following.ended(found)
            said.say(sentence(found))


class _Said:
    """Prints each change during a wait once, until its end (monotonic time)."""

    def __init__(self, console: Console, until: float) -> None:
        self._session, self._until = console, until
        self._last = ""

    @property
    def left(self) -> float:
        """Seconds."""
        return max(self._until - time.monotonic(), 0.0)

    def say(self, sentence: str) -> None:
        """Once, and not at the end."""
        if sentence != self._last and self.left:
            self._last = sentence
            self._session.say(sentence)
