"""Commands of operators about the whole queue, and about what blocks a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from headgate.cli.ingest import items
from headgate.cli.ingest.acts import act_on
from headgate.cli.ingest.items import ItemId
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import DRY_RUN, REASON, YES, common, tabular
from headgate.cli.terminal.output import ago, table
from headgate.core.queue.model import COMPLETED, FAILED, FORCE_FAIL_EVENT
from headgate.core.queue.summary import CollectionSummary, CollectionTotal, totalled
from headgate.core.values.sizes import size_in_words
from headgate.core.values.wire import plain

#: Time after which an unfinished batch needs attention.
OLD = timedelta(hours=24)
#: Columns of jobs and bytes.
COUNTS = ("DONE", "FAILED", "LEFT", "SIZE")
#: Levels of attention, the worst one first.
LEVELS = ("FAIL", "WARN", "")


@click.command("summary")
@click.option("--by-collection", is_flag=True, help="One line for each collection, with the sums of its batches.")
@tabular
def summary(console: Console, *, by_collection: bool) -> None:
    """List the batches of each collection, with their jobs and bytes (exactly with --json).

    WARN: the batch has been in its state for more than 24 hours. FAIL: it failed. A collection has the worst level of
    its batches.
    """
    found = console.ask(lambda gate: gate.queue.summary())
    now = datetime.now(UTC)
    if by_collection:
        totals, levels = totalled(found), _levels(found, now)
        rows = [{**plain(each), "level": levels[each.profile]} for each in totals]
        console.answer_list(rows, lambda: _totals_text(totals, levels))
        return
    rows = [{**plain(each), "level": _level(each, now)} for each in found]
    console.answer_list(rows, lambda: _summary_text(found, now))


@click.command("metrics")
@common
def metrics(console: Console) -> None:
    """Count jobs, batches and gigabytes in process, by the names of Merritt's admin tool."""
    found = console.ask(lambda gate: gate.queue.metrics())
    console.answer(
        plain(found), lambda: table(("METRIC", "VALUE"), [(name, str(each)) for name, each in found.items()])
    )


@click.command("explain")
@click.argument("job", metavar="JID", type=ItemId("jid"))
@common
def explain(console: Console, job: str) -> None:
    """Explain why no consumer processes an ingest job: holds, its consumer, and the holders of locks of its object."""
    with console.gate() as gate, items.naming_the_nearest(console, gate.queue, job):
        found = gate.queue.explain(job)
    console.answer({"job": job, "reasons": list(found)}, lambda: "\n".join(found) or "it can be taken now")


@click.command("force-fail", short_help="Take jobs from consumers that hang.")
@click.argument("ids", metavar="JID...", nargs=-1, required=True, type=ItemId("jid"))
@REASON
@DRY_RUN
@YES
@common
def force_fail(console: Console, /, ids: Sequence[str], **how: Any) -> int:
    """Make ingest jobs fail that a consumer of Headgate or Merritt has taken, and remove the locks of their objects.

    For a queue that is shared with Merritt. Later reports of the consumer are refused; a consumer of Merritt's may
    still move the job, so end it first.
    """
    with console.gate() as gate:
        found = [items.find(console, gate.queue, each) for each in ids]

        def act(item: str, *, reason: str, by: str) -> Any:
            return gate.queue.act(item, FORCE_FAIL_EVENT, reason=reason, by=by)

        return act_on(console, FORCE_FAIL_EVENT, found, act, named=True, **how)


COMMANDS = (summary, metrics, explain, force_fail)


def _level(found: CollectionSummary, now: datetime) -> str:
    if found.state == FAILED:
        return LEVELS[0]
    return LEVELS[1] if found.state != COMPLETED and now - found.since > OLD else LEVELS[2]


def _summary_text(found: Sequence[CollectionSummary], now: datetime) -> str:
    rows = [
        (each.profile, each.batch, each.state, f"{each.completed:,}", f"{each.failed:,}", f"{each.processing:,}",
         size_in_words(each.bytes), ago(each.since), _level(each, now))
        for each in found
    ]  # fmt: skip
    head = ("PROFILE", "BATCH", "STATE", *COUNTS, "SINCE", "LEVEL")
    return table(head, rows) if rows else "there are no batches"


def _levels(found: Sequence[CollectionSummary], now: datetime) -> dict[str, str]:
    """The worst level of each collection's batches."""
    levels: dict[str, str] = {}
    for each in found:
        levels[each.profile] = min(levels.get(each.profile, LEVELS[-1]), _level(each, now), key=LEVELS.index)
    return levels


def _totals_text(found: Sequence[CollectionTotal], levels: Mapping[str, str]) -> str:
    rows = [
        (each.profile, f"{each.batches:,}", f"{each.completed:,}", f"{each.failed:,}", f"{each.processing:,}",
         size_in_words(each.bytes), levels[each.profile])
        for each in found
    ]  # fmt: skip
    head = ("PROFILE", "BATCHES", *COUNTS, "LEVEL")
    return table(head, rows) if rows else "there are no batches"
