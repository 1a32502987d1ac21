"""Commands for messages: the mails and callbacks in the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headgate.cli.items import ItemId
from headgate.cli.output import ago, pairs, table
from headgate.cli.session import InOrder, Session, common
from headgate.core.durations import in_words
from headgate.core.wire import plain

if TYPE_CHECKING:
    from headgate.core.inventory import Message

#: Messages that are asked for at a time.
PORTION = 500


@click.group("messages", cls=InOrder)
def messages() -> None:
    """List mails and callbacks, and send those again that did not arrive.

    Each message has an id that stays the same however often it is sent (a mail's Message-ID is made of it, a callback
    carries it as webhook-id), so that a recipient who compares ids sees one. A message that cannot be delivered is
    tried again by the daemon `messenger`: after 10 s, then after pauses that double up to an hour, for about two
    days. After that, or when the other side refuses it for good, it is given up and stays listed until it is sent
    again or discarded.

    \b
    Examples:
      headgate messages list --failed
      headgate messages show bid0000000007.report-1
      headgate messages resend --all-failed
      headgate messages discard bid0000000007.report-1 --reason "the depositor has left"

    \b
    A quick look, in a new folder:
      headgate messages list --failed
    """


@messages.command("list")
@click.option("--failed", is_flag=True, help="Only those that did not arrive, though they were tried.")
@click.option("--item", type=ItemId("bid", "jid"), metavar="ID", help="Only those about this batch or ingest job.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Number of messages.")
@common
@click.pass_obj
def list_messages(session: Session, failed: bool, item: str | None, limit: int) -> None:  # noqa: FBT001 - click passes by name
    """List messages by id: their state, how often they were tried, and why the last try failed."""
    with session.gate() as gate:
        found = gate.inventory.messages(item, failed=failed, limit=limit)
    rows = [(each.id, each.kind, each.state, each.tries, _next(each), each.problem) for each in found]
    headings = ("ID", "KIND", "STATE", "TRIES", "NEXT TRY", "PROBLEM")
    document = {"messages": [_document(each) for each in found]}
    session.answer(document, lambda: table(headings, rows) if rows else "no messages")


@messages.command("show")
@click.argument("message_id", metavar="ID")
@common
@click.pass_obj
def show(session: Session, message_id: str) -> None:
    """Show one message with its recipients and its body."""
    from headgate.core.errors import UnknownName

    with session.gate() as gate:
        found = gate.inventory.message(message_id)
    if found is None:
        raise UnknownName("message", message_id, "see: headgate messages list")
    session.answer(plain(found), lambda: _text(found))


@messages.command("resend")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all-failed", is_flag=True, help="Every message that did not arrive, though it was tried.")
@common
@click.pass_obj
def resend(session: Session, ids: Sequence[str], all_failed: bool) -> None:  # noqa: FBT001 - click passes by name
    """Send messages again, under the same ids, as soon as the daemon `messenger` runs.

    Recipients of a mail that have it already do not get it again, unless all have it.
    """
    if bool(ids) == all_failed:
        raise click.UsageError("name messages, or say --all-failed")
    with session.gate() as gate:
        if all_failed:
            ids = [each.id for each in gate.inventory.messages(failed=True)]
        sent = [gate.inventory.resend(each) for each in ids]
    lines = [f"waits    {each.id}" for each in sent] or ["nothing to send again"]
    session.answer({"messages": [_document(each) for each in sent]}, lambda: "\n".join(lines))


@messages.command("discard")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why nobody needs to get it.")
@common
@click.pass_obj
def discard(session: Session, ids: Sequence[str], reason: str) -> None:
    """Give messages up and remove them from the outbox."""
    with session.gate() as gate:
        gone = [gate.inventory.discard(each, reason=reason) for each in ids]
    lines = [f"discarded  {each.id}" for each in gone]
    session.answer({"messages": [_document(each) for each in gone]}, lambda: "\n".join(lines))


def _document(message: Message) -> dict[str, object]:
    """A message for programs; `show` prints its body."""
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
