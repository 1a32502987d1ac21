"""Storage guards: a real lock of the storage system under ours, so that programs which do not ask us are kept out.

A guard says busy with GuardBusy; anything else that it raises means that it is broken.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

from headgate.core.errors import StorageGuardFailed
from headgate.core.locks import Mode


class GuardBusy(Exception):
    """Somebody who does not ask us has the thing locked."""


class Hold(Protocol):
    """What a guard gives: the storage system's own lock, as long as it is not closed."""

    def close(self) -> None:
        """Let go. May raise OSError, which is reported."""


class StorageGuard(Protocol):
    """Locks things of one URI scheme in the storage system itself. Never blocks."""

    def lock(self, resource: str, mode: Mode) -> Hold:
        """Take it at once, or GuardBusy; any other error means that the guard is broken."""


@dataclass(frozen=True, slots=True)
class FileHold:
    """An open, locked file."""

    descriptor: int

    def close(self) -> None:
        os.close(self.descriptor)


class FileGuard:
    """`file:` resources by the operating system's file locks (flock): one for each resource of this process."""

    def lock(self, resource: str, mode: Mode) -> Hold:
        path = file_path(resource)
        # A folder can be locked, but not opened for writing.
        flags = os.O_RDONLY if path.endswith("/") or os.path.isdir(path) else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(
                descriptor, (fcntl.LOCK_EX if mode is Mode.EXCLUSIVE else fcntl.LOCK_SH) | fcntl.LOCK_NB
            )
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                raise GuardBusy(f"{path} is locked by a program outside Headgate") from error
            raise
        return FileHold(descriptor)


def file_path(resource: str) -> str:
    """The path that a `file:` resource names on this machine."""
    parts = urlsplit(resource)
    if parts.netloc not in ("", "localhost"):
        raise StorageGuardFailed(resource, f"it names another machine ({parts.netloc})")
    return unquote(parts.path)


@dataclass(slots=True)
class _Shared:
    """One real lock, however many of our shared holders stand on it."""

    hold: Hold
    mode: Mode
    users: int


class GuardKeeper:
    """The real locks of this process, counted by resource."""

    def __init__(self, guards: Mapping[str, StorageGuard]) -> None:
        self._guards = dict(guards)
        self._held: dict[str, _Shared] = {}
        self._users: dict[str, str] = {}
        self._guard = threading.Lock()

    def covers(self, resource: str) -> bool:
        """Whether a guard looks after this resource."""
        return resource.partition(":")[0] in self._guards

    def take(self, lock_id: str, resource: str, mode: Mode) -> None:
        """Put the real lock under ours, once for each resource. GuardBusy or StorageGuardFailed otherwise."""
        with self._guard:
            shared = self._held.get(resource)
            if shared is None:
                self._held[resource] = _Shared(self._lock(resource, mode), mode, 0)
            elif shared.mode is not mode:
                self._swap(shared, resource, mode)
            self._held[resource].users += 1
            self._users[lock_id] = resource

    def change(self, lock_id: str, mode: Mode) -> None:
        """Our lock was upgraded or downgraded: so is the real one."""
        with self._guard:
            resource = self._users.get(lock_id)
            if resource is not None:
                self._swap(self._held[resource], resource, mode)

    def drop(self, lock_id: str) -> None:
        """Our lock is gone: so is the real one, with the last that stood on it. Errors are reported."""
        with self._guard:
            resource = self._users.pop(lock_id, None)
            if resource is None:
                return
            shared = self._held[resource]
            shared.users -= 1
            if shared.users == 0:
                del self._held[resource]
                self._close(shared.hold, resource)

    def _lock(self, resource: str, mode: Mode) -> Hold:
        guard = self._guards[resource.partition(":")[0]]
        try:
            return guard.lock(resource, mode)
        except (GuardBusy, StorageGuardFailed):
            raise
        except Exception as error:
            raise StorageGuardFailed(resource, str(error)) from error

    def _swap(self, shared: _Shared, resource: str, mode: Mode) -> None:
        if mode is shared.mode:
            return
        self._close(shared.hold, resource)
        shared.hold = self._lock(resource, mode)
        shared.mode = mode

    def _close(self, hold: Hold, resource: str) -> None:
        try:
            hold.close()
        except Exception as error:
            raise StorageGuardFailed(resource, f"it could not be let go: {error}") from error
