"""Confirmation before a job gets access to secrets."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import together
from headgate.core.errors import HoldersUnconfirmed

#: How new holders of secrets are confirmed without asking.
holder_options = together(
    click.option(
        "--new-holder", "holders", multiple=True, metavar="DATASET/JOB",
        help="Job that may read the secrets of DATASET; can be repeated.",
    ),
    click.option("--yes", is_flag=True, help="Accept all new holders of secrets without asking; they are listed."),
)  # fmt: skip


def confirm_holders(console: Console, new: Sequence[str], given: Sequence[str], *, yes: bool) -> list[str]:
    """All confirmed holders; HoldersUnconfirmed unless flags name the others, or the user at the terminal agrees."""
    unconfirmed = [each for each in new if each not in given]
    for each in unconfirmed:
        dataset, _, job = each.partition("/")
        console.say(f"new holder: job {job} can read the secrets of dataset {dataset}")
    can_ask = not console.as_json and sys.stdin.isatty()
    if unconfirmed and not yes and not (can_ask and click.confirm("Do you want this?", err=True)):
        raise HoldersUnconfirmed(unconfirmed)
    return [*given, *unconfirmed]
