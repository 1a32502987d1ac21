"""`headgate job run`: running a command on chunk after chunk, each claimed, renewed and reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headgate.cli.ledger.claim_files import ListedOutputs, claim_files, environment, listed_outputs, secret_variables
from headgate.cli.ledger.next_claim import claim_chunk, next_or_named, nothing_to_do
from headgate.cli.processes.run_folder import run_folder
from headgate.cli.processes.stopping import Stops, signal_name
from headgate.cli.processes.user_command import GRACE, PASS_API_TOKEN, RunCommand, open_processes, user_command
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import CANNOT_WRITE, FAILED, NOTHING_TO_DO
from headgate.cli.terminal.options import common, number_option, together
from headgate.cli.terminal.values import DURATION
from headgate.core.errors import BadValue, ClaimLost, ClaimRefused, HeadgateError, Unavailable
from headgate.core.ledger.model import StopExit
from headgate.core.values.durations import in_words
from headgate.service.leases.clock import steady

if TYPE_CHECKING:
    from headgate.cli.ledger.job_loop import Tell
    from headgate.cli.ledger.run_log import RunLog
    from headgate.cli.processes.running import Following
    from headgate.core.ledger.model import Claim
    from headgate.service.leases.renewal import ClaimHold
    from headgate.service.ledger.use_cases import Ledger

#: Number of attempts at a chunk that a loop makes without a pause, and the longest pause after later ones (seconds).
PROMPT_ATTEMPTS, LONGEST_PAUSE = 4, 60.0
#: Modules that running a chunk imports on first use.
CHUNK_MODULES = (
    "ctypes", "encodings.ascii", "shlex", "tempfile", "headgate.cli.ledger.run_log",
    "headgate.cli.processes.environment",
    "headgate.cli.processes.pair", "headgate.cli.processes.running", "headgate.core.values.variables",
    "headgate.service.checks", "headgate.service.leases.renewal", "headgate.service.secrets.keyring",
)  # fmt: skip
#: Exit code when the command ran for too long, as for timeout(1).
TIMED_OUT = 124
#: Pause before a report is retried while the store is unavailable.
RETRY_SECONDS = 0.5


#: Options of commands that run a user's command on chunks.
RUN_OPTIONS = together(
    click.option(
        "--lease", type=DURATION, default=60, help="Time until a claim expires after this process died (default: 60s). "
    ),
    GRACE,
    click.option(
        "--secrets-in-env", is_flag=True, help="Pass secrets as variables too, which other users may see; see above."
    ),
    PASS_API_TOKEN,
)


class RunEnd(NamedTuple):
    """The outcome of a chunk's attempt."""

    code: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChunkRun:
    """The command for the chunks of a job, and how to run it."""

    job: str
    command: Sequence[str]
    lease: float = 60.0
    grace: float | None = None
    worker: str | None = None
    secrets_in_env: bool = False
    pass_api_token: bool = False
    #: Seconds that the command may run on a chunk.
    timeout: float | None = None
    #: The working folder of the command; None: ours.
    runs_in: Path | None = None
    #: Variables for the command, besides those in the job's definition.
    variables: Mapping[str, str] = field(default_factory=dict)
    #: A file with the job's key; empty: the key in the settings.
    key_file: str = ""
    #: Whether the command's output is only stored, and not passed on.
    silent: bool = False
    #: Whether a command that was asked to stop is killed after the grace period.
    hurries: bool = False

    def read_key(self) -> str | None:
        """The job's key; None: the one in the settings."""
        if not self.key_file:
            return None
        from headgate.service.secrets.keyring import read_private

        return read_private(f"key_file of job {self.job}", self.key_file).strip()


