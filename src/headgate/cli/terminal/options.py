"""Options that several commands share, each defined once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from headgate.cli.terminal.console import LOG_FORMATS, Console
from headgate.cli.terminal.values import DURATION, JOB, Word

F = TypeVar("F", bound=Callable[..., Any])

REASON = click.option("--reason", required=True, help="Reason, kept in the history.")
ANY_REASON = click.option("--reason", default="", help="Reason, kept in the history.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
TIMEOUT = click.option("--timeout", type=DURATION, help="Longest time to wait (default: no limit).")
JOB_NAME = click.argument("job_name", metavar="JOB", type=JOB)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds these options in this order."""
    return lambda function: reduce(lambda inner, option: option(inner), reversed(options), function)


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value and parameter.name:
        setattr(context.ensure_object(Console), parameter.name, value)


def _common(*names: str, hidden: bool, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, expose_value=False, callback=_keep, hidden=hidden, **settings)


def _widen(_context: click.Context, _parameter: click.Parameter, value: Any) -> None:
    if value:
        from headgate.cli.terminal.output import show_everything

        show_everything()


def _with_console(function: F) -> F:
    return click.pass_obj(function)  # type: ignore[return-value] # the same kind


def common(function: F) -> F:
    """Add the options that every command has, with the rarer ones hidden, and pass the console to the command."""
    return _add_common(_with_console(function), hidden=True, tables=False)


def tabular(function: F) -> F:
    """The same options for a command that prints a table."""
    return _add_common(_with_console(function), hidden=True, tables=True)


def global_options(function: F) -> F:
    """The same options, before the command's name, with all of them shown."""
    return _add_common(function, hidden=False, tables=True)


def _add_common(function: F, *, hidden: bool, tables: bool) -> F:
    return together(
        click.option(
            "--wide", is_flag=True, expose_value=False, callback=_widen, hidden=not tables,
            help="Show tables whole, wider than the terminal if necessary.",
        ),
        _common("--json", "as_json", hidden=False, is_flag=True, help="Print the result as one JSON document."),
        _common("--url", hidden=False, metavar="URL", help="Store to use; see `headgate status`."),
        _common(
            "--coordination-url", hidden=hidden, metavar="URL", help="Store of locks and queue, if it is another one."
        ),
        _common(
            "-v", "--verbose", hidden=hidden, count=True, help="Write log lines to stderr; -vv for debug messages."
        ),
        _common(
            "--log-format", hidden=hidden, type=click.Choice(LOG_FORMATS),
            help="Log lines: text, json, or auto (default): text on a terminal, json otherwise.",
        ),
        _common("-q", "--quiet", hidden=hidden, is_flag=True, help="Print nothing on stderr but errors."),
    )(function)  # fmt: skip


class InOrder(click.Group):
    """A group whose commands are listed in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)


def word_option(flag: str, word: Word, text: str, **settings: Any) -> Callable[[F], F]:
    """An option that lists its words: in its usage if they are short, else in its help."""
    listed = text if word.is_short else f"{text} One of: {', '.join(word.words)}."
    return click.option(flag, type=word, help=listed, **settings)


def after_option(function: F, **how: Any) -> F:
    """The cursor at which a page of a list starts."""
    return click.option("--after", metavar="CURSOR", help="Cursor: `next` of the previous page.", **how)(function)


def limit_option(what: str, default: int = 100) -> Callable[[F], F]:
    """The option that limits the length of a list."""
    return number_option("--limit", None, default, f"Largest number of {what}.")


def number_option(flag: str, largest: int | None, default: int, text: str) -> Callable[[F], F]:
    """An option that takes a number from 1."""
    numbers = click.IntRange(1, largest)
    return click.option(flag, type=numbers, metavar="N", default=default, show_default=True, help=text)
