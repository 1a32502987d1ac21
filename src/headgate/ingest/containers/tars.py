"""Untrusted tar files, read forward with bounded memory: ustar, GNU and pax headers, regular files and folders.

Python's own reader loads sparse files and chains of headers into memory, whatever their claimed length.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from headgate.ingest.containers.budget import HEADER_BYTES, Budget, PackedMember
from headgate.ingest.formats.hashing import BLOCK

_UNIT = tarfile.BLOCKSIZE
_REGULAR = frozenset([b"0", b"\0", b"7"])
_FOLDER = b"5"
#: GNU tar's volume label, and its list of a folder's content, which replaces the folder.
_ABOUT = frozenset([b"V", b"D"])
_LONG_NAME, _LONG_LINK = b"L", b"K"
_PAX, _PAX_FOR_ALL = frozenset([b"x", b"X"]), b"g"
#: The relevant records of a pax header; all others do not affect a file's name or content.
_NOTES = frozenset(["path", "size"])
_SPARSE_NOTE = "GNU.sparse."
#: Number of digits of the length and the size in a pax header.
_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    kind: bytes
    size: int


class _Stream:
    """Reads forward. Every byte is charged to the budget when it is produced."""

    def __init__(self, inner: BinaryIO, budget: Budget) -> None:
        self._inner = inner
        self._budget = budget

    def header(self, size: int) -> bytes:
        """The given number of header bytes."""
        found = self._inner.read(size)
        self._budget.overhead(len(found))
        return found

    def content(self, size: int) -> bytes:
        """At most the given number of content bytes, and at most a block."""
        found = self._inner.read(min(size, BLOCK))
        self._budget.content(len(found))
        return found

    def skip(self, size: int) -> None:
        """Skip bytes of content or padding."""
        while size:
            if not (found := self._inner.read(min(size, BLOCK))):
                raise tarfile.ReadError("it is truncated")
            self._budget.overhead(len(found))
            size -= len(found)

    def drain(self) -> None:
        """Read to the end, which contains the checksum of a compressed file."""
        while found := self._inner.read(BLOCK):
            self._budget.overhead(len(found))


def tar_entries(inner: BinaryIO, budget: Budget) -> Iterator[PackedMember]:
    """The members of a tar file that are regular files; each must be read before the next is requested."""
    stream = _Stream(inner, budget)
    for header in _headers(stream, budget):
        if header.kind == _FOLDER or (header.kind == b"\0" and header.name.endswith("/")):
            continue
        if header.kind in _ABOUT:
            stream.skip(_padded(header.size))
            continue
        if header.kind not in _REGULAR:
            raise budget.refusal(f"{header.name!r} is a link, a device or sparse; only regular files are accepted")
        rest = _Rest(stream, header.size)
        yield PackedMember(header.name, header.size, rest.blocks)
        rest.finish()
    stream.drain()


class _Rest:
    """The unread part of a member."""

    def __init__(self, stream: _Stream, size: int) -> None:
        self._stream = stream
        self._left = size
        self._padding = _padded(size) - size

    def blocks(self) -> Iterator[bytes]:
        while self._left:
            block = self._stream.content(self._left)
            if not block:
                raise tarfile.ReadError("it is truncated")
            self._left -= len(block)
            yield block

    def finish(self) -> None:
        self._stream.skip(self._left + self._padding)


# ---------------------------------------------------------------- headers


def _headers(stream: _Stream, budget: Budget) -> Iterator[_Header]:
    """The header of each member, with the values of the headers before it."""
    for_all: dict[str, str] = {}
    notes: dict[str, str] = {}
    while any(block := stream.header(_UNIT)):
        header = _parsed(block)
        if header.kind == _LONG_NAME:
            notes["path"] = _text(_body(stream, header, budget).partition(b"\0")[0])
        elif header.kind == _LONG_LINK:
            _body(stream, header, budget)
        elif header.kind in _PAX:
            notes |= _pax(_body(stream, header, budget), budget)
        elif header.kind == _PAX_FOR_ALL:
            for_all |= _pax(_body(stream, header, budget), budget)
        else:
            budget.one_more()
            yield _completed(header, for_all | notes)
            notes = {}
    if len(block) < _UNIT:
        raise tarfile.ReadError("it is truncated")


def _parsed(block: bytes) -> _Header:
    if len(block) < _UNIT:
        raise tarfile.ReadError("it is truncated")
    said = _number(block[148:156])
    plain = block[:148] + b" " * 8 + block[156:]
    # Some old writers summed the bytes as signed numbers.
    if said != sum(plain) and said != sum(byte - 256 if byte > 127 else byte for byte in plain):
        raise tarfile.ReadError("a header's checksum is wrong")
    name = _text(block[:100].partition(b"\0")[0])
    prefix = _text(block[345:500].partition(b"\0")[0])
    if block[257:263] == b"ustar\0" and prefix:
        name = f"{prefix}/{name}"
    return _Header(name, block[156:157], _number(block[124:136]))


def _completed(header: _Header, notes: Mapping[str, str]) -> _Header:
    size = header.size
    if "size" in notes:
        if not _is_number(notes["size"]):
            raise tarfile.ReadError("the size in a pax header is not a number")
        size = int(notes["size"])
    return _Header(notes.get("path", header.name), header.kind, size)


def _body(stream: _Stream, header: _Header, budget: Budget) -> bytes:
    if header.size > HEADER_BYTES:
        raise budget.refusal(f"the header of a member has more than {HEADER_BYTES:,} bytes")
    body = stream.header(_padded(header.size))
    if len(body) < header.size:
        raise tarfile.ReadError("it is truncated")
    return body[: header.size]


def _pax(body: bytes, budget: Budget) -> dict[str, str]:
    """The relevant records of a pax header: `LENGTH KEY=VALUE` lines, each with its own length."""
    found: dict[str, str] = {}
    place = 0
    while place < len(body) and body[place]:
        blank = body.find(b" ", place, place + _MOST_DIGITS)
        digits = _text(body[place:blank]) if blank > 0 else ""
        if not _is_number(digits):
            raise tarfile.ReadError("a pax header is damaged")
        end = place + int(digits)
        equals = body.find(b"=", blank, end)
        if not blank < equals < end <= len(body) or body[end - 1 : end] != b"\n":
            raise tarfile.ReadError("a pax header is damaged")
        key = _text(body[blank + 1 : equals])
        if key.startswith(_SPARSE_NOTE):
            raise budget.refusal("a member is sparse; only regular files are accepted")
        if key in _NOTES:
            found[key] = _text(body[equals + 1 : end - 1])
        place = end
    return found


def _number(field: bytes) -> int:
    """Octal digits, or a large number in base 256."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _text(field).partition("\0")[0].strip()
    if not set(digits) <= set("01234567"):
        raise tarfile.ReadError("a header is damaged")
    return int(digits or "0", 8)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _padded(size: int) -> int:
    return size + -size % _UNIT
