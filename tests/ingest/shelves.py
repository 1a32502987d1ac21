"""A storage of each kind with a folder of files to store, and ways to damage stored files."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import obstore
from obstore.store import S3Store

from headgate.ingest.storage.ocfl import OcflStorage
from headgate.ingest.storage.ocfl_layout import home_of
from headgate.ingest.storage.port import NewFile, Note, ObjectChange, Storage
from headgate.ingest.storage.s3 import S3Storage
from tests.ingest.validator import validate

ARK = "ark:/13030/m5br8stc"
WHEN = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


class Hands(Protocol):
    """The content of a disk or a bucket, read without the storage."""

    def names(self) -> list[str]:
        """All files."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None: ...

    def remove(self, name: str) -> None: ...

    def validate(self, folder: Path) -> None:
        """Validate it with the independent validator."""


class DiskHands:
    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()]

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(content)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def validate(self, _folder: Path) -> None:
        validate(self.root)


class BucketHands:
    def __init__(self, bucket: S3Store, prefix: str) -> None:
        self.bucket = bucket
        self.prefix = prefix

    def names(self) -> list[str]:
        pages = obstore.list(self.bucket, f"{self.prefix}/")
        return [meta["path"].removeprefix(f"{self.prefix}/") for page in pages for meta in page]

    def read(self, name: str) -> bytes:
        return bytes(obstore.get(self.bucket, f"{self.prefix}/{name}").bytes())

    def write(self, name: str, content: bytes) -> None:
        obstore.put(self.bucket, f"{self.prefix}/{name}", content)

    def remove(self, name: str) -> None:
        obstore.delete(self.bucket, f"{self.prefix}/{name}")

    def validate(self, folder: Path) -> None:
        copy = DiskHands(folder / "fetched")
        for name in self.names():
            copy.write(name, self.read(name))
        copy.validate(folder)


class Shelf:
    """A storage, and shortcuts for the tests."""

    def __init__(self, folder: Path, storage: Storage, hands: Hands) -> None:
        self.folder = folder
        self.storage = storage
        self.hands = hands

    def files(self, **contents: bytes) -> dict[str, NewFile]:
        return {name.replace("__", "/").replace("_", "."): self.file(content) for name, content in contents.items()}

    def file(self, content: bytes) -> NewFile:
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"source-{digest[:16]}"
        path.write_bytes(content)
        return NewFile(path, len(content), {"sha256": digest, "md5": hashlib.md5(content).hexdigest()})  # noqa: S324

    def put(self, operation: str, change: ObjectChange, object_id: str = ARK) -> int:
        note = Note(operation, WHEN, "as submitted", "ann", "mailto:ann@example.org")
        return self.storage.put_version(object_id, change, note).number

    def read(self, name: str, version: int | None = None) -> bytes:
        with self.storage.read(ARK, name, version) as source:
            return source.read()

    def inner(self) -> dict[str, str]:
        """Every file of the object, by its last name within a version, otherwise by its path; and its full name."""
        home = f"{home_of(ARK)}/"
        names = [name.removeprefix(home) for name in self.hands.names() if name.startswith(home)]
        return {_short(name): home + name for name in names}

    def validate(self) -> None:
        self.hands.validate(self.folder)


def _short(name: str) -> str:
    version, _, rest = name.partition("/content/")
    return f"{version}:{rest.rpartition('/')[2]}" if rest else name


def disk_shelf(folder: Path) -> Shelf:
    root = folder / "storage"
    return Shelf(folder, OcflStorage(root), DiskHands(root))


def bucket_shelf(folder: Path, bucket: S3Store, prefix: str) -> Shelf:
    return Shelf(folder, S3Storage(bucket, prefix), BucketHands(bucket, prefix))
