"""Zip and tar files of strangers: their members one by one, regular files only, within limits, and never deeper."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from headgate import private
from headgate.core.errors import BadPayload, BadValue
from headgate.ingest.beneath import open_beneath, write_all
from headgate.ingest.digests import DEFAULT
from headgate.ingest.hashing import BLOCK, RunningDigests
from headgate.ingest.names import check_file_name, collisions
from headgate.ingest.stopping import Stop, check_stop

#: Endings, in any case, and what they mean.
KINDS: Mapping[str, str] = {
    ".zip": "zip",
    ".tar": "tar",
    ".tar.gz": "tar.gz",
    ".tgz": "tar.gz",
    ".tar.bz2": "tar.bz2",
    ".tbz2": "tar.bz2",
    ".tbz": "tar.bz2",
}

#: Longest header of a member: names and notes of honest files are far below.
_HEADER_BYTES = 1 << 20
#: Small files may be denser than the ratio allows.
_FREE_BYTES = 1 << 20
_ZIP_HEADER_BYTES = 30
_ENCRYPTED = 0x1
_UTF8 = 0x800
_ZIP_END = struct.Struct("<4s4H2LH")
_ZIP64_PLACE = struct.Struct("<4sLQL")
_ZIP64_END = struct.Struct("<4sQ2H2L4Q")
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, ValueError, NotImplementedError,
    RuntimeError, MemoryError, LookupError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a container may hold."""

    files: int = 100_000
    total_bytes: int = 1 << 40
    #: Bytes that come out for each that is read.
    ratio: int = 100


@dataclass(frozen=True, slots=True)
class Member:
    """A file that was unpacked."""

    name: str
    size: int
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A member that is still packed."""

    name: str
    size: int
    source: Callable[[], BinaryIO]


def kind_of(name: str) -> str:
    """What kind of container a file is by its name; empty: none."""
    lower = name.lower()
    return next((kind for ending, kind in KINDS.items() if lower.endswith(ending)), "")


def unpack(
    archive: Path,
    kind: str,
    folder: Path,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    algorithms: tuple[str, ...] = (DEFAULT,),
    stop: Stop | None = None,
) -> list[Member]:
    """Unpack a container into a folder, which must not exist and appears whole or not at all.

    Members that are containers stay as they are. The folder does not outlive a loss of power for certain: it is
    made again then.
    """
    if kind not in KINDS.values():
        raise BadValue("container", kind, f"is no kind that can be unpacked; known are {', '.join(KINDS)}")
    staging = staging_of(folder)
    shutil.rmtree(staging, ignore_errors=True)
    private.make_folder(staging, new=True)
    try:
        members = _unpack(archive, kind, staging, _Budget(limits, archive, stop), algorithms)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return members


def staging_of(folder: Path) -> Path:
    """Where a container is unpacked before its folder appears."""
    return folder.with_name(f"{folder.name}.unpacking")


def _unpack(archive: Path, kind: str, folder: Path, budget: _Budget, algorithms: tuple[str, ...]) -> list[Member]:
    try:
        with _entries(archive, kind, budget) as entries:
            members = [_write(entry, folder, budget, algorithms) for entry in entries]
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if isinstance(error, MemoryError):
            raise BadPayload(archive.name, "reading it takes more memory than is allowed") from error
        raise BadPayload(archive.name, f"it is damaged or no {kind} file: {error}") from error
    clashes = collisions(member.name for member in members)
    if clashes:
        raise BadPayload(archive.name, clashes[0].why)
    return members


class _Budget:
    """What may still come out."""

    def __init__(self, limits: Limits, archive: Path, stop: Stop | None) -> None:
        self.archive = archive.name
        self.limits = limits
        self._most = min(limits.total_bytes, archive.stat().st_size * limits.ratio + _FREE_BYTES)
        self._stop = stop
        self._files = 0
        self._bytes = 0

    def one_more(self) -> None:
        """Folders count too: each takes time."""
        self._files += 1
        if self._files > self.limits.files:
            raise BadPayload(self.archive, f"it has more than {self.limits.files:,} files")

    def check(self, size: int) -> None:
        if self._bytes + size > self._most:
            self._too_much()

    def spend(self, size: int) -> None:
        check_stop(self._stop, "unpacking")
        self.check(size)
        self._bytes += size

    def _too_much(self) -> None:
        limits = self.limits
        raise BadPayload(
            self.archive,
            f"it unpacks to more than {limits.total_bytes:,} bytes, or to more than {limits.ratio} times its size",
        )


def _write(entry: _Entry, folder: Path, budget: _Budget, algorithms: tuple[str, ...]) -> Member:
    try:
        name = check_file_name(entry.name)
    except BadValue as error:
        raise BadPayload(budget.archive, str(error)) from None
    running = RunningDigests(algorithms)
    budget.check(entry.size)
    try:
        target = open_beneath(folder, name.split("/"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except (FileExistsError, NotADirectoryError):
        raise BadPayload(budget.archive, f"it has {name!r} twice, or as a file and a folder") from None
    try:
        with entry.source() as source:
            while block := source.read(BLOCK):
                budget.spend(len(block))
                running.update(block)
                write_all(target, block)
    finally:
        os.close(target)
    if running.size != entry.size:
        raise BadPayload(budget.archive, f"{name!r} has {running.size:,} bytes, not {entry.size:,}: it is cut off")
    return Member(name, running.size, running.values())


@contextmanager
def _entries(archive: Path, kind: str, budget: _Budget) -> Iterator[Iterator[_Entry]]:
    with ExitStack() as stack:
        raw = stack.enter_context(archive.open("rb"))
        if kind == "zip":
            _check_directory(raw, budget)
            yield _zip_entries(stack.enter_context(zipfile.ZipFile(raw)), budget)
        else:
            yield _tar_entries(_Forward(_unsqueezed(raw, kind, stack), budget), budget)


# ---------------------------------------------------------------- zip


def _check_directory(raw: BinaryIO, budget: _Budget) -> None:
    """The list of members is read into memory at once, so its size is looked at first."""
    size, found = _directory(raw)
    if found > budget.limits.files or size > _HEADER_BYTES + budget.limits.files * 1024:
        raise BadPayload(budget.archive, f"it lists more than {budget.limits.files:,} files")


def _directory(raw: BinaryIO) -> tuple[int, int]:
    """Bytes and members of a zip file's list."""
    end = raw.seek(0, os.SEEK_END)
    start = max(0, end - (_ZIP_END.size + 0xFFFF))
    raw.seek(start)
    tail = raw.read()
    place = tail.rfind(b"PK\5\6")
    if place < 0 or place + _ZIP_END.size > len(tail):
        raise zipfile.BadZipFile("its list of members is missing")
    fields = _ZIP_END.unpack_from(tail, place)
    size, count = fields[5], fields[4]
    locator = place - _ZIP64_PLACE.size
    if locator >= 0 and tail[locator : locator + 4] == b"PK\6\7":
        # Python takes the large record from the place before, whatever the locator says.
        raw.seek(max(0, start + locator - _ZIP64_END.size))
        large = _ZIP64_END.unpack(raw.read(_ZIP64_END.size))
        size, count = max(size if size != 0xFFFFFFFF else 0, large[8]), max(count % 0xFFFF, large[7])
    return size, count


