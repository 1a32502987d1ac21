"""Completion of words in the shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common

#: The variable by which a shell requests completions.
VARIABLE = "_HEADGATE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common
def completion(console: Console, shell: str) -> None:
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
    script = known(click.get_current_context().find_root().command, {}, "headgate", VARIABLE).source()
    console.answer({"shell": shell, "script": script}, lambda: script)