@click.command("run", cls=RunCommand, short_help="Run a command on the next chunk, or on every available one.")
@next_or_named
@click.option("--loop", is_flag=True, help="Continue until there is nothing left to do.")
@click.option(
    "--until-done", is_flag=True, help="Continue until every chunk is finished, including those of other workers."
)
@number_option("--workers", 1000, 1, "Number of chunks at a time; needs --loop or --until-done.")
@RUN_OPTIONS
@click.option("--timeout", type=DURATION, help="Longest time for CMD on a chunk, after which the chunk fails.")
@common
def run(
    console: Console, /, job_name: str, dataid: str | None, *, loop: bool, until_done: bool, workers: int, **how: Any
) -> int:
    """Claim the next available chunk of JOB, run CMD on it, and report the outcome.

    Exit code 0 of CMD is a success, any other a failure. CMD runs without a shell; signals are passed on to it. Its
    environment contains HEADGATE_JOB, HEADGATE_DATAID, HEADGATE_ATTEMPT, HEADGATE_TOKEN, HEADGATE_INPUT_<NAME>_URI,
    HEADGATE_OUTPUT_<NAME>_URI and the job's variables. The file HEADGATE_CLAIM_FILE holds the whole claim as JSON; only
    its user can read it, and it is removed afterwards. If inputs have mappings, HEADGATE_INPUT_IDS_FILE names a file
    with the data ids to read of the first of them, one per line; HEADGATE_INPUT_<NAME>_IDS_FILE those of each. If the
    job fans out, CMD writes the data ids that it made to the file HEADGATE_OUTPUT_IDS_FILE, one per line, and of each
    further dataset to HEADGATE_OUTPUT_<NAME>_IDS_FILE. A job's variables are called PARAM_…; the setting
    `job_variables` allows others. CMD inherits the rest of the environment, except Headgate's own secrets (API token,
    keys and key files, mail password).

    The job's key (HEADGATE_JOB_KEY or HEADGATE_JOB_KEY_FILE) decrypts the secrets in that file. With a wrong key
    nothing is claimed (exit code 77). With --secrets-in-env the secrets are also in
    HEADGATE_INPUT_<NAME>_SECRET_<SECRET> and HEADGATE_OUTPUT_<NAME>_SECRET_<SECRET>.

    The stdout and stderr of CMD appear here as they would without Headgate. The end of it is kept with the attempt,
    without the claim's secrets: `headgate job logs JOB DATAID` shows it, even while CMD is running. The last line is
    recorded with a failure. The setting `log_keep` determines how much is kept; 0 keeps nothing.

    A stop signal (SIGTERM, SIGINT, SIGHUP, SIGQUIT) that arrives before CMD has ended interrupts the chunk, whatever
    CMD's exit code: no attempt is used up, and the chunk is claimed again before all others. `stop_exit = "trust"` in
    the job lets the exit code count. Until the report is stored, further signals are held.

    --until-done waits for chunks that other workers have claimed or that wait for a retry, and takes over what they
    drop. `headgate work` runs all jobs of a pipeline file in this way.

    The exit code is that of CMD, 124 if it was stopped by --timeout, 128 + the signal's number if the chunk was
    interrupted, 3 if there is nothing to do, 76 if the claim was lost and CMD was stopped. With --loop or --until-done
    it is 0 if all chunks succeeded in the end or there was nothing to do, 1 if one failed.

    \b
    Examples:
      headgate job run clean -- ./clean.sh
      headgate job run clean --loop --workers 4 -- ./clean.sh
    """
    command = user_command()
    if (loop or until_done) and dataid is not None:
        raise click.UsageError(f"{'--loop' if loop else '--until-done'} claims the next chunks; leave out --dataid")
    if workers > 1 and not (loop or until_done):
        raise click.UsageError("--workers needs --loop or --until-done")
    chunk = ChunkRun(job_name, command, **how)
    if loop or until_done:
        return _loop(console, chunk, workers, until_done=until_done)
    with Stops() as stops:
        return run_one(console, stops, chunk, dataid=dataid)


def _loop(console: Console, chunk: ChunkRun, workers: int, *, until_done: bool) -> int:
    from headgate.cli.ledger.job_loop import JobLoop, LoopJob, Until
    from headgate.cli.ledger.lookout import Lookout
    from headgate.cli.ledger.loop_progress import LoopProgress

    import_early(console)
    job = LoopJob(chunk.job, workers, lambda stops, tell: run_one(console, stops, chunk, tell=tell))
    if not until_done:
        return JobLoop(console, [job], LoopProgress(console)).work()
    lookout = Lookout(console, [chunk.job], lambda _ledger: None)
    return JobLoop(console, [job], LoopProgress(console), Until.DONE, lookout).work()


def import_early(console: Console) -> None:
    """Import everything that the child of each chunk needs before the first fork: otherwise each would import it
    itself.
    """
    import gc
    from importlib import import_module

    from headgate.store_opening import preload

    for name in CHUNK_MODULES:
        import_module(name)
    preload(console.settings)
    gc.collect()
    gc.freeze()  # Imported modules stay: garbage collection in a child would copy them.


