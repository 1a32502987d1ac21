"""Claiming a given chunk or the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.cli.ledger.dataids import EXACT, ONE
from headgate.cli.terminal.options import JOB_NAME, together
from headgate.core.ledger.model import RUNNING

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console
    from headgate.core.ledger.model import Claim
    from headgate.service.ledger.use_cases import Ledger

WORKER = click.option("--worker", help="Name of the worker (default: host and process id).")
#: The job, and the options of commands that claim one of its chunks.
next_or_named = together(
    JOB_NAME,
    click.option(
        "--dataid", type=ONE,
        help="Chunk to claim; refused with the reason if it is not available (default: the next one).",
    ),
    EXACT,
    WORKER,
)  # fmt: skip
#: Number of running claims that are checked, and that are named.
MOST_LOOKS, MOST_NAMED = 1000, 3


def claim_chunk(
    ledger: Ledger, job: str, dataid: str | None, *, worker: str | None, lease: float, key: str | None = None
) -> Claim | None:
    """Claim the given chunk, or the next one. None: nothing to do. `key`: the job's (default: the settings')."""
    if dataid is not None:
        return ledger.claim(job, dataid, worker=worker, lease=lease, key=key)
    return ledger.find_next(job, worker=worker, lease=lease, key=key)


def nothing_to_do(console: Console, ledger: Ledger, job: str) -> str:
    """Return a sentence: there is nothing to do, and which chunks are still running elsewhere."""
    rows = ledger.status(job=job, status=RUNNING, limit=MOST_LOOKS)
    busy = {row.dataid: row.worker for row in rows if row.alive}
    plan = console.command("job", "plan", job)
    if not busy:
        return f"nothing to do for {job}; see: {plan}"
    named = [f"{dataid} by {worker}" for dataid, worker in list(busy.items())[:MOST_NAMED]]
    named += [f"{len(busy) - MOST_NAMED} more"] if len(busy) > MOST_NAMED else []
    others = "1 chunk is" if len(busy) == 1 else f"{len(busy)} chunks are"
    return f"nothing to do for {job}, but {others} still running: {', '.join(named)}; see: {plan}"
