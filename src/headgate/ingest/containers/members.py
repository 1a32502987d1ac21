"""Untrusted zip and tar files: their members one by one, regular files only, within limits, without nesting."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from headgate import private
from headgate.core.errors import BadPayload, BadValue
from headgate.ingest.containers.budget import Budget, ContainerLimits, PackedMember
from headgate.ingest.containers.tars import tar_entries
from headgate.ingest.containers.zips import zip_entries
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.formats.file_names import CASE_ADVICE, check_file_name, collisions, same_place
from headgate.ingest.formats.hashing import RunningDigests, blocks
from headgate.ingest.safe_files import open_beneath, write_all
from headgate.ingest.stopping import Stop

#: File name extensions, in any case, and their kinds.
KINDS: Mapping[str, str] = {
    ".zip": "zip",
    ".tar": "tar",
    ".tar.gz": "tar.gz",
    ".tgz": "tar.gz",
    ".tar.bz2": "tar.bz2",
    ".tbz2": "tar.bz2",
    ".tbz": "tar.bz2",
    ".tarz": "tar.gz",
    # A single file, with the container's name without its extension.
    ".gz": "gz",
    ".bz2": "bz2",
}

_SINGLE = ("gz", "bz2")
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error, ValueError,
    LookupError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """A file that was unpacked."""

    name: str
    size: int
    digests: Mapping[str, str]


def kind_of(name: str) -> str:
    """The kind of a container by its name; empty: none."""
    lower = name.lower()
    return next((kind for ending, kind in KINDS.items() if lower.endswith(ending)), "")


def unpack(
    archive: Path,
    kind: str,
    folder: Path,
    *,
    limits: ContainerLimits = ContainerLimits(),  # noqa: B008 - frozen
    algorithms: tuple[str, ...] = (DEFAULT,),
    stop: Stop | None = None,
) -> list[Member]:
    """Unpack a container into a folder, which must not exist and appears completely or not at all.

    Members that are containers are not unpacked. The folder may not survive a loss of power: it is then created again.
    """
    if kind not in KINDS.values():
        raise BadValue(
            "container", kind, (f"is not a kind of container that can be unpacked; supported: {', '.join(KINDS)}")
        )
    staging = staging_of(folder)
    shutil.rmtree(staging, ignore_errors=True)
    private.make_folder(staging, new=True)
    try:
        members = _unpack(
            archive, kind, staging, Budget(limits, archive.name, archive.stat().st_size, stop), algorithms
        )
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return members


def staging_of(folder: Path) -> Path:
    """The folder in which a container is unpacked before its final folder appears."""
    return folder.with_name(f"{folder.name}.unpacking")


def _unpack(archive: Path, kind: str, folder: Path, budget: Budget, algorithms: tuple[str, ...]) -> list[Member]:
    try:
        with _entries(archive, kind, budget) as entries:
            members: list[Member] = []
            for entry in entries:
                members.append(_write(entry, folder, budget, algorithms, members))
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadPayload(archive.name, f"it is damaged or not a {kind} file: {error}") from error
    if clash := next(collisions(member.name for member in members), None):
        raise BadPayload(archive.name, clash.why)
    return members


def _write(
    entry: PackedMember, folder: Path, budget: Budget, algorithms: tuple[str, ...], earlier: Sequence[Member]
) -> Member:
    try:
        name = check_file_name(entry.name.removeprefix("./"))
    except BadValue as error:
        raise BadPayload(budget.archive, str(error)) from None
    running = RunningDigests(algorithms)
    if entry.size is not None:
        budget.check(entry.size)
    try:
        target = open_beneath(folder, name.split("/"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, budget.one_more_folder)
    except (FileExistsError, NotADirectoryError):
        raise BadPayload(budget.archive, _why_taken(name, earlier)) from None
    try:
        for block in entry.blocks():
            running.update(block)
            write_all(target, block)
    finally:
        os.close(target)
    if entry.size not in (None, running.size):
        raise BadPayload(budget.archive, f"{name!r} has {running.size:,} bytes, not {entry.size:,}: it is truncated")
    return Member(name, running.size, running.values())


def _why_taken(name: str, earlier: Sequence[Member]) -> str:
    other = next((each.name for each in earlier if same_place(each.name) == same_place(name)), name)
    if other.casefold() == name.casefold() and other != name:
        return f"it contains {name!r} and {other!r}, and the work folder {CASE_ADVICE}"
    return f"it contains {name!r} twice, or as a file and a folder"


@contextmanager
def _entries(archive: Path, kind: str, budget: Budget) -> Iterator[Iterator[PackedMember]]:
    with ExitStack() as stack:
        raw = stack.enter_context(archive.open("rb"))
        if kind == "zip":
            yield zip_entries(raw, budget)
        elif kind in _SINGLE:
            yield _single_file(archive, _decompressed(raw, kind, stack), budget)
        else:
            yield tar_entries(_decompressed(raw, kind, stack), budget)


def _single_file(archive: Path, source: BinaryIO, budget: Budget) -> Iterator[PackedMember]:
    """The single file of a container without a list; its size is unknown before its end."""
    if not archive.stat().st_size:
        raise EOFError("it is empty")
    budget.one_more()

    def content() -> Iterator[bytes]:
        for block in blocks(source):
            budget.content(len(block))
            yield block

    yield PackedMember(archive.name[: archive.name.rindex(".")], None, content)


def _decompressed(raw: BinaryIO, kind: str, stack: ExitStack) -> BinaryIO:
    """A stream whose reads produce no more than requested."""
    if kind in ("tar.gz", "gz"):
        return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw)))
    if kind in ("tar.bz2", "bz2"):
        return cast(BinaryIO, stack.enter_context(bz2.BZ2File(raw)))
    return raw
