"""`headgate late`: data that is expected and missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import limit_option, tabular
from headgate.cli.terminal.output import ago, page, table
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.ledger.expectations.model import LateChunk, Lateness
    from headgate.gate import Gate

#: Seconds of delay after which a missing judge is reported.
BEHIND = 60.0


@click.command("late")
@click.argument("dataset", metavar="[DATASET]", required=False)
@click.option("--summary", is_flag=True, help="Show each dataset with an expectation, and what it expects next.")
@click.option("--after", type=int, metavar="CURSOR", help="Cursor: `next` of the previous page.")
@limit_option("chunks")
@tabular
def late(console: Console, dataset: str | None, after: int | None, limit: int, *, summary: bool) -> None:
    """List chunks that should be READY by now and are not, the oldest first, each with the reason.

    The key `expect` of a dataset in a pipeline file defines its data ids, and when each is due. The reason is
    found upstream, across jobs and mappings. The daemon `timekeeper`, which `headgate up` runs, judges what is late,
    and opens an incident for each chunk; it closes when the chunk is READY.

    \b
    Examples:
      headgate late
      headgate late orders --json
      headgate late --summary

    \b
    A quick look, after headgate init:
      headgate late
    """

    def ask(gate: Gate) -> tuple[Sequence[LateChunk], Sequence[Lateness]]:
        if dataset is not None:
            gate.ledger.status(dataset, limit=1)  # Raises UnknownName for an unknown dataset.
        found = () if summary else gate.expectations.late(dataset, after=after, limit=limit + 1)
        return found, [each for each in gate.expectations.lateness() if dataset in (None, each.dataset)]

    found, standing = console.ask(ask)
    if summary:
        console.answer_list(map(plain, standing), lambda: _summary(standing))
    else:
        shown, more = page(found, limit)
        console.answer_list(
            plain(shown), lambda: _table(shown) if shown else _nothing(standing),
            more=None if more is None else str(more),
        )  # fmt: skip
    behind = max((each.behind for each in standing), default=0.0)
    if behind > BEHIND or (behind and not found and not summary):
        since = f"nothing was judged for {in_words(behind)}" if behind > BEHIND else "the daemon timekeeper judges it"
        console.say(f"{since}; run: {console.command('daemon', 'timekeeper')} (or {console.command('up')})")


def _table(found: Sequence[LateChunk]) -> str:
    rows = [(each.dataset, each.dataid, _since(each.due), each.status, each.reason) for each in found]
    return table(("DATASET", "DATA ID", "LATE FOR", "STATUS", "WHY"), rows)


def _nothing(standing: Sequence[Lateness]) -> str:
    if not standing:
        return "nothing is expected: no dataset has the key expect"
    unjudged = sum(each.behind > 0 for each in standing)
    if unjudged:
        return f"nothing was found late so far; what {plural(unjudged, 'dataset')} expected by now was not judged yet"
    return f"nothing is late: {plural(len(standing), 'dataset')} with an expectation"


def _summary(standing: Sequence[Lateness]) -> str:
    rows = [
        (
            each.dataset, each.expects, each.late, "-" if each.oldest is None else ago(each.oldest), each.next or "-",
            "-" if each.next_due is None else f"{each.next_due:%Y-%m-%d %H:%M} UTC",
        )
        for each in standing
    ]  # fmt: skip
    headings = ("DATASET", "EXPECTS", "LATE", "OLDEST", "NEXT", "LATE AT")
    return table(headings, rows) if rows else "nothing is expected"


def _since(due: datetime) -> str:
    return in_words((datetime.now(UTC) - due).total_seconds())
