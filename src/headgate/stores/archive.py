"""A store in one file: JSON, a line for each row, compressed. The last line says what the others come to.

{"headgate": "archive", "format": 1, "schema": "0009", "tag": …, "counts": {…}, …}
{"table": "hg_resource"}
[first value, second value, …]                 a row
{"end": {"hg_resource": ["digest", rows], …}}
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from headgate.core.errors import BadPayload, BadValue, StoreUnavailable
from headgate.stores.moving_port import PORTION, Contents, Digest, Row

KIND, FORMAT = "archive", 1
#: Where it is written before it has its name: what an interrupted backup leaves.
UNFINISHED = ".unfinished"
#: After the last portion.
END: tuple[str, list[Row]] = ("", [])


class ArchiveTarget:
    """A file that is being written. It has its name once it is whole, and safe on the disk."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._unfinished = path.with_name(path.name + UNFINISHED)
        self._out: IO[str] | None = None
        self._table = ""

    def begin(self, contents: Contents) -> None:
        if self._path.exists():
            raise BadValue("file", self.name, "exists already; nothing is written over")
        # What it holds opens doors: sealed secrets, digests of API tokens. So nothing is written into a file, or
        # behind a link, that somebody else has put there.
        self._unfinished.unlink(missing_ok=True)
        os.close(os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        self._out = gzip.open(self._unfinished, "wt", compresslevel=6, encoding="utf-8")  # noqa: SIM115 - _close
        header = {key: value for key, value in asdict(contents).items() if key != "old"}
        self._write({"headgate": KIND, "format": FORMAT, **header})
        self._table = ""

    def add(self, table: str, rows: Sequence[Row]) -> None:
        if table != self._table:
            self._write({"table": table})
            self._table = table
        for row in rows:
            self._write(list(row))

    def digests(self) -> Iterator[tuple[str, Digest]]:
        self._close()
        with _open(self._unfinished) as lines:
            yield from _digests(lines, self.name).items()

    def finish(self, digests: Mapping[str, Digest]) -> None:
        end = {table: [digest.text, digest.rows] for table, digest in digests.items()}
        # A second compressed part after the first: readers see one text.
        with gzip.open(self._unfinished, "at", encoding="utf-8") as out:
            out.write(json.dumps({"end": end}) + "\n")
        _synchronise(self._unfinished)
        self._unfinished.rename(self._path)
        _synchronise(self._path.parent)

    def discard(self) -> None:
        """What was written goes, if it was not finished."""
        self._close()
        self._unfinished.unlink(missing_ok=True)

    def _write(self, line: object) -> None:
        assert self._out is not None  # noqa: S101 - begin comes first
        self._out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    def _close(self) -> None:
        if self._out is not None:
            out, self._out = self._out, None
            with suppress(ValueError):
                out.close()


class ArchiveSource:
    """A file that was written so. It is read to its end, and checked, before anybody uses a row of it."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        with _open(path) as lines:
            header = next(lines, None)
            self.contents = _contents(header, self.name)
            _check_end(lines, self.name)
        self._portions: Iterator[tuple[str, list[Row]]] | None = None
        self._next = END

    def rows(self, table: str) -> Iterator[Sequence[Row]]:
        if self._portions is None:
            self._portions = _portions(self._path)
            self._next = next(self._portions, END)
        while self._next[0] == table:
            yield self._next[1]
            self._next = next(self._portions, END)

    def check_unchanged(self, digests: Mapping[str, Digest]) -> None:
        """Nobody writes into a file that is whole."""


@contextmanager
def archive_errors(path: Path) -> Iterator[None]:
    """What the system says of a file, as our own errors."""
    try:
        yield
    except FileNotFoundError:
        raise BadValue("file", str(path), "does not exist, or its folder does not") from None
    except OSError as error:
        raise StoreUnavailable(str(path), error.strerror or str(error)) from error


@contextmanager
def _open(path: Path) -> Iterator[Iterator[Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as text:
        yield _lines(text, path)


def _lines(text: IO[str], path: Path) -> Iterator[Any]:
    try:
        for line in text:
            yield json.loads(line)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise BadPayload(str(path), f"it is no whole archive of Headgate: {error}") from error


def _contents(header: Any, name: str) -> Contents:
    if not isinstance(header, dict) or header.pop("headgate", "") != KIND:
        raise BadPayload(name, "it is no archive of Headgate")
    if header.pop("format", 0) != FORMAT:
        raise BadPayload(name, "it was written by a newer Headgate; upgrade this one")
    try:
        return replace(Contents(**header), old=True)
    except TypeError as error:
        raise BadPayload(name, f"its first line was not written by Headgate: {error}") from None


def _digests(lines: Iterator[Any], name: str, end: dict[str, Any] | None = None) -> dict[str, Digest]:
    """What the rows of each table come to; `end` is given the last line."""
    found: dict[str, Digest] = {}
    digest = Digest()
    for line in lines:
        if isinstance(line, list):
            digest.add([line])
        elif "table" in line:
            digest = found.setdefault(line["table"], Digest())
        elif "end" in line and end is not None:
            end.update(line["end"])
        elif line.get("headgate") != KIND:
            raise BadPayload(name, "it has a line that Headgate did not write")
    return found


def _check_end(lines: Iterator[Any], name: str) -> None:
    end: dict[str, Any] = {}
    found = _digests(lines, name, end)
    if not end:
        raise BadPayload(name, "it has no end: it was not written to its last line")
    for table, (text, rows) in end.items():
        digest = found.pop(table, Digest())
        if (digest.text, digest.rows) != (text, rows):
            raise BadPayload(name, f"it was changed or damaged: the rows of {table} are not those that were written")
    if found:
        raise BadPayload(name, f"it was changed: its end does not know of {', '.join(found)}")


def _portions(path: Path) -> Iterator[tuple[str, list[Row]]]:
    """Every row, in portions that are each of one table."""
    table = ""
    portion: list[Row] = []
    with _open(path) as lines:
        for line in lines:
            if isinstance(line, list):
                portion.append(line)
            if portion and (isinstance(line, dict) or len(portion) == PORTION):
                yield table, portion
                portion = []
            if isinstance(line, dict):
                table = line.get("table", "")


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
