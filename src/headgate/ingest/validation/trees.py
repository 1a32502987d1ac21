"""The files of an object in a folder or a bucket, as a validator reads them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Protocol

from headgate.ingest.formats.hashing import blocks
from headgate.ingest.safe_files import open_beneath, open_folder_of


class EntryKind(Enum):
    """Kinds of entries of a folder."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    OTHER = "device, pipe or socket"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry of a folder."""

    name: str
    kind: EntryKind
    #: Two entries with the same value are one file under two names; empty: it has only this name.
    identity: str = ""


class ObjectTree(Protocol):
    """The files below an object root. Paths are relative to it, with `/` between their parts."""

    def entries(self, folder: str) -> list[TreeEntry]:
        """The content of a folder (empty: the object root), by name. OSError when it cannot be read."""

    def read(self, path: str, most: int) -> bytes:
        """At most the given number of bytes of a file. OSError when it cannot be read."""

    def blocks(self, path: str) -> Iterator[bytes]:
        """The content of a file. OSError when it cannot be read."""


class FolderTree:
    """The files of an object in a folder. Links are not followed, not even those created meanwhile."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def entries(self, folder: str) -> list[TreeEntry]:
        descriptor = open_folder_of(self._root, [*_parts(folder), ""], make=False)
        try:
            with os.scandir(descriptor) as found:
                return sorted(map(_entry, found), key=lambda entry: entry.name)
        finally:
            os.close(descriptor)

    def read(self, path: str, most: int) -> bytes:
        with self._opened(path) as source:
            return source.read(most)

    def blocks(self, path: str) -> Iterator[bytes]:
        with self._opened(path) as source:
            yield from blocks(source)

    @contextmanager
    def _opened(self, path: str) -> Iterator[BinaryIO]:
        with os.fdopen(open_beneath(self._root, _parts(path)), "rb") as source:
            yield source


def _parts(path: str) -> list[str]:
    return path.split("/") if path else []


def _entry(found: os.DirEntry[str]) -> TreeEntry:
    if found.is_symlink():
        return TreeEntry(found.name, EntryKind.LINK)
    if found.is_dir(follow_symlinks=False):
        return TreeEntry(found.name, EntryKind.FOLDER)
    if not found.is_file(follow_symlinks=False):
        return TreeEntry(found.name, EntryKind.OTHER)
    about = found.stat(follow_symlinks=False)
    several = about.st_nlink > 1 and stat.S_ISREG(about.st_mode)
    return TreeEntry(found.name, EntryKind.FILE, f"{about.st_dev}:{about.st_ino}" if several else "")
