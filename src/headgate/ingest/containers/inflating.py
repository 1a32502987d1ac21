"""Decompressors for members of zip files. Each call produces at most as many bytes as the caller asks for."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from headgate.core.errors import BadValue

#: Largest dictionary of an LZMA member; it is allocated before the first byte comes out.
LARGEST_DICTIONARY = 128 << 20
_LZMA_HEAD = struct.Struct("<BBHBL")


class Inflater(Protocol):
    """Decompresses bytes in steps."""

    @property
    def eof(self) -> bool:
        """Whether the compressed stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether more input is needed for more output."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return at most `max_length` bytes; unused input is kept for the next call."""


class _Stored:
    """Members that are not compressed."""

    eof = False

    def __init__(self) -> None:
        self._left = b""

    @property
    def needs_input(self) -> bool:
        return not self._left

    def decompress(self, data: bytes, max_length: int) -> bytes:
        given = self._left + data
        self._left = given[max_length:]
        return given[:max_length]


class _Deflated:
    """`zlib`, with the interface of the other two."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(-zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _Lzma:
    """LZMA 1 with the properties in front, as in zip files."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._head = b""
        self._inner: lzma.LZMADecompressor | None = None

    @property
    def eof(self) -> bool:
        return self._inner is not None and self._inner.eof

    @property
    def needs_input(self) -> bool:
        return self._inner is None or self._inner.needs_input

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._inner is None:
            self._head += data
            if len(self._head) < _LZMA_HEAD.size:
                return b""
            data = self._head[_LZMA_HEAD.size :]
            self._inner = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[self._filter()])
        return self._inner.decompress(data, max_length)

    def _filter(self) -> dict[str, int]:
        _, _, length, properties, dictionary = _LZMA_HEAD.unpack_from(self._head)
        if length != 5 or properties >= 9 * 5 * 5:
            raise ValueError("the properties of an LZMA member are not valid")
        # A dictionary larger than the whole content is never filled.
        dictionary = max(4096, min(dictionary, self._size))
        if dictionary > LARGEST_DICTIONARY:
            why = f"is too large for an LZMA dictionary; at most {LARGEST_DICTIONARY:,} bytes are allowed"
            raise BadValue("size", f"{dictionary:,}", why)
        rest, literal_context = divmod(properties, 9)
        position, literal_position = divmod(rest, 5)
        return {
            "id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": literal_context, "lp": literal_position,
            "pb": position,
        }  # fmt: skip


#: The supported methods, by their number in a zip file; each creates an inflater for content of a given size.
METHODS: Mapping[int, Callable[[int], Inflater]] = {
    0: lambda _size: _Stored(),
    8: lambda _size: _Deflated(),
    12: lambda _size: bz2.BZ2Decompressor(),
    14: _Lzma,
}
#: The names of the other methods.
NAMES: Mapping[int, str] = {
    1: "Shrink", 2: "Reduce", 3: "Reduce", 4: "Reduce", 5: "Reduce", 6: "Implode", 9: "Deflate64", 10: "PKWARE Implode",
    18: "IBM TERSE", 19: "IBM LZ77", 20: "Zstandard", 93: "Zstandard", 94: "MP3", 95: "XZ", 96: "JPEG", 97: "WavPack",
    98: "PPMd", 99: "AES encryption",
}  # fmt: skip
KNOWN = "stored, Deflate, bzip2, LZMA"
