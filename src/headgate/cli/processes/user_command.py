"""Commands of Headgate that run a user's command, written after `--`, while locks or a claim are held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.values import DURATION

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.cli.processes.pair import Processes

_COMMAND = "headgate.command"

PASS_API_TOKEN = click.option(
    "--pass-api-token", is_flag=True, help="Pass HEADGATE_API_TOKEN on to CMD, so that it can call the service."
)
GRACE = click.option(
    "--grace", type=DURATION, help="Time between SIGTERM and SIGKILL for CMD (default: 10s or a quarter lease)."
)


class RunCommand(click.Command):
    """A command that takes everything after the first -- literally, as the user's command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[end + 1 :]
        rest = super().parse_args(ctx, args[:end])
        if not ctx.meta[_COMMAND] and not ctx.resilient_parsing:
            raise click.UsageError("Name the command to run after --", ctx)
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "--", "CMD..."]


def user_command() -> list[str]:
    """Return the words after `--`."""
    words: list[str] = click.get_current_context().meta[_COMMAND]
    return words


def open_processes(
    console: Console, command: Sequence[str], folder: Path | None = None, *, listen: bool = False, silent: bool = False,
    runs_in: Path | None = None,
) -> Processes:  # fmt: skip
    """Return the command, which waits for its start. Exits with the code that shells use if it cannot be run."""
    from headgate.cli.processes.pair import CannotRun, Processes
    from headgate.cli.terminal.failures import complain

    try:
        return Processes(command, folder, listen=listen, silent=silent, runs_in=runs_in)
    except CannotRun as error:
        complain(console, "cannot-run", str(error))
        raise click.exceptions.Exit(error.exit_code) from None
