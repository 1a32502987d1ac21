"""A storage in an S3-compatible bucket: the same OCFL 1.1 root with layout 0004, as objects of the bucket.

Buckets have no rename. The content is uploaded first, to a folder of its operation; the version is stored at the moment
when the object's inventory is replaced, which the bucket does only if it is still the one that the version was based
on. The rest (sidecar, the version's own inventory) is derived from it, and completed by a repeat.
"""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urlsplit

from headgate.core.errors import BadPayload, Lost, MissingExtra, ServiceUnavailable, UnknownName, VersionLost
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.formats.hashing import RunningDigests, blocks, mismatch
from headgate.ingest.sources.buckets import connect_bucket
from headgate.ingest.stopping import Stop, check_stop
from headgate.ingest.storage.ocfl_inventory import (
    INVENTORY,
    OBJECT_DECLARATION,
    SIDECAR,
    OcflInventory,
    VersionPlan,
    earlier_version,
    id_in,
    parse,
    plan,
    read_unsealed,
    render,
    sidecar_of,
)
from headgate.ingest.storage.ocfl_layout import home_of, root_files
from headgate.ingest.storage.port import KnownDigests, NewFile, Note, ObjectChange, Problem, Progress, Version
from headgate.ingest.storage.verifying import KeyTree, problems_of
from headgate.ingest.validation.objects import validate_object

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
except ImportError as error:
    raise MissingExtra("s3", "Storage in a bucket needs obstore") from error

if TYPE_CHECKING:
    from obstore import ReadableFile, UpdateVersion
    from obstore.store import S3Store

#: Smallest part of a large file; the bucket accepts 10,000 of them.
_PIECE = 8 << 20
_PIECES = 9_000
_NOT_FOUND = (NotFoundError, FileNotFoundError)


@dataclass(frozen=True, slots=True)
class _StoredInventory:
    """An inventory in the bucket."""

    inventory: OcflInventory
    raw: bytes
    #: The bucket's identifier of its content.
    seen: UpdateVersion


def open_bucket(url: str) -> S3Storage:
    """The storage at s3://bucket/prefix; the endpoint and the credentials come from the environment."""
    parts = urlsplit(url)
    return S3Storage(connect_bucket(parts.netloc), parts.path)


