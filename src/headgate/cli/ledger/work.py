"""`headgate work`: running every job of a pipeline file with its command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.ledger.job_run import RUN_OPTIONS, ChunkRun, import_early, run_one
from headgate.cli.ledger.next_claim import WORKER
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common
from headgate.core.errors import UnknownName

if TYPE_CHECKING:
    from headgate.cli.ledger.job_loop import LoopJob, Until
    from headgate.cli.ledger.work_files import WorkFile
    from headgate.core.ledger.commands import JobCommand
    from headgate.service.ledger.use_cases import Ledger

DEFAULT_FILE = "pipeline.toml"


@click.command("work")
@click.argument("names", metavar="[JOB]...", nargs=-1)
@click.option(
    "-f", "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PIPELINE.toml",
    default=DEFAULT_FILE, help="Pipeline file with the commands (default: pipeline.toml in this folder).",
)  # fmt: skip
@click.option(
    "--until-done", is_flag=True, help="Continue until every chunk is finished, including those of other workers."
)
@click.option("--forever", is_flag=True, help="Wait for more work, until SIGTERM or SIGINT.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when stdin ends.")
@click.option("--output", is_flag=True, help="Print what the commands write, too.")
@WORKER
@RUN_OPTIONS
@common
def work(
    console: Console,
    /,
    names: Sequence[str],
    *,
    file: Path,
    until_done: bool,
    forever: bool,
    until_eof: bool,
    output: bool,
    **how: Any,
) -> int:
    """Run every JOB of a pipeline file on every chunk that is ready, or all jobs that have a command.

    A job's `command` runs in the folder of the file, on up to `workers` chunks at a time and for up to `timeout` each.
    It finds its chunk in its environment, as with `job run`. The next job continues with whatever a job makes. It ends
    when there is nothing left to run. With --until-done it also waits for chunks that other workers have claimed, or
    that wait for a retry, and takes over what is dropped; with --forever it waits for more.

    Commands stay in the file: the store keeps only its SHA-256. The file and its folder must belong to you or root, and
    nobody else may be able to write them. Define the datasets and jobs first (headgate define).

    On a terminal a table shows the progress of each job, elsewhere a line every ten seconds. The commands' output is
    stored with the attempt (`headgate job logs JOB DATAID`); --output prints it here, too. With --json each chunk that
    ends is an event, one JSON object per line on stdout.

    A stop signal interrupts what is running: commands get the signal, and --grace to end; a second one kills them. No
    attempt is used up, and the chunks are claimed again before all others. A chunk whose command ran for longer than
    `timeout` has failed.

    The exit code is 0 if all chunks succeeded in the end or there was nothing to do, 1 if one failed.

    \b
    Examples:
      headgate work
      headgate work -f nightly.toml clean
      headgate work --forever --json
      headgate up --work pipeline.toml
    """
    from headgate.cli.ledger.job_loop import Until
    from headgate.cli.ledger.work_files import read_work_file

    if forever and until_done:
        raise click.UsageError("--forever waits for more work, and --until-done ends when all is done; choose one")
    until = Until.STOPPED if forever else Until.DONE if until_done else Until.IDLE
    silent = not output and console.settings.log_keep > 0
    return _work_through(console, file, read_work_file(file, names), until, until_eof=until_eof, silent=silent, **how)


def _work_through(console: Console, path: Path, file: WorkFile, until: Until, *, until_eof: bool, **how: Any) -> int:
    from headgate.cli.ledger.job_loop import JobLoop
    from headgate.cli.ledger.lookout import Lookout
    from headgate.cli.ledger.work_files import FileChange, check_commands
    from headgate.cli.ledger.work_progress import WorkProgress
    from headgate.cli.processes.pair import CannotRun
    from headgate.cli.terminal.failures import complain

    try:
        check_commands(file)
    except CannotRun as error:
        complain(console, "cannot-run", str(error))
        return error.exit_code
    import_early(console)
    order = [each.job for each in file.commands]
    lookout = Lookout(console, order, partial(_begin, path, file))
    leash = os.dup(0) if until_eof else -1
    _read_nothing()
    return JobLoop(
        console, _loop_jobs(console, file, **how), WorkProgress(console, order, FileChange(path)), until, lookout, leash
    ).work()


def _loop_jobs(console: Console, file: WorkFile, **how: Any) -> list[LoopJob]:
    from headgate.cli.ledger.job_loop import LoopJob

    return [
        LoopJob(each.job, each.workers, partial(_run, console, _chunk_run(each, file.folder, **how)))
        for each in file.commands
    ]


def _read_nothing() -> None:
    """Concurrent commands must not share an input."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _run(console: Console, chunk: ChunkRun, stops: Any, tell: Any) -> int:
    return run_one(console, stops, chunk, tell=tell)


def _chunk_run(command: JobCommand, folder: Path, **how: Any) -> ChunkRun:
    key_file = str(folder / Path(command.key_file).expanduser()) if command.key_file else ""
    return ChunkRun(
        command.job, command.words, timeout=command.timeout, runs_in=folder, variables=command.environment,
        key_file=key_file, hurries=True, **how,
    )  # fmt: skip


def _begin(path: Path, file: WorkFile, ledger: Ledger) -> None:
    """Check that the jobs are defined, and record in the store which file defines their commands."""
    for command in file.commands:
        try:
            ledger.note_commands(command.job, file.digest)
        except UnknownName:
            raise UnknownName("job", command.job, f"Define it with: headgate define {path}") from None
