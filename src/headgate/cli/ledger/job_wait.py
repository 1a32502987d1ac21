"""`headgate job wait`: wait until chunks are finished, and report the outcome by the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.cli.ledger.dataids import EXACT, DataIdRange, Selection
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.failures import FAILED, TRY_LATER
from headgate.cli.terminal.options import JOB_NAME, TIMEOUT, common
from headgate.cli.terminal.watching import wait_until
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.core.ledger.progress import JobProgress
    from headgate.core.ledger.ranges import Members


@click.command("wait", short_help="Wait until chunks are finished.")
@JOB_NAME
@click.argument("dataids", metavar="[DATAID]...", nargs=-1, type=DataIdRange())
@EXACT
@TIMEOUT
@common
def wait(console: Console, job_name: str, dataids: Sequence[Members], timeout: float | None) -> int:
    """Wait until chunks are finished, or will not be retried.

    Without a DATAID: until JOB has no chunk left that is running or can be claimed. A DATAID can be a range of days,
    months or numbers, and need not exist yet.

    Exit code 0 when all are finished, 1 when a chunk failed permanently or is held, 75 when --timeout has passed.

    \b
    Examples:
      headgate job wait clean --timeout 2h
      headgate job wait clean 2026-11-01..2026-11-07
    """
    with console.gate() as gate:
        following = gate.ledger.following(job_name, Selection(dataids))
        found, ended = wait_until(console, following, lambda each: each.sentence(), timeout)
    console.answer({**plain(found), "ended": ended}, lambda: _text(console, found))
    return TRY_LATER if not ended else FAILED if found.failed else 0


def _text(console: Console, found: JobProgress) -> str:
    if not found.ended:
        return f"not finished: {plural(found.left, 'chunk')} of {found.job}"
    if not found.failed:
        return f"finished: {found.job}"
    lines = [
        f"  {each.dataid}  {each.status}: {each.message or 'no message'}\n"
        f"      {console.command('job', 'explain', found.job, each.dataid)}"
        for each in found.failures
    ]
    return "\n".join([f"{plural(found.failed, 'chunk')} of {found.job} failed or held:", *lines])