class S3Storage:
    """See Storage for the methods."""

    #: Keys of a bucket are compared byte by byte.
    case_blind = ""

    def __init__(self, bucket: S3Store, prefix: str = "") -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with _errors():
            for name, content in root_files().items():
                self._put_new(self._prefix + name, content)

    def put_version(
        self,
        object_id: str,
        change: ObjectChange,
        note: Note,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> Version:
        home = self._home(object_id)
        with _errors():
            found = self._load(home, object_id)
            inventory = found.inventory if found else None
            if found:
                self._seal(home, found.inventory, found.raw)
            number = earlier_version(inventory, change, note)
            if number is None:
                made = plan(object_id, inventory, change, note, _apart(note))
                self._store(home, made, found, stop, progress)
                number = made.number
        return self.list_versions(object_id)[number - 1]

    def list_versions(self, object_id: str) -> tuple[Version, ...]:
        home = self._home(object_id)
        with _errors():
            found = self._load(home, object_id)
            sizes = self._sizes(home) if found else {}
        if found is None:
            return ()
        missing = [path for path in found.inventory.content if path not in sizes]
        if missing:
            raise BadPayload(object_id, f"one of its files is missing: {missing[0]}")
        return tuple(found.inventory.version(number, sizes) for number in found.inventory.numbers())

    @contextmanager
    def read(self, object_id: str, name: str, version: int | None = None) -> Iterator[BinaryIO]:
        home = self._home(object_id)
        with _errors():
            found = self._load(home, object_id)
            if found is None:
                raise UnknownName("object", object_id)
            with self._open(home + found.inventory.place(name, version)) as source:
                yield source

    def delete(self, object_id: str) -> None:
        home = self._home(object_id)
        with _errors():
            # Without its inventory there is no object, whatever remains.
            self._delete([home + INVENTORY])
            self._delete([home + path for path in self._sizes(home)])

    def verify(
        self,
        object_id: str,
        stop: Stop | None = None,
        progress: Progress | None = None,
        known: KnownDigests = MappingProxyType({}),
        *,
        warnings: bool = False,
    ) -> list[Problem]:
        home = self._home(object_id)
        with _errors():
            sizes = self._sizes(home)
            if not sizes:
                return [Problem(object_id, "", "there is no such object")]
            tree = KeyTree(sizes, lambda path: self._opened(home + path))
            found = validate_object(tree, known=known, stop=stop, progress=progress)
        return problems_of(object_id, found, warnings=warnings)

    def objects(self) -> Iterator[str]:
        with _errors():
            for page in obstore.list(self._bucket, self._prefix or None):
                for meta in page:
                    parts = meta["path"].removeprefix(self._prefix).split("/")
                    is_object = len(parts) == 5 and parts[4] == INVENTORY
                    if is_object and (found := id_in(self._get(meta["path"]) or b"")):
                        yield found

    # ---------------------------------------------------------------- reading

    def _home(self, object_id: str) -> str:
        return f"{self._prefix}{home_of(object_id)}/"

    def _load(self, home: str, object_id: str) -> _StoredInventory | None:
        try:
            answer = obstore.get(self._bucket, home + INVENTORY)
        except _NOT_FOUND:
            return None
        raw = bytes(answer.bytes())
        # A bucket without versioning has no versions to compare; every bucket returns a tag.
        seen: UpdateVersion = {"e_tag": answer.meta["e_tag"]}
        return _StoredInventory(self._parse(home, raw, object_id), raw, seen)

    def _parse(self, home: str, raw: bytes, object_id: str) -> OcflInventory:
        found = parse(raw, self._get(home + SIDECAR) or b"", object_id)
        if found is None:
            # A writer that died right after its commit left the previous sidecar, and no inventory in its version.
            found = read_unsealed(raw, object_id)
            if self._get(f"{home}v{found.head}/{INVENTORY}") not in (None, raw):
                raise BadPayload(object_id, "its inventory is damaged")
        return found

    def _get(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._bucket, key).bytes())
        except _NOT_FOUND:
            return None

    @contextmanager
    def _open(self, key: str) -> Iterator[BinaryIO]:
        try:
            source = self._opened(key)
        except FileNotFoundError as error:
            raise BadPayload(key, "it is missing") from error
        with source:
            yield source

    def _opened(self, key: str) -> BinaryIO:
        """Opened like a file: FileNotFoundError when it does not exist."""
        try:
            reader = obstore.open_reader(self._bucket, key, buffer_size=_PIECE)
        except _NOT_FOUND as error:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", key) from error
        return cast(BinaryIO, io.BufferedReader(_Reader(reader), _PIECE))

    def _sizes(self, home: str) -> dict[str, int]:
        """Every key below an object, with its size."""
        pages = obstore.list(self._bucket, home)
        return {meta["path"].removeprefix(home): meta["size"] for page in pages for meta in page}

    # ---------------------------------------------------------------- writing

    def _store(
        self,
        home: str,
        made: VersionPlan,
        former: _StoredInventory | None,
        stop: Stop | None,
        progress: Progress | None,
    ) -> None:
        keys = [home + path for path in made.content]
        raw, _ = render(made.document)
        try:
            self._put_new(home + OBJECT_DECLARATION[0], OBJECT_DECLARATION[1])
            for key, file in zip(keys, made.content.values(), strict=True):
                self._upload(key, file, stop, progress)
            if not self._commit(home, raw, former):
                raise VersionLost(made.document["id"], made.number)
        except (BadPayload, Lost):
            self._delete(keys)
            raise
        inventory = OcflInventory(made.document)
        self._seal(home, inventory, raw)
        self._sweep(home, inventory)

    def _commit(self, home: str, raw: bytes, former: _StoredInventory | None) -> bool:
        """Replace the inventory. False: another process replaced it first.

        When the answer is lost, the client repeats the request, which the bucket refuses because the first one took
        effect: the inventory in the bucket is then ours.
        """
        try:
            obstore.put(self._bucket, home + INVENTORY, raw, mode=former.seen if former else "create")
        except (AlreadyExistsError, PreconditionError):
            return self._get(home + INVENTORY) == raw
        return True

    def _upload(self, key: str, file: NewFile, stop: Stop | None, progress: Progress | None) -> None:
        if not file.path.is_file():
            raise BadPayload(str(file.path), "it is missing, or not a file")
        running = RunningDigests([DEFAULT])

        def passing() -> Iterator[bytes]:
            with file.path.open("rb", buffering=0) as source:
                for block in blocks(source):
                    check_stop(stop, "storing")
                    running.update(block)
                    if progress:
                        progress(len(block))
                    yield block

        if file.size < _PIECE:
            obstore.put(self._bucket, key, b"".join(passing()), use_multipart=False)
        else:
            piece = max(_PIECE, file.size // _PIECES)
            obstore.put(self._bucket, key, passing(), chunk_size=piece, max_concurrency=4)
        if problem := mismatch({DEFAULT: file.digests[DEFAULT]}, running.values()):
            raise BadPayload(str(file.path), f"it changed since it was checked: {problem}")

    def _seal(self, home: str, inventory: OcflInventory, raw: bytes) -> None:
        """Write the files derived from an inventory: its sidecar, and its version's copy of both."""
        sidecar = sidecar_of(raw)
        version = f"{home}v{inventory.head}/"
        for key, content in ((home + SIDECAR, sidecar), (version + INVENTORY, raw), (version + SIDECAR, sidecar)):
            if self._get(key) != content:
                obstore.put(self._bucket, key, content)

    def _sweep(self, home: str, inventory: OcflInventory) -> None:
        """Remove files that dead or slower writers left in the version that is stored now."""
        folder = f"v{inventory.head}/content/"
        known = inventory.content
        left = [home + path for path in self._sizes(home) if path.startswith(folder) and path not in known]
        self._delete(left)

    def _put_new(self, key: str, content: bytes) -> None:
        if self._get(key) is None:
            obstore.put(self._bucket, key, content)

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                obstore.delete(self._bucket, key)
            except _NOT_FOUND:
                continue


class _Reader(io.RawIOBase):
    """A file opened by obstore, with the interface of Python's files."""

    def __init__(self, inner: ReadableFile) -> None:
        self._inner = inner

    def readable(self) -> bool:
        return True

    def readinto(self, target: bytearray | memoryview) -> int:  # type: ignore[override]
        found = bytes(self._inner.read(len(target)))
        target[: len(found)] = found
        return len(found)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except BaseError as error:
        raise ServiceUnavailable("storage bucket", str(error).partition("\n")[0]) from error
    except OSError as error:
        raise ServiceUnavailable("storage bucket", str(error)) from error


def _apart(note: Note) -> str:
    return f"{hashlib.sha256(note.operation.encode()).hexdigest()[:8]}/"
