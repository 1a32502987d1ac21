"""What every command is given: its settings, the gate, and how it speaks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.core.durations import parse_duration

if TYPE_CHECKING:
    from headgate.gate import Gate
    from headgate.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


#: How log lines look; auto: text on a terminal, else JSON.
LOG_FORMATS = ("auto", "text", "json")


@dataclass
class Session:
    """One run of the command."""

    #: The words of the command line, without the program's name.
    words: list[str] = field(default_factory=list)
    #: The store, if it was named by a flag.
    url: str | None = None
    #: Where locks are kept, if it was named by a flag.
    coordination_url: str | None = None
    #: Answer with one JSON document.
    as_json: bool = False
    #: How log lines look, if it was said by a flag.
    log_format: str | None = None
    #: How much to log: 0 is nothing.
    verbose: int = 0
    #: No talk on stderr but errors.
    quiet: bool = False
    #: How a command is typed, where that needs more than the program's name and flags.
    typed: Callable[..., str] | None = None
    #: Whether a chunk was claimed: an exit code may then be the command's own.
    claimed: bool = False
    #: Whether the worker was asked to stop before its command ended, and reported that.
    interrupted: bool = False

    @cached_property
    def settings(self) -> Settings:
        """The settings of this run."""
        from headgate.settings import load

        return load({"url": self.url, "coordination_url": self.coordination_url, "log_format": self.log_format})

    @contextmanager
    def gate(self, *, stay: bool = False, create: bool = True) -> Iterator[Gate]:
        """Everything that may be asked, on the store that the settings name.

        `stay`: leave without closing it, so that a leased lock outlives this process on ZooKeeper too, where a clean
        end releases it. `create`: create a store that was named for this run, if it does not exist yet.
        """
        from headgate.gate import Gate

        self._log_to_stderr()
        gate = Gate(self.settings, create=create)
        try:
            yield gate
        except BaseException:
            gate.close()
            raise
        if not stay:
            gate.close()

    @contextmanager
    def gate_when_there(self, stop: threading.Event, pauses: Callable[[], Iterator[float]]) -> Iterator[Gate | None]:
        """The same, for who can wait: a store that is away is asked again. None: told to stop before it was there."""
        import logging

        from headgate.core.errors import Unavailable
        from headgate.gate import Gate
        from headgate.telemetry import event

        self._log_to_stderr()
        gate = None
        for pause in pauses():
            if stop.is_set():
                break
            try:
                gate = Gate(self.settings)
                break
            except Unavailable as error:
                event("daemon.store_away", logging.WARNING, why=str(error), again_in=pause)
                stop.wait(pause)
        try:
            yield gate
        finally:
            if gate is not None:
                gate.close()

    def client(self, given: str | None = None) -> str:
        """Who asks: the flag, the setting, or the user on this machine."""
        from headgate.settings import default_client

        return given if given is not None else self.settings["client"] or default_client()

    def answer(self, document: object, text: Callable[[], str]) -> None:
        """Write the command's result, for programs or for people."""
        from headgate.cli.output import shown, to_json

        sys.stdout.write((to_json(document) if self.as_json else shown(text())) + "\n")
        sys.stdout.flush()

    def answer_list(
        self, items: Iterable[object], text: Callable[[], str], *, more: str | None = None, **beside: object
    ) -> None:
        """Write a list, and how to continue it. `more`: the cursor of the next page; `beside`: what else JSON has."""
        from headgate.cli.output import list_document

        self.answer(list_document(items, more, **beside), text)
        self.say_more(more)

    def say_more(self, more: str | None) -> None:
        """Tell people how to see the next page, if there is one."""
        if more is not None:
            self.say(f"there is more; continue with: --after {more}")

    def say(self, text: str) -> None:
        """Talk to the person who runs this. Programs, and who asked for quiet, are spared."""
        if not self.quiet and not self.as_json:
            from headgate.cli.output import say

            say(text)

    def command(self, *words: str) -> str:
        """A command that this one's user may type next, on the same store."""
        import shlex

        return self.typed(*words) if self.typed else shlex.join(["headgate", *self._store_flags(), *words])

    def store_variables(self) -> dict[str, str]:
        """The store that flags named, for commands that are run by this one."""
        given = {"HEADGATE_URL": self.url, "HEADGATE_COORDINATION_URL": self.coordination_url}
        return {name: url for name, url in given.items() if url}

    def _store_flags(self) -> list[str]:
        from headgate.core.redaction import mask

        given = {"--url": self.url, "--coordination-url": self.coordination_url}
        # A URL with a password is not repeated: what is shown here ends up in logs.
        return [word for flag, url in given.items() if url and mask(url) == url for word in (flag, url)]

    def _log_to_stderr(self) -> None:
        if not self.verbose:
            return
        import logging

        from headgate.core.words import check_word
        from headgate.telemetry import JsonLines, ReadableLines, logger

        wanted = check_word("log_format", self.settings["log_format"], LOG_FORMATS)
        handler = logging.StreamHandler()
        handler.setFormatter(
            ReadableLines() if wanted == "text" or (wanted == "auto" and sys.stderr.isatty()) else JsonLines()
        )
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if self.verbose == 1 else logging.DEBUG)


