"""Keys in files: the ring of master keys, and files that hold one key. Only their owner may be able to read them."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from headgate.core.errors import BadValue

RING_SETTING, KEY_SETTING = "master_key_file", "job_key_file"
#: The prefix of a job's random key, so that it is recognised in the wrong place.
KEY_PREFIX = "hgk_"


class Ring:
    """The master keys by their numbers. The newest one seals, every one can open."""

    def __init__(self, keys: Mapping[int, bytes]) -> None:
        self._keys = dict(keys)

    @property
    def newest(self) -> int:
        """The number of the key that seals."""
        return max(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, number: int) -> bool:
        return number in self._keys

    def kek(self, number: int, job: str) -> bytes:
        """The wrapping key of a master key for one holder, so that one job's values are useless for another."""
        from headgate.service.secrets.crypto import derive

        return derive(self._keys[number], f"master-kek/v1/{job}")

    def check(self, number: int) -> str:
        """The proof of a master key, which reveals nothing about its secrets: a store recognises its ring by it."""
        from headgate.service.secrets.crypto import derive, to_text

        return to_text(derive(self._keys[number], "master-check/v1"))

    @property
    def numbers(self) -> list[int]:
        """The numbers of its keys."""
        return sorted(self._keys)

    def lines(self) -> str:
        """The content of the ring's file."""
        from headgate.service.secrets.crypto import to_text

        return "".join(f"v{number}:{to_text(key)}\n" for number, key in sorted(self._keys.items()))

    def with_new(self, behind: int = 0) -> Ring:
        """Return the ring with one more key, whose number is greater than `behind`."""
        from headgate.service.secrets.crypto import random_key

        return Ring({**self._keys, max(behind, *self._keys, 0) + 1: random_key()})


def read_ring(path: str) -> Ring:
    """A ring's file has lines such as v1:…, one for each key."""
    from headgate.service.secrets.crypto import CANNOT_OPEN, KEY_BYTES, from_text

    keys: dict[int, bytes] = {}
    for place, line in enumerate(read_private(RING_SETTING, path).split(), 1):
        name, _, text = line.partition(":")
        try:
            key = from_text(text)
        except CANNOT_OPEN:
            key = b""
        if name[:1] != "v" or not name[1:].isdecimal() or int(name[1:]) in (0, *keys) or len(key) != KEY_BYTES:
            raise BadValue(
                RING_SETTING, path, (f"is not a ring of master keys: key {place} is not v<number>:<32 bytes>")
            )
        keys[int(name[1:])] = key
    if not keys:
        raise BadValue(RING_SETTING, path, "contains no key; create one with: headgate keys rotate")
    return Ring(keys)


def add_to_ring(path: str, check: Callable[[Ring | None], int]) -> Ring:
    """Add a key to the ring's file, which is created if it is missing. Readers see either the old or the new ring.

    `check` is called with the current ring, if any; it raises, or returns a number that the new key's number must
    exceed.
    """
    file = Path(path)
    try:
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            # Two processes adding a key at once would each write a ring without the other's.
            fcntl.flock(folder, fcntl.LOCK_EX)
            present = read_ring(path) if file.exists() else None
            behind = check(present)
            ring = (present or Ring({})).with_new(behind)
            _write_private(file, ring.lines())
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise BadValue(RING_SETTING, path, f"cannot be written: {error.strerror}") from error
    return ring


def _write_private(file: Path, text: str) -> None:
    """Write all of it or nothing, readable only by its owner."""
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=".headgate-", dir=file.parent)
    with os.fdopen(descriptor, "w", encoding="ascii") as content:
        content.write(text)
        content.flush()
        os.fsync(content.fileno())
    Path(name).replace(file)


def read_private(setting: str, path: str) -> str:
    """The content of a file that only its owner may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                raise BadValue(setting, path, f"can be read by other users; first run: chmod 600 {path}")
            return file.read()
    except OSError as error:
        raise BadValue(setting, path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise BadValue(setting, path, "is not text") from None
