"""Validation of an object in a storage; and the files of an object in a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import BinaryIO

from headgate.ingest.formats.hashing import blocks
from headgate.ingest.storage.port import Problem
from headgate.ingest.validation.inventories import INVENTORY
from headgate.ingest.validation.objects import Validation
from headgate.ingest.validation.trees import EntryKind, TreeEntry


def problems_of(object_id: str, found: Validation, *, warnings: bool) -> list[Problem]:
    """The findings about an object, which should have that id."""
    rows = found.findings if warnings else found.errors
    problems = [Problem(object_id, each.path, each.why, each.code) for each in rows]
    if found.inventory is not None and found.inventory.id not in ("", object_id):
        why = f"another object is stored in its place: {found.inventory.id}"
        problems.append(Problem(object_id, INVENTORY, why))
    return problems


class KeyTree:
    """The files of an object that are stored under keys. There are no folders, no links, and no empty folders."""

    def __init__(self, sizes: Mapping[str, int], opened: Callable[[str], AbstractContextManager[BinaryIO]]) -> None:
        """`sizes`: of every key below the object root. `opened`: opens a key; FileNotFoundError when it no longer
        exists.
        """
        self._opened = opened
        self._folders: dict[str, dict[str, EntryKind]] = {"": {}}
        for key, size in sizes.items():
            # Some tools store an empty object to represent a folder.
            if size or not key.endswith("/"):
                self._add(key)

    def entries(self, folder: str) -> list[TreeEntry]:
        return [TreeEntry(name, kind) for name, kind in sorted(self._folders.get(folder, {}).items())]

    def read(self, path: str, most: int) -> bytes:
        with self._opened(path) as source:
            return source.read(most)

    def blocks(self, path: str) -> Iterator[bytes]:
        with self._opened(path) as source:
            yield from blocks(source)

    def _add(self, key: str) -> None:
        kind, path = EntryKind.FILE, key
        while path:
            folder, _, name = path.rpartition("/")
            known = self._folders.setdefault(folder, {})
            if name in known and kind is EntryKind.FOLDER:
                return
            known[name] = kind
            kind, path = EntryKind.FOLDER, folder
