"""The nouns of watches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from headgate.core.errors import BadValue
from headgate.core.ledger.watches.names import FilePattern, UnreadableName, file_pattern
from headgate.core.values.names import check_name

#: Seconds that a watcher may work without renewing its lease.
WATCH_LEASE = 30.0
#: Names of files that are still being written, or that belong to a program.
TEMPORARY_ENDS = (".part", ".partial", ".tmp", ".temp", ".filepart", ".crdownload", ".swp", "~")
#: Each name must match entirely.
LONGEST_NAME = 1024
#: Folders that file systems keep at their top for their own use.
NOT_DELIVERED = ("lost+found",)


class Ready(StrEnum):
    """When a file counts."""

    #: Its size and time have not changed for `settle` seconds.
    STABLE = "stable"
    #: As soon as a file has its name, because programs write it elsewhere and rename it. Objects in buckets are always
    #: complete.
    WHOLE = "whole"
    #: When its marker exists and is not older than the file.
    MARKER = "marker"


class OnChange(StrEnum):
    """What happens when a file is delivered again with other content."""

    NOTE = "note"
    REDO = "redo"
    IGNORE = "ignore"


class Landing(StrEnum):
    """The outcome for the files of a chunk."""

    PUBLISHED = "published"
    SAME = "same"
    NOTED = "noted"
    REDONE = "redone"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FileMark:
    """The visible properties of a file."""

    #: Its path below the folder or prefix.
    name: str
    size: int  #: In bytes.
    #: When it was written, in microseconds since 1970.
    modified: int
    #: An identifier of this exact content (ETag); empty: there is none.
    tag: str = ""

    def differs(self, other: FileMark) -> bool:
        """Whether another file of the same name has different content, as far as this can be detected."""
        if self.tag and other.tag:
            return (self.tag, self.size) != (other.tag, other.size)
        return (self.size, self.modified) != (other.size, other.modified)


class Parcel(NamedTuple):
    """The files that make one chunk."""

    dataid: str
    files: tuple[FileMark, ...]


class Landed(NamedTuple):
    """The outcome for one chunk."""

    dataid: str
    landing: Landing
    #: Why it was refused.
    why: str = ""


class WatchTurn(NamedTuple):
    """The watcher that is currently responsible for a dataset."""

    #: The number of this turn; it only grows. None: another worker is watching.
    token: int | None
    worker: str


@dataclass(frozen=True, slots=True)
class FileWatch:
    """Where the files of a dataset arrive, and how they become chunks. It is never stored."""

    dataset: str
    #: A folder, or a URL `s3://bucket/prefix`.
    source: str
    pattern: str
    #: The pattern of data ids.
    id: str
    ready: Ready = Ready.STABLE
    #: Seconds without a change after which a file counts (`stable`).
    settle: float = 10.0
    #: The name of the marker.
    marker: str = ""
    #: Number of files of a chunk; 0: not given as a number.
    files: int = 0
    #: The suffixes of a chunk's files; each has to exist.
    suffixes: tuple[str, ...] = ()
    on_change: OnChange = OnChange.NOTE
    #: Seconds between two polls.
    every: float = 2.0
    #: Seconds without a new file after which an alarm is raised; None: never.
    quiet_after: float | None = None

    @property
    def is_bucket(self) -> bool:
        """Whether it watches a prefix of a bucket."""
        return self.source.startswith("s3://")

    @property
    def depth(self) -> int:
        """Depth of the folders that contain the files and their markers."""
        above, marker = self.pattern.count("/"), self.marker.count("/")
        return max(above, marker) if self.markers_of_chunks else above + marker

    @property
    def markers_of_chunks(self) -> bool:
        """Whether a marker belongs to a chunk rather than to one file."""
        return self.ready is Ready.MARKER and "{name}" not in self.marker

    def chunk_of(self, name: str) -> tuple[str, str] | None:
        """The data id that a file belongs to, and the name of its marker (empty: none). None if it does not match.

        UnreadableName if it matches but names no chunk.
        """
        bare = self._bare(name)
        fields = None if bare is None else file_pattern(self.pattern).read(bare)
        if fields is None:
            return None
        _check_name(name)
        times = file_pattern(self.pattern).times
        dataid = file_pattern(self.id).write(fields, times)
        _check_id(file_pattern(self.id), dataid)
        if self.markers_of_chunks:
            return dataid, file_pattern(self.marker).write(fields, times)
        return dataid, self.marker.replace("{name}", name)

    def why_not(self, name: str) -> str:
        """Why a name that does not match is left alone."""
        if self.suffixes and self._bare(name) is None:
            return "it ends in none of the suffixes"
        return "it does not match pattern" + (" before its suffix" if self.suffixes else "")

    def _bare(self, name: str) -> str | None:
        """A name without its suffix; None if it has none of the listed ones."""
        if not self.suffixes:
            return name
        fitting = [each for each in self.suffixes if name.endswith(each)]
        return name[: -len(max(fitting, key=len))] if fitting else None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A watcher's report about itself."""

    dataset: str  #: The dataset that it publishes.
    source: str  #: The folder or prefix, for display.
    pattern: str  #: The pattern of its files.
    worker: str  #: The process.
    lease: float  #: Seconds that it counts as alive without renewing.
    every: float  #: Seconds between two polls.
    quiet_after: float | None  #: Seconds without a new file after which an alarm is raised.
    waiting: int = 0  #: Files that do not count yet.
    problem: str = ""  #: The problem that prevents it from working; empty: none.
    #: Whether it has polled since the last report.
    looked: bool = False
    #: The turn that it believes it holds; None: none.
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Watcher:
    """The recorded state of a dataset's watcher."""

    dataset: str  #: The dataset that it publishes.
    source: str  #: The folder or prefix.
    pattern: str  #: The pattern of its files.
    worker: str  #: The process that watches, or was the last to watch.
    every: float  #: Seconds between two polls.
    lease: float  #: Seconds that it counts as alive without renewing.
    quiet_after: float | None  #: Seconds without a new file after which an alarm is raised; null: never.
    since: datetime  #: When watching the dataset began.
    #: When it last polled; null: it has not.
    looked: datetime | None
    #: When a new file last counted; null: none has.
    arrived: datetime | None
    files: int  #: Files that were counted.
    changed: int  #: How often one was delivered again with different content.
    waiting: int  #: Files that do not count yet.
    problem: str  #: The problem that prevents it from working; empty: none.
    alive: bool  #: Whether its lease is still valid.

    @property
    def patience(self) -> timedelta:
        """How long it may be silent before it counts as stuck."""
        return timedelta(seconds=max(2 * self.lease, 3 * self.every))

    def silent(self, at: datetime) -> timedelta:
        """How long ago it last polled."""
        return max(at - (self.looked or self.since), timedelta())

    def quiet(self, at: datetime) -> timedelta:
        """How long ago a file last arrived."""
        return max(at - (self.arrived or self.since), timedelta())


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """A file that was counted."""

    mark: FileMark
    dataid: str
    #: When it, or its change, was counted.
    since: datetime
    #: How often it was delivered again with different content.
    changes: int


def is_temporary(name: str) -> bool:
    """Whether a file, or a folder above it, is hidden or still being written."""
    parts = name.split("/")
    ours = any(part.startswith(".") or part in NOT_DELIVERED for part in parts)
    return ours or parts[-1].lower().endswith(TEMPORARY_ENDS)


def changes_of(known: Sequence[FileMark], parcel: Parcel) -> list[FileMark]:
    """The files of a chunk that are new, or differ from the recorded ones."""
    before = {each.name: each for each in known}
    return [each for each in parcel.files if each.name not in before or each.differs(before[each.name])]


def _check_name(name: str) -> None:
    if len(name) > LONGEST_NAME:
        raise UnreadableName(f"is longer than {LONGEST_NAME:,} characters")
    if not name.isprintable():
        raise UnreadableName("has characters that are not printable, or is not in UTF-8")


def _check_id(pattern: FilePattern, dataid: str) -> None:
    try:
        check_name("dataid", dataid)
        pattern.read(dataid)
    except (BadValue, UnreadableName) as error:
        raise UnreadableName(f"would be the data id {dataid!r}: {error}") from None