def run_one(
    console: Console, stops: Stops, chunk: ChunkRun, *, dataid: str | None = None, tell: Tell | None = None
) -> int:
    """Run one chunk, from its claim to the report. Returns the exit code; `tell` receives the facts that a loop wants
    to know.
    """
    from headgate.cli.ledger.run_log import RunLog
    from headgate.cli.processes.environment import withheld
    from headgate.cli.processes.running import Following, StopLimits
    from headgate.service.checks import check_positive_lease
    from headgate.service.leases.renewal import ClaimHold

    limits = StopLimits.of(check_positive_lease(chunk.lease), chunk.grace)
    with (
        private_folder(console) as folder,
        open_processes(
            console, chunk.command, folder, listen=console.settings.log_keep > 0, silent=chunk.silent,
            runs_in=chunk.runs_in,
        ) as processes,
        console.gate() as gate,
    ):  # fmt: skip
        stops.hold()
        sent = steady()
        claim = claim_chunk(
            gate.ledger, chunk.job, dataid, worker=chunk.worker, lease=chunk.lease, key=chunk.read_key()
        )
        if claim is None:
            (tell.why if tell else console.say)(nothing_to_do(console, gate.ledger, chunk.job))
            return NOTHING_TO_DO
        console.claimed = True
        if tell:
            tell.claimed(claim.dataid)
        _check_variables(console, gate.ledger, claim)
        following = Following(processes, limits, chunk.timeout, hurries=chunk.hurries)
        hold = ClaimHold(gate.ledger.heartbeat, claim, sent, on_lost=following.look)
        told = {
            **withheld(pass_api_token=chunk.pass_api_token),
            **environment(claim, chunk.variables),
            **(secret_variables(claim) if chunk.secrets_in_env else {}),
            **console.store_variables(),
        }
        log = RunLog(processes, gate.ledger, claim, console.settings)
        end = _work(console, gate.ledger, hold, following, stops, folder, told, log)
        if tell:
            tell.why(end.why)
            _end_round(tell, gate.ledger, stops, pause_after(claim.attempt) if end.code else 0, chunk.job)
        return end.code


def _end_round(tell: Tell, ledger: Ledger, stops: Stops, pause: float, job: str) -> None:
    """A loop pauses after failures, and counts the remaining chunks occasionally."""
    stops.rest(pause)
    if tell.count_left:
        with suppress(HeadgateError):  # It was processed and reported: a missing count is not a failure.
            tell.left(ledger.left(job))


def pause_after(attempt: int) -> float:
    """Seconds that a loop pauses after a failed attempt: a chunk without a limit must not fail at full speed."""
    return min(0.5 * 2.0 ** min(attempt - PROMPT_ATTEMPTS, 10), LONGEST_PAUSE) if attempt >= PROMPT_ATTEMPTS else 0


def _work(
    console: Console,
    ledger: Ledger,
    hold: ClaimHold,
    following: Following,
    stops: Stops,
    folder: Path,
    told: Mapping[str, str | None],
    log: RunLog,
) -> RunEnd:
    claim = hold.claim
    hold.start()
    log.start()
    stops.deliver = following.hear
    try:
        if stops.number:  # Asked to stop during the claim: the command is not started.
            hold.stop()
            return _interrupted(console, ledger, hold, stops.number, "before the command started")
        with claim_files(folder, claim) as files:
            code = following.until_end([hold], {**told, **files}, settle=True)
            listed = listed_outputs(claim, files)
    except OSError as error:
        hold.stop()
        return _could_not_start(console, ledger, claim, error)
    except BaseException:
        hold.stop()
        with suppress(HeadgateError):
            ledger.interrupt(claim, "interrupted before the command started")
        raise
    finally:
        stops.deliver = None
    log.end()
    hold.stop()
    return _reported(console, ledger, hold, following, code, log, listed)


