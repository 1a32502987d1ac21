"""`headgate daemon`: what runs by itself, in a process of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from headgate.cli.session import DURATION, Session, common

#: By which a daemon is asked to end.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@click.command("daemon")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--interval", type=DURATION, default=5, help="Pause between two rounds.  [default: 5s]")
@click.option("--once", is_flag=True, help="One round, then end.")
@common
@click.pass_obj
def daemon(session: Session, names: Sequence[str], interval: float, once: bool) -> None:  # noqa: FBT001 - click passes by name
    """Run daemons until SIGTERM or SIGINT: those NAMEd, else all.

    \b
    reaper   frees what dead holders and workers left: locks whose lease is over, chunks whose worker died

    What it does is written to stderr, one JSON object a line; -q silences it. A store that is away is asked again
    after a growing pause, at most a minute. Several at once do no harm. It ends with exit code 0.

    \b
    Examples:
      headgate daemon reaper
      headgate daemon reaper --once
    """
    from headgate.daemons.rounds import run_together
    from headgate.wiring import daemon_rounds

    session.verbose = session.verbose if once or session.quiet else max(session.verbose, 1)
    stop = threading.Event()
    with session.gate() as gate:
        every = daemon_rounds(gate, names, interval)
        if once:
            done = {rounds.name: rounds.act() for rounds in every}
            session.answer(done, lambda: "\n".join(f"{name}: {count} ended" for name, count in done.items()))
            return
        with _set_by_signals(stop):
            run_together(every, stop)


@contextmanager
def _set_by_signals(stop: threading.Event) -> Iterator[None]:
    before = {number: signal.signal(number, lambda _number, _frame: stop.set()) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
