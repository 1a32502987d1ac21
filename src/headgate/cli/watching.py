"""`--watch`: the same answer again and again; redrawn on a terminal, a JSON line for each change elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.cli.session import DURATION, Session
from headgate.core.errors import BadValue, Unavailable

if TYPE_CHECKING:
    from headgate.gate import Gate

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
#: Clears a terminal, and begins at its top.
CLEAR = "\x1b[2J\x1b[H"
#: Between two looks at what is waited for.
WAIT_POLL_SECONDS = 0.5


def watchable(function: F) -> F:
    """The options of a question that may be asked again and again."""
    every = click.option("--every", type=DURATION, default=2, help="Interval of --watch (default: 2s).")
    watch = click.option("--watch", is_flag=True, help="Show it again and again, until it ends or you press Ctrl-C.")
    return watch(every(function))


def answer(
    session: Session,
    ask: Callable[[Gate], T],
    document: Callable[[T], object],
    text: Callable[[T], str],
    *,
    watch: bool,
    every: float,
    ended: Callable[[T], bool] = lambda _found: False,
) -> T:
    """Ask and answer, once, or again and again until it has ended. Gives what was found last."""
    if not watch:
        with session.gate() as gate:
            found = ask(gate)
        session.answer(document(found), lambda: text(found))
        return found
    if not every > 0:
        raise BadValue("every", every, "must be more than 0 seconds")
    return _watch(session, ask, document, text, every, ended)


def _watch(
    session: Session, ask: Callable[[Gate], T], document: Callable[[T], object], text: Callable[[T], str], every: float,
    ended: Callable[[T], bool],
) -> T:  # fmt: skip
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
                if ended(found):
                    return found
            time.sleep(every)


def wait_until(
    session: Session,
    look: Callable[[], T],
    ended: Callable[[T], bool],
    sentence: Callable[[T], str],
    timeout: float | None,
) -> tuple[T, bool]:
    """Look until it has ended, or for `timeout` seconds; say on stderr what is waited for when that changes.

    Returns what was found last, and whether it has ended. A store that does not answer is asked again until then.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    said = ""
    while True:
        try:
            found = look()
        except Unavailable as error:
            if time.monotonic() >= until:
                raise
            says = f"headgate: {error}"
        else:
            if ended(found) or time.monotonic() >= until:
                return found, ended(found)
            says = sentence(found)
        if says != said:
            said = says
            session.say(said)
        time.sleep(max(min(WAIT_POLL_SECONDS, until - time.monotonic()), 0))
