"""A store in one file: JSON, a line for each row, compressed. The last line holds the digest of all others.

{"headgate": "archive", "format": 2, "schema": "0001", "tag": …, "counts": {…}, …}
{"table": "hg_resource"}
[first value, second value, …]                 a row
{"end": {"lines": 3, "sha256": "…"}}
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from headgate import private
from headgate.core.errors import BadPayload, BadValue, StoreUnavailable
from headgate.core.jumps import Jump, check_room
from headgate.core.values.documents import read_foreign
from headgate.stores.archive.header import read_header
from headgate.stores.archive.restores import RestoreLog
from headgate.stores.ports.moving import PORTION, Contents, Digest, Row

KIND, FORMAT = "archive", 2
#: Suffix of the file while it is being written; an interrupted backup leaves such a file behind.
UNFINISHED = ".unfinished"
#: After the last portion.
END: tuple[str, list[Row]] = ("", [])
#: No row is longer; a longer line was not written by Headgate.
LONGEST_LINE = 256 * 1024 * 1024
#: The errors that reading a damaged file can raise.
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError)
#: For each table, a function that returns what is wrong with a row; empty: nothing.
RowChecks = Mapping[str, Callable[[Row], str]]


class ArchiveTarget:
    """A file that is being written. It gets its name once it is complete and safely on disk."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._unfinished = path.with_name(path.name + UNFINISHED)
        self._out: gzip.GzipFile | None = None
        self._table = ""
        self._sum = Checksum()

    def begin(self, contents: Contents) -> None:
        if self._path.exists():
            raise BadValue("file", self.name, "already exists and is not overwritten")
        # Its content is sensitive: sealed secrets and digests of API tokens. Therefore nothing is written into an
        # existing file, or through a link that somebody else has created.
        self._unfinished.unlink(missing_ok=True)
        private.make_file(self._unfinished, None)
        self._out = gzip.open(self._unfinished, "wb", compresslevel=6)  # noqa: SIM115 - _close
        self._table, self._sum = "", Checksum()
        self._write({"headgate": KIND, "format": FORMAT, **asdict(contents)})

    def add(self, table: str, rows: Sequence[Row]) -> None:
        if table != self._table:
            self._write({"table": table})
            self._table = table
        for row in rows:
            self._write(list(row))

    def digests(self) -> Iterator[tuple[str, Digest]]:
        self._close()
        found: dict[str, Digest] = {}
        with _open(self._unfinished) as lines:
            for table, rows in _portions(map(_parsed, lines)):
                found.setdefault(table, Digest()).add(rows)
        yield from found.items()

    def finish(self, digests: Mapping[str, Digest], jump: Callable[[], Jump]) -> None:
        """Write the last line and give the file its name. The jump is decided by the store that it is restored into,
        not by the file.
        """
        del digests, jump
        # A second compressed stream after the first: readers see one text.
        with gzip.open(self._unfinished, "ab") as out:
            out.write(self._sum.last_line())
        _synchronise(self._unfinished)
        self._unfinished.rename(self._path)
        _synchronise(self._path.parent)

    def discard(self) -> None:
        """Remove the file if it was not finished."""
        self._close()
        self._unfinished.unlink(missing_ok=True)

    def _write(self, document: object) -> None:
        assert self._out is not None  # noqa: S101 - begin comes first
        line = _line(document)
        self._sum.add(line)
        self._out.write(line)

    def _close(self) -> None:
        if self._out is not None:
            out, self._out = self._out, None
            with suppress(ValueError):
                out.close()


class ArchiveSource:
    """A finished archive. It is read to its end and checked before any of its rows are used.

    `accept` raises an error about the contents, or returns the checks of their rows.
    """

    def __init__(self, path: Path, accept: Callable[[Contents], RowChecks]) -> None:
        self.name = str(path)
        self._path = path
        self._log = RestoreLog(path)
        _check_whole(path)
        with _open(path) as lines:
            parsed = map(_parsed, lines)
            self.contents = _contents(next(parsed), self.name)
            _check_rows(parsed, self.contents, accept(self.contents), self.name)
        check_room(self.name, self.contents.token, self.contents.numbers, self._log.known(self.contents.jumped))
        self._portions: Iterator[tuple[str, list[Row]]] | None = None
        self._next = END

    def rows(self, table: str) -> Iterator[Sequence[Row]]:
        if self._portions is None:
            self._portions = _read_portions(self._path)
            self._next = next(self._portions, END)
        while self._next[0] == table:
            yield self._next[1]
            self._next = next(self._portions, END)

    def check_unchanged(self, digests: Mapping[str, Digest]) -> None:
        """A complete file is never written to."""

    def jump(self) -> Jump:
        """Return a jump beyond those of every known restore of this file, and record it beside the file."""
        return self._log.next(self.contents.jumped)

    @property
    def notes(self) -> list[str]:
        """Warnings about this restore, for display."""
        return self._log.notes


