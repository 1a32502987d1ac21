"""Completion of words in the shell."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from headgate.cli.session import Session, common

if TYPE_CHECKING:
    from headgate.gate import Gate

#: The variable by which a shell asks what could come next.
VARIABLE = "_HEADGATE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
#: Nobody waits longer for TAB: a store that has not answered by then offers nothing.
PATIENCE_SECONDS = 1.0


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and values with TAB.

    Values include the names of jobs, datasets and profiles in the store.

    \b
    Add this line to the startup file of the shell:
      eval "$(headgate completion bash)"               ~/.bashrc
      eval "$(headgate completion zsh)"                ~/.zshrc
      headgate completion fish | source                ~/.config/fish/config.fish
    """
    known = get_completion_class(shell)
    assert known is not None  # noqa: S101 - one of those that click has
    session: Session = context.obj
    script = known(context.find_root().command, {}, "headgate", VARIABLE).source()
    session.answer({"shell": shell, "script": script}, lambda: script)


def stored_names(context: click.Context, noun: str) -> Sequence[str]:
    """The names of that noun in the store; none if there is no store or it does not answer soon."""
    session = context.find_object(Session) or Session()
    # The process ends, whatever it waits for: the shell offers nothing then.
    signal.signal(signal.SIGALRM, lambda _number, _frame: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    names: Sequence[str] = ()
    with suppress(Exception):  # There is nobody to tell: the line that is being typed must stay as it is.
        names = _FINDERS[noun](session)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return names


def _in_store(find: Callable[[Gate], Sequence[str]]) -> Callable[[Session], Sequence[str]]:
    def names(session: Session) -> Sequence[str]:
        with session.gate(create=False) as gate:
            return find(gate)

    return names


def _profiles(session: Session) -> Sequence[str]:
    return sorted(path.stem for path in Path(session.settings["profiles_folder"]).glob("*.toml"))


_FINDERS: Mapping[str, Callable[[Session], Sequence[str]]] = {
    "job": _in_store(lambda gate: [each.name for each in gate.ledger.jobs()]),
    "dataset": _in_store(lambda gate: [each.name for each in gate.ledger.datasets()]),
    "profile": _profiles,
}
