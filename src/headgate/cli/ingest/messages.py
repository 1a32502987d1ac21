"""Commands for messages: the mails and callbacks in the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.ingest.items import ItemId
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import REASON, InOrder, after_option, common, limit_option, tabular
from headgate.cli.terminal.output import ago, page, pairs, table
from headgate.core.values.durations import in_words
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.inventory import Message


@click.group("messages", cls=InOrder)
def messages() -> None:
    """List mails and callbacks, and resend those that could not be delivered.

    Each message keeps its id however often it is sent (as Message-ID of a mail, as webhook-id of a callback), so that
    recipients can detect duplicates. The daemon `messenger` retries a message after 10 s, then after pauses that double
    up to an hour, for about two days. After that, or if the recipient rejects it permanently, it is listed as failed
    until it is resent or discarded.

    \b
    Examples:
      headgate messages list --failed
      headgate messages show bid0000000007.report-1
      headgate messages resend --all-failed
      headgate messages discard bid0000000007.report-1 --reason "she has left"

    \b
    A quick look, after headgate init:
      headgate messages list --failed
    """


@messages.command("list")
@click.option("--failed", is_flag=True, help="Only messages that could not be delivered.")
@click.option("--item", type=ItemId("bid", "jid"), metavar="ID", help="Only messages about this batch or ingest job.")
@after_option
@limit_option("messages")
@tabular
def list_messages(console: Console, /, limit: int, **which: Any) -> None:
    """List messages by id, with the error of the last attempt."""
    found = console.ask(lambda gate: gate.inventory.messages(limit=limit + 1, **which))
    shown, more = page(found, limit)
    rows = [(each.id, each.kind, each.state, each.tries, _next(each), each.problem) for each in shown]
    headings = ("ID", "KIND", "STATE", "TRIES", "NEXT TRY", "PROBLEM")
    console.answer_list(map(_document, shown), lambda: table(headings, rows) if rows else "no messages", more=more)


@messages.command("show")
@click.argument("message_id", metavar="ID")
@common
def show(console: Console, message_id: str) -> None:
    """Show one message with its recipients and its body."""
    from headgate.core.errors import UnknownName

    found = console.ask(lambda gate: gate.inventory.message(message_id))
    if found is None:
        raise UnknownName("message", message_id, "List them with: headgate messages list")
    console.answer(plain(found), lambda: _text(found))


@messages.command("resend", short_help="Send messages again.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all-failed", is_flag=True, help="All messages that could not be delivered.")
@common
def resend(console: Console, ids: Sequence[str], all_failed: bool) -> None:  # noqa: FBT001 - click passes by name
    """Send messages again, with the same ids, as soon as the daemon `messenger` runs.

    A mail is sent only to recipients that did not receive it, or to all if all received it.
    """
    if bool(ids) == all_failed:
        raise click.UsageError("name messages, or use --all-failed")
    with console.gate() as gate:
        if all_failed:
            ids = [each.id for each in gate.inventory.messages(failed=True)]
        sent = [gate.inventory.resend(each) for each in ids]
    lines = [f"waits    {each.id}" for each in sent] or ["nothing to send again"]
    console.answer_list(map(_document, sent), lambda: "\n".join(lines))


@messages.command("discard")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@REASON
@common
def discard(console: Console, ids: Sequence[str], reason: str) -> None:
    """Remove messages from the outbox without sending them."""
    with console.gate() as gate:
        gone = [gate.inventory.discard(each, reason=reason) for each in ids]
    lines = [f"discarded  {each.id}" for each in gone]
    console.answer_list(map(_document, gone), lambda: "\n".join(lines))


def _document(message: Message) -> dict[str, object]:
    """A message as JSON data; `show` prints its body."""
    document: dict[str, object] = plain(message)
    del document["body"]
    return document


def _next(message: Message) -> str:
    from datetime import UTC, datetime

    if message.next_try is None or message.sender == "job":
        return "-"
    left = (message.next_try - datetime.now(UTC)).total_seconds()
    return f"in {in_words(left)}" if left > 0 else "now"


def _text(message: Message) -> str:
    told = {
        "id": message.id, "kind": message.kind, "about": message.item, "to": message.to, "state": message.state,
        "since": "" if message.since is None else ago(message.since), "tries": message.tries,
        "next try": _next(message), "problem": message.problem,
        **{each.address: f"{each.state} {each.problem}".rstrip() for each in message.recipients},
    }  # fmt: skip
    return pairs({name: str(value) for name, value in told.items() if value not in ("", "-")}) + f"\n\n{message.body}"