def _reported(
    console: Console, ledger: Ledger, hold: ClaimHold, following: Following, code: int, log: RunLog,
    listed: ListedOutputs,
) -> RunEnd:  # fmt: skip
    """The command has ended: report the outcome."""
    claim = hold.claim
    if following.left_something:
        console.say("headgate: stopped processes that the command had left running")
    if following.lost is not None:
        _end_lost(ledger, claim, following)
    if following.timed_out:
        return _failed(ledger, hold, TIMED_OUT, f"timed out after {in_words(following.timeout)}")
    if following.stopped_by and claim.stop_exit is not StopExit.TRUST:
        return _interrupted(console, ledger, hold, following.stopped_by, _ended(code))
    if why := _failure(code, log):
        return _failed(ledger, hold, code or CANNOT_WRITE, why)
    return _succeeded(console, ledger, hold, listed)


def _succeeded(console: Console, ledger: Ledger, hold: ClaimHold, listed: ListedOutputs) -> RunEnd:
    """The command succeeded: its lists decide."""
    claim, fault = hold.claim, listed.fault
    if not fault:
        try:
            _report(hold, lambda: ledger.success(claim, outputs=listed.outputs))
        except (BadValue, ClaimRefused) as error:
            fault = str(error)
        else:
            return RunEnd(0)
    console.say(f"headgate: {claim.job} {claim.dataid}: {fault}")
    return _failed(ledger, hold, FAILED, fault)


def _failed(ledger: Ledger, hold: ClaimHold, code: int, why: str) -> RunEnd:
    """The command failed, ran for too long, or part of its output could not be written."""
    _report(hold, lambda: ledger.fail(hold.claim, why))
    return RunEnd(code, why)


def _interrupted(console: Console, ledger: Ledger, hold: ClaimHold, number: int, how: str) -> RunEnd:
    """The worker was asked to stop before the command ended: no attempt is used up."""
    claim, why = hold.claim, f"interrupted by {signal_name(number)} ({how})"
    _report(hold, lambda: ledger.interrupt(claim, why))
    console.interrupted = True
    console.say(f"headgate: {claim.job} {claim.dataid}: {why}; no attempt was used up")
    return RunEnd(128 + number, why)


def _could_not_start(console: Console, ledger: Ledger, claim: Claim, error: OSError) -> RunEnd:
    from headgate.cli.terminal.failures import complain

    why = f"the claim file cannot be written: {error.strerror or error}"
    ledger.fail(claim, why)
    complain(console, "cannot-write", why)
    return RunEnd(CANNOT_WRITE, why)


def _end_lost(ledger: Ledger, claim: Claim, following: Following) -> None:
    """The command was stopped because the claim was lost, or about to be lost."""
    why = getattr(following.lost, "why", str(following.lost))
    with suppress(HeadgateError):  # It may still be ours: then others need not wait for its end.
        if following.stopped_by:
            ledger.interrupt(claim, f"interrupted by {signal_name(following.stopped_by)}")
        else:
            ledger.fail(claim, f"the claim could not be renewed: {why}")
    raise ClaimLost(claim.job, claim.dataid, claim.token, f"{why}; the command was stopped")


def _failure(code: int, log: RunLog) -> str:
    """Why it failed, as far as known; empty: it did not."""
    if code == 0:
        return log.output_error
    line = log.last_line()
    return f"{_ended(code)}: {line}" if line else _ended(code)


def _ended(code: int) -> str:
    return f"exit code {code}" if code < 128 else f"ended by signal {code - 128}"


def _report(hold: ClaimHold, send: Callable[[], None]) -> None:
    """Report the outcome. While the lease is valid, an unavailable store is retried, and signals wait."""
    while True:
        try:
            send()
        except Unavailable:
            if hold.deadline is None or steady() > hold.deadline:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def _check_variables(console: Console, ledger: Ledger, claim: Claim) -> None:
    """The job sets only variables that this worker's owner allows; otherwise the chunk fails."""
    from headgate.core.values.variables import check_job_variables

    try:
        check_job_variables(claim.environment, console.settings.variables("job_variables"), "on this worker")
    except BadValue as error:
        ledger.fail(claim, str(error))
        raise


@contextmanager
def private_folder(console: Console) -> Iterator[Path]:
    """The folder of the claim file."""
    from headgate.cli.terminal.failures import complain

    with ExitStack() as stack:
        try:
            folder = stack.enter_context(run_folder())
        except OSError as error:
            complain(console, "cannot-write", f"no folder for the claim file can be made: {error.strerror or error}")
            raise click.exceptions.Exit(CANNOT_WRITE) from None
        yield folder
