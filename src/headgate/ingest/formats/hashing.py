"""Digests of a stream: several algorithms at once, in one pass."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from headgate.ingest.formats.digests import check_algorithm, check_digest

#: Number of bytes that are read, hashed and written at once.
BLOCK = 1 << 20

_CHECKSUMS: Mapping[str, tuple[Callable[[bytes, int], int], int]] = {
    "adler32": (zlib.adler32, 1),
    "crc32": (zlib.crc32, 0),
}


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Checksum:
    def __init__(self, algorithm: str) -> None:
        self._step, self._value = _CHECKSUMS[algorithm]

    def update(self, data: bytes, /) -> None:
        self._value = self._step(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


class RunningDigests:
    """Size and digests of the data so far."""

    def __init__(self, algorithms: Iterable[str]) -> None:
        self._digests: dict[str, _Digest] = {name: _new(name) for name in map(check_algorithm, algorithms)}
        #: Bytes so far.
        self.size = 0

    def update(self, data: bytes) -> None:
        for digest in self._digests.values():
            digest.update(data)
        self.size += len(data)

    def values(self) -> dict[str, str]:
        """Each algorithm's value so far, in lower-case hexadecimal."""
        return {name: digest.hexdigest() for name, digest in self._digests.items()}


def mismatch(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Return which digest differs, as text; empty if none does. Case is ignored."""
    for algorithm, value in expected.items():
        name = check_algorithm(algorithm)
        wanted = check_digest(name, value)
        if found[name] != wanted:
            return f"checksum mismatch: expected {name} {wanted}, got {found[name]}"
    return ""


def blocks(source: BinaryIO) -> Iterator[bytes]:
    while block := source.read(BLOCK):
        yield block


def data_digests(data: bytes, algorithms: Iterable[str]) -> dict[str, str]:
    """Digests of data in memory."""
    running = RunningDigests(algorithms)
    running.update(data)
    return running.values()


def file_digests(path: Path, algorithms: Iterable[str]) -> dict[str, str]:
    """Digests of a whole file."""
    running = RunningDigests(algorithms)
    with path.open("rb", buffering=0) as source:
        for block in blocks(source):
            running.update(block)
    return running.values()


def _new(algorithm: str) -> _Digest:
    if algorithm in _CHECKSUMS:
        return _Checksum(algorithm)
    # Old algorithms are only compared with a depositor's values, never trusted.
    return hashlib.new(algorithm, usedforsecurity=False)
