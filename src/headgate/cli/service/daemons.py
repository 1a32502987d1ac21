"""`headgate daemon`: background daemons in their own process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.service.work_process import WorkPath, WorkProcess
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common, number_option, together
from headgate.cli.terminal.values import DURATION
from headgate.cli.watches.files import WatchFile

if TYPE_CHECKING:
    from headgate.cli.service.daemon_plan import DaemonPlan
    from headgate.daemons.rounds import Rounds
    from headgate.gate import Gate

#: Signals that ask a daemon to stop.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: First and longest pause before an unavailable store is retried at the start.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 5.0


class Orders:
    """Stop requests by signals: the first one asks to stop, the second one to hurry."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.hurry = threading.Event()

    def hear(self, _number: int, _frame: object) -> None:
        """A signal came."""
        (self.hurry if self.stop.is_set() else self.stop).set()


#: How daemons run, alone or beside the service.
daemon_options = together(
    click.option(
        "--handler", "handlers", multiple=True, metavar="NAME=MODULE:FUNCTION", help="Python function for a consumer."
    ),
    click.option("--exec", "commands", multiple=True, metavar="NAME='CMD …'", help="Command for a consumer."),
    click.option(
        "--without", multiple=True, metavar="NAME", help="Daemon that does not run here: another service does its work."
    ),
    number_option("--workers", 1000, 1, "Workers of each consumer."),
    click.option(
        "--lease", type=DURATION, default=60, help="Time until an item is free after this process died (default: 60s)."
    ),
    click.option(
        "--grace", type=DURATION, default=30, help="Time for running work to finish after SIGTERM (default: 30s)."
    ),
    click.option(
        "--watch",
        "watches",
        type=WatchFile(),
        metavar="PIPELINE.toml",
        help="Publish files as they arrive, as the file says; see `headgate watch`.",
    ),
    click.option(
        "--work",
        "work_file",
        type=WorkPath(),
        metavar="PIPELINE.toml",
        help="Run the jobs of the file with their commands; see `headgate work`.",
    ),
    click.option(
        "--interval", type=DURATION, default=5, help="Pause between two rounds of the other daemons (default: 5s)."
    ),
)


@click.command("daemon")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@daemon_options
@click.option("--once", is_flag=True, help="Run one round of the daemons that need no handler, then exit.")
@common
def daemon(console: Console, /, names: Sequence[str], interval: float, *, once: bool, **how: Any) -> None:
    """Run daemons until SIGTERM or SIGINT: the NAMEd ones, or all that can run.

    \b
    batch-watcher   starts the report of a batch when its last job has finished
    reaper          frees locks, chunks, batches and jobs whose lease has expired
    cleaner         removes completed jobs, and batches after `retention`
    history         moves history off ZooKeeper; removes old history and old logs
    messenger       sends the mails and callbacks in the outbox
    timekeeper      judges which expected chunks are late (see headgate late)

    Consumers process batches or ingest jobs in one state: batch-pending, batch-reporting, batch-update-reporting,
    job-pending, job-estimating, job-provisioning, job-downloading, job-processing, job-recording, job-notify, and in a
    queue shared with Merritt job-storing. The built-in steps follow the profiles in `profiles_folder`; --handler and
    --exec replace them.

    CMD is split into words like a shell command, and runs without a shell. Its environment contains HEADGATE_ITEM,
    HEADGATE_STATE, HEADGATE_TOKEN and HEADGATE_ITEM_FILE (a file with the whole item as JSON). From the daemon's
    environment it inherits PATH, HOME, USER, LOGNAME, SHELL, LANG, LANGUAGE, LC_*, TZ, TMPDIR, XDG_RUNTIME_DIR,
    SSL_CERT_FILE, SSL_CERT_DIR, the store's URL without its password, and the variables in the setting
    `exec_variables`. Exit code 0 means done, 75 means try again later, any other means failed; the last line of its
    stderr becomes the message. CMD can print a JSON object with changes: message, priority, space_needed, identifiers;
    for batch-pending `jobs`, a list of objects with a payload_url.

    Daemons log to stderr; -q silences them. They retry a store that is unavailable, with growing pauses. Several
    daemons of the same name can run at once. After SIGTERM they take no new work; running work has the time of --grace
    to finish, and is then returned to the queue (at a second signal: immediately). The exit code is then 0.

    \b
    Examples:
      headgate daemon
      headgate daemon job-downloading --exec job-downloading=./fetch.sh
      headgate daemon batch-pending --handler batch-pending=mypackage.ingest:split
      headgate daemon --without job-recording

    \b
    A quick look, after headgate init:
      headgate daemon reaper --once
      headgate daemon cleaner batch-watcher --once
    """
    from headgate.cli.service.daemon_plan import Given, plan

    wanted = plan(Given.of(how, names), once=once, ingest=has_profiles(console))
    if once:
        _run_once(console, wanted.rounds, interval)
    else:
        _run_on(console, wanted, interval, **how)


