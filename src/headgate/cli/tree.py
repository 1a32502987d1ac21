"""The tree of commands: each part is loaded when it is asked for, and every end has its exit code."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from headgate import __version__
from headgate.cli.failures import BROKEN_PIPE, INTERRUPTED, report, write_json
from headgate.cli.session import Session, global_options
from headgate.core.errors import HeadgateError

#: Name, where it is, and the sentence that the list shows.
COMMANDS = {
    "up": ("headgate.cli.up", "up", "Run the service: the HTTP API and the daemons, on one port."),
    "lock": ("headgate.cli.locks", "lock", "Take, give back, list and break locks; run commands under them."),
    "define": ("headgate.cli.definitions", "define", "Define datasets and jobs from a pipeline file."),
    "data": ("headgate.cli.chunks", "data", "Publish chunks; list and picture their status."),
    "job": ("headgate.cli.jobs", "job", "Claim chunks and report on them; explain, plan, resubmit, hold."),
    "keys": ("headgate.cli.keys", "keys", "Make, change and use the keys that open secrets."),
    "token": ("headgate.cli.tokens", "token", "Make, list and revoke the API tokens that open the service."),
    "daemon": ("headgate.cli.daemons", "daemon", "Run what runs by itself: consumers of the queue, reaper, cleaner."),
    "ingest": ("headgate.cli.ingest", "ingest", "Submit batches, watch their jobs, hold, release, resume, delete."),
    "messages": ("headgate.cli.messages", "messages", "List mails and callbacks; send again what did not arrive."),
    "status": ("headgate.cli.admin", "status", "Show what is locked, what runs and what failed."),
    "history": ("headgate.cli.admin", "history", "Show what happened, newest first."),
    "doctor": ("headgate.cli.doctor", "doctor", "Find damage in the store; repair it with --repair."),
    "settings": ("headgate.cli.admin", "settings", "Show each setting, and where it came from."),
    "store": ("headgate.cli.store", "store", "Show which server keeps the store; raise its tokens after a failover."),
    "copy": ("headgate.cli.moving", "copy", "Copy a whole store into an empty one of any kind, and compare."),
    "backup": ("headgate.cli.moving", "backup", "Write the whole store into one file, while others work."),
    "restore": ("headgate.cli.moving", "restore", "Read such a file into an empty store."),
    "completion": ("headgate.cli.completion", "completion", "Print what a shell needs to complete words with TAB."),
    "migrate": ("headgate.cli.admin", "migrate", "Make or update the store's tables; take over another program's."),
}


class Ended(BaseException):
    """A signal asked us to end: what is under way is undone first."""

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
        found = getattr(import_module(module), name)
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's own, but the names to suggest are those that could be loaded."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without loading one."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_module, _name, sentence) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s", help="Show the version.")
@global_options
def root() -> None:
    """Ask before you touch shared data: may I read it, may I write it, what is next?

    \b
    A quick look at locks:
      headgate lock run mysql://db1/core -- ./copy.sh      run it while nobody else has the database
      headgate lock acquire file:/data/x --mode shared     read; others may read too
      headgate lock list                                   who has what, and who waits
      headgate lock release ID --token N                   give it back

    \b
    A quick look at the ledger:
      headgate define pipeline.toml                        datasets and jobs
      headgate data publish orders_raw 2026-11-01          data made elsewhere is there
      headgate job next clean --json                       the next chunk to work on, claimed
      headgate job explain clean 2026-11-01                why it may or may not run

    \b
    A quick look at the queue:
      headgate ingest submit FILE --profile P --submitter S    a new batch
      headgate ingest jobs --state failed                      what went wrong, and why
      headgate daemon                                          what runs by itself

    Answers are written to stdout, talk and errors to stderr.

    \b
    Exit codes:
      0   done
      2   wrong usage
      3   nothing to do
      69  the store or service cannot be reached
      75  refused: somebody else has it, try later
      76  lost: the lease is over, or the token is an old one
      77  not allowed: a wrong key, or an API token that does not reach that far
    """


def run(words: list[str]) -> int:
    """Run the command, and turn every end into an exit code."""
    session = Session(words)
    _end_in_order()
    _write_anything()
    try:
        return _answer(session)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Ended as end:
        return 128 + end.number
    except BrokenPipeError:
        # What is still in the buffer goes nowhere, instead of failing once more as Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _answer(session: Session) -> int:
    try:
        return _invoke(session)
    except HeadgateError as error:
        return report(error, session)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _complain(error, session)


def _invoke(session: Session) -> int:
    if "_HEADGATE_COMPLETE" in os.environ:  # See completion.py: a shell asks what could come next.
        root.main(prog_name="headgate")
    with root.make_context("headgate", list(session.words), obj=session) as context:
        result: Any = root.invoke(context)
    sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _complain(error: click.ClickException, session: Session) -> int:
    own_words = session.words[: session.words.index("--")] if "--" in session.words else session.words
    if "--json" in own_words:
        write_json({"error": "wrong-usage", "detail": error.format_message()})
    else:
        from io import StringIO

        from headgate.cli.output import say

        written = StringIO()
        error.show(written)
        say(written.getvalue().rstrip("\n"))
    return error.exit_code


def _end_in_order() -> None:
    """Let SIGTERM and SIGHUP undo what is under way, unless somebody chose to ignore them (nohup)."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def _write_anything() -> None:
    """A name that the terminal cannot show is shown escaped, not refused."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")
