"""Files below a folder, opened without following links; and files that survive a loss of power."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from headgate import private

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def open_beneath(
    root: Path, parts: Sequence[str], flags: int = os.O_RDONLY, made: Callable[[], None] | None = None
) -> int:
    """Open a file below a folder. Opening for writing creates the folders of the path, and calls `made` for each."""
    if not parts or ".." in parts:
        raise IsADirectoryError(None, "it is not a file below the folder")
    folder = open_folder_of(root, parts, make=bool(flags & os.O_CREAT), made=made)
    try:
        # Does not block if the path is a pipe.
        return private.open_file(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK, parent=folder)
    finally:
        os.close(folder)


def open_folder_of(root: Path, parts: Sequence[str], *, make: bool, made: Callable[[], None] | None = None) -> int:
    """Open the folder of the existing or future file with these path parts."""
    folder = os.open(root, _FOLDER)
    for part in parts[:-1]:
        try:
            inner = _step(folder, part, make=make, made=made)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _step(folder: int, part: str, *, make: bool, made: Callable[[], None] | None) -> int:
    if make:
        with suppress(FileExistsError):
            private.make_folder_in(folder, part)
            if made:
                made()
    return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def keeps_case(folder: Path, known: str) -> bool:
    """Whether a folder distinguishes names that differ only in case; `known` is the name of a file in it."""
    try:
        return not (folder / known).samefile(folder / known.swapcase())
    except FileNotFoundError:
        return True


def probe_case(folder: Path) -> bool:
    """Whether a writable folder distinguishes names that differ only in case."""
    probe = folder / f".case-{uuid.uuid4().hex}"
    write_synced(probe, b"")
    try:
        return keeps_case(folder, probe.name)
    finally:
        probe.unlink()


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, content: bytes) -> None:
    """A new file with durable content; its name is durable once its folder is synced."""
    descriptor = private.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def replace_synced(path: Path, content: bytes, scratch: Path) -> None:
    """Replace a file's content in one step; `scratch` is a folder of ours on the same file system."""
    fresh = scratch / path.name
    write_synced(fresh, content)
    fresh.replace(path)


def sync_tree(folder: Path) -> None:
    """Make the names in a folder and all folders below it durable."""
    for inner, _, _ in os.walk(folder, topdown=False):
        sync_folder(Path(inner))
