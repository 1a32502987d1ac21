"""`headgate job logs`: the output of an attempt on a chunk, even while it is running."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headgate.cli.ledger.dataids import EXACT, ONE
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import JOB_NAME, common
from headgate.cli.terminal.printed_logs import heading, print_log
from headgate.cli.terminal.values import Word
from headgate.core.errors import Unavailable
from headgate.core.ledger.model import RUNNING
from headgate.core.logs import MOST_LOGGED, Log, LogStream
from headgate.core.values.log_text import added
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.service.ledger.use_cases import Ledger

#: Pause between two polls of --follow: workers upload their output every few seconds.
LOOK_SECONDS = 1.0
#: Maximum number of streams of one attempt, and of logs that are searched.
STREAMS, MOST_LISTED = len(LogStream), len(LogStream) * MOST_LOGGED


@click.command("logs", short_help="Show the output of an attempt on a chunk.")
@JOB_NAME
@click.argument("dataid", metavar="DATAID", type=ONE)
@EXACT
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Number of the attempt (default: the newest).")
@click.option("--stream", type=Word("stream", (LogStream.STDOUT, LogStream.STDERR)), help="Only this output.")
@click.option("--follow", "-f", is_flag=True, help="Print new output until the attempt ends.")
@common
def logs(
    console: Console, job_name: str, dataid: str, *, attempt: int | None, stream: str | None, follow: bool
) -> None:
    """Show the end of stdout and stderr of the newest attempt on a chunk, without the claim's secrets.

    The setting `log_keep` determines how much of each output is kept, and `log_keep_for` for how long. While a command
    is running, its worker uploads new output every few seconds: --follow prints it, and the log of a worker that was
    killed ends with its last upload.

    With --stream only the text itself is printed. An attempt that was interrupted is not counted, and has the number of
    the next one: of attempts with the same number the newest is shown.

    \b
    Examples:
      headgate job logs clean 2026-11-01
      headgate job logs clean 2026-11-01 --attempt 1 --stream stderr
      headgate job logs clean 2026-11-01 --follow
    """
    with console.gate() as gate:
        if follow and not console.as_json:
            _Follower(console, gate.ledger, job_name, dataid, stream).run(attempt)
            return
        found = gate.ledger.logs(job_name, dataid, attempt=attempt, stream=stream, limit=MOST_LISTED)
        if not found and not console.as_json:
            console.say(_nothing(console, gate.ledger, job_name, dataid, attempt))
    newest = _newest(found)
    if console.as_json:
        console.answer_list(plain(newest), str)
        return
    for each in newest:
        print_log(heading(each) if stream is None else "", each.text)
    others = sorted({each.attempt for each in found} - {each.attempt for each in newest})
    if others:
        console.say(f"attempts with a log: {', '.join(map(str, others))} (--attempt N)")


class _Follower:
    """Prints new text of the newest log until its attempt ends."""

    def __init__(self, console: Console, ledger: Ledger, job: str, dataid: str, stream: str | None) -> None:
        self._console, self._ledger = console, ledger
        self._job, self._dataid, self._stream = job, dataid, stream
        #: The printed logs, by token and stream.
        self._printed: dict[tuple[int, LogStream], str] = {}
        self._last: tuple[int, LogStream] | None = None
        self._complaint = ""

    def run(self, attempt: int | None) -> None:
        """Until the attempt ends."""
        while True:
            try:
                running = self._is_running()  # First: text written until then is read after it.
                found = self._ledger.logs(
                    self._job, self._dataid, attempt=attempt, stream=self._stream, limit=STREAMS
                )  # fmt: skip
            except Unavailable as error:  # Keep following until it is available again.
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    self._console.say(f"headgate: {error}")
            else:
                for each in _newest(found):
                    self._show(each)
                if not running:
                    break
            time.sleep(LOOK_SECONDS)
        if not self._printed:
            self._console.say(_nothing(self._console, self._ledger, self._job, self._dataid, attempt))

    def _is_running(self) -> bool:
        return any(row.alive for row in self._ledger.status(job=self._job, dataid=self._dataid, status=RUNNING))

    def _show(self, log: Log) -> None:
        key = (log.token, log.stream)
        new = added(self._printed.get(key, ""), log.text)
        if new is None:
            print_log("", "… some output is not kept …\n")
        text = log.text if new is None else new
        if text:
            title = heading(log) if self._last != key and self._stream is None else ""
            self._last, self._printed[key] = key, log.text
            print_log(title, text)


def _newest(found: Sequence[Log]) -> list[Log]:
    """The logs of the newest of these attempts."""
    return [each for each in found if each.token == found[0].token]


def _nothing(console: Console, ledger: Ledger, job: str, dataid: str, attempt: int | None) -> str:
    """Why there is no log."""
    tried = max((row.attempt for row in ledger.status(job=job, dataid=dataid)), default=0)
    if not tried:
        return f"{job} has not run {dataid}; see: {console.command('job', 'explain', job, dataid)}"
    if attempt and attempt > tried:
        times = "once" if tried == 1 else f"{tried} times"
        return f"there is no attempt {attempt} of {job} {dataid}, which was tried {times}"
    which = f"attempt {attempt} of " if attempt else ""
    return f"no log of {which}{job} {dataid}: it wrote nothing, or none is kept; see: {console.command('settings')}"
