"""Commands about the whole store: history, settings, migrate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.ingest.items import ItemId
from headgate.cli.ledger.dataids import EXACT, ONE
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import DRY_RUN, after_option, common, limit_option, tabular
from headgate.cli.terminal.output import ago, table
from headgate.cli.terminal.progress import working
from headgate.cli.terminal.values import DURATION, JOB, Word
from headgate.core.access.owners import LOCAL
from headgate.core.history import EVENTS, QUEUE_NOUNS
from headgate.core.values.durations import in_words
from headgate.core.values.wire import plain, rfc3339

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.core.history import Entry

EVENT = Word("event", tuple(dict.fromkeys(word for events in EVENTS.values() for word in events)))


class Since(click.ParamType[datetime]):
    """A moment: a length of time before now, or an ISO 8601 time (UTC unless it says otherwise)."""

    name = "since"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        del param, ctx
        return "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment, in UTC."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            try:
                return datetime.now(UTC) - timedelta(seconds=DURATION.convert(value, param, ctx))
            except click.BadParameter:
                self.fail(f"{value!r} is not a time; write 2h or 7d (ago), or 2026-11-15T04:50", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.command("history")
@click.option("--resource", help="Only events of exactly this resource.")
@click.option("--client", help="Only events of this client.")
@click.option("--event", type=EVENT, help="Only events of this kind: grant, release, refuse, expire, break, …")
@click.option("--lock", "lock_id", metavar="ID", help="Only events of this lock.")
@click.option("--noun", type=click.Choice(tuple(EVENTS)), help="Only events of this noun.")
@click.option("--job", type=JOB, help="Only events of this job and its chunks.")
@click.option("--dataid", type=ONE, help="Only events of chunks with this data id.")
@EXACT
@click.option(
    "--item",
    type=ItemId("jid", "bid"),
    metavar="ID",
    help="Only events of this batch (with its jobs) or ingest job.",
)
@click.option("--since", type=Since(), help="Oldest event: 2h (ago), or 2026-11-15T04:50.")
@click.option("--until", type=Since(), help="Newest event: 2h (ago), or 2026-11-15T04:50.")
@after_option
@limit_option("entries")
@tabular
def history(console: Console, /, limit: int, **which: Any) -> None:
    """Show past events, newest first.

    \b
    Examples:
      headgate history --resource mysql://db1/core
      headgate history --event break --since 7d
      headgate history --job clean --dataid 2026-11-01
      headgate history --item bid0000000007
    """
    found = console.ask(lambda gate: gate.history(limit=limit, **which))
    console.answer_list(plain(list(found)), lambda: _history_text(found), more=found.next)


@click.command("settings")
@tabular
def settings(console: Console) -> None:
    """Show each setting, its value, and where the value comes from. Passwords are masked.

    A setting is taken from a flag, else its environment variable, else headgate.toml in this folder or the nearest
    one above it, in ~/.config/headgate or in /etc/headgate, else it has its default. Relative paths in a file are
    relative to the file.

    \b
    Example:
      HEADGATE_URL=postgresql://db1/headgate headgate settings
    """
    found = [
        {
            "name": each.known.name,
            "value": each.shown,
            "origin": each.origin,
            "variable": each.known.variable,
            "meaning": each.known.meaning,
        }
        for each in console.settings.all()
    ]
    rows = [(each["name"], each["value"], each["origin"], each["variable"]) for each in found]
    console.answer_list(found, lambda: table(("NAME", "VALUE", "COMES FROM", "VARIABLE"), rows))


@click.command("migrate")
@click.option("--beside", is_flag=True, help="Add Headgate's tables to a database that other programs use.")
@DRY_RUN
@common
def migrate(console: Console, beside: bool, dry_run: bool) -> None:  # noqa: FBT001 - click passes by name
    """Upgrade the store's schema to this version; take over the locks in Ensembl's tables.

    \b
    Examples:
      headgate migrate --dry-run
      headgate migrate --url mysql://me@db1/production --beside
    """
    from headgate import migrating
    from headgate.store_opening import own_url, store_options

    with working(console, "bringing the tables to this version"):
        options = store_options(console.settings)
        done = migrating.migrate(own_url(console.settings), beside=beside, dry_run=dry_run, options=options)
    console.answer({"dry_run": dry_run, "done": done.lines}, lambda: "\n".join(done.lines) or "nothing to do")


def _history_text(entries: Sequence[Entry]) -> str:
    if not entries:
        return "no matching events"
    if all(each.noun in QUEUE_NOUNS for each in entries):
        return _queue_history_text(entries)
    rows = [
        (
            each.id,
            rfc3339(each.at)[:19] + "Z",
            ago(each.at),
            _event(each),
            each.resource or each.job,
            _who(each),
            each.token,
            each.reason,
        )
        for each in entries
    ]
    return table(("N", "AT", "", "EVENT", "RESOURCE", "CLIENT", "TOKEN", "REASON"), rows)


def _who(entry: Entry) -> str:
    """The client of an event, with its principal if a service knew it."""
    return entry.client if entry.principal in ("", LOCAL, entry.client) else f"{entry.client} [{entry.principal}]"


def _queue_history_text(entries: Sequence[Entry]) -> str:
    rows = [
        (
            each.id,
            rfc3339(each.at)[:19] + "Z",
            each.job or each.resource,
            each.event,
            f"{each.before} → {each.after}" if each.before != each.after else each.after or "-",
            "-" if each.spent is None else in_words(each.spent),
            _who(each),
            each.reason,
        )
        for each in entries
    ]
    return table(("N", "AT", "ITEM", "EVENT", "STATE", "AFTER", "BY", "REASON"), rows)


def _event(entry: Entry) -> str:
    return entry.event if entry.count == 1 else f"{entry.event} x {entry.count}"
