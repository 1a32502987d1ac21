"""The port of a storage: objects, their versions and files. The contract of every storage, one sentence per method."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Protocol

from headgate import private
from headgate.core.errors import BadPayload, BadValue, ServiceUnavailable, UnknownName
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.formats.file_names import CASE_ADVICE
from headgate.ingest.formats.hashing import RunningDigests, blocks, mismatch
from headgate.ingest.safe_files import open_beneath, write_all
from headgate.ingest.stopping import Stop, check_stop
from headgate.ingest.validation.contents import KnownDigests, Progress

__all__ = [
    "KnownDigests", "NewFile", "Note", "ObjectChange", "Problem", "Progress", "Storage", "StoredFile", "Version",
    "export", "find_version", "storage_errors",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be stored, as it was checked on arrival."""

    path: Path
    size: int
    #: At least sha256; other digests are stored too.
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Note:
    """Why, when and by which user a version was created."""

    #: Identifies the work that stores this version; the same operation never stores twice.
    operation: str
    created: datetime
    message: str = ""
    user: str = "headgate"
    #: An address of the user: a URI.
    user_address: str = "urn:headgate:ingest"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """The content of a version."""

    files: Mapping[str, NewFile]
    #: Files of the previous version stay unless they are given again or removed; otherwise these are all files.
    keep: bool = False
    remove: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a version."""

    name: str
    size: int
    #: sha256, in hexadecimal.
    digest: str
    #: The version that added these bytes.
    since: int


@dataclass(frozen=True, slots=True)
class Version:
    """A stored version."""

    object_id: str
    number: int
    created: datetime
    message: str
    operation: str
    files: tuple[StoredFile, ...] = field(repr=False)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


@dataclass(frozen=True, slots=True)
class Problem:
    """A difference from what was stored."""

    object_id: str  #: ARK of the object.
    #: The file's name in the storage; empty: the object itself.
    path: str
    why: str  #: What is wrong.
    #: Code of the OCFL rule that is broken (E…: error, W…: warning); empty: it is no such rule.
    code: str = ""

    @property
    def is_warning(self) -> bool:
        """Whether it only violates a recommendation of OCFL."""
        return self.code.startswith("W")


@contextmanager
def storage_errors(storage: object) -> Iterator[None]:
    """Translate errors of the disk (full, broken, not permitted)."""
    try:
        yield
    except OSError as error:
        name = f": {error.filename}" if error.filename else ""
        raise ServiceUnavailable(f"storage {storage}", f"{error.strerror or error}{name}") from error


class Storage(Protocol):
    """Versions are complete or absent; an existing version never changes."""

    @property
    def case_blind(self) -> str:
        """The location, if names that differ only in case are one file there; empty: they are distinct."""

    def put_version(
        self,
        object_id: str,
        change: ObjectChange,
        note: Note,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> Version:
        """Store a version after the current one; repeating the operation returns the version that it stored.

        VersionLost when another process has stored one meanwhile. BadPayload when a file does not match its digests.
        """

    def list_versions(self, object_id: str) -> tuple[Version, ...]:
        """Every version, oldest first; empty when there is no such object."""

    def read(self, object_id: str, name: str, version: int | None = None) -> AbstractContextManager[BinaryIO]:
        """Open a file of a version, or of the newest. UnknownName when it does not exist."""

    def delete(self, object_id: str) -> None:
        """Remove an object with all its versions. No error when there is none."""

    def verify(
        self,
        object_id: str,
        stop: Stop | None = None,
        progress: Progress | None = None,
        known: KnownDigests = MappingProxyType({}),
        *,
        warnings: bool = False,
    ) -> list[Problem]:
        """Read every stored byte of an object, and check every rule of OCFL and digests from elsewhere.

        Returns errors, and with `warnings` also warnings.
        """

    def objects(self) -> Iterator[str]:
        """The id of every readable object; `verify` reports damaged ones."""


def export(
    storage: Storage,
    object_id: str,
    folder: Path,
    version: int | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> Version:
    """Copy a version, or the newest, into a new folder, which appears completely and checked or not at all."""
    if folder.exists():
        raise BadValue("folder", str(folder), "already exists")
    chosen = find_version(storage, object_id, version)
    staging = folder.with_name(f"{folder.name}.exporting")
    shutil.rmtree(staging, ignore_errors=True)
    private.make_folder(staging, new=True)
    try:
        for file in chosen.files:
            with storage.read(object_id, file.name, chosen.number) as source:
                _export_file(source, staging, file, stop, progress)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return chosen


def find_version(storage: Storage, object_id: str, version: int | None = None) -> Version:
    """A version, or the newest. UnknownName when it does not exist."""
    versions = storage.list_versions(object_id)
    if not versions:
        raise UnknownName("object", object_id)
    found = [each for each in versions if version in (None, each.number)]
    if not found:
        raise UnknownName("version", f"{object_id} v{version}", f"The newest is v{versions[-1].number}")
    return found[-1]


def _export_file(
    source: BinaryIO, folder: Path, file: StoredFile, stop: Stop | None, progress: Progress | None
) -> None:
    running = RunningDigests([DEFAULT])
    try:
        target = open_beneath(folder, file.name.split("/"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        # The file names of a version are unique.
        why = f"has a file already that differs from {file.name!r} only in case, and {CASE_ADVICE}"
        raise BadValue("folder", str(folder), why) from None
    try:
        for block in blocks(source):
            check_stop(stop, "the export")
            running.update(block)
            write_all(target, block)
            if progress:
                progress(len(block))
    finally:
        os.close(target)
    if problem := mismatch({DEFAULT: file.digest}, running.values()):
        raise BadPayload(file.name, f"it differs from what was stored: {problem}")
