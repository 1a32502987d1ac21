"""Commands for data: publish, list, grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

import click

from headgate.cli.ledger.dataids import EXACT, DataIdRange, Selection, confirm, is_exact, many_dataids
from headgate.cli.terminal.console import Console
from headgate.cli.terminal.options import (
    InOrder,
    after_option,
    common,
    limit_option,
    number_option,
    tabular,
    word_option,
)
from headgate.cli.terminal.output import ago, table
from headgate.cli.terminal.values import DATASET, JOB, KIND, STATUS
from headgate.core.errors import BadValue
from headgate.core.ledger.ranges import Members, expand
from headgate.core.values.plurals import plural
from headgate.core.values.wire import plain

if TYPE_CHECKING:
    from headgate.core.ledger.expectations.model import LateChunk
    from headgate.core.ledger.model import Row
    from headgate.gate import Gate
    from headgate.service.ledger.use_cases import Ledger

HEADINGS = ("DATASET", "DATAID", "JOB", "KIND", "STATUS", "SINCE", "ATTEMPT", "WORKER", "MESSAGE")
#: Number of data ids per call of the ledger.
BATCH = 5000
#: Longest range of data ids to list: each is a query.
MOST_LISTED = 1000


@click.group("data", cls=InOrder)
def data() -> None:
    """Publish chunks of data, and show their status.

    A dataset consists of chunks, each with a data id: a day, a number, any name.

    \b
    Examples:
      headgate data publish orders_raw 2026-11-01
      headgate data publish orders_raw 2024-01-01..2026-10-31
      headgate data list --status ERROR
      headgate data grid

    \b
    A quick look, after headgate init:
      printf '[dataset]\\nraw = {}\\ntidy = {}\\n' >quick.toml
      printf '[job.clean]\\ninputs = ["raw"]\\noutputs = ["tidy"]\\n' >>quick.toml
      headgate define quick.toml && headgate data publish raw 1..3
      headgate data list
      headgate data grid
    """


@data.command("publish")
@click.argument("dataset", type=DATASET)
@click.option(
    "--from-file",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="File with data ids or ranges, one per line; - for standard input.",
)
@partial(many_dataids, required=False)
@common
def publish(console: Console, dataset: str, dataids: Selection, from_file: TextIO | None) -> None:
    """Publish chunks that were made elsewhere: they become READY.

    A DATAID can be a range of days (2024-01-01..2026-10-31), months (2026-01..2026-12) or numbers (1..1000), both ends
    included. Large ranges are published in portions. After an interruption run the command again: chunks that are READY
    already are skipped.
    """
    context = click.get_current_context()
    lines = [expand(line.rstrip("\r\n"), exact=is_exact(context)) for line in from_file or ()]
    confirm(Selection(lines), yes=context.params["yes"])
    wanted = Selection([*dataids.parts, *lines])
    if not len(wanted):
        raise BadValue("dataids", [], "are missing; name at least one, or give --from-file")
    with console.gate() as gate:
        new, seen = _publish(console, gate.ledger, dataset, wanted)
    console.answer(
        {"dataset": dataset, "published": new, "given": seen},
        lambda: (
            f"published  {plural(new, 'chunk')} of {dataset}"
            + (f", {seen - new} were published already" if seen > new else "")
        ),
    )


def _publish(console: Console, ledger: Ledger, dataset: str, wanted: Selection) -> tuple[int, int]:
    from headgate.cli.terminal.progress import progress

    dataids = iter(wanted)
    new = seen = 0
    with progress(console, lambda: len(wanted), BATCH, "chunks") as tell:
        while batch := list(islice(dataids, BATCH)):
            new += ledger.publish(dataset, batch)
            seen += len(batch)
            tell(seen)
    return new, seen


@data.command("list")
@click.option("--dataset", type=DATASET, help="Only this dataset.")
@click.option("--job", type=JOB, help="Only rows of this job.")
@click.option("--dataid", "dataids", type=DataIdRange(), metavar="DATAID", help="Only this data id or range.")
@EXACT
@click.option("--kind", type=KIND, help="Only rows of this kind: chunks that a job reads, or makes.")
@word_option("--status", STATUS, "Only this status.")
@after_option
@limit_option("rows", 1000)
@tabular
def list_rows(
    console: Console, /, dataset: str | None, dataids: Members | None, after: str | None, limit: int, **which: Any
) -> None:
    """List chunks and their status, by dataset and data id."""
    from headgate.service.ledger.census import rows_page

    if dataids is not None and len(dataids) > MOST_LISTED:
        raise BadValue("dataid", f"a range of {len(dataids):,}", f"is too long; at most {MOST_LISTED:,} can be listed")
    with console.gate() as gate:
        if dataids is None:
            rows, more = rows_page(gate.ledger, dataset, after, limit, which)
        else:
            rows, more = _rows_of(gate.ledger, list(dataids), after, limit, {"dataset": dataset, **which})
    console.answer_list(plain(rows), lambda: _rows(rows), more=more)


def _rows_of(
    ledger: Ledger, dataids: Sequence[str], after: str | None, limit: int, which: Mapping[str, Any]
) -> tuple[list[Row], str | None]:
    """Return the rows of these data ids, never only part of one, and the last data id if there are more."""
    if after is not None and after not in dataids:
        raise BadValue("after", after, "is not a data id of this range")
    found: list[Row] = []
    last = after
    for dataid in dataids[0 if after is None else dataids.index(after) + 1 :]:
        rows = ledger.status(dataid=dataid, **which)
        if found and len(found) + len(rows) > limit:
            return found, last
        found += rows
        last = dataid
    return found, None


@data.command("grid", short_help="Show the status of chunks as a grid.")
@click.option("--dataset", "datasets", type=DATASET, multiple=True, help="Only this dataset; can be repeated.")
@number_option("--limit", None, 60, "Number of data ids, counted from the last.")
@common
def grid(console: Console, datasets: Sequence[str], limit: int) -> None:
    """Show the status of chunks as a grid: a line for each data id, a column for each dataset, in flow order.

    Where an input has a mapping, the line of the job's data id shows how many of the data ids that it needs are READY:
    26/28. A late chunk without a status is shown as l.
    """
    from headgate.cli.ledger.grid import Cell, draw, fan_ins
    from headgate.core.ledger.expectations.model import LATE
    from headgate.core.ledger.flow import flow_order
    from headgate.core.ledger.ordering import Order, order_key

    with console.gate() as gate:
        flow = flow_order(gate.ledger.datasets(), gate.ledger.jobs())
        names = sorted(datasets, key=lambda each: flow.index(each) if each in flow else len(flow)) or flow
        rows = [row for name in names for row in gate.ledger.status(name, kind="OUTPUT")]
        shares = fan_ins(gate.ledger, names, rows, min(limit, 100))
        late = {(each.dataid, each.dataset): LATE for name in names for each in _late(gate, name, limit)}
    found: dict[tuple[str, str], Cell] = {**shares, **{(row.dataid, row.dataset): row.status for row in rows}}
    found |= {key: word for key, word in late.items() if key not in found}
    dataids = sorted({dataid for dataid, _ in found}, key=lambda each: order_key(each, Order.NATURAL))[-limit:]
    document = {dataid: {name: found.get((dataid, name)) for name in names} for dataid in dataids}
    console.answer(document, lambda: draw(names, document))


def _late(gate: Gate, dataset: str, limit: int) -> Sequence[LateChunk]:
    """Late chunks of a dataset, if it has any."""
    if not any(each.late for each in gate.expectations.lateness() if each.dataset == dataset):
        return ()
    return gate.expectations.late(dataset, limit=limit)


def _rows(rows: Iterable[Row]) -> str:
    lines = [
        (
            row.dataset, row.dataid, row.job, row.kind, row.status, ago(row.since) if row.since else "-",
            row.attempt or "-", _worker(row), row.message or "-",
        )
        for row in rows
    ]  # fmt: skip
    return table(HEADINGS, lines) if lines else "no chunks"


def _worker(row: Row) -> str:
    if not row.worker:
        return "-"
    ends = "" if row.expires_in is None else f", {row.lease_sentence(row.expires_in)}"
    return f"{row.worker}{ends}"
