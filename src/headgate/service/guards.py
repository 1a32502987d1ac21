"""Storage guards: a real lock of the storage system under ours, so that programs which do not ask us are kept out.

A guard says busy with GuardBusy; anything else that it raises means that it is broken.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headgate.core.errors import StorageGuardFailed
from headgate.core.locks import Lock, Mode


class GuardBusy(Exception):
    """Somebody who does not ask us has the thing locked."""


class Hold(Protocol):
    """What a guard gives: the storage system's own lock, as long as it is not closed."""

    def change(self, mode: Mode) -> None:
        """Hold it in another mode; GuardBusy when that is not possible now, and the old mode is kept."""

    def close(self) -> None:
        """Let go. May raise, which is reported."""


class StorageGuard(Protocol):
    """Locks things of one URI scheme in the storage system itself. Never blocks."""

    def lock(self, resource: str, mode: Mode) -> Hold:
        """Take it at once, or GuardBusy; any other error means that the guard is broken."""


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
            # The system may have let go of the old lock while it tried for the new one: take it back.
            lock_descriptor(self._descriptor, self._mode)
            raise busy_or_broken(self._path, error) from error
        self._mode = mode

    def close(self) -> None:
        os.close(self._descriptor)


class FileGuard:
    """`file:` resources by the operating system's file locks.

    Both families are taken, since Linux keeps them apart: flock (as the command flock does) and record locks
    over the whole file (as Java and most C programs do), the latter in the form that belongs to the open file.
    """

    def lock(self, resource: str, mode: Mode) -> Hold:
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
    """A writer may be about to make the file; a reader may not, but opens it so that it can become a writer."""
    if Path(path).is_dir():
        return os.O_RDONLY
    if mode is Mode.SHARED:
        return os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY
    return os.O_RDWR | os.O_CREAT


def lock_descriptor(descriptor: int, mode: Mode) -> None:
    """Both kinds of lock on an open file, at once or OSError."""
    exclusive = mode is Mode.EXCLUSIVE
    fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    if hasattr(fcntl, "F_OFD_SETLK") and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0))


def busy_or_broken(path: str, error: OSError) -> Exception:
    """What a failed try means."""
    if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
        return GuardBusy(f"{path} is locked by a program outside Headgate")
    return error


def file_path(resource: str) -> str:
    """The path that a `file:` resource names on this machine."""
    from urllib.parse import unquote, urlsplit

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


@dataclass(slots=True)
class _User:
    """One of our locks that stands on a real one: its token, and the requests that hold it (re-entrant: several)."""

    resource: str
    token: int
    requests: set[str]


class GuardKeeper:
    """The real locks of this process, counted by resource."""

    def __init__(self, guards: Mapping[str, StorageGuard]) -> None:
        self._guards = dict(guards)
        self._held: dict[str, _Shared] = {}
        self._users: dict[str, _User] = {}
        self._guard = threading.Lock()

    def covers(self, resource: str) -> bool:
        """Whether a guard looks after this resource."""
        scheme, colon, _ = resource.partition(":")
        return bool(colon) and scheme in self._guards

    def take(self, lock: Lock) -> None:
        """Put the real lock under ours, once for each resource. GuardBusy or StorageGuardFailed otherwise."""
        with self._guard:
            shared = self._held.get(lock.resource)
            if shared is None:
                shared = self._held[lock.resource] = _Shared(self._lock(lock.resource, lock.mode), lock.mode, 0)
            else:
                self._swap(shared, lock.resource, lock.mode)
            if lock.id not in self._users:
                shared.users += 1
                self._users[lock.id] = _User(lock.resource, lock.token, set())
            user = self._users[lock.id]
            user.token = lock.token
            user.requests.add(lock.request_id)

    def change(self, lock_id: str, mode: Mode) -> Mode | None:
        """Our lock is upgraded or downgraded: so is the real one. Gives the mode before; None: nothing was changed."""
        with self._guard:
            user = self._users.get(lock_id)
            if user is None or self._held[user.resource].users > 1:
                return None
            shared = self._held[user.resource]
            before = shared.mode
            self._swap(shared, user.resource, mode)
            return before

    def changed(self, lock: Lock) -> None:
        """Our lock has another token now."""
        with self._guard:
            if lock.id in self._users:
                self._users[lock.id].token = lock.token

    def leave(self, lock_id: str, request_id: str | None = None) -> None:
        """One hold of ours ends (of that request); with the last goes the real lock. Errors are reported."""
        with self._guard:
            user = self._users.get(lock_id)
            if user is None:
                return
            user.requests.discard(request_id or next(iter(user.requests), ""))
            if not user.requests:
                self._drop(lock_id)

    def lose(self, lock_id: str, token: int) -> None:
        """Our lock of that token is gone with all its holds. Errors are reported."""
        with self._guard:
            user = self._users.get(lock_id)
            if user is not None and user.token == token:
                self._drop(lock_id)

    def _drop(self, lock_id: str) -> None:
        user = self._users.pop(lock_id)
        shared = self._held[user.resource]
        shared.users -= 1
        if shared.users == 0:
            del self._held[user.resource]
            self._close(shared.hold, user.resource)

    def _lock(self, resource: str, mode: Mode) -> Hold:
        with _reported(resource):
            return self._guards[resource.partition(":")[0]].lock(resource, mode)

    def _swap(self, shared: _Shared, resource: str, mode: Mode) -> None:
        if mode is shared.mode:
            return
        with _reported(resource):
            shared.hold.change(mode)
        shared.mode = mode

    def _close(self, hold: Hold, resource: str) -> None:
        with _reported(resource, "it could not be let go: "):
            hold.close()


@contextmanager
def _reported(resource: str, what: str = "") -> Iterator[None]:
    """Busy stays busy; anything else that a guard raises means that it is broken."""
    try:
        yield
    except (GuardBusy, StorageGuardFailed):
        raise
    except Exception as error:
        raise StorageGuardFailed(resource, f"{what}{error}") from error
