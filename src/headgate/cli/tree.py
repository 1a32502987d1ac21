"""The tree of commands: each part is imported when it is used, and every outcome has its exit code."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from headgate import __version__
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import BROKEN_PIPE, INTERRUPTED, MEANINGS, WRONG_USAGE, report, write_json
from headgate.cli.terminal.options import global_options
from headgate.cli.terminal.talk import GONE, discard
from headgate.core.errors import HeadgateError

#: Name, module in this folder, attribute, and the sentence shown in the list.
COMMANDS = {
    "lock": ("locks.commands", "lock", "Acquire, release, list and break locks; run commands under them."),
    "init": ("store.init", "init", "Create a store, and print where it is."),
    "define": ("ledger.definitions", "define", "Define datasets and jobs from a pipeline file."),
    "data": ("ledger.data", "data", "Publish chunks of data; show their status."),
    "watch": ("watches.commands", "watch", "Publish datasets by the files that arrive."),
    "work": ("ledger.work", "work", "Run every job of a pipeline file, with its commands."),
    "job": ("ledger.jobs", "job", "Run jobs on chunks: claim, report, explain, rerun, hold."),
    "incident": ("ledger.incidents", "incident", "List, acknowledge and snooze incidents."),
    "late": ("ledger.late", "late", "List chunks that should be READY by now and are not, and why."),
    "keys": ("access.keys", "keys", "Manage the keys that decrypt the secrets of datasets."),
    "ingest": ("ingest.commands", "ingest", "Submit batches; list, hold, resume and delete ingest jobs."),
    "messages": ("ingest.messages", "messages", "List mails and callbacks; resend undelivered ones."),
    "up": ("service.up", "up", "Run the service: dashboard, HTTP API and daemons."),
    "daemon": ("service.daemons", "daemon", "Run daemons alone: queue consumers, reaper, cleaner, messenger."),
    "token": ("access.tokens", "token", "Create, list and revoke API tokens for the service."),
    "status": ("store.status", "status", "Show what is locked, running, failed or stuck."),
    "history": ("store.admin", "history", "Show past events, newest first."),
    "doctor": ("store.doctor", "doctor", "Check the store for damage; repair it with --repair."),
    "settings": ("store.admin", "settings", "Show each setting, and where its value comes from."),
    "migrate": ("store.admin", "migrate", "Upgrade the store's schema; take over another program's locks."),
    "copy": ("store.moving", "copy", "Copy a whole store into an empty one of any kind."),
    "backup": ("store.moving", "backup", "Write the whole store into one file."),
    "restore": ("store.moving", "restore", "Restore a backup into an empty store."),
    "store": ("store.server", "store", "Show the server behind the store; raise tokens after a failover."),
    "completion": ("terminal.completion", "completion", "Print the script for completion with TAB."),
}
#: The headings of the list, each with its commands.
GROUPS = {
    "Locks": ("lock",),
    "Ledger (datasets and jobs)": ("define", "data", "watch", "work", "job", "incident", "late", "keys"),
    "Queue (ingest)": ("ingest", "messages"),
    "Service": ("up", "daemon", "token"),
    "Store": ("init", "status", "history", "doctor", "settings", "migrate", "copy", "backup", "restore", "store"),
    "Shell": ("completion",),
}


CLOSING = "Results go to stdout, messages and errors to stderr. `headgate COMMAND --help` explains a command."


class Ended(BaseException):
    """A signal asked the process to exit. Unfinished work is undone first."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, name, _sentence = COMMANDS[cmd_name]
        found = getattr(import_module(f"headgate.cli.{module}"), name)
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest names without importing the commands."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands first, because users look for them."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Exit codes and output channels, which all commands share."""
        del ctx
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in MEANINGS.items()])
        formatter.write_paragraph()
        formatter.write_text(CLOSING)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in groups, without importing any."""
        del ctx
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, COMMANDS[name][2]) for name in names])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s", help="Show the version.")
@global_options
def root() -> None:
    """Coordinate work on shared data: locks, a ledger of datasets and jobs, and an ingest queue.

    \b
    lock     A client reads (shared) or writes (exclusive) a named resource.
    ledger   Each chunk of a dataset has a status; jobs claim what is ready.
    queue    Batches of ingest jobs pass through their states, step by step.

    \b
    Start here:
      headgate init                             create a store in this folder
      headgate up --example                     run an example with a dashboard
      headgate lock run db -- ./copy.sh         run it while nobody else holds db
      headgate define pipeline.toml             define datasets and jobs
      headgate work                             run the commands of pipeline.toml
      headgate ingest submit FILE --profile P --submitter S
    """


def run(words: list[str]) -> int:
    """Run the command, and turn every outcome into an exit code."""
    console = Console(words)
    _end_in_order()
    _write_anything()
    try:
        return _answer(console)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Ended as end:
        return 128 + end.number
    except OSError as error:
        if error.errno not in GONE:
            raise
        discard(sys.stdout.fileno())
        return BROKEN_PIPE


def _answer(console: Console) -> int:
    try:
        return _invoke(console)
    except HeadgateError as error:
        return report(error, console)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _complain(error, console)


def _invoke(console: Console) -> int:
    if "_HEADGATE_COMPLETE" in os.environ:  # See terminal/completion.py: a shell requests completions.
        root.main(prog_name="headgate", obj=console)
    with root.make_context("headgate", list(console.words), obj=console) as context:
        result: Any = root.invoke(context)
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _complain(error: click.ClickException, console: Console) -> int:
    own_words = console.words[: console.words.index("--")] if "--" in console.words else console.words
    if "--json" in own_words:
        write_json({"error": "wrong-usage", "detail": error.format_message()})
    else:
        from io import StringIO

        from headgate.cli.terminal.output import say

        written = StringIO()
        error.show(written)
        say(written.getvalue().rstrip("\n"))
    return WRONG_USAGE


def _end_in_order() -> None:
    """Undo unfinished work on SIGTERM and SIGHUP, unless they are ignored (nohup)."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def _write_anything() -> None:
    """Escape characters that the terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")
