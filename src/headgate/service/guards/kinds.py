"""Storage guards: real locks of the storage system under ours, to exclude programs that do not use Headgate.

A guard raises GuardBusy when it is busy; any other error means that it is broken. Guards of other packages are found by
the entry point group `headgate.guards`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.core.errors import BadValue, StorageGuardFailed
from headgate.core.locks.model import Mode

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Entry points of this group create guards; each is named after the URI scheme of its guard.
GROUP = "headgate.guards"


class GuardBusy(Exception):
    """A program that does not use Headgate has locked the resource. Its text is shown to the caller."""


class StorageLock(Protocol):
    """A lock of the storage system, held until it is closed."""

    def change(self, mode: Mode) -> None:
        """Change the mode. Raises GuardBusy, and keeps the old mode, if that is not possible now.

        :param mode: The new mode.
        """

    def close(self) -> None:
        """Release the lock. An error is reported to the caller that released Headgate's lock."""


class StorageGuard(Protocol):
    """Locks resources of one URI scheme in the storage system itself. Called from several threads; must not block."""

    def lock(self, resource: str, mode: Mode) -> StorageLock:
        """Lock a resource at once, or raise GuardBusy. Any other error means that the guard is broken.

        :param resource: URI of the resource.
        :param mode: Shared or exclusive.
        """


class FileHold:
    """An open, locked file."""

    def __init__(self, path: str, descriptor: int, mode: Mode) -> None:
        self._path = path
        self._descriptor = descriptor
        self._mode = mode

    def change(self, mode: Mode) -> None:
        try:
            lock_descriptor(self._descriptor, mode)
        except OSError as error:
            # The system may have released the old lock while it tried to acquire the new one: acquire it again.
            lock_descriptor(self._descriptor, self._mode)
            raise busy_or_broken(self._path, error) from error
        self._mode = mode

    def close(self) -> None:
        os.close(self._descriptor)


class FileGuard:
    """Locks `file:` resources with the operating system's file locks.

    It acquires both kinds, which are independent on Linux: flock (like the command flock) and record locks on the whole
    file (like Java and most C programs), the latter bound to the open file.
    """

    def lock(self, resource: str, mode: Mode) -> StorageLock:
        path = file_path(resource)
        descriptor = os.open(path, _open_flags(path, mode) | os.O_CLOEXEC, 0o644)
        try:
            lock_descriptor(descriptor, mode)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise busy_or_broken(path, error) from error
            raise
        return FileHold(path, descriptor, mode)


def _open_flags(path: str, mode: Mode) -> int:
    """A writer may be about to create the file; a reader also opens it for writing if possible, to allow upgrades."""
    if Path(path).is_dir():
        return os.O_RDONLY
    if mode is Mode.SHARED:
        return os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY
    return os.O_RDWR | os.O_CREAT


def lock_descriptor(descriptor: int, mode: Mode) -> None:
    """Acquire both kinds of lock on an open file at once, or raise OSError."""
    exclusive = mode is Mode.EXCLUSIVE
    fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    if hasattr(fcntl, "F_OFD_SETLK") and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0))


def busy_or_broken(path: str, error: OSError) -> Exception:
    """Return the error for a failed attempt."""
    if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
        return GuardBusy(f"{path} is locked by a program outside Headgate")
    return error


def file_path(resource: str) -> str:
    """Return the path that a `file:` resource names on this machine."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(resource)
    if parts.netloc not in ("", "localhost"):
        raise StorageGuardFailed(resource, f"it is on another machine ({parts.netloc})")
    return unquote(parts.path)


#: The guards that ship with Headgate, by URI scheme.
BUILT_IN: Mapping[str, Callable[[], StorageGuard]] = {"file": FileGuard}


def installed_guards() -> dict[str, EntryPoint]:
    """Return the guards of other packages, by URI scheme."""
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=GROUP) if each.name not in BUILT_IN}


def check_guards(text: str) -> list[str]:
    """Return the guards that a setting names. Raises BadValue, with those that are installed, for an unknown one."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    others = [name for name in names if name not in BUILT_IN]
    found = installed_guards() if others else {}
    for name in others:
        if name not in found:
            raise BadValue("guard", name, f"is not installed; available: {', '.join([*BUILT_IN, *sorted(found)])}")
    return names


def load_guards(names: Sequence[str]) -> dict[str, StorageGuard]:
    """Return a guard for each scheme. Raises BadValue if one cannot be loaded."""
    found = installed_guards() if any(name not in BUILT_IN for name in names) else {}
    return {name: BUILT_IN[name]() if name in BUILT_IN else _load(found[name]) for name in names}


def _load(entry: EntryPoint) -> StorageGuard:
    try:
        guard: StorageGuard = entry.load()()
    except Exception as error:
        raise BadValue("guard", entry.name, f"cannot be loaded from {entry.value}: {error}") from error
    return guard
