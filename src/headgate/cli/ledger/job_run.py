"""`headgate job run`: a command that runs on chunk after chunk, each claimed, kept alive and reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.ledger.claim_files import ListedOutputs, claim_files, environment, listed_outputs, secret_variables
from headgate.cli.ledger.next_claim import claim_chunk, next_or_named, nothing_to_do
from headgate.cli.processes.run_folder import run_folder
from headgate.cli.processes.stopping import Stops, signal_name
from headgate.cli.processes.user_command import GRACE, PASS_API_TOKEN, RunCommand, open_processes, user_command
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import CANNOT_WRITE, FAILED, NOTHING_TO_DO
from headgate.cli.terminal.options import common, number_option
from headgate.cli.terminal.values import DURATION
from headgate.core.errors import BadValue, ClaimLost, ClaimRefused, HeadgateError, Unavailable
from headgate.core.ledger.model import StopExit
from headgate.service.leases.clock import steady

if TYPE_CHECKING:
    from headgate.cli.ledger.job_loop import Tell
    from headgate.cli.ledger.run_log import RunLog
    from headgate.cli.processes.running import Following
    from headgate.core.ledger.model import Claim
    from headgate.service.leases.renewal import ClaimHold
    from headgate.service.ledger.use_cases import Ledger

#: Attempts of a chunk that a loop makes without a pause, and the longest pause after later ones (seconds).
PROMPT_ATTEMPTS, LONGEST_PAUSE = 4, 60.0
#: Pause before a report is repeated to a store that does not answer.
RETRY_SECONDS = 0.5


@click.command("run", cls=RunCommand, short_help="Run a command on the next chunk, or on every available one.")
@next_or_named
@click.option("--loop", is_flag=True, help="Continue until there is nothing left to do.")
@number_option("--workers", 1000, 1, "Number of chunks at a time; needs --loop.")
@click.option(
    "--lease", type=DURATION, default=60, help="Time until a claim expires after this process died (default: 60s)."
)
@GRACE
@click.option(
    "--secrets-in-env", is_flag=True, help="Pass secrets as variables too, which other users may see; see above."
)
@PASS_API_TOKEN
@common
def run(console: Console, /, job_name: str, dataid: str | None, *, loop: bool, workers: int, **how: Any) -> int:
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

    The output of CMD on stdout and stderr appears here as it does without Headgate. The end of it is kept with the
    attempt, without the claim's secrets: `headgate job logs JOB DATAID` shows it, also while CMD runs. The last line is
    recorded with a failure. The setting `log_keep` says how much is kept; 0 keeps nothing.

    A stop signal (SIGTERM, SIGINT, SIGHUP, SIGQUIT) that arrives before CMD has ended interrupts the chunk, whatever
    CMD's exit code: no attempt is used up, and the chunk is claimed again before all others. `stop_exit = "trust"` in
    the job lets the exit code count. Until the report is stored, further signals are held.

    The exit code is that of CMD, 128 + the signal's number if the chunk was interrupted, 3 if there is nothing to do,
    76 if the claim was lost and CMD was stopped. With --loop it is 0 if all chunks succeeded or there was nothing to
    do, 1 if one failed.

    \b
    Examples:
      headgate job run clean -- ./clean.sh
      headgate job run clean --loop --workers 4 -- ./clean.sh
    """
    command = user_command()
    if loop and dataid is not None:
        raise click.UsageError("--loop claims the next chunks; leave out --dataid")
    if workers > 1 and not loop:
        raise click.UsageError("--workers needs --loop")
    if loop:
        from headgate.cli.ledger.job_loop import JobLoop

        return JobLoop(
            console, workers, lambda stops, tell: run_one(console, stops, job_name, None, command, tell=tell, **how)
        ).work()
    with Stops() as stops:
        return run_one(console, stops, job_name, dataid, command, **how)


