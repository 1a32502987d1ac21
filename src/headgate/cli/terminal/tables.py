"""Tables on a terminal: ids stay whole, text is cut, and less important columns give way to the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Columns with text, with the narrowest width that is still useful. All others are kept whole.
TEXT = {
    "WHY": 16, "MESSAGE": 16, "REASON": 16, "PROBLEM": 16, "REFUSED": 16, "TITLE": 16, "PAUSED": 10, "HELD": 10,
    "SCOPES": 12, "READS": 12, "MAKES": 12, "WORKER": 10, "PROCESS": 10, "VALUE": 12, "COMES FROM": 10, "BY": 8,
    "CLIENT": 8, "PRINCIPAL": 8, "OWNER": 8, "COLLECTION": 10, "COLLECTIONS": 10, "LOCAL IDS": 10, "STORAGE": 12,
    "PROFILE": 12, "NOT COUNTED BECAUSE": 19, "EXPECTS": 20,
}  # fmt: skip
#: Names that are cut in the middle, because both ends distinguish them.
NAMES = {"RESOURCE": 16, "URI": 16, "WHAT": 16, "SOURCE": 16, "FILE": 16}
#: Columns that are left out if there is no room, the first one first. An untitled column repeats another.
EXTRA = (
    "", "VARIABLE", "ATTEMPT", "WORKER", "PROCESS", "TOKEN", "LEASE", "MINTER", "COLLECTIONS", "USED", "PRINCIPAL",
    "PRI", "TICKET", "KIND", "SINCE", "CHANGED", "FILES", "WAITING", "LOOKED", "OLDEST", "COUNTED",
)  # fmt: skip
GAP = 2
CUT = "…"


def cells(text: str) -> int:
    """The number of terminal columns that a text occupies."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def fitted(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> tuple[list[list[str]], bool]:
    """The table, headings first, with its cells cut and padded for a terminal; and whether anything is missing."""
    table = [list(headings), *map(list, rows)]
    shown = list(range(len(headings)))
    while (extra := _extra(headings, shown)) is not None and _total(_least(table, shown)) > width:
        shown.remove(extra)
    widths = _shared(table, shown, width)
    lines = [
        [_padded(row[at], room, in_middle=headings[at] in NAMES) for at, room in zip(shown, widths, strict=True)]
        for row in table
    ]
    is_cut = any(cells(row[at]) > room for row in table for at, room in zip(shown, widths, strict=True))
    return lines, is_cut or len(shown) < len(headings)


def _extra(headings: Sequence[str], shown: Sequence[int]) -> int | None:
    """The column to leave out next, while more than two are left."""
    ranked = sorted((EXTRA.index(headings[at]), at) for at in shown if headings[at] in EXTRA)
    return ranked[0][1] if ranked and len(shown) > 2 else None


def _full(table: Sequence[Sequence[str]], shown: Sequence[int]) -> list[int]:
    return [max(cells(row[at]) for row in table) for at in shown]


def _least(table: Sequence[Sequence[str]], shown: Sequence[int]) -> list[int]:
    floors = (max(TEXT.get(table[0][at], 0), NAMES.get(table[0][at], 0)) for at in shown)
    return [min(full, floor) if floor else full for full, floor in zip(_full(table, shown), floors, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _shared(table: Sequence[Sequence[str]], shown: Sequence[int], width: int) -> list[int]:
    """The width of each column: the widest text gives way first, none more than it can."""
    widths, least = _full(table, shown), _least(table, shown)
    while _total(widths) > width:
        room, at = max((now - floor, at) for at, (now, floor) in enumerate(zip(widths, least, strict=True)))
        if room <= 0:
            break
        widths[at] -= 1
    return widths


def _padded(text: str, room: int, *, in_middle: bool) -> str:
    if cells(text) > room:
        cut: Callable[[str, int], str] = _cut_middle if in_middle else _cut_end
        text = cut(text, room)
    return text + " " * (room - cells(text))


def _cut_end(text: str, room: int) -> str:
    kept = text[: room - 1]
    while cells(kept) > room - 1:
        kept = kept[:-1]
    return kept + CUT


def _cut_middle(text: str, room: int) -> str:
    end = text[-(room - 1) // 2 :] if room > 2 else ""
    while cells(end) > (room - 1) // 2 + 1:
        end = end[1:]
    return _cut_end(text, room - cells(end)) + end
