"""The overview: whether all is well, what needs a person, how much there is, and the last day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fastapi import Request, Response

from headgate.http.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.tables import link
from headgate.http.dashboard.words import ago, duration, number, some
from headgate.service.activity import COUNTED
from headgate.service.overview import MOST_COUNTED, Overview
from headgate.service.tokens import expiry_note

router = page_router()
#: The colours of the day's plots.
TONES: Mapping[str, str] = {
    what: "failed" if what.endswith("failed") else "held" if what.endswith("refused") else "running"
    for what in COUNTED.values()
}
#: Of the same kind, so many are named.
NAMED = 3


class Need(NamedTuple):
    """Something that a person should look at."""

    #: Of its kind, for the page's script.
    name: str
    #: The state that it is in.
    word: str
    text: str
    detail: str
    #: Where to go, and what that is called; without a page for it, a command.
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
    found, day = gate.overview(), gate.activity.day()
    needs = list(needs_of(found))
    quiet = not (found.held or found.running or any(line.total for line in day.lines) or any(found.counts.values()))
    return render(
        request, "overview.html", who, title="Overview", sentence=sentence_of(found, needs), tone=tone_of(needs),
        needs=needs, alarms=found.alarms, tiles=list(tiles_of(found)), day=day, tones=TONES, all_new=quiet,
    )  # fmt: skip


def sentence_of(found: Overview, needs: list[Need]) -> str:
    """The whole in one sentence."""
    wait = found.oldest_wait
    figures = f"{number(found.running + working(found))} running, {_up_to(found.failed_lately)} failed in 24 h, " + (
        f"oldest wait {duration(wait)}" if wait is not None else "no client waiting"
    )
    if not needs:
        return f"All well: {figures}"
    return f"{', '.join(need.text for need in needs)}. {figures[0].upper()}{figures[1:]}."


def tone_of(needs: list[Need]) -> str:
    """As bad as the worst."""
    if not needs:
        return "ok"
    return "failed" if any(need.word == "failed" for need in needs) else "held"


def working(found: Overview) -> int:
    """Ingest jobs on their way."""
    stopped = ("pending", "held", "failed", "completed", "cleaned", "deleted")
    return sum(count for state, count in found.counts.get("ingest job", {}).items() if state not in stopped)


def needs_of(found: Overview) -> Iterator[Need]:
    """What needs a person, the worst first."""
    if found.alarms:
        yield Need("alarms", "failed", f"{some(len(found.alarms), 'alarm')}: something is stuck",
                   _named(alarm.what for alarm in found.alarms), "#alarms", "See what to do", "")  # fmt: skip
    yield from _failures(found)
    yield from _stops(found)


def _failures(found: Overview) -> Iterator[Need]:
    if found.failed:
        yield Need("failed-chunks", "failed", f"{some_up_to(len(found.failed), 'chunk')} failed",
                   _named(f"{row.job}/{row.dataid}: {row.message or 'no message'}" for row in found.failed),
                   link("/pipeline/grid", {"status": "ERROR"}), "See why",
                   "")  # fmt: skip
    failed = found.in_state("ingest job", "failed")
    if failed:
        yield Need(
            "failed-jobs",
            "failed",
            f"{some(failed, 'ingest job')} failed",
            "Resume each one, or delete it.",
            "/ingest/jobs?state=failed",
            "Resume or delete",
            "headgate ingest jobs --state failed",
        )
    if found.undelivered:
        yield Need("undelivered", "failed", f"{some_up_to(len(found.undelivered), 'message')} not delivered",
                   _named(f"{each.id}: {each.problem}" for each in found.undelivered),
                   link("/ingest/messages", {"show": "failed"}), "See why",
                   "headgate messages list --failed")  # fmt: skip


def _stops(found: Overview) -> Iterator[Need]:
    if found.stopped:
        yield Need(
            "held-chunks",
            "held",
            f"{some_up_to(len(found.stopped), 'chunk')} held",
            _named(f"{row.job}/{row.dataid}" for row in found.stopped),
            link("/pipeline/grid", {"status": "HOLD"}),
            "Release or resubmit",
            "",
        )
    if found.holds or found.in_state("batch", "held") or found.in_state("ingest job", "held"):
        yield Need("holds", "held", held_text(found),
                   _named(f"{hold.profile}: {hold.reason}" for hold in found.holds),
                   "/ingest", "Release", "headgate ingest holds")  # fmt: skip
    if found.paused:
        yield Need("paused-jobs", "paused", f"{some(len(found.paused), 'job')} paused",
                   _named(f"{job.name}: {job.paused}" for job in found.paused),
                   "/pipeline", "Resume", "")  # fmt: skip
    waits = found.long_waits
    if waits:
        yield Need("long-waits", "waiting", f"{some(len(waits), 'client')} waiting long",
                   _named(f"{each.client} for {each.resource}, since {ago(each.since, found.at)}" for each in waits),
                   "/locks", "See the locks", "")  # fmt: skip

    if found.expiring:
        yield Need("expiring-tokens", "held", f"{some(len(found.expiring), 'API token')} about to expire",
                   _named(expiry_note(each) for each in found.expiring),
                   "", "", "headgate token list")  # fmt: skip


def held_text(found: Overview) -> str:
    """What is held in the queue: collections, and what was stopped by that."""
    parts = [
        f"{some(count, noun, plural)} held"
        for count, noun, plural in (
            (len(found.holds), "collection", None),
            (found.in_state("batch", "held"), "batch", "batches"),
            (found.in_state("ingest job", "held"), "ingest job", None),
        )
        if count
    ]
    return ", ".join(parts)


def tiles_of(found: Overview) -> Iterator[Tile]:
    """The counts."""
    yield Tile("Resources locked", number(found.held), "/locks")
    yield Tile("Waiting for locks", number(len(found.waiting)), "/locks")
    yield Tile("Chunks running", number(found.running), link("/pipeline/grid", {"status": "RUNNING"}))
    yield Tile("Chunks failed", _up_to(len(found.failed)), link("/pipeline/grid", {"status": "ERROR"}))
    yield Tile("Batches", number(sum(found.counts.get("batch", {}).values())), "/ingest/batches")
    yield Tile("Ingest jobs", number(sum(found.counts.get("ingest job", {}).values())), "/ingest/jobs")


def some_up_to(count: int, noun: str) -> str:
    """As many as were counted, or more."""
    return f"{MOST_COUNTED:,} or more {noun}s" if count >= MOST_COUNTED else some(count, noun)


def _up_to(count: int) -> str:
    return f"{MOST_COUNTED:,}+" if count >= MOST_COUNTED else number(count)


def _named(texts: Iterator[str]) -> str:
    """The first few."""
    first = [text for text, _ in zip(texts, range(NAMED + 1), strict=False)]
    return "; ".join(first[:NAMED]) + (" …" if len(first) > NAMED else "")
