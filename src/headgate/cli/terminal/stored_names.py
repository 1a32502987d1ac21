"""Names of jobs, datasets and profiles, for completion with TAB."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.terminal.console import Console

if TYPE_CHECKING:
    from headgate.gate import Gate

#: Longest wait for TAB: a store that has not answered by then offers no completions.
PATIENCE_SECONDS = 1.0


def stored_names(context: click.Context, noun: str) -> Sequence[str]:
    """The names of that kind in the store; empty if there is no store or it does not answer soon."""
    console = context.find_object(Console) or Console()
    # The process ends in any case: the shell then offers no completions.
    signal.signal(signal.SIGALRM, lambda _number, _frame: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    names: Sequence[str] = ()
    with suppress(Exception):  # No message is printed: the line that is being typed must stay intact.
        names = _FINDERS[noun](console)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return names


def _in_store(find: Callable[[Gate], Sequence[str]]) -> Callable[[Console], Sequence[str]]:
    def names(console: Console) -> Sequence[str]:
        with console.gate(create=False) as gate:
            return find(gate)

    return names


def _profiles(console: Console) -> Sequence[str]:
    return sorted(path.stem for path in Path(console.settings["profiles_folder"]).glob("*.toml"))


_FINDERS: Mapping[str, Callable[[Console], Sequence[str]]] = {
    "job": _in_store(lambda gate: [each.name for each in gate.ledger.jobs()]),
    "dataset": _in_store(lambda gate: [each.name for each in gate.ledger.datasets()]),
    "profile": _profiles,
}
