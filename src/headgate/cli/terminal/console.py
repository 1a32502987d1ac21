"""The console of a command: its settings, its gate, and its output."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from headgate.gate import Gate
    from headgate.settings import Settings

T = TypeVar("T")


#: The format of log lines; auto: text on a terminal, else JSON.
LOG_FORMATS = ("auto", "text", "json")


@dataclass
class Console:
    """One run of the command."""

    #: The words of the command line, without the program's name.
    words: list[str] = field(default_factory=list)
    #: The store, if a flag named it.
    url: str | None = None
    #: The store of locks, if a flag named it.
    coordination_url: str | None = None
    #: Print one JSON document.
    as_json: bool = False
    #: The format of log lines, if a flag set it.
    log_format: str | None = None
    #: How much to log: 0 is nothing.
    verbose: int = 0
    #: Print nothing on stderr but errors.
    quiet: bool = False
    #: The form of a command to type, if that needs more than the program's name and flags.
    typed: Callable[..., str] | None = None
    #: Whether a chunk was claimed: then an exit code may be the command's own.
    claimed: bool = False
    #: Receives errors in place of stderr.
    on_error: Callable[[str], None] | None = None
    #: Whether the worker was asked to stop before its command ended, and reported that.
    interrupted: bool = False

    @cached_property
    def settings(self) -> Settings:
        """The settings of this run."""
        from headgate.settings import load

        return load({"url": self.url, "coordination_url": self.coordination_url, "log_format": self.log_format})

    @contextmanager
    def gate(self, *, stay: bool = False, create: bool = True) -> Iterator[Gate]:
        """Open the store that the settings name.

        `stay`: do not close it, because a clean exit would release a leased lock on ZooKeeper. `create`: create a store
        that a flag or variable names, if it does not exist yet.
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
        """Open the store, and retry while it is unavailable. None: asked to stop before it answered."""
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

    def ask(self, question: Callable[[Gate], T], *, stay: bool = False) -> T:
        """Open the store, return its answer to one query, and close it."""
        with self.gate(stay=stay) as gate:
            return question(gate)

    def client(self, given: str | None = None) -> str:
        """Return the client's name: from the flag, the setting, or the user of this machine."""
        from headgate.settings import default_client

        return given if given is not None else self.settings["client"] or default_client()

    def answer(self, document: object, text: Callable[[], str]) -> None:
        """Print the result of the command, as JSON or as text."""
        from headgate.cli.terminal.output import shown, to_json

        sys.stdout.write((to_json(document) if self.as_json else shown(text())) + "\n")
        sys.stdout.flush()

    def answer_list(
        self, items: Iterable[object], text: Callable[[], str], *, more: str | None = None, **beside: object
    ) -> None:
        """Print a list, and how to continue it. `more`: cursor of the next page; `beside`: other keys of the JSON."""
        from headgate.cli.terminal.output import list_document

        self.answer(list_document(items, more, **beside), text)
        self.say_more(more)

    @property
    def can_ask(self) -> bool:
        """Whether a user is at the terminal."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def agrees(self, question: str, preview: str, otherwise: str = "") -> bool:
        """Show what would change, and ask for confirmation. Without a terminal: UsageError with `otherwise`."""
        if not self.can_ask:
            raise click.UsageError(otherwise)
        from headgate.cli.terminal.output import say

        if preview:
            say(preview)
        agreed = click.confirm(question, err=True)
        if not agreed:
            self.say("nothing was changed")
        return agreed

    def say_more(self, more: str | None) -> None:
        """Print how to see the next page, if there is one."""
        if more is not None:
            self.say(f"there is more; continue with: --after {more}")

    def say(self, text: str) -> None:
        """Print a message on stderr; nothing with --quiet or --json."""
        if not self.quiet and not self.as_json:
            from headgate.cli.terminal.output import say

            say(text)

    def say_notes(self, notes: Iterable[str]) -> None:
        """Print a warning about an operation that succeeded."""
        for each in notes:
            self.say(f"headgate: note: {each}")

    def command(self, *words: str) -> str:
        """Return a command line for the same store, which the user can type next."""
        import shlex

        return self.typed(*words) if self.typed else shlex.join(["headgate", *self._store_flags(), *words])

    def store_variables(self) -> dict[str, str]:
        """Return the variables that name the store of the flags, for child processes."""
        given = {"HEADGATE_URL": self.url, "HEADGATE_COORDINATION_URL": self.coordination_url}
        return {name: url for name, url in given.items() if url}

    def store_line(self) -> str:
        """Return the store that the command works on, and how it was found."""
        from headgate.store_opening import named_store

        used = named_store(self.settings)
        also = f", locks and queue in {used.coordination_url} ({used.coordination_found_by})"
        line = f"store: {used.url} ({used.found_by}){also if used.coordination_url else ''}"
        return "\n".join([line, *(f"note: {each}" for each in self.settings.searched.passed_over)])

    def _store_flags(self) -> list[str]:
        from headgate.core.values.redaction import mask

        given = {"--url": self.url, "--coordination-url": self.coordination_url}
        # A URL with a password is left out: this text ends up in logs.
        return [word for flag, url in given.items() if url and mask(url) == url for word in (flag, url)]

    def _log_to_stderr(self) -> None:
        if not self.verbose:
            return
        import logging

        from headgate.core.values.words import check_word
        from headgate.telemetry import JsonLines, ReadableLines, logger

        wanted = check_word("log_format", self.settings["log_format"], LOG_FORMATS)
        handler = logging.StreamHandler()
        handler.setFormatter(
            ReadableLines() if wanted == "text" or (wanted == "auto" and sys.stderr.isatty()) else JsonLines()
        )
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if self.verbose == 1 else logging.DEBUG)
