"""The overview: alarms and other problems for an operator, counts, and the last day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fastapi import Request, Response

from headgate.core.ledger.model import ERROR, FAIL_EVENT, HOLD, RUNNING
from headgate.core.ledger.watches.model import Watcher
from headgate.core.queue.model import FAILED
from headgate.core.tables.tones import Tone
from headgate.core.values.plurals import plural
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.tables import link
from headgate.http.dashboard.words import ago, duration, number
from headgate.service.access.tokens import expiry_note
from headgate.service.activity import COUNTED, FAILURES, REFUSALS
from headgate.service.overview.glance import Overview

router = page_router()
#: The colours of the day's plots.
TONES: Mapping[str, str] = {
    what: Tone.FAILED if what in FAILURES else Tone.HELD if what == REFUSALS else Tone.RUNNING
    for what in COUNTED.values()
}
#: Maximum number of items of the same kind that are named.
NAMED = 3


class Need(NamedTuple):
    """Something that an operator should look at."""

    #: Its kind, for the page's script.
    name: str
    #: Its state.
    word: str
    text: str
    detail: str
    #: The link and its label; if there is no page for it, a command.
    href: str
    action: str
    command: str


class Tile(NamedTuple):
    """A count."""

    label: str
    value: str
    href: str


@router.get("/")
def overview(request: Request, gate: TheGate, who: Reader) -> Response:
    """The first page."""
    found, day = gate.overview(), gate.history.activity.day()
    # Both are counted in the same way, here even at the same moment.
    found = replace(found, now=replace(found.now, failures_last_day=day.failures))
    needs, now = list(needs_of(found)), found.now
    tiles = list(tiles_of(found))
    if gate.keeps_ledger:
        tiles.append(Tile("Incidents open", number(sum(gate.incidents.count().count.values())), "/pipeline/incidents"))
    quiet = not (now.locks or now.chunks_running or now.batches or any(line.total for line in day.lines))
    return render(
        request, "overview.html", who, title="Overview", sentence=sentence_of(found, needs), tone=tone_of(found, needs),
        needs=needs, alarms=found.alarms, watchers=watchers_of(gate),
        recurrences=gate.ledger.recurrences() if gate.keeps_ledger else (),
        tiles=tiles, day=day, tones=TONES, all_new=quiet,
    )  # fmt: skip


def watchers_of(gate: TheGate) -> Sequence[Watcher]:
    """The watchers, if the store has a ledger."""
    return gate.watches.list() if gate.keeps_ledger else ()


def sentence_of(found: Overview, needs: list[Need]) -> str:
    """The summary in one sentence. Its numbers equal those of the tiles below it."""
    wait, now = found.oldest_wait, found.now
    figures = (
        f"{plural(now.chunks_running, 'chunk')} and {plural(now.ingest_jobs_running, 'ingest job')} running, "
        f"{plural(now.failures_last_day, 'failure')} in the last day, "
    ) + (f"longest wait for a lock {duration(wait)}" if wait is not None else "no client waiting")
    if not needs and not found.alarms:
        return f"All well: {figures}"
    stuck = f"Something is stuck: {plural(len(found.alarms), 'alarm')}. " if found.alarms else ""
    other = f"{', '.join(need.text for need in needs)}. " if needs else ""
    return f"{stuck}{other}{figures}."


def tone_of(found: Overview, needs: list[Need]) -> str:
    """The status of the worst one."""
    if not needs and not found.alarms:
        return Tone.OK
    return Tone.FAILED if found.alarms or any(need.word == Tone.FAILED for need in needs) else Tone.HELD


def needs_of(found: Overview) -> Iterator[Need]:
    """What an operator should look at, the worst first; alarms have their own section."""
    yield from _failures(found)
    yield from _stops(found)


def _failures(found: Overview) -> Iterator[Need]:
    now = found.now
    if now.chunks_failed:
        yield Need("failed-chunks", Tone.FAILED, f"{plural(now.chunks_failed, 'chunk')} failed",
                   _named(f"{row.job}/{row.dataid}: {row.message or 'no message'}" for row in found.failed),
                   link("/pipeline/grid", {"status": ERROR}), "See why",
                   "")  # fmt: skip
    if now.chunks_late:
        yield Need("late-chunks", Tone.FAILED, f"{plural(now.chunks_late, 'chunk')} late",
                   "They were expected, and were not READY in time.", "/pipeline/late", "See why",
                   "headgate late")  # fmt: skip
    if now.ingest_jobs_failed:
        yield Need(
            "failed-jobs",
            Tone.FAILED,
            f"{plural(now.ingest_jobs_failed, 'ingest job')} failed",
            "Resume each one, or delete it.",
            link("/ingest/jobs", {"state": FAILED}),
            "Resume or delete",
            f"headgate ingest jobs --state {FAILED}",
        )
    if now.batches_failed:
        yield Need("failed-batches", Tone.FAILED, f"{plural(now.batches_failed, 'batch', 'batches')} failed",
                   _named(f"{batch.id}: {batch.message}" for batch in found.failed_batches),
                   link("/ingest/batches", {"state": FAILED}), "See why",
                   f"headgate ingest batches --state {FAILED}")  # fmt: skip
    if now.messages_undelivered:
        yield Need("undelivered", Tone.FAILED, f"{plural(now.messages_undelivered, 'message')} not delivered",
                   _named(f"{each.id}: {each.problem}" for each in found.undelivered),
                   link("/ingest/messages", {"show": "failed"}), "See why",
                   "headgate messages list --failed")  # fmt: skip


def _stops(found: Overview) -> Iterator[Need]:
    now = found.now
    if now.chunks_held:
        yield Need(
            "held-chunks",
            Tone.HELD,
            f"{plural(now.chunks_held, 'chunk')} held",
            _named(f"{row.job}/{row.dataid}" for row in found.stopped),
            link("/pipeline/grid", {"status": HOLD}),
            "Release or resubmit",
            "",
        )
    if now.collections_held or now.batches_held or now.ingest_jobs_held:
        yield Need("holds", Tone.HELD, held_text(found),
                   _named(f"{hold.profile}: {hold.reason}" for hold in found.holds),
                   "/ingest", "Release", "headgate ingest holds")  # fmt: skip
    if found.paused:
        yield Need("paused-jobs", "paused", f"{plural(len(found.paused), 'job')} paused",
                   _named(f"{job.name}: {job.paused}" for job in found.paused),
                   "/pipeline", "Resume", "")  # fmt: skip
    waits = found.long_waits
    if waits:
        yield Need("long-waits", "waiting", f"{plural(len(waits), 'client')} waiting long",
                   _named(f"{each.client} for {each.resource}, since {ago(each.since, found.at)}" for each in waits),
                   "/locks", "See the locks", "")  # fmt: skip

    if found.expiring:
        yield Need("expiring-tokens", Tone.HELD, f"{plural(len(found.expiring), 'API token')} about to expire",
                   _named(expiry_note(each) for each in found.expiring),
                   "", "", "headgate token list")  # fmt: skip


def held_text(found: Overview) -> str:
    """Holds in the queue: collections, and the items that they stopped."""
    now = found.now
    parts = (
        (now.collections_held, "collection"), (now.batches_held, "batch"), (now.ingest_jobs_held, "ingest job"),
    )  # fmt: skip
    return ", ".join(f"{plural(count, noun)} held" for count, noun in parts if count)


def tiles_of(found: Overview) -> Iterator[Tile]:
    """The counts."""
    now = found.now
    yield Tile("Resources locked", number(now.locked_resources), "/locks")
    yield Tile("Waiting for locks", number(now.lock_waiters), "/locks")
    yield Tile("Chunks running", number(now.chunks_running), link("/pipeline/grid", {"status": RUNNING}))
    yield Tile("Chunks failed", number(now.chunks_failed), link("/pipeline/grid", {"status": ERROR}))
    yield Tile("Chunks late", number(now.chunks_late), "/pipeline/late")
    yield Tile("Ingest jobs running", number(now.ingest_jobs_running), "/ingest/jobs")
    yield Tile("Ingest jobs failed", number(now.ingest_jobs_failed), link("/ingest/jobs", {"state": FAILED}))
    yield Tile("Failures in the last day", number(now.failures_last_day), link("/history", {"event": FAIL_EVENT}))


def _named(texts: Iterator[str]) -> str:
    """The first few."""
    first = [text for text, _ in zip(texts, range(NAMED + 1), strict=False)]
    return "; ".join(first[:NAMED]) + (" …" if len(first) > NAMED else "")