class Checksum:
    """The digest of all lines of a file, in order."""

    def __init__(self) -> None:
        self._sum = sha256()
        self._lines = 0

    def add(self, line: bytes) -> None:
        """This line too."""
        self._sum.update(line)
        self._lines += 1

    def last_line(self) -> bytes:
        """The last line of the file."""
        return _line({"end": {"lines": self._lines, "sha256": self._sum.hexdigest()}})


@contextmanager
def archive_errors(path: Path) -> Iterator[None]:
    """Converts system errors about a file to our own errors."""
    try:
        yield
    except FileNotFoundError:
        raise BadValue("file", str(path), "does not exist, or its folder does not") from None
    except OSError as error:
        raise StoreUnavailable(str(path), error.strerror or str(error)) from error


def _line(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@contextmanager
def _open(path: Path) -> Iterator[Iterator[bytes]]:
    with gzip.open(path, "rb") as file:
        try:
            yield iter(lambda: file.readline(LONGEST_LINE), b"")
        except DAMAGED as error:
            raise BadPayload(str(path), f"it is not a complete archive of Headgate: {error}") from error


def _parsed(line: bytes) -> Any:
    return read_foreign(line)


def _check_whole(path: Path) -> None:
    """Refuse a file whose lines differ from those written, or are in another order."""
    name, total = str(path), Checksum()
    with _open(path) as lines:
        last = next(lines, b"")
        _check_format(_parsed(last) if last else None, name)
        for line in lines:
            total.add(last)
            last = line
    if last == total.last_line():
        return
    if not last.startswith(b'{"end":'):
        raise BadPayload(name, "it is incomplete, or something was appended to it")
    raise BadPayload(name, "it was changed or damaged: its checksum does not match")


def _check_format(header: Any, name: str) -> None:
    if not isinstance(header, dict) or header.get("headgate") != KIND:
        raise BadPayload(name, "it is not an archive of Headgate")
    found = header.get("format")
    if found == FORMAT:
        return
    if isinstance(found, int) and found < FORMAT:
        raise BadPayload(
            name,
            (
                f"it has format {found} of an older Headgate; this version reads {FORMAT}. Restore it with the "
                "version that wrote it, then run: headgate migrate"
            ),
        )
    raise BadPayload(name, f"it has format {found} of a newer Headgate; this version reads {FORMAT}. Upgrade Headgate")


def _contents(header: Any, name: str) -> Contents:
    found = {key: value for key, value in header.items() if key not in ("headgate", "format")}
    return read_header(found, name)


def _check_rows(lines: Iterator[Any], contents: Contents, checks: RowChecks, name: str) -> None:
    """Refuse rows that the header does not announce, or that no store can hold."""
    counts = dict.fromkeys(contents.tables, 0)
    left = iter(contents.tables)
    table = ""
    for line in lines:
        key = next(iter(line), "") if isinstance(line, dict) and len(line) == 1 else ""
        if isinstance(line, list) and table:
            counts[table] += 1
            if why := checks[table](line):
                _refuse(name, f"row {counts[table]} of {table}: {why}")
        elif key == "table":
            table = line["table"]
            # The same iterator continues: each table occurs once, in the order of the header.
            if table not in left:
                _refuse(name, f"table {str(table)[:80]!r} is not in the order that the first line lists")
        elif key != "end":
            _refuse(name, "it contains a line that Headgate did not write")
    wrong = [each for each, count in counts.items() if count != contents.counts[each]]
    if wrong:
        _refuse(name, f"the number of rows of {wrong[0]} differs from that in the first line")


def _refuse(name: str, why: str) -> NoReturn:
    raise BadPayload(name, why)


def _portions(lines: Iterator[Any]) -> Iterator[tuple[str, list[Row]]]:
    """Every row, in portions that are each of one table."""
    table = ""
    portion: list[Row] = []
    for line in lines:
        if isinstance(line, list):
            portion.append(line)
        if portion and (isinstance(line, dict) or len(portion) == PORTION):
            yield table, portion
            portion = []
        if isinstance(line, dict):
            table = line.get("table", "")
    if portion:
        yield table, portion


def _read_portions(path: Path) -> Iterator[tuple[str, list[Row]]]:
    with _open(path) as lines:
        yield from _portions(map(_parsed, lines))


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
