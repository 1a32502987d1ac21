"""Tables of a page: columns, rows, order, and the next page. The macro `table` renders them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from typing import Any
from urllib.parse import urlencode

from fastapi import Response
from fastapi.responses import StreamingResponse

from headgate.core.values.wire import plain

#: Number of rows of one page.
ROWS = 100
#: Number of rows that are requested at once when a complete list is sent.
PORTION = 1000
#: The characters that begin a formula in a spreadsheet.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\0")
Value = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    #: Its heading.
    label: str
    #: The value for a row: for CSV, and for sorting.
    value: Value
    #: Numbers are aligned to the right.
    numeric: bool = False
    #: False: its values cannot be ordered.
    sorts: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A list with columns."""

    #: Its name in the page; the ids of its rows begin with it.
    name: str
    caption: str
    columns: Mapping[str, Column]
    rows: Sequence[Any]
    #: Identifies a row.
    key: Value
    #: The address of its page; empty: it is short, with one order and no other page.
    path: str = ""
    #: The parameters of the address: filters, order, page.
    query: Mapping[str, str] = field(default_factory=dict)
    #: The start of the next page; None: this is the last page.
    next: str | None = None
    #: The addresses of the same list as JSON, and as CSV.
    json: str = ""
    csv: str = ""
    #: The column by which it is sorted; with a leading -, in descending order. Empty: in the store's order.
    order: str = ""
    #: It has only one order.
    fixed: bool = False
    #: All rows were sorted before they were cut into pages: any order is possible on every page.
    whole: bool = False
    #: The address parameter for the order.
    by: str = "sort"

    @property
    def sortable(self) -> bool:
        """Only a completely loaded list can be sorted differently."""
        known = self.whole or (self.next is None and "after" not in self.query)
        return bool(self.path) and not self.fixed and known and len(self.rows) > 1

    def row_id(self, row: Any) -> str:
        """The id of a row's element: it stays the same for the same thing."""
        return f"{self.name}-{self.key(row)}"

    def link(self, **changes: str | None) -> str:
        """This page with another order, or the next one."""
        return link(self.path, self.query, **changes)

    def sorted_by(self, name: str) -> str:
        """The first page, sorted by a column; a second time, in the opposite direction."""
        down = "-" if self.direction(name) == "ascending" else ""
        return self.link(**{self.by: f"{down}{name}", "after": None})

    def direction(self, name: str) -> str:
        """The value of aria-sort for a column."""
        return {name: "ascending", f"-{name}": "descending"}.get(self.order, "none")


def link(path: str, query: Mapping[str, str], **changes: str | None) -> str:
    """Return a URL with some parameters replaced; None removes one."""
    said = {**query, **changes}
    text = urlencode({name: value for name, value in said.items() if value})
    return f"{path}?{text}" if text else path


def cut(found: Sequence[Any], key: Value, limit: int = ROWS) -> tuple[Sequence[Any], str | None]:
    """A page from one item more than it has, and the start of the next one."""
    rows = found[:limit]
    return rows, str(key(rows[-1])) if len(found) > limit else None


def order_of(query: Mapping[str, str], more: str | None) -> str:
    """The order in the address, if the whole list is on this page."""
    return query.get("sort", "") if more is None and "after" not in query else ""


def ordered(rows: Sequence[Any], columns: Mapping[str, Column], order: str) -> Sequence[Any]:
    """Sorted by a column that the address names; an unknown one changes nothing."""
    column = columns.get(order.removeprefix("-"))
    if column is None:
        return rows
    return sorted(rows, key=lambda row: _rank(column.value(row)), reverse=order.startswith("-"))


def as_csv(name: str, columns: Mapping[str, Column], rows: Iterable[Any]) -> Response:
    """The rows as a file, sent as they are read. Values that a spreadsheet would take for a formula become text."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    left = iter(rows)
    first = list(islice(left, PORTION))  # Errors in the query are reported before the answer begins.
    return StreamingResponse(
        csv_text(columns, chain(first, left)), media_type="text/csv; charset=utf-8", headers=headers
    )


def csv_text(columns: Mapping[str, Column], rows: Iterable[Any]) -> Iterator[str]:
    """Portion by portion."""
    yield _csv_lines([[column.label for column in columns.values()]])
    left = iter(rows)
    while portion := list(islice(left, PORTION)):
        yield _csv_lines([_cell(column.value(row)) for column in columns.values()] for row in portion)


def paged(ask: Callable[[str | None], Sequence[Any]], key: Value) -> Iterator[Any]:
    """All rows, page by page; `ask` returns at most PORTION rows after that key."""
    after: str | None = None
    while page := ask(after):
        yield from page
        if len(page) < PORTION:
            return
        after = str(key(page[-1]))


def _csv_lines(rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    text = "" if value is None else str(plain(value))
    is_number = isinstance(value, int | float)
    return f"'{text}" if text.startswith(FORMULA) and not is_number else text


def _rank(value: Any) -> tuple[int, Any]:
    """Empty values come last; numbers and times are compared as such; all else as text."""
    if value is None:
        return (1, 0)
    return (0, value if isinstance(value, int | float | datetime) else str(value).lower())
