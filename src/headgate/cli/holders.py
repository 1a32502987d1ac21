"""Asking before jobs become holders of secrets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from headgate.cli.session import Session
from headgate.core.errors import HoldersUnconfirmed

F = TypeVar("F", bound=Callable[..., Any])


def holder_options(function: F) -> F:
    """How new holders of secrets are confirmed without a question."""
    options = (
        click.option(
            "--new-holder", "holders", multiple=True, metavar="DATASET/JOB",
            help="Job that may read the secrets of DATASET; can be repeated.",
        ),
        click.option("--yes", is_flag=True, help="Accept all new holders of secrets without asking; they are listed."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def confirm_holders(session: Session, new: Sequence[str], given: Sequence[str], *, yes: bool) -> list[str]:
    """All confirmed holders; HoldersUnconfirmed unless flags name the others, or the person at the terminal agrees."""
    unconfirmed = [each for each in new if each not in given]
    for each in unconfirmed:
        dataset, _, job = each.partition("/")
        session.say(f"new holder: job {job} can read the secrets of dataset {dataset}")
    if unconfirmed and not yes and not _agreed(session):
        raise HoldersUnconfirmed(unconfirmed)
    return [*given, *unconfirmed]


def _agreed(session: Session) -> bool:
    """Whether there is somebody to ask, who says yes."""
    return not session.as_json and sys.stdin.isatty() and click.confirm("Do you want this?", err=True)
