"""Downloading the files of a job into its working folder: concurrently, with retries, resuming and checks."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from headgate import private
from headgate.core.errors import BadPayload, HeadgateError, ServiceUnavailable, WorkStopped
from headgate.ingest.formats.digests import DEFAULT, check_algorithm
from headgate.ingest.formats.hashing import RunningDigests, blocks, mismatch
from headgate.ingest.retries import Retries, retried
from headgate.ingest.safe_files import open_folder_of, write_all
from headgate.ingest.sources.fetch import Download, Fetcher
from headgate.ingest.stopping import Stop, check_stop, waited

#: Called with the number of bytes received since the last call; from several threads.
Progress = Callable[[int], None]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: How often the caller's `stop` is checked.
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to be fetched."""

    url: str
    #: Its path below the folder: relative, checked, with slashes.
    name: str
    #: According to the manifest; None: unknown.
    size: int | None = None
    #: Algorithm to hexadecimal value, according to the manifest.
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is complete and verified."""

    name: str
    url: str
    size: int
    #: Every requested algorithm, and those of the manifest.
    digests: Mapping[str, str]
    #: It existed already, from an earlier run.
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class FailedDownload:
    """A file that could not be downloaded."""

    name: str
    url: str
    why: str
    tries: int


@dataclass(frozen=True, slots=True)
class DownloadOutcome:
    """The outcome for each file, in the requested order."""

    fetched: tuple[Fetched, ...]
    failed: tuple[FailedDownload, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.fetched)


@dataclass(frozen=True, slots=True)
class DownloadOptions:
    """The number of concurrent downloads, of attempts, and the digests to compute."""

    threads: int = 8
    retries: Retries = field(default_factory=Retries)
    #: Digests that are computed for every file, besides those in its manifest.
    algorithms: tuple[str, ...] = (DEFAULT,)


@dataclass(frozen=True, slots=True)
class _Note:
    """The note about an unfinished or finished file, stored beside it."""

    url: str
    validator: str = ""
    total: int | None = None
    #: The part was written since the machine was booted, so its length in the file system is correct.
    boot: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    #: Of the finished file.
    changed_ns: int = 0


def download(
    fetcher: Fetcher,
    wanted: Sequence[Wanted],
    folder: Path,
    parts: Path,
    *,
    options: DownloadOptions = DownloadOptions(),  # noqa: B008 - frozen
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> DownloadOutcome:
    """Fetch all of them into the folder. Partial files are kept in `parts`, on the same file system.

    A file gets its name only when it is complete and its size and digests match. A repeat keeps finished files, and
    resumes partial ones. WorkStopped when `stop` requests it; partial files stay.
    """
    private.make_folder(folder)
    private.make_folder(parts)
    if len(wanted) > 1:
        halt = threading.Event()
        run = _Downloads(fetcher, folder, parts, options, progress, halt.is_set)
        with ThreadPoolExecutor(min(options.threads, len(wanted)), thread_name_prefix="download") as pool:
            futures = [pool.submit(run.fetch, each) for each in wanted]
            _watch_over(futures, halt, stop)
        results = [future.result() for future in futures]
    else:
        run = _Downloads(fetcher, folder, parts, options, progress, stop)
        results = [run.fetch(each) for each in wanted]
    return DownloadOutcome(
        tuple(each for each in results if isinstance(each, Fetched)),
        tuple(each for each in results if isinstance(each, FailedDownload)),
    )


def _watch_over(futures: Sequence[Future[Any]], halt: threading.Event, stop: Stop | None) -> None:
    left = set(futures)
    try:
        while left:
            left = wait(left, timeout=_LOOK_SECONDS).not_done
            if stop is not None and stop():
                raise WorkStopped("the download")
    finally:
        # Also after a keyboard interrupt: the pool waits for its threads, so they must end.
        if left:
            halt.set()
            for future in left:
                future.cancel()


@dataclass(frozen=True, slots=True)
class _Downloads:
    fetcher: Fetcher
    folder: Path
    parts: Path
    options: DownloadOptions
    progress: Progress | None
    stop: Stop | None

    def fetch(self, wanted: Wanted) -> Fetched | FailedDownload:
        work = _Transfer(self, wanted)
        if done := work.done_earlier():
            return done
        try:
            return retried(work.attempt, self.options.retries, waited(self.stop, "the download"))
        except WorkStopped:
            raise
        except HeadgateError as error:
            if not isinstance(error, ServiceUnavailable):
                work.forget()
            # Reports put its name before it.
            why = str(error).removeprefix(f"{wanted.name}: ")
            return FailedDownload(wanted.name, wanted.url, why, work.tries)
        except OSError as error:
            return FailedDownload(wanted.name, wanted.url, f"it cannot be written: {error.strerror}", work.tries)


class _Transfer:
    """One download."""

    def __init__(self, run: _Downloads, wanted: Wanted) -> None:
        self._run = run
        self._wanted = wanted
        self._path = PurePosixPath(wanted.name)
        key = hashlib.sha256(wanted.name.encode()).hexdigest()[:32]
        self._part = run.parts / f"{key}.part"
        self._note_file = run.parts / f"{key}.json"
        names = {*map(check_algorithm, run.options.algorithms), *map(check_algorithm, wanted.digests)}
        self._algorithms = sorted(names)
        #: This process wrote the part.
        self._mine = False
        self.tries = 0

    def done_earlier(self) -> Fetched | None:
        note = self._read_note()
        path = self._run.folder / self._path
        if note is None or not note.digests or not set(self._algorithms) <= set(note.digests):
            return None
        try:
            found = path.lstat()
        except OSError:
            return None
        if (found.st_size, found.st_mtime_ns) != (note.total, note.changed_ns) or self._problem(
            found.st_size, note.digests
        ):
            return None
        return Fetched(self._wanted.name, self._wanted.url, found.st_size, dict(note.digests), earlier=True)

    def attempt(self) -> Fetched:
        self.tries += 1
        descriptor = private.open_file(self._part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            return self._attempt(descriptor)
        finally:
            os.close(descriptor)

    def forget(self) -> None:
        """It will not be used again."""
        self._part.unlink(missing_ok=True)
        self._note_file.unlink(missing_ok=True)

    def _attempt(self, descriptor: int) -> Fetched:
        note = self._usable_note(descriptor)
        offset = os.fstat(descriptor).st_size if note else 0
        if note is None or offset != note.total:
            with self._run.fetcher.open(
                self._wanted.url, offset, note.validator if note else "", self._run.stop
            ) as body:
                return self._receive(descriptor, body, resumed=body.offset > 0)
        running = RunningDigests(self._algorithms)
        self._hash_part(running, offset)
        return self._finish(descriptor, running, resumed=True)

    def _receive(self, descriptor: int, body: Download, *, resumed: bool) -> Fetched:
        self._check_promise(body)
        os.ftruncate(descriptor, body.offset)
        self._write_note(_Note(self._wanted.url, body.head.validator, body.head.size, _boot_id()))
        self._mine = True
        running = RunningDigests(self._algorithms)
        self._hash_part(running, body.offset)
        os.lseek(descriptor, body.offset, os.SEEK_SET)
        for block in body.blocks:
            write_all(descriptor, block)
            running.update(block)
            if self._wanted.size is not None and running.size > self._wanted.size:
                raise BadPayload(self._wanted.name, f"it has more than the expected {self._wanted.size:,} bytes")
            if self._run.progress:
                self._run.progress(len(block))
        if body.head.size is not None and running.size != body.head.size:
            raise ServiceUnavailable(
                self._wanted.name, (f"it is incomplete: {running.size:,} of {body.head.size:,} bytes arrived")
            )
        return self._finish(descriptor, running, resumed=resumed)

    def _check_promise(self, body: Download) -> None:
        """A wrong size is detected before the first byte, if the server reports it."""
        if self._wanted.size is not None and body.head.size not in (None, self._wanted.size):
            raise BadPayload(self._wanted.name, f"it has {body.head.size:,} bytes; expected {self._wanted.size:,}")

    def _hash_part(self, running: RunningDigests, size: int) -> None:
        with self._part.open("rb", buffering=0) as source:
            for block in blocks(source):
                running.update(block)
                check_stop(self._run.stop, "the download")
        if running.size != size:
            raise ServiceUnavailable(self._wanted.name, "the partial file changed while it was being read")

    def _finish(self, descriptor: int, running: RunningDigests, *, resumed: bool) -> Fetched:
        digests = running.values()
        if problem := self._problem(running.size, digests):
            if resumed:
                # The pieces may belong to two different files: the next attempt starts from the beginning.
                self.forget()
                raise ServiceUnavailable(self._wanted.name, f"{problem}, after the download was resumed")
            raise BadPayload(self._wanted.name, problem)
        os.fsync(descriptor)
        changed = os.fstat(descriptor).st_mtime_ns
        self._write_note(_Note(self._wanted.url, "", running.size, "", digests, changed))
        self._give_name()
        return Fetched(self._wanted.name, self._wanted.url, running.size, digests)

    def _give_name(self) -> None:
        folder = open_folder_of(self._run.folder, self._path.parts, make=True)
        try:
            os.rename(self._part, self._path.name, dst_dir_fd=folder)
            os.fsync(folder)
        except IsADirectoryError:
            raise BadPayload(self._wanted.name, "a folder has that name") from None
        finally:
            os.close(folder)

    def _problem(self, size: int, digests: Mapping[str, str]) -> str:
        if self._wanted.size is not None and size != self._wanted.size:
            return f"it has {size:,} bytes; expected {self._wanted.size:,}"
        return mismatch(self._wanted.digests, digests)

    def _usable_note(self, descriptor: int) -> _Note | None:
        """The note, if its partial file can be resumed.

        After a loss of power a file may have its length without its bytes; only a digest would show that.
        """
        note = self._read_note()
        if note is None or not note.validator or note.digests or not os.fstat(descriptor).st_size:
            return None
        return note if self._mine or self._wanted.digests or (note.boot and note.boot == _boot_id()) else None

    def _read_note(self) -> _Note | None:
        try:
            note = _Note(**json.loads(self._note_file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return note if note.url == self._wanted.url else None

    def _write_note(self, note: _Note) -> None:
        fresh = self._note_file.with_suffix(".new")
        private.write(fresh, json.dumps(asdict(note)))
        fresh.replace(self._note_file)


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
