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

#: Seconds that a watcher may work without renewing.
WATCH_LEASE = 30.0
#: Names of files that somebody still writes, or that belong to a program.
TEMPORARY_ENDS = (".part", ".partial", ".tmp", ".temp", ".filepart", ".crdownload", ".swp", "~")
#: A name is kept whole.
LONGEST_NAME = 1024
#: What file systems keep in their top folder for themselves.
NOT_DELIVERED = ("lost+found",)


class Ready(StrEnum):
    """When a file counts."""

    #: Its size and time have not changed for `settle` seconds.
    STABLE = "stable"
    #: As soon as it has its name: programs write it elsewhere and rename it. Objects in buckets are always complete.
    WHOLE = "whole"
    #: When its marker is there, and is not older than the file.
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
    """What a file looks like from outside."""

    #: Its path below the folder or prefix.
    name: str
    size: int  #: In bytes.
    #: When it was written, in micro-seconds since 1970.
    modified: int
    #: What names this very content (ETag); empty: nothing does.
    tag: str = ""

    def differs(self, other: FileMark) -> bool:
        """Whether the other one, of the same name, has other content as far as this can be seen."""
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
    """The watcher that has a dataset now."""

    #: The number of this turn; only grows. None: another worker watches.
    token: int | None
    worker: str


@dataclass(frozen=True, slots=True)
class FileWatch:
    """Where the files of a dataset arrive, and what they mean. It is never stored."""

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
    #: How many files make a chunk; 0: it is not said by a number.
    files: int = 0
    #: What the names of a chunk's files end in; each has to be there.
    suffixes: tuple[str, ...] = ()
    on_change: OnChange = OnChange.NOTE
    #: Seconds between two looks.
    every: float = 2.0
    #: Seconds without a new file after which an alarm is raised; None: never.
    quiet_after: float | None = None

    @property
    def is_bucket(self) -> bool:
        """Whether it watches a prefix of a bucket."""
        return self.source.startswith("s3://")

    @property
    def depth(self) -> int:
        """How many folders deep the files lie, and their markers."""
        above, marker = self.pattern.count("/"), self.marker.count("/")
        return max(above, marker) if self.markers_of_chunks else above + marker

    @property
    def markers_of_chunks(self) -> bool:
        """Whether a marker belongs to a chunk, and not to one file."""
        return self.ready is Ready.MARKER and "{name}" not in self.marker

    def chunk_of(self, name: str) -> tuple[str, str] | None:
        """The data id that a file belongs to, and the name of its marker (empty: none). None if it does not match.

        UnreadableName if it matches, and names no chunk.
        """
        bare = self._bare(name)
        fields = None if bare is None else file_pattern(self.pattern).read(bare)
        if fields is None:
            return None
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
        """A name without its suffix; None if it has none of those that are listed."""
        if not self.suffixes:
            return name
        fitting = [each for each in self.suffixes if name.endswith(each)]
        return name[: -len(max(fitting, key=len))] if fitting else None


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a watcher reports of itself."""

    dataset: str  #: The dataset that it publishes.
    source: str  #: The folder or prefix, for people.
    pattern: str  #: The pattern of its files.
    worker: str  #: The process.
    lease: float  #: Seconds that it counts as alive without renewing.
    every: float  #: Seconds between two looks.
    quiet_after: float | None  #: Seconds without a new file after which an alarm is raised.
    waiting: int = 0  #: Files that do not count yet.
    problem: str = ""  #: What keeps it from its work; empty: nothing.
    #: Whether it has looked since the last report.
    looked: bool = False
    #: The turn that it holds as far as it knows; None: none.
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Watcher:
    """What is known of the watcher of a dataset."""

    dataset: str  #: The dataset that it publishes.
    source: str  #: The folder or prefix.
    pattern: str  #: The pattern of its files.
    worker: str  #: The process that watches, or did last.
    every: float  #: Seconds between two looks.
    lease: float  #: Seconds that it counts as alive without renewing.
    quiet_after: float | None  #: Seconds without a new file after which an alarm is raised; null: never.
    since: datetime  #: Since when the dataset is watched.
    #: When it last looked; null: it has not.
    looked: datetime | None
    #: When a new file last counted; null: none has.
    arrived: datetime | None
    files: int  #: Files that were counted.
    changed: int  #: How often one was delivered again with other content.
    waiting: int  #: Files that do not count yet.
    problem: str  #: What keeps it from its work; empty: nothing.
    alive: bool  #: Whether its lease runs.

    @property
    def patience(self) -> timedelta:
        """How long it may be silent before that is called stuck."""
        return timedelta(seconds=max(2 * self.lease, 3 * self.every))

    def silent(self, at: datetime) -> timedelta:
        """How long ago it last looked."""
        return max(at - (self.looked or self.since), timedelta())

    def quiet(self, at: datetime) -> timedelta:
        """How long ago a file last arrived."""
        return max(at - (self.arrived or self.since), timedelta())


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """A file that was counted."""

    mark: FileMark
    dataid: str
    #: When it was counted, or its change was.
    since: datetime
    #: How often it was delivered again with other content.
    changes: int


def is_temporary(name: str) -> bool:
    """Whether a file, or a folder above it, is somebody's own business: hidden, or still written."""
    parts = name.split("/")
    ours = any(part.startswith(".") or part in NOT_DELIVERED for part in parts)
    return ours or parts[-1].lower().endswith(TEMPORARY_ENDS)


def changes_of(known: Sequence[FileMark], parcel: Parcel) -> list[FileMark]:
    """The files of a parcel that are new, or differ from what is known."""
    before = {each.name: each for each in known}
    return [each for each in parcel.files if each.name not in before or each.differs(before[each.name])]


def _check_id(pattern: FilePattern, dataid: str) -> None:
    try:
        check_name("dataid", dataid)
        pattern.read(dataid)
    except (BadValue, UnreadableName) as error:
        raise UnreadableName(f"would be the data id {dataid!r}: {error}") from None
