"""The places where files arrive: folders, and prefixes of buckets. Listing changes nothing there.

Folders are polled: the kernel does not report changes made by other machines on a network file system, and loses
reports when many come at once, so the whole folder would have to be scanned anyway.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headgate.core.errors import ServiceUnavailable
from headgate.core.ledger.watches.model import FileMark, FileWatch, is_temporary
from headgate.core.values.plurals import plural
from headgate.core.values.redaction import shown

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Store

#: The timeout of a request to a bucket, and the number of attempts.
ANSWER_SECONDS, CONNECT_SECONDS, MOST_RETRIES = 30, 10, 2
#: Number of objects that a bucket lists at a time, and of files after which the watcher may renew its lease.
PAGE = 1000
#: What the client says of a key that it cannot read.
UNREADABLE_KEY = "invalid path"


class Found(NamedTuple):
    """The current content."""

    #: Every file by its name.
    files: dict[str, FileMark]
    #: Why some could not be read; empty: all were.
    problem: str = ""


class WatchedPlace(Protocol):
    """Where files arrive."""

    def find(self, pause: Callable[[], None]) -> Found:
        """Every file. `pause` is called occasionally. ServiceUnavailable when the place cannot be listed."""

    def is_unchanged(self, marks: Sequence[FileMark]) -> bool:
        """Whether these files are unchanged since they were listed."""


def place_of(watch: FileWatch) -> WatchedPlace:
    """The place that a watch names. Buckets need the extra `s3`."""
    return BucketPlace(watch.source) if watch.is_bucket else FolderPlace(Path(watch.source), watch.depth)


class FolderPlace:
    """A folder, with as many levels below it as the pattern has."""

    def __init__(self, folder: Path, depth: int) -> None:
        self._folder, self._depth = folder, depth
        #: The paths that could not be read this time.
        self._unread: list[str] = []

    def find(self, pause: Callable[[], None]) -> Found:
        found: dict[str, FileMark] = {}
        self._unread = []
        for name, entry in self._walk(str(self._folder), "", self._depth):
            if mark := self._mark_of(name, entry):
                found[name] = mark
            if len(found) % PAGE == 0:
                pause()
        others = f"; {plural(len(self._unread) - 1, 'other path')} likewise" if len(self._unread) > 1 else ""
        return Found(found, min(self._unread) + others if self._unread else "")

    def is_unchanged(self, marks: Sequence[FileMark]) -> bool:
        return all(self._now(mark.name) == mark for mark in marks)

    def _walk(self, folder: str, above: str, depth: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Files below a folder, which itself has to exist; folders below it may vanish, or be unreadable."""
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError as error:
            if not above:
                raise ServiceUnavailable(folder, f"cannot be listed: {error.strerror}") from error
            if not isinstance(error, FileNotFoundError):
                self._unread.append(f"{folder}: cannot be listed: {error.strerror}")
            return
        for entry in listed:
            if is_temporary(entry.name):
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield above + entry.name, entry
            elif depth:
                yield from self._walk(entry.path, f"{above}{entry.name}/", depth - 1)

    def _mark_of(self, name: str, entry: os.DirEntry[str]) -> FileMark | None:
        """The properties of a file; None if it is not a file, has vanished, or cannot be read."""
        try:
            return _mark(name, _stat(entry))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._unread.append(f"{entry.path}: cannot be read: {error.strerror}")
            return None

    def _now(self, name: str) -> FileMark | None:
        """The current properties of a file. A network file system asks its server again when a file is opened."""
        path = self._folder / name
        try:
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:  # Workers may have other permissions.
            with suppress(OSError):
                return _mark(name, path.stat())
            return None
        except OSError:
            return None
        try:
            return _mark(name, os.fstat(number))
        finally:
            os.close(number)


class BucketPlace:
    """A prefix of a bucket, with the credentials and the endpoint from the environment."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name, _, self._prefix = url.removeprefix("s3://").partition("/")
        self._bucket: S3Store | None = None
        #: Empty objects that stand for folders, with the time at which each was made.
        self._folders: dict[str, int] = {}

    def find(self, pause: Callable[[], None]) -> Found:
        from obstore.exceptions import BaseError

        found: dict[str, FileMark] = {}
        twice: set[str] = set()
        try:
            for page in self._pages():
                for mark in filter(None, map(self._mark_of, page)):
                    if found.setdefault(mark.name, mark) is not mark:
                        twice.add(mark.name)  # A file, and after it the folder of that name.
                pause()
        except (BaseError, OSError) as error:
            raise ServiceUnavailable(shown(self._url), _why(error)) from error
        folders = {name for name, modified in self._folders.items() if name in found and name not in twice
                   and found[name].modified == modified}  # fmt: skip
        return Found({name: mark for name, mark in found.items() if name not in folders})

    def is_unchanged(self, marks: Sequence[FileMark]) -> bool:
        # An object is replaced as a whole: the next look finds that it has changed.
        return not any(self._is_folder(mark) for mark in marks if not mark.size)

    def _mark_of(self, listed: ObjectMeta) -> FileMark | None:
        """What an object looks like; None if it is not counted."""
        path = listed["path"]
        name = path.removeprefix(self._prefix)
        if not path.startswith(self._prefix) or is_temporary(name):
            return None
        modified = round(listed["last_modified"].timestamp() * 1_000_000)
        return FileMark(name, listed["size"], modified, (listed["e_tag"] or "")[:255])

    def _is_folder(self, mark: FileMark) -> bool:
        """Whether an empty object stands for a folder: its key ends with a slash, which lists leave out."""
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            obstore.head(self._connected(), self._prefix + mark.name)
        except (NotFoundError, FileNotFoundError):
            self._folders[mark.name] = mark.modified
            return True
        except (BaseError, OSError):  # A watcher may be allowed to list only.
            return False
        return False

    def _connected(self) -> S3Store:
        from headgate.ingest.sources.buckets import connect_bucket

        if self._bucket is None:
            times = {
                "timeout": timedelta(seconds=ANSWER_SECONDS),
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            }
            self._bucket = connect_bucket(self._name, times, {"max_retries": MOST_RETRIES})  # type: ignore[arg-type]
        return self._bucket

    def _pages(self) -> Iterator[Sequence[ObjectMeta]]:
        import obstore

        yield from obstore.list(self._connected(), prefix=self._prefix or None, chunk_size=PAGE)


def _why(error: Exception) -> str:
    """Why a bucket cannot be listed. One key that is no path hides all others: the client refuses the whole page."""
    told = str(error).partition("\n")[0]
    if UNREADABLE_KEY not in told:
        return told
    return f"cannot be listed while it has a key with //, . or .. between slashes, or control characters: {told}"


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    return entry.stat()


def _mark(name: str, found: os.stat_result) -> FileMark | None:
    return FileMark(name, found.st_size, found.st_mtime_ns // 1000) if stat.S_ISREG(found.st_mode) else None
