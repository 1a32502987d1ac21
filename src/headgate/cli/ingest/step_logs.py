"""`headgate ingest logs`: what the steps of an ingest job did and wrote."""

from __future__ import annotations

import click

from headgate.cli.ingest import items
from headgate.cli.ingest.items import ItemId
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import common
from headgate.cli.terminal.printed_logs import heading, print_log
from headgate.core.logs import MOST_LOGGED, LogStream
from headgate.core.values.wire import plain

MOST_LISTED = len(LogStream) * MOST_LOGGED


@click.command("logs", short_help="Show what the steps of an ingest job did.")
@click.argument("job", metavar="JID", type=ItemId("jid"))
@click.option("--step", metavar="STATE", help="Only the step in this state.")
@common
def logs(console: Console, job: str, *, step: str | None) -> None:
    """Show what the steps of an ingest job did and wrote, the first step first, without secrets.

    The built-in steps write which files were downloaded, with their sizes and digests, and how each step ended. The
    outputs of a command (`headgate daemon --exec`) are kept too. The settings `log_keep` and `log_keep_for` say how
    much is kept, and for how long.

    \b
    Examples:
      headgate ingest logs jid0000000001
      headgate ingest logs jid0000000001 --step downloading
    """
    with console.gate() as gate:
        with items.naming_the_nearest(console, gate.queue, job):
            gate.queue.job(job)
        found = gate.inventory.logs(job, limit=MOST_LISTED)
    shown = sorted((each for each in found if step in (None, each.step)), key=lambda log: log.at)
    if console.as_json:
        console.answer_list(plain(shown), str)
        return
    for each in shown:
        print_log(heading(each), each.text)
    if not shown:
        console.say(f"no log of {job}: nothing was written, or none is kept; see: {console.command('settings')}")
