"""Commands for incidents: problems that need a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import InOrder, common, limit_option, tabular
from headgate.cli.terminal.output import ago, page, pairs, table
from headgate.cli.terminal.values import DURATION, JOB
from headgate.core.ledger.expectations.model import LATE
from headgate.core.values.durations import in_words
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.incidents import Incident

NUMBER = click.argument("number", type=click.IntRange(1), metavar="N")


@click.group("incident", cls=InOrder)
def incident() -> None:
    """List incidents: chunks that failed permanently, whose workers keep crashing, that never finish in time, or that
    are late.

    An incident opens when a chunk has used up its attempts or is held because of failures, crashes or interruptions. It
    closes when the chunk succeeds, is forgotten, or gets a status by hand. The daemon `messenger` sends notices of both
    to the recipients in `headgate.toml`.

    \b
    Examples:
      headgate incident list
      headgate incident list --job clean --closed
      headgate incident ack 7
      headgate incident snooze 7 --for 8h

    \b
    A quick look, after headgate init:
      headgate incident list
    """


@incident.command("list")
@click.option("--job", type=JOB, help="Only incidents of this job.")
@click.option("--kind", metavar="WORD", help="Only incidents of this kind: failed, crashes, interruptions or late.")
@click.option("--closed", is_flag=True, help="Include closed incidents.")
@click.option("--after", type=int, metavar="CURSOR", help="Cursor: `next` of the previous page.")
@limit_option("incidents")
@tabular
def list_incidents(console: Console, /, limit: int, **which: Any) -> None:
    """List open incidents, newest first."""
    found = console.ask(lambda gate: gate.incidents.list(limit=limit + 1, **which))
    shown, more = page(found, limit)
    rows = [
        (
            each.id,
            each.job or "-",
            each.subject,
            each.kind,
            each.state,
            ago(each.since),
            each.count,
            each.message or "-",
        )
        for each in shown
    ]
    headings = ("N", "JOB", "SUBJECT", "KIND", "STATE", "SINCE", "TIMES", "MESSAGE")
    console.answer_list(
        plain(shown),
        lambda: table(headings, rows) if rows else "no incidents",
        more=None if more is None else str(more),
    )


@incident.command("show")
@NUMBER
@common
def show(console: Console, number: int) -> None:
    """Show one incident."""
    found = console.ask(lambda gate: gate.incidents.get(number))
    console.answer(plain(found), lambda: _text(found))
    if found.closed is None and found.kind == LATE:
        console.say(f"to see why: {console.command('late', found.subject.partition('/')[0])}")
    elif found.closed is None and found.job:
        console.say(f"to see why: {console.command('job', 'explain', found.job, found.subject)}")


@incident.command("ack")
@NUMBER
@common
def acknowledge(console: Console, number: int) -> None:
    """Acknowledge an incident: no more notices are sent, unless it happens again or closes."""
    found = console.ask(lambda gate: gate.incidents.acknowledge(number))
    console.answer(plain(found), lambda: f"{found.state}  {found.id}  {found.sentence}")


@incident.command("snooze")
@NUMBER
@click.option("--for", "seconds", type=DURATION, default=3600, help="How long (default: 1h).")
@common
def snooze(console: Console, number: int, seconds: float) -> None:
    """Send no notices about an incident for a while, and one afterwards if it is still open."""
    found = console.ask(lambda gate: gate.incidents.snooze(number, seconds))
    if found.closed is not None:
        console.answer(plain(found), lambda: f"closed already  {found.id}  {found.sentence}")
        return
    console.answer(plain(found), lambda: f"snoozed for {in_words(seconds)}  {found.id}  {found.sentence}")


def _text(found: Incident) -> str:
    return pairs(
        {
            "incident": found.id, "job": found.job or "-", "subject": found.subject, "kind": found.kind,
            "state": found.state, "since": f"{plain(found.since)} ({ago(found.since)})",
            "last": f"{plain(found.at)} ({ago(found.at)})", "times": found.count,
            "message": found.message or "-", "closed": plain(found.closed) or "-", "closed by": found.closed_by or "-",
            "acknowledged by": found.acknowledged_by or "-", "snoozed until": plain(found.snoozed_until) or "-",
        }
    )  # fmt: skip
