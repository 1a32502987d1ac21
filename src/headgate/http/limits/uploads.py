"""Limits of uploads: their number, their size, and the free space that has to remain."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from headgate.core.errors import ServiceUnavailable
from headgate.gate import Gate
from headgate.http.errors import NoSpace, TooLarge, TooMany
from headgate.http.limits.bounds import Limits, subtract
from headgate.service.leases.clock import steady

#: Seconds after which a caller may retry when there were too many uploads, or no space for its own.
LATER_SECONDS, FREED_SECONDS = 5, 300
#: Staged files are counted again after this long: daemons remove them, and other services add some.
KNOWN_SECONDS = 5.0
#: Free space is checked each time this many bytes have arrived.
LOOK_BYTES = 8_000_000
#: The system's errors for a full disk or quota.
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class UploadRoom:
    """The limits of staged files."""

    #: The work folder, and the space that has to stay free on its file system.
    folder: Path
    threshold: int
    #: Maximum size of a file, and of all staged files: of one token, and in total.
    upload_limit: int
    upload_quota_per_token: int
    upload_quota: int


class Uploads:
    """The uploads of one service."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Uploads that are being received, by token.
        self._running: Counter[str] = Counter()
        #: Staged bytes by token, and when they were counted.
        self._staged: Counter[str] = Counter()
        self._counted = float("-inf")

    @asynccontextmanager
    async def receiving(self, room: UploadRoom, owner: str, length: int) -> AsyncIterator[Upload]:
        """Start an upload of `length` bytes, if known; TooMany, TooLarge or NoSpace otherwise.

        The received part counts as staged, unless the upload fails.
        """
        self._must_have_slot(owner)
        self._running[owner] += 1
        upload = Upload(self, room, owner)
        try:
            await self._count(room.folder)
            self.must_fit(room, owner, 0, length)
            await run_in_threadpool(must_have_space, room, length)
            yield upload
        except BaseException:
            self._staged[owner] = max(self._staged[owner] - upload.size, 0)
            raise
        finally:
            subtract(self._running, owner)

    def must_fit(self, room: UploadRoom, owner: str, size: int, more: int) -> None:
        """Raise TooLarge or NoSpace when `more` bytes do not fit, for a file that already has `size`."""
        if size + more > room.upload_limit:
            raise TooLarge(room.upload_limit, "upload_limit")
        if self._staged[owner] + more > room.upload_quota_per_token:
            why = "the uploads of this API token have reached their quota; uploads are removed with their batches"
            raise NoSpace(why, "upload_quota_per_token", room.upload_quota_per_token, FREED_SECONDS)
        if self._staged.total() + more > room.upload_quota:
            why = "uploads have reached their quota; they are removed with their batches"
            raise NoSpace(why, "upload_quota", room.upload_quota, FREED_SECONDS)

    def stage(self, owner: str, size: int) -> None:
        """Count staged bytes."""
        self._staged[owner] += size

    def _must_have_slot(self, owner: str) -> None:
        most, each = self._limits.uploads_at_once, self._limits.uploads_per_token
        if self._running.total() >= most:
            raise TooMany(f"{most:,} files are being uploaded already", LATER_SECONDS, "uploads_at_once", most)
        if self._running[owner] >= each:
            why = f"this API token is already uploading {each:,} files"
            raise TooMany(why, LATER_SECONDS, "uploads_per_token", each)

    async def _count(self, folder: Path) -> None:
        from headgate.service.queue.work_folder import staged_bytes

        if steady() - self._counted > KNOWN_SECONDS:
            self._counted = steady()
            self._staged = await run_in_threadpool(staged_bytes, folder)


class Upload:
    """A file that is being received."""

    def __init__(self, uploads: Uploads, room: UploadRoom, owner: str) -> None:
        self._uploads, self.room, self.owner = uploads, room, owner
        #: Number of bytes received.
        self.size = 0
        self._looked = 0

    async def add(self, size: int) -> None:
        """Count bytes that have arrived. Raises TooLarge or NoSpace when they do not fit."""
        self._uploads.must_fit(self.room, self.owner, self.size, size)
        self._uploads.stage(self.owner, size)
        self.size += size
        if self.size - self._looked >= LOOK_BYTES:
            self._looked = self.size
            await run_in_threadpool(must_have_space, self.room, 0)


def must_have_space(room: UploadRoom, length: int) -> None:
    """NoSpace when too little space would stay free with a file of that length."""
    if shutil.disk_usage(room.folder).free - length < room.threshold:
        why = f"the file system of the work folder has no space for this: {room.threshold:,} bytes must stay free"
        raise NoSpace(why, "space_threshold", room.threshold, FREED_SECONDS)


def room_of(gate: Gate) -> UploadRoom:
    """The limits of staged files according to the settings; the work folder is created."""
    size = gate.settings.size
    sizes = (size(limit) for limit in ("upload_limit", "upload_quota_per_token", "upload_quota"))
    return UploadRoom(gate.make_work_folder(), size("space_threshold"), *sizes)


def disk_error(error: OSError) -> Exception:
    """A caller's error for an error of the file system."""
    if error.errno in FULL:
        return NoSpace("the disk of the work folder is full", seconds=FREED_SECONDS)
    return ServiceUnavailable("work folder", error.strerror or str(error))
