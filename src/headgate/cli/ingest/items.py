"""Batches and ingest jobs on the command line: ids, tables, JSON, and the commands that apply."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.output import ago, pairs, table
from headgate.core.errors import UnknownName
from headgate.core.queue.model import (
    DELETE_EVENT,
    FORCE_FAIL_EVENT,
    HELD,
    Batch,
    Hold,
    IngestJob,
    Item,
    for_readers,
    is_batch,
    work_states,
)
from headgate.core.tables.machine import By, Machine
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.service.queue.use_cases import Queue


class Way(NamedTuple):
    """The table of an item's states, and the hold that applies to it."""

    machine: Machine
    #: The hold of its collection, while it keeps the item held.
    hold: Hold | None


NOUNS = {"bid": "batch", "jid": "ingest job"}
#: Events that need a reason.
REASONED = (DELETE_EVENT, FORCE_FAIL_EVENT)
#: Distance within which a similar id is suggested.
NEAR = 500


class ItemId(click.ParamType[str]):
    """An id, with or without its zeros: jid7 is jid0000000007."""

    def __init__(self, *prefixes: str) -> None:
        self.prefixes = prefixes
        self.name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The whole id, of one of the wanted kinds."""
        found = re.fullmatch("(bid|jid)?([0-9]{1,10})", value)
        prefix = found and (found[1] or (self.prefixes[0] if len(self.prefixes) == 1 else None))
        if not found or not prefix:
            wanted = " or ".join(f"{each} and a number ({NOUNS[each]})" for each in self.prefixes)
            self.fail(f"{value!r} is not an id; write {wanted}", param, ctx)
        if prefix not in self.prefixes:
            self.fail(f"{value} is a {NOUNS[prefix]}; this command needs a {NOUNS[self.prefixes[0]]}", param, ctx)
        return f"{prefix}{int(found[2]):010}"


class ItemIdOrArk(ItemId):
    """An id, or the ARK of a stored object."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Take an ARK literally; it is checked later."""
        return str(value) if is_ark(value) else super().convert(value, param, ctx)


def is_ark(text: str) -> bool:
    """Whether this names a stored object, not an item of the queue."""
    return text.lower().startswith("ark:")


@contextmanager
def naming_the_nearest(console: Console, queue: Queue, item: str) -> Iterator[None]:
    """Add the nearest existing id to the error of an unknown one."""
    try:
        yield
    except UnknownName as error:
        ids = _around(queue, item)
        nearest = min(ids, key=lambda each: abs(int(each[3:]) - int(item[3:])), default="")
        hint = f"The nearest is {nearest}. " if nearest else ""
        what = console.command("history", "--item", item)
        raise UnknownName(error.what, error.name, f"{hint}If it was deleted, its history is shown by: {what}") from None


def find(console: Console, queue: Queue, item: str) -> Item:
    """Return a batch or ingest job; UnknownName with the nearest id if there is none."""
    with naming_the_nearest(console, queue, item):
        return queue.batch(item) if is_batch(item) else queue.job(item)


def _around(queue: Queue, item: str) -> list[str]:
    number = int(item[3:])
    after = f"{item[:3]}{max(number - NEAR, 0):010}"
    found: Sequence[Item] = (
        queue.batches(after=after, limit=2 * NEAR) if is_batch(item) else queue.jobs(after=after, limit=2 * NEAR)
    )
    return [each.id for each in found]


def document(item: Item) -> dict[str, Any]:
    """An item as JSON data. The request's id is left out, because it is private to the depositor."""
    found: dict[str, Any] = plain(for_readers(item))
    if "submission" in found:
        del found["submission"]["request_id"]
    return found


def batch_table(batches: Sequence[Batch]) -> str:
    """Batches, one per line."""
    rows = [
        (
            each.id, each.state, each.profile, each.jobs.completed, each.jobs.failed, each.jobs.processing,
            ago(each.since), why(each),
        )
        for each in batches
    ]  # fmt: skip
    return table(("ID", "STATE", "PROFILE", "DONE", "FAILED", "LEFT", "SINCE", "WHY"), rows)


