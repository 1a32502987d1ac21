"""Checkm 0.7 as read and written by Merritt: lines, headers, cells. `manifest` interprets the cells."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headgate.core.errors import BadManifest, BadValue
from headgate.ingest.formats.lines import lines_of

#: Number of errors after which the rest is not read.
MOST_PROBLEMS = 1000
#: Maximum line length in bytes; legitimate manifests have far shorter lines.
LONGEST_LINE = 100_000
#: Lines that are not entries: headers, comments, empty ones.
MOST_OTHER_LINES = 100_000

_BLANKS = " \t"
_CONTROL = re.compile("[\0-\x08\x0b-\x1f]")
_PROFILE = "#%profile "
_END = "#%eof"
_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


class Problems:
    """The errors found so far. They are reported together."""

    def __init__(self) -> None:
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, what: str) -> None:
        """Record an error; line 0 means the manifest as a whole."""
        self._found.append((line, what))
        if len(self._found) == MOST_PROBLEMS:
            self._found.append((0, f"there are {MOST_PROBLEMS:,} errors or more; the rest was not read"))
            raise self.error()

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> BadManifest:
        """All of them, in line order; those about the whole manifest come last."""
        return BadManifest(sorted(self._found, key=lambda problem: problem[0] or 2**62))

    def check(self) -> None:
        """BadManifest if there are any."""
        if self._found:
            raise self.error()


class CheckmRow(NamedTuple):
    """The cells of a line, not decoded yet; empty ones at the end are dropped."""

    line: int
    cells: tuple[str, ...]


def write(profile: str, prefixes: Sequence[tuple[str, str]], columns: Sequence[str], rows: Iterable[str]) -> bytes:
    """A manifest of lines from `joined`. It ends at the end marker, without a line end."""
    heads = ["#%checkm_0.7", f"#%profile | {profile}"]
    heads += [f"#%prefix | {short} | {long}" for short, long in prefixes]
    heads.append(" | ".join(["#%columns", *columns]))
    return "\n".join([*heads, *rows, _END]).encode()


def joined(cells: Sequence[str]) -> str:
    """Encoded cells as a line."""
    return " | ".join(cells).rstrip(" |")


def decoded(cell: str, *, exact: bool) -> str:
    """A cell's text. Only blanks and bars are encoded; in an exact manifest also a % that would be read as one."""
    pattern = "%(20|7c|25)" if exact else "%(20|7c)"
    return re.sub(pattern, lambda found: chr(int(found[1], 16)), cell)


def encoded(text: str, *, exact: bool) -> str:
    """A text as a cell. BadValue for a text that readers would not get back."""
    if not text.isprintable() and any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise BadValue("manifest cell", text, "has a control character")
    if not exact and decoded(text, exact=False) != text:
        raise BadValue("manifest cell", text, "contains %20 or %7c, which every reader takes for a blank or a bar")
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" ")) if inner else len(text)
    pattern = r"\||%(?=20|7c|25)" if exact else r"\|"
    kept = re.sub(pattern, lambda found: f"%{ord(found[0]):02x}", inner)
    return "%20" * before + kept + "%20" * (len(text) - before - len(inner))


def _check_whole(data: bytes, problems: Problems, limit: int) -> None:
    if not data.removeprefix(_BOM):
        problems.add(0, "it is empty")
    if len(data) > limit:
        problems.add(0, f"it has {len(data):,} bytes; at most {limit:,} are allowed")
    if data[:2] in _OTHER_BOMS:
        problems.add(0, f"it is {_OTHER_BOMS[data[:2]]}; save it as UTF-8")
    problems.check()


class Sheet:
    """A manifest before its cells are interpreted. It is read line by line, without keeping the lines."""

    def __init__(self, data: bytes, problems: Problems, limit: int, most: int) -> None:
        """BadManifest for unreadable input. `limit` is the maximum size in bytes, `most` the maximum number of rows."""
        _check_whole(data, problems, limit)
        self._most = most
        self._data = data.removeprefix(_BOM)
        self._problems = problems
        #: The value of `#%profile`, once the first row was read; None: there is no header at all.
        self.profile: str | None = None
        #: Number of rows read so far.
        self.count = 0
        self._headers = False
        self._ended = False
        self._reported_more = False

    def rows(self) -> Iterator[CheckmRow]:
        """Each row, in order. Errors are added to the problems; those about the whole manifest are found at the end."""
        for number, line in enumerate(lines_of(self._data), 1):
            row = self._take(number, line)
            if row is not None:
                self.count += 1
                self._check_more(self.count, self._most, "entries")
                yield row
            self._check_more(number, self._most + MOST_OTHER_LINES, "lines")
        self._finish()

    def _check_more(self, count: int, most: int, what: str) -> None:
        """The limits always apply: every line takes time, and every row takes memory."""
        if count > most:
            self._problems.add(0, f"it has more than the {most:,} {what} that are allowed; the rest was not read")
            raise self._problems.error()

    def _take(self, number: int, data: bytes) -> CheckmRow | None:
        if self._ended:
            self._after_the_end(number)
            return None
        line = self._text(number, data)
        if line.lower().startswith(_END):
            self._ended = True
        elif line.startswith("#%"):
            self._header(number, line)
        elif line.strip() and not line.startswith("#"):
            return CheckmRow(number, _cells(line))
        return None

    def _finish(self) -> None:
        if not self._ended:
            self._problems.add(0, f"the end marker ({_END}) is missing; the manifest may be incomplete")
        if self._headers and self.profile is None:
            self._problems.add(0, "it has header lines, but no '#%profile | URL' (in lower case, with a blank)")
        if not self.count and not self._problems:
            self._problems.add(0, "it has no entries")

    def _after_the_end(self, number: int) -> None:
        if not self._reported_more:
            self._problems.add(number, f"the end marker ({_END}) must be the last line, but more lines follow")
        self._reported_more = True

    def _header(self, number: int, line: str) -> None:
        if self.count:
            self._problems.add(number, "a header line (#%) follows the first entry")
        self._headers = True
        if line.startswith(_PROFILE) and self.profile is None:
            self.profile = "".join(line.removeprefix(_PROFILE).split()).strip("|")

    def _text(self, number: int, data: bytes) -> str:
        if len(data) > LONGEST_LINE:
            self._problems.add(number, f"it has {len(data):,} bytes; at most {LONGEST_LINE:,} are allowed")
            return ""
        try:
            line = data.decode()
        except UnicodeDecodeError as error:
            self._problems.add(number, f"byte {error.start + 1} (0x{data[error.start]:02x}) is not UTF-8")
            return ""
        # Everyone treats a tab as a blank; other white space is not allowed in a manifest.
        wrong = _CONTROL.search(line)
        if wrong:
            self._problems.add(number, f"it has the control character U+{ord(wrong[0]):04X}")
            return ""
        return line


def _cells(line: str) -> tuple[str, ...]:
    """Blanks around a bar are not part of a cell; those before the first cell and after the last are."""
    if "|" not in line:
        return (line,)
    # No regular expression: with a long run of blanks its time would grow with the square of their number.
    first, *middle, last = line.split("|")
    cells = [first.rstrip(_BLANKS), *(cell.strip(_BLANKS) for cell in middle), last.lstrip(_BLANKS)]
    while cells and not cells[-1]:
        cells.pop()
    return tuple(cells)