def run_one(  # noqa: PLR0913 - each is an option of the command
    console: Console,
    stops: Stops,
    job: str,
    dataid: str | None,
    command: Sequence[str],
    *,
    lease: float,
    grace: float | None,
    worker: str | None,
    secrets_in_env: bool = False,
    pass_api_token: bool = False,
    tell: Tell | None = None,
) -> int:
    """Run one chunk from claim to report. Returns the exit code; `tell` gets the message for a loop."""
    from headgate.cli.ledger.run_log import RunLog
    from headgate.cli.processes.environment import withheld
    from headgate.cli.processes.running import Following, StopLimits
    from headgate.service.checks import check_positive_lease
    from headgate.service.leases.renewal import ClaimHold

    check_positive_lease(lease)
    limits = StopLimits.of(lease, grace)
    with (
        private_folder(console) as folder,
        open_processes(console, command, folder, listen=console.settings.log_keep > 0) as processes,
        console.gate() as gate,
    ):
        stops.hold()
        sent = steady()
        claim = claim_chunk(gate.ledger, job, dataid, worker=worker, lease=lease)
        if claim is None:
            (tell.idle if tell else console.say)(nothing_to_do(console, gate.ledger, job))
            return NOTHING_TO_DO
        console.claimed = True
        _check_variables(console, gate.ledger, claim)
        following = Following(processes, limits)
        hold = ClaimHold(gate.ledger.heartbeat, claim, sent, on_lost=following.look)
        told = {
            **withheld(pass_api_token=pass_api_token),
            **environment(claim),
            **(secret_variables(claim) if secrets_in_env else {}),
            **console.store_variables(),
        }
        log = RunLog(processes, gate.ledger, claim, console.settings)
        code = _work(console, gate.ledger, hold, following, stops, folder, told, log)
        if tell:
            _end_round(tell, gate.ledger, stops, pause_after(claim.attempt) if code else 0, job)
        return code


def _end_round(tell: Tell, ledger: Ledger, stops: Stops, pause: float, job: str) -> None:
    """A loop rests after failures, and counts what is left from time to time."""
    stops.rest(pause)
    if tell.count_left:
        with suppress(HeadgateError):  # It was worked on and reported: a number more or less is no failure.
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
) -> int:
    claim = hold.claim
    hold.start()
    log.start()
    stops.deliver = following.hear
    try:
        if stops.number:  # Asked to stop while it was claimed: the command is not started.
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
    if following.left_something:
        console.say("headgate: stopped processes that the command had left running")
    if following.lost is not None:
        _end_lost(ledger, claim, following)
    if following.stopped_by and claim.stop_exit is not StopExit.TRUST:
        return _interrupted(console, ledger, hold, following.stopped_by, _ended(code))
    return _ended_by_itself(console, ledger, hold, code, log, listed)


def _ended_by_itself(
    console: Console, ledger: Ledger, hold: ClaimHold, code: int, log: RunLog, listed: ListedOutputs
) -> int:
    """The command has ended: its exit code decides, whether all of its output was written, and what it listed."""
    claim, why = hold.claim, _failure(code, log)
    if why:
        _report(hold, lambda: ledger.fail(claim, why))
        return code or CANNOT_WRITE
    fault = listed.fault
    if not fault:
        try:
            _report(hold, lambda: ledger.success(claim, outputs=listed.outputs))
        except (BadValue, ClaimRefused) as error:
            fault = str(error)
        else:
            return 0
    _report(hold, lambda: ledger.fail(claim, fault))
    console.say(f"headgate: {claim.job} {claim.dataid}: {fault}")
    return FAILED


def _interrupted(console: Console, ledger: Ledger, hold: ClaimHold, number: int, how: str) -> int:
    """The worker was asked to stop before the command ended: no attempt is used up."""
    claim, why = hold.claim, f"interrupted by {signal_name(number)} ({how})"
    _report(hold, lambda: ledger.interrupt(claim, why))
    console.interrupted = True
    console.say(f"headgate: {claim.job} {claim.dataid}: {why}; no attempt was used up")
    return 128 + number


def _could_not_start(console: Console, ledger: Ledger, claim: Claim, error: OSError) -> int:
    from headgate.cli.terminal.failures import complain

    why = f"the claim file cannot be written: {error.strerror or error}"
    ledger.fail(claim, why)
    complain(console, "cannot-write", why)
    return CANNOT_WRITE


def _end_lost(ledger: Ledger, claim: Claim, following: Following) -> None:
    """The command was stopped because the claim was lost or about to be."""
    why = getattr(following.lost, "why", str(following.lost))
    with suppress(HeadgateError):  # Perhaps it is still ours: then others need not wait for its end.
        if following.stopped_by:
            ledger.interrupt(claim, f"interrupted by {signal_name(following.stopped_by)}")
        else:
            ledger.fail(claim, f"the claim could not be renewed: {why}")
    raise ClaimLost(claim.job, claim.dataid, claim.token, f"{why}; the command was stopped")


def _failure(code: int, log: RunLog) -> str:
    """Why it failed, as far as it is known; empty: it did not."""
    if code == 0:
        return log.output_error
    line = log.last_line()
    return f"{_ended(code)}: {line}" if line else _ended(code)


def _ended(code: int) -> str:
    return f"exit code {code}" if code < 128 else f"ended by signal {code - 128}"


def _report(hold: ClaimHold, send: Callable[[], None]) -> None:
    """Report the outcome. While the lease lives, a store that does not answer is asked again, and signals wait."""
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
    """The job sets nothing here but what this worker's owner allows, no matter who defined it; else the chunk fails."""
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
