"""The daemons that a command line names, and the handler of each consumer."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from headgate.cli.ingest.item_command import ItemCommand
from headgate.cli.processes.guardian import Guardian
from headgate.cli.processes.pair import CannotRun, check_command
from headgate.cli.processes.run_folder import run_folder
from headgate.core.daemons import step_of
from headgate.core.errors import BadValue
from headgate.core.queue.model import work_states
from headgate.core.tables.states import INGEST_JOB
from headgate.daemons.consumers import Post
from headgate.daemons.names import CONSUMERS, ROUNDS, check_daemons
from headgate.service.queue.outcomes import Handler
from headgate.service.queue.use_cases import Queue


@dataclass
class DaemonPlan:
    """The daemons to run."""

    #: Names of daemons that work in rounds.
    rounds: Sequence[str]
    #: Python handlers of consumers, by name.
    handlers: Mapping[str, Handler]
    #: Commands of consumers, by name.
    commands: Mapping[str, Sequence[str]]
    #: Consumers with the built-in ingest steps.
    own: Sequence[str] = ()
    _guardian: Guardian | None = field(default=None, init=False)
    #: For the files of items that commands read.
    _folder: Path = field(default_factory=Path, init=False)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """The guardian of commands, which must be started before there are threads."""
        if not self.commands:
            yield
            return
        with ExitStack() as stack:
            try:
                self._folder = stack.enter_context(run_folder())
            except OSError as error:
                raise BadValue("temporary folder", error.filename, f"cannot be used: {error.strerror}") from error
            self._guardian = Guardian(self._folder)
            stack.callback(self._guardian.end)
            yield

    def posts(
        self, queue: Queue, workers: int, variables: Mapping[str, str], steps: Mapping[str, Handler]
    ) -> list[Post]:
        """Each consumer with its handler; `steps`: the built-in ingest steps."""
        handlers = {**{name: steps[name] for name in self.own}, **self.handlers}
        if self._guardian is not None:
            handlers |= {
                name: ItemCommand(queue, words, self._guardian, self._folder, variables)
                for name, words in self.commands.items()
            }
        posts = [Post(*CONSUMERS[name], handlers[name], workers) for name in handlers]
        known = {(table.name, state) for table in queue.tables() for state in work_states(table)}
        # One state exists in only one of the queue's spellings: in the other, no item waits there.
        return [post for post in posts if (post.noun, post.state) in known or post.handler not in steps.values()]


@dataclass(frozen=True, slots=True)
class Given:
    """The options of the command line about daemons."""

    names: Sequence[str]
    handlers: Sequence[str]
    commands: Sequence[str]
    #: Those that are left to another service.
    without: Sequence[str]

    @classmethod
    def of(cls, options: dict[str, Any], names: Sequence[str] = ()) -> Given:
        """The options about daemons, which are removed from the others."""
        return cls(names, *(options.pop(name) for name in ("handlers", "commands", "without")))


def plan(said: Given, *, once: bool, ingest: bool) -> DaemonPlan:
    """Build the plan from the command line; refuse what cannot run. `ingest`: there are ingest profiles."""
    given, names = _by_name("--handler", said.handlers), said.names
    given_commands = _by_name("--exec", said.commands)
    workers = [*given, *given_commands]
    without = [_full_name(name) for name in said.without]
    check_daemons([*names, *workers, *without])
    if both := [name for name in without if name in (*names, *workers)]:
        raise click.UsageError(f"{both[0]} is named, and left out by --without")
    every = workers or (CONSUMERS if ingest and not once else ())
    wanted = [name for name in dict.fromkeys(names or [*ROUNDS, *every]) if name not in without]
    if once and any(name in CONSUMERS for name in wanted):
        raise click.UsageError("--once is for daemons that need no handler: " + ", ".join(ROUNDS))
    own = [name for name in wanted if name in CONSUMERS and name not in workers]
    if own and not ingest:
        raise click.UsageError(
            f"{own[0]} needs ingest profiles, but their folder does not exist (setting profiles_folder); create it, "
            f"or use --handler {own[0]}=MODULE:FUNCTION or --exec {own[0]}='CMD …'"
        )
    _match(wanted, workers)
    return DaemonPlan(
        [name for name in wanted if name in ROUNDS],
        {name: load_handler(name, text) for name, text in given.items()},
        {name: _words(name, text) for name, text in given_commands.items()},
        own,
    )


def _full_name(name: str) -> str:
    """A consumer of ingest jobs, which may be named by its state alone."""
    full = step_of(INGEST_JOB.name, name)
    return full if full in CONSUMERS else name


def load_handler(name: str, text: str) -> Handler:
    """The function that MODULE:FUNCTION names; modules of this folder are found too."""
    module, colon, function = text.partition(":")
    if not (module and colon and function):
        raise click.UsageError(f"--handler {name}={text}: name a function as MODULE:FUNCTION")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(f"--handler {name}={text}: {error}") from error
    if not callable(found):
        raise click.UsageError(f"--handler {name}={text}: {function} is not a function")
    handler: Handler = found
    return handler


def _by_name(option: str, texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not value.strip():
            raise click.UsageError(f"{option} {text}: write NAME=…, where NAME is a consumer")
        if name in found:
            raise click.UsageError(f"{option} {name} is given twice")
        found[name] = value
    return found


def _match(wanted: Sequence[str], workers: Sequence[str]) -> None:
    """Refuse handlers for daemons that do not run or already have a handler."""
    for name in workers:
        if name not in CONSUMERS:
            raise click.UsageError(f"{name} needs no handler")
        if name not in wanted:
            raise click.UsageError(f"there is a handler for {name}, which is not among the daemons: add {name}")
        if workers.count(name) > 1:
            raise click.UsageError(f"{name} has a --handler and an --exec; give one of them")


def _words(name: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
        check_command(words[0])
    except (ValueError, CannotRun) as error:
        raise click.UsageError(f"--exec {name}: {error}") from error
    return words