def job_table(jobs: Sequence[IngestJob]) -> str:
    """Ingest jobs, one per line."""
    rows = [(each.id, each.batch, each.state, each.priority, each.profile, ago(each.since), why(each)) for each in jobs]
    return table(("ID", "BATCH", "STATE", "PRI", "PROFILE", "SINCE", "WHY"), rows)


def item_table(items: Sequence[Item]) -> str:
    """Batches and jobs together, one per line."""
    rows = [(each.id, each.state, each.profile, ago(each.since), why(each)) for each in items]
    return table(("ID", "STATE", "PROFILE", "SINCE", "WHY"), rows)


def why(item: Item) -> str:
    """Its worker, or else the reason for its state."""
    return f"taken by {item.worker}" if item.worker else item.message or "-"


def batch_text(console: Console, batch: Batch, failed: Sequence[str], way: Way) -> str:
    """All data of a batch."""
    batch = for_readers(batch)
    counts = batch.jobs
    told = {
        "batch": batch.id,
        "state": f"{batch.state}, {ago(batch.since)}",
        "why": batch.message,
        "taken by": batch.worker,
        **deaths(batch),
        "profile": batch.profile,
        "submitter": batch.submission.submitter,
        "payload": f"{batch.submission.payload_url} ({batch.submission.type}, {batch.submission.mode})",
        "jobs": f"{batch.made} made: {counts.completed} completed, {counts.failed} failed, {counts.processing} left",
        "failed jobs": ", ".join(failed[:20]) + (" …" if len(failed) > 20 else ""),
        **batch.submission.metadata,
    }
    return pairs(told) + possible(console, batch, way)


def waits_for(queue: Queue, job: IngestJob) -> Sequence[str]:
    """What keeps an ingest job from being taken, while a consumer has to take it and none has."""
    return queue.explain(job.id) if job.state in work_states(queue.tables()[1]) and not job.worker else ()


def job_text(console: Console, job: IngestJob, way: Way, reasons: Sequence[str] = ()) -> str:
    """All data of an ingest job."""
    job = for_readers(job)
    told = {
        "ingest job": job.id,
        "batch": job.batch,
        "state": f"{job.state}, {ago(job.since)}",
        "why": job.message,
        "taken by": job.worker,
        **({"waits for": "; ".join(reasons)} if reasons else {}),
        "last good step": job.last_successful,
        "retries": job.retry_count,
        **deaths(job),
        "priority": job.priority,
        "space needed": f"{job.space_needed:,} bytes" if job.space_needed else "unknown",
        "identifier": job.identifiers.primary,
        "local ids": ", ".join(job.identifiers.local),
        **{name: value for name, value in job.configuration.items() if name != "batch_id"},
    }
    return pairs(told) + possible(console, job, way)


def deaths(item: Item) -> dict[str, str]:
    """How many workers died on it, and in which step, if any did."""
    return {"workers that died": f"{item.crashes} (in {item.former or item.state})"} if item.crashes else {}


def way_of(queue: Queue, item: Item) -> Way:
    """The table of an item's states, and the hold that applies to it."""
    hold = queue.hold_of(item.profile) if item.state == HELD and not item.former else None
    return Way(queue.tables()[0 if is_batch(item.id) else 1], hold)


def possible(console: Console, item: Item, way: Way) -> str:
    """Return the commands that the table allows an operator here, and the one that ends a hold."""
    rows = {row.event: row for row in way.machine.rows if row.source == item.state and row.by is By.OPERATOR}
    if not rows:
        return ""
    lines = [
        "  " + console.command("ingest", event, item.id, *(("--reason", "why") if event in REASONED else ()))
        for event in rows
    ]
    return "\n\npossible from here:\n" + "\n".join([*_before_release(console, way.hold), *lines])


def _before_release(console: Console, hold: Hold | None) -> Sequence[str]:
    """Return the steps that are needed before a held item can be released."""
    if hold is None:
        return ()
    if hold.file:
        return (f"  remove `hold` from {hold.file}, and then:",)
    return (f"  {console.command('ingest', 'unhold', hold.profile)}, and then:",)
