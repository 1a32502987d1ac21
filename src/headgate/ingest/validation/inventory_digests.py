"""The digests in inventories of OCFL: the form of a value, and its computation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from headgate.ingest.formats.digests import HEX_DIGITS, OCFL_DIGITS
from headgate.ingest.formats.hashing import RunningDigests

#: Algorithms by which content is addressed.
CONTENT = ("sha512", "sha256")
#: The code for an invalid value of an algorithm.
FORM_CODES: Mapping[str, str] = {"sha1": "E029", "sha256": "E030", "sha512": "E031", "blake2b-512": "E032"}
_BLAKE2B = re.compile("blake2b-([0-9]+)")


def is_value(algorithm: str, value: str) -> bool:
    """Whether a text can be a digest of that algorithm."""
    digits = OCFL_DIGITS[algorithm]
    pattern = f"[0-9a-fA-F]{{{digits}}}" if digits else "0|[1-9][0-9]{0,18}"
    return re.fullmatch(pattern, value) is not None


def form_of(algorithm: str) -> str:
    """The form of a value of that algorithm, for messages."""
    digits = OCFL_DIGITS[algorithm]
    return f"{digits} hexadecimal digits" if digits else "a number of bytes"


class _Running(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Size:
    """The entry of extension 0009 that is not a digest."""

    def __init__(self) -> None:
        self._size = 0

    def update(self, data: bytes, /) -> None:
        self._size += len(data)

    def hexdigest(self) -> str:
        return str(self._size)


class _DepositorDigest:
    """One algorithm of depositors."""

    def __init__(self, algorithm: str) -> None:
        self._algorithm, self._running = algorithm, RunningDigests([algorithm])

    def update(self, data: bytes, /) -> None:
        self._running.update(data)

    def hexdigest(self) -> str:
        return self._running.values()[self._algorithm]


class ContentDigests:
    """Digests of the data so far, for the algorithms of OCFL and of depositors."""

    def __init__(self, algorithms: Iterable[str]) -> None:
        self._running = {name: _new(name) for name in algorithms}

    def update(self, data: bytes) -> None:
        for each in self._running.values():
            each.update(data)

    def value(self, algorithm: str) -> str:
        """In small letters."""
        return self._running[algorithm].hexdigest()


def is_known(algorithm: str) -> bool:
    """Whether values of that algorithm can be computed here."""
    return algorithm in OCFL_DIGITS or algorithm in HEX_DIGITS


def _new(algorithm: str) -> _Running:
    if algorithm == "size":
        return _Size()
    if algorithm == "sha512/256":
        return hashlib.new("sha512_256")
    if bits := _BLAKE2B.fullmatch(algorithm):
        return hashlib.blake2b(digest_size=int(bits[1]) // 8)
    return _DepositorDigest(algorithm)
