"""`--watch`: the same answer again and again; redrawn on a terminal, a JSON line for each change elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.session import DURATION, Session
from headgate.core.errors import BadValue, Unavailable

if TYPE_CHECKING:
    from headgate.wiring import Gate

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
#: Clears a terminal, and begins at its top.
CLEAR = "\x1b[2J\x1b[H"


def watchable(function: F) -> F:
    """The options of a question that may be asked again and again."""
    every = click.option("--every", type=DURATION, default=2, help="Interval of --watch (default: 2s).")
    watch = click.option("--watch", is_flag=True, help="Show it again and again, until you press Ctrl-C.")
    return watch(every(function))


def answer(
    session: Session,
    ask: Callable[[Gate], T],
    document: Callable[[T], object],
    text: Callable[[T], str],
    *,
    watch: bool,
    every: float,
) -> T:
    """Ask and answer, once or again and again. Gives what was found last."""
    if not watch:
        with session.gate() as gate:
            found = ask(gate)
        session.answer(document(found), lambda: text(found))
        return found
    if not every > 0:
        raise BadValue("every", every, "is not more than 0 seconds")
    return _watch(session, ask, document, text, every)


def _watch(
    session: Session, ask: Callable[[Gate], T], document: Callable[[T], object], text: Callable[[T], str], every: float
) -> T:
    from headgate.cli.output import shown as as_shown
    from headgate.cli.output import to_json

    drawn = sys.stdout.isatty() and not session.as_json
    before = ""
    with session.gate() as gate:
        while True:
            try:
                found = ask(gate)
                shown = CLEAR + as_shown(text(found)) if drawn else to_json(document(found)).replace("\n", " ")
            except Unavailable as error:
                # Who watches wants to know when it is back.
                session.say(f"headgate: {error}")
            else:
                if shown != before:
                    sys.stdout.write(shown + "\n")
                    sys.stdout.flush()
                before = shown
            time.sleep(every)
