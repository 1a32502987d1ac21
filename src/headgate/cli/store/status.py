"""`headgate status`: counts, running and failed work, each with the command to type next."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import tabular
from headgate.cli.terminal.output import ago, aligned, table
from headgate.core.counts import MEANINGS
from headgate.core.queue.model import ALL, is_batch
from headgate.core.values.durations import in_words
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Shown even if they are 0; for a store without a ledger, those of chunks are not.
ALWAYS = (
    "locked_resources", "locks", "lock_waiters", "chunks_running", "chunks_failed", "ingest_jobs_running",
    "ingest_jobs_failed", "failures_last_day",
)  # fmt: skip
#: Maximum number of running chunks and failures that are named.
NAMED = 5


@click.command("status")
@click.option(
    "--rich", is_flag=True, help="With --json: include counts, running chunks, holders, waiters, the queue and alarms."
)
@tabular
def status(console: Console, rich: bool) -> None:  # noqa: FBT001 - click passes by name
    """Show what is locked, running, failed or stuck, each with the next command to type.

    \b
    Examples:
      headgate status
      headgate status --json --rich
    """
    found = console.ask(lambda gate: gate.status(rich=rich or not console.as_json))
    if rich:
        from headgate.store_opening import named_store

        found["store"] = plain(named_store(console.settings))
    console.answer(found, lambda: console.store_line() + "\n" + "\n\n".join(_parts(console, found)))


def _parts(console: Console, found: dict[str, Any]) -> Iterator[str]:
    now = found["counts"]
    numbers = [[MEANINGS[name].label, f"{count:,}"] for name, count in now.items() if count or name in ALWAYS]
    ending = [
        [f"token {each['id']}", f"of {each['name']} expires in {in_words(each['expires_in'] or 0)}"]
        for each in found["expiringTokens"]
    ]
    yield aligned([*numbers, *_queue_lines(found["queue"]), *ending])
    if found["running"]:
        total = now["chunks_running"] + now["claims_expired"]
        expired = f", lease expired ({now['claims_expired']:,})" if now["claims_expired"] else ""
        heading = f"running ({now['chunks_running']:,}){expired}"
        yield _listed(heading, [_running(console, each) for each in found["running"]], total)
    if failed := sorted([*found["failures"], *found["failedBatches"]], key=lambda each: each["since"], reverse=True):
        total = now["chunks_failed"] + now["ingest_jobs_failed"] + len(found["failedBatches"])
        yield _listed(f"failed ({total:,}), newest first", [_failed(console, each) for each in failed], total)
    if found["alarms"]:
        lines = ((f"STUCK    {each['what']}", f"         {console.command(*each['fix'])}") for each in found["alarms"])
        yield "\n".join(line for pair in lines for line in pair)
    if found["locks"]:
        rows = [(each["type"].lower(), each["count"], each["id"]) for each in found["locks"]]
        yield table(("MODE", "LOCKS", "RESOURCE"), rows)


def _listed(heading: str, entries: Sequence[tuple[str, str]], total: int) -> str:
    """The first of them, two lines each: a description, and the next command to type."""
    shown = entries[:NAMED]
    lines = [line for what, command in shown for line in (f"  {what}", f"      {command}")]
    more = [f"  and {total - len(shown):,} more"] if total > len(shown) else []
    return "\n".join([f"{heading}:", *lines, *more])


def _running(console: Console, chunk: dict[str, Any]) -> tuple[str, str]:
    job, dataid = chunk["job"], chunk["dataid"]
    by = f"{job} {dataid}  by {chunk['worker'] or 'somebody'}, {_ago(chunk['since'])}"
    if chunk["alive"]:
        return by, console.command("job", "explain", job, dataid)
    return f"{by}; the lease has expired: the worker died", console.command("job", "reap")


def _failed(console: Console, failure: dict[str, Any]) -> tuple[str, str]:
    why = " ".join(failure["message"].split()) or "no message"
    if "dataid" in failure:
        job, dataid = failure["job"], failure["dataid"]
        return f"{job} {dataid}  {_ago(failure['since'])}: {why}", console.command("job", "explain", job, dataid)
    show = console.command("ingest", "batch" if is_batch(failure["id"]) else "job", failure["id"])
    return f"{failure['data']}  {_ago(failure['since'])}: {why}", show


def _ago(since: datetime | None) -> str:
    return "-" if since is None else ago(since)


def _queue_lines(queue: dict[str, Any]) -> list[list[str]]:
    names = {"batch": "batches", "ingest job": "ingest jobs"}
    lines = [
        [f"{names[noun]} by state", ", ".join(f"{count:,} {state}" for state, count in counts.items())]
        for noun, counts in queue["counts"].items()
        if counts
    ]
    for hold in queue["holds"]:
        what = "queue is paused" if hold["profile"] == ALL else f"{hold['profile']} is on hold"
        lines.append([what, f"by {hold['who']}: {hold['reason']}"])
    return lines
