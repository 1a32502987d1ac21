"""Completion of words in the shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from headgate.cli.session import Session, common

#: The variable by which a shell asks what could come next.
VARIABLE = "_HEADGATE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what SHELL needs to complete commands, options and their words with TAB.

    \b
    Put this into the file that the shell reads when it starts:
      eval "$(headgate completion bash)"               ~/.bashrc
      eval "$(headgate completion zsh)"                ~/.zshrc
      headgate completion fish | source                ~/.config/fish/config.fish
    """
    known = get_completion_class(shell)
    assert known is not None  # noqa: S101 - one of those that click has
    session: Session = context.obj
    script = known(context.find_root().command, {}, "headgate", VARIABLE).source()
    session.answer({"shell": shell, "script": script}, lambda: script)