def store_line(session: Session) -> str:
    """Which store a command worked on, and how that was found."""
    from headgate.store_opening import named_store

    used = named_store(session.settings)
    also = f", locks and queue in {used.coordination_url} ({used.coordination_found_by})"
    line = f"store: {used.url} ({used.found_by}){also if used.coordination_url else ''}"
    return "\n".join([line, *(f"note: {each}" for each in session.settings.searched.passed_over)])


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value and parameter.name:
        setattr(context.ensure_object(Session), parameter.name, value)


def _common(*names: str, hidden: bool, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, expose_value=False, callback=_keep, hidden=hidden, **settings)


def _widen(_context: click.Context, _parameter: click.Parameter, value: Any) -> None:
    if value:
        from headgate.cli.output import show_everything

        show_everything()


def common(function: F) -> F:
    """The options that every command takes; the rarer ones are shown in `headgate --help` only."""
    return _add_common(function, hidden=True, tables=False)


def tabular(function: F) -> F:
    """The same options for a command that prints a table."""
    return _add_common(function, hidden=True, tables=True)


def global_options(function: F) -> F:
    """The same options, before the command's name and all shown."""
    return _add_common(function, hidden=False, tables=True)


def _add_common(function: F, *, hidden: bool, tables: bool) -> F:
    options = (
        _common("--json", "as_json", hidden=False, is_flag=True, help="Print the result as one JSON document."),
        _common("--url", hidden=False, metavar="URL", help="Store to use; see `headgate status`."),
        _common(
            "--coordination-url",
            hidden=hidden,
            metavar="URL",
            help="Store of locks and queue, if it is another one.",
        ),
        _common(
            "-v", "--verbose", hidden=hidden, count=True, help="Write log lines to stderr; -vv for debug messages."
        ),
        _common(
            "--log-format",
            hidden=hidden,
            type=click.Choice(LOG_FORMATS),
            help="Log lines: text, json, or auto (default): text on a terminal, json otherwise.",
        ),
        _common("-q", "--quiet", hidden=hidden, is_flag=True, help="Print nothing on stderr but errors."),
    )
    wide = click.option(
        "--wide", is_flag=True, expose_value=False, callback=_widen, hidden=not tables,
        help="Show tables whole, wider than the terminal if need be.",
    )  # fmt: skip
    for option in reversed((wide, *options)):
        function = option(function)
    return function


class InOrder(click.Group):
    """A group whose commands are listed in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)


class Duration(click.ParamType[float]):
    """A length of time: 30, 30s, 10m, 2h, 1d. Gives seconds."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        del param, ctx
        return "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; whether the number makes sense there is for the service to say."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


DURATION = Duration()