def _run_on(console: Console, wanted: DaemonPlan, interval: float, **how: Any) -> None:
    """Run daemons until a signal ends them, from when the store is there."""
    console.verbose = console.verbose if console.quiet else max(console.verbose, 1)
    orders = Orders()
    with heard_by(orders), wanted.guarded(), console.gate_when_there(orders.stop, _pauses) as found:
        if found is not None:
            run_daemons(console, found, wanted, interval, orders, **how)


def has_profiles(console: Console) -> bool:
    """Whether there is a folder of ingest profiles."""
    return Path(console.settings["profiles_folder"]).is_dir()


def run_daemons(
    console: Console, gate: Gate, wanted: DaemonPlan, interval: float, orders: Orders, beside: Sequence[Rounds] = (),
    **how: Any,
) -> None:  # fmt: skip
    """Run the planned daemons, and the rounds `beside` them, until asked to stop."""
    from headgate.cli.processes.environment import for_daemon_command
    from headgate.core.daemons import step_of
    from headgate.daemon_wiring import daemon_rounds, file_watchers, ingest_handlers, with_logs
    from headgate.daemons.consumers import Consumers, Pace
    from headgate.daemons.presence import sign_off, sign_on
    from headgate.daemons.rounds import run_together
    from headgate.service.checks import check_positive_lease, check_span

    pause = console.settings.seconds("round_pause")
    pace = Pace(check_positive_lease(how["lease"]), pause, check_span("grace", how["grace"]))
    handlers = ingest_handlers(gate) if wanted.own else {}
    variables = for_daemon_command(console.settings, console.store_variables())
    posts = with_logs(gate, wanted.posts(gate.queue, how["workers"], variables, handlers))
    rounds = daemon_rounds(gate, wanted.rounds, interval)
    steps = [step_of(post.noun, post.state) for post in posts] + list(wanted.rounds)
    consumer = Consumers(gate.queue, posts, pace, orders.stop)
    watchers = file_watchers(gate, how["watches"] or ())
    works = [WorkProcess(console, how["work_file"], how["lease"], how["grace"])] if how["work_file"] else []
    signed_on = sign_on(gate.queue.presence, steps)
    consumer.start()
    try:
        run_together(
            [*rounds, *beside, *(each.rounds for each in watchers), *(each.rounds for each in works), signed_on],
            orders.stop,
        )
    finally:
        for each in watchers:
            each.stop()
        for process in works:
            process.stop(orders.hurry)
        sign_off(gate.queue.presence)
        if posts:
            consumer.stop(orders.hurry)


def _run_once(console: Console, names: Sequence[str], interval: float) -> None:
    from headgate.daemon_wiring import daemon_rounds
    from headgate.daemons.presence import ran_once

    with console.gate() as gate:
        done = [(rounds, rounds.act()) for rounds in daemon_rounds(gate, names, interval)]
        for rounds, _ in done:
            rounds.finish()
        ran_once(gate.queue.presence, names)
    lines = [f"{rounds.name}: {rounds.idle or f'{count} {rounds.done_word}'}" for rounds, count in done]
    console.answer({rounds.name: count for rounds, count in done}, lambda: "\n".join(lines))


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


@contextmanager
def heard_by(orders: Orders) -> Iterator[None]:
    """Handle stop signals inside the block."""
    before = {number: signal.signal(number, orders.hear) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