def _zip_entries(packed: zipfile.ZipFile, budget: _Budget) -> Iterator[_Entry]:
    _check_overlap(packed, budget)
    for info in packed.infolist():
        budget.one_more()
        name = _zip_name(info)
        if info.is_dir():
            continue
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise BadPayload(budget.archive, f"{name!r} is a link or a device; only regular files are taken")
        if info.flag_bits & _ENCRYPTED:
            raise BadPayload(budget.archive, f"{name!r} is encrypted")
        yield _Entry(name, info.file_size, lambda info=info: cast(BinaryIO, packed.open(info)))  # type: ignore[misc]


def _check_overlap(packed: zipfile.ZipFile, budget: _Budget) -> None:
    """Members that share bytes unpack to far more than the file could hold (Python looks only since 3.11.8)."""
    places = sorted((info.header_offset, info.compress_size, len(info.orig_filename)) for info in packed.infolist())
    ends = [offset for offset, _, _ in places[1:]] + [packed.start_dir]
    for (offset, size, name), end in zip(places, ends, strict=False):
        if offset + _ZIP_HEADER_BYTES + name + size > end:
            raise BadPayload(budget.archive, "its members overlap")


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Without the mark for UTF-8 the spec means CP437; what is written is UTF-8 all the same, or Latin-1."""
    if info.flag_bits & _UTF8:
        return info.orig_filename
    written = info.orig_filename.encode("cp437")
    try:
        return written.decode()
    except UnicodeDecodeError:
        return written.decode("latin-1")


# ---------------------------------------------------------------- tar


def _unsqueezed(raw: BinaryIO, kind: str, stack: ExitStack) -> BinaryIO:
    if kind == "tar.gz":
        return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw)))
    if kind == "tar.bz2":
        return cast(BinaryIO, stack.enter_context(bz2.BZ2File(raw)))
    return raw


class _Forward(io.RawIOBase):
    """A stream that tarfile takes for a file: it goes forward only, within the budget, and in small steps.

    tarfile reads the headers of members whole, however long they say they are.
    """

    def __init__(self, inner: BinaryIO, budget: _Budget) -> None:
        self._inner = inner
        self._budget = budget
        self._place = 0
        #: The last header that was read is the empty one, after which nothing comes.
        self.at_end = False

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER_BYTES:
            raise BadPayload(self._budget.archive, f"the header of a member has more than {_HEADER_BYTES:,} bytes")
        found = self._inner.read(size)
        self._place += len(found)
        self.at_end = found == bytes(tarfile.BLOCKSIZE)
        return found

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or place < self._place:
            raise tarfile.ReadError("its members are not in order")
        while self._place < place:
            if not (found := self._inner.read(min(BLOCK, place - self._place))):
                raise tarfile.ReadError("it is cut off")
            self._budget.spend(len(found))
            self._place += len(found)
        return self._place

    def tell(self) -> int:
        return self._place

    def drain(self) -> None:
        """To the end, where the checksum of what was squeezed stands."""
        while found := self._inner.read(BLOCK):
            self._budget.spend(len(found))


def _tar_entries(stream: _Forward, budget: _Budget) -> Iterator[_Entry]:
    with tarfile.TarFile(fileobj=cast(BinaryIO, stream), errorlevel=2) as packed:
        while (info := packed.next()) is not None:
            # tarfile keeps every member in a list; this one is not asked for again.
            packed.members.clear()  # type: ignore[attr-defined]
            budget.one_more()
            if info.isdir():
                continue
            if not info.isreg() or info.issparse():
                raise BadPayload(
                    budget.archive, f"{info.name!r} is a link, a device or sparse; only regular files are taken"
                )
            yield _Entry(info.name.removeprefix("./"), info.size, lambda info=info: _member(packed, info))  # type: ignore[misc]
        # tarfile takes a header that is cut off or makes no sense for the end.
        if not stream.at_end:
            raise tarfile.ReadError("it is cut off")
        stream.drain()


def _member(packed: tarfile.TarFile, info: tarfile.TarInfo) -> BinaryIO:
    return cast(BinaryIO, packed.extractfile(info))
