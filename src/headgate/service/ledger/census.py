"""Overviews of many chunks: counts by status. Each costs the same, however many chunks are finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.filters import SpanFilter
from headgate.core.ledger.census import Span, Tally
from headgate.core.ledger.model import Kind, Row
from headgate.core.values.names import check_name
from headgate.service.checks import check_names
from headgate.service.ledger.use_cases import Ledger

#: Finished chunks are counted up to this number; beyond it there are "more".
MOST_TALLIED = 5000
#: Limits of one answer: number of data ids, and of other datasets.
MOST_LOOKED_AT, MOST_BESIDE = 50_000, 20


def tallies(ledger: Ledger, most: int = MOST_TALLIED) -> Sequence[Tally]:
    """Number of chunks by status, for each dataset and job; up to `most` of each dataset are counted, or all."""
    return ledger.tallies(_check("most", most, MOST_LOOKED_AT))


def waiting(ledger: Ledger, job: str) -> Tally:
    """Number of chunks that wait for a job, counted up to the same limit."""
    count = ledger.left(job, MOST_TALLIED + 1)
    return Tally("", job, Kind.INPUT, "waiting", min(count, MOST_TALLIED), count > MOST_TALLIED)


def spans(
    ledger: Ledger,
    dataset: str,
    beside: Sequence[str] = (),
    *,
    start: str | None = None,
    last: str | None = None,
    size: int = 1,
    limit: int = 100,
) -> Sequence[Span]:
    """Data ids in the order of a dataset, in spans of `size`, with counts by status there and in other datasets.

    From `start` to `last`, inclusive; to continue, request one more than needed, and start with the next data id.
    """
    return ledger.spans(_span_filter(dataset, beside, start, last, size, limit))


def spans_page(
    ledger: Ledger, dataset: str, beside: Sequence[str], *, start: str | None, last: str | None, size: int, limit: int
) -> tuple[Sequence[Span], str | None]:
    """The same, at most `limit` spans, and the data id at which the next page starts; None: there is none."""
    which = _span_filter(dataset, beside, start, last, size, limit)
    found = ledger.spans(replace(which, limit=limit + 1))
    return found[:limit], found[limit].first if len(found) > limit else None


def rows_page(
    ledger: Ledger, dataset: str | None, after: str | None, limit: int, which: Mapping[str, Any]
) -> tuple[list[Row], str | None]:
    """Rows of chunks from a cursor on, and the cursor of the next page. The rows of a data id are never split, so a
    page exceeds `limit` if one data id has more rows than that.
    """
    begun, slash, behind = (after or "").partition("/")
    if after and not slash:
        raise BadValue("after", after, "is not the `next` of a page: DATASET/DATAID")
    if dataset is None and after is None:
        rows = list(ledger.status(**which, limit=limit + 1))
        if len(rows) <= limit:  # One query is enough for most lists.
            return rows, None
    names = [dataset] if dataset is not None else sorted(each.name for each in ledger.datasets())
    return _rows_from(ledger, [name for name in names if name >= begun], (begun, behind), limit, which)


def _rows_from(
    ledger: Ledger, names: Sequence[str], after: tuple[str, str], limit: int, which: Mapping[str, Any]
) -> tuple[list[Row], str | None]:
    """The same, dataset by dataset, starting at a data id of the first one."""
    found: list[Row] = []
    for name in names:
        room = limit - len(found)
        if not room:
            return found, _cursor(found)
        rows = list(ledger.status(name, **which, after=after[1] if name == after[0] else None, limit=room + 1))
        if len(rows) > room:
            cut = rows[room].dataid
            kept = [row for row in rows[:room] if row.dataid != cut]
            if not kept and not found:
                kept = list(ledger.status(name, **{**which, "dataid": cut}))
            found += kept
            return found, _cursor(found)
        found += rows
    return found, None


def _cursor(rows: Sequence[Row]) -> str:
    return f"{rows[-1].dataset}/{rows[-1].dataid}"


def _span_filter(
    dataset: str, beside: Sequence[str], start: str | None, last: str | None, size: int, limit: int
) -> SpanFilter:
    which = SpanFilter(
        check_name("dataset", dataset),
        tuple(name for name in check_names("beside", beside) if name != dataset),
        None if start is None else check_name("start", start),
        None if last is None else check_name("last", last),
        _check("size", size, MOST_LOOKED_AT),
        _check("limit", limit, MOST_LOOKED_AT),
    )
    if which.size * which.limit > MOST_LOOKED_AT:
        raise BadValue("limit", limit, f"times size is more than {MOST_LOOKED_AT:,} data ids")
    if len(which.beside) > MOST_BESIDE:
        raise BadValue("beside", len(which.beside), f"are too many; at most {MOST_BESIDE} are allowed")
    return which


def _check(what: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise BadValue(what, value, f"is not a whole number from 1 to {most:,}")
    return value
