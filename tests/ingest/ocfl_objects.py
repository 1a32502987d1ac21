"""OCFL objects as other tools write them: of any version, algorithm and convention, valid or broken."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Document = dict[str, Any]
OBJECT_ID = "info:example/object-1"
#: The md5 of the content `one`.
MD5_OF_ONE = "f97c5d29941bfb1b2fdab0874906ab82"
#: The files of each version.
VERSIONS: Sequence[Mapping[str, bytes]] = (
    {"a.txt": b"one", "deep/b.txt": b"two"},
    {"a.txt": b"three", "deep/b.txt": b"two", "copy.txt": b"two"},
)


@dataclass
class Maker:
    """Makes an object. `edit` changes the inventory of each version before its sidecar is written."""

    specification: str = "1.1"
    algorithm: str = "sha512"
    #: Digits of a zero-padded version number; 0: not padded.
    width: int = 0
    #: The content directory; None: the inventory does not name one.
    directory: str | None = None
    versions: Sequence[Mapping[str, bytes]] = VERSIONS
    object_id: str = OBJECT_ID
    fixity: Sequence[str] = ("md5",)
    edit: Callable[[Document, int], None] = field(default=lambda _document, _number: None)

    def make(self, root: Path) -> Path:
        root.mkdir(parents=True)
        (root / f"0=ocfl_object_{self.specification}").write_text(f"ocfl_object_{self.specification}\n")
        document = self._empty()
        for number, files in enumerate(self.versions, 1):
            self._add(document, number, files, root)
            made = json.loads(json.dumps(document))
            self.edit(made, number)
            for place in (root / self.name(number), root):
                place.mkdir(exist_ok=True)
                seal(place, made, self.algorithm)
        return root

    def name(self, number: int) -> str:
        return f"v{number:0{self.width}d}" if self.width else f"v{number}"

    def _empty(self) -> Document:
        document: Document = {
            "id": self.object_id, "type": f"https://ocfl.io/{self.specification}/spec/#inventory",
            "digestAlgorithm": self.algorithm, "head": "", "manifest": {}, "versions": {},
            "fixity": {each: {} for each in self.fixity},
        }  # fmt: skip
        return document | ({"contentDirectory": self.directory} if self.directory else {})

    def _add(self, document: Document, number: int, files: Mapping[str, bytes], root: Path) -> None:
        state: dict[str, list[str]] = {}
        for name, content in files.items():
            digest = hashlib.new(self.algorithm, content).hexdigest()
            state.setdefault(digest, []).append(name)
            if digest not in document["manifest"]:
                path = f"{self.name(number)}/{self.directory or 'content'}/{name}"
                document["manifest"][digest] = [path]
                for each in self.fixity:
                    value = hashlib.new(each, content).hexdigest()
                    document["fixity"][each].setdefault(value, []).append(path)
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(content)
        document["head"] = self.name(number)
        document["versions"][self.name(number)] = {
            "created": f"2026-11-{number:02}T08:00:00Z", "message": f"version {number}", "state": state,
            "user": {"name": "Ann", "address": "mailto:ann@example.org"},
        }  # fmt: skip


def seal(place: Path, document: object, algorithm: str) -> None:
    """Write an inventory and its sidecar."""
    write_inventory(place, json.dumps(document, ensure_ascii=False).encode(), algorithm)


def write_inventory(place: Path, raw: bytes, algorithm: str) -> None:
    """Write an inventory of any bytes, and its sidecar."""
    (place / "inventory.json").write_bytes(raw)
    (place / f"inventory.json.{algorithm}").write_text(f"{hashlib.new(algorithm, raw).hexdigest()} inventory.json\n")


@dataclass
class Broken:
    """One way to break an object: its inventories before their sidecars are written, or its files afterwards."""

    edit: Callable[[Document], object] | None = None
    #: Which inventories are edited; 0: all.
    only: int = 0
    files: Callable[[Path], object] | None = None
    change: Mapping[str, Any] = field(default_factory=dict)

    def make(self, root: Path, specification: str = "1.1", algorithm: str = "sha512") -> Path:
        maker = Maker(specification, algorithm)
        for name, value in self.change.items():
            setattr(maker, name, value)

        def edit(document: Document, number: int) -> None:
            if self.edit is not None and self.only in (0, number):
                self.edit(document)

        maker.edit = edit
        maker.make(root)
        if self.files is not None:
            self.files(root)
        return root


# ---------------------------------------------------------------- changes of inventories


def put(*keys: str, value: Any) -> Callable[[Document], object]:
    """Set the value at these keys."""

    def edit(document: Document) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return edit


def drop(*keys: str) -> Callable[[Document], object]:
    def edit(document: Document) -> None:
        for key in keys[:-1]:
            document = document[key]
        document.pop(keys[-1], None)

    return edit


def rename(old: str, new: str, *within: str) -> Callable[[Document], object]:
    """Rename a key."""

    def edit(document: Document) -> None:
        for key in within:
            document = document[key]
        if old in document:
            document[new] = document.pop(old)

    return edit


def content_path(change: Callable[[str], Any]) -> Callable[[Document], object]:
    """Change the first content path, wherever it occurs."""

    def edit(document: Document) -> None:
        digest = next(iter(document["manifest"]))
        document["manifest"][digest] = [change(document["manifest"][digest][0])]
        document["fixity"] = {}

    return edit


def fixity_path(change: Callable[[str], Any]) -> Callable[[Document], object]:
    """Change the first path of the fixity block, and leave the manifest as it is."""

    def edit(document: Document) -> None:
        value = next(iter(document["fixity"]["md5"]))
        document["fixity"]["md5"][value] = [change(path) for path in document["fixity"]["md5"][value]]

    return edit


def unlisted_file(document: Document) -> None:
    """Remove a file from the manifest and from everything that refers to it."""
    digest, _paths = document["manifest"].popitem()
    document["fixity"] = {}
    for version in document["versions"].values():
        version["state"].pop(digest)


def below(part: str) -> Callable[[str], Any]:
    return lambda path: f"x/{part}/{path}"


def within(part: str) -> Callable[[str], Any]:
    return lambda _path: f"v1/content/{part}/a.txt"


def logical_path(change: Callable[[str], Any]) -> Callable[[Document], object]:
    def edit(document: Document) -> None:
        for version in document["versions"].values():
            digest = next(iter(version["state"]))
            version["state"][digest] = [change(version["state"][digest][0])]

    return edit


def add_digest(case: Callable[[str], str]) -> Callable[[Document], object]:
    """Add the first digest of the manifest a second time."""

    def edit(document: Document) -> None:
        digest, paths = next(iter(document["manifest"].items()))
        document["manifest"][case(digest)] = paths if case(digest) != digest else []

    return edit


def twice_in_fixity(document: Document) -> None:
    value, paths = next(iter(document["fixity"]["md5"].items()))
    document["fixity"]["md5"] = {value: paths, value.upper(): paths}


def twice_in_manifest(document: Document) -> None:
    digest, paths = next(iter(document["manifest"].items()))
    document["manifest"][digest] = [*paths, *paths]


def twice_in_state(document: Document) -> None:
    for version in document["versions"].values():
        digest, paths = next(iter(version["state"].items()))
        version["state"][digest] = [*paths, *paths]


def of_each_version(change: Callable[[Document], object]) -> Callable[[Document], object]:
    def edit(document: Document) -> None:
        for version in document["versions"].values():
            change(version)

    return edit


def unknown_state_digest(document: Document) -> None:
    for version in document["versions"].values():
        version["state"]["0" * len(next(iter(document["manifest"])))] = ["ghost.txt"]


def unused_digest(document: Document) -> None:
    document["manifest"]["0" * len(next(iter(document["manifest"])))] = ["v1/content/a.txt"]
    digest = next(iter(document["manifest"]))
    document["manifest"][digest] = ["v1/content/deep/c.txt"]


def other_algorithm(document: Document) -> None:
    document["digestAlgorithm"] = "sha256" if document["digestAlgorithm"] == "sha512" else "sha512"


# ---------------------------------------------------------------- changes of files


def write(name: str, content: bytes = b"") -> Callable[[Path], object]:
    def files(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)

    return files


def remove(pattern: str) -> Callable[[Path], object]:
    def files(root: Path) -> None:
        for path in list(root.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return files


def move(pattern: str, name: Callable[[str], str]) -> Callable[[Path], object]:
    def files(root: Path) -> None:
        for path in list(root.glob(pattern)):
            path.rename(path.with_name(name(path.name)))

    return files


def folder(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).mkdir(parents=True)


def link(name: str, target: str) -> Callable[[Path], object]:
    return lambda root: (root / name).symlink_to(target)


def hard_link(name: str, target: str) -> Callable[[Path], object]:
    return lambda root: (root / name).hardlink_to(root / target)


def pipe(name: str) -> Callable[[Path], object]:
    return lambda root: os.mkfifo(root / name)


def copy_inventory(source: str, target: str) -> Callable[[Path], object]:
    """Put the inventory of one place, with its sidecar, into another."""
    return lambda root: [shutil.copy(path, root / target) for path in (root / source).glob("inventory.json*")]


def other_sidecar(root: Path) -> None:
    for path in list(root.glob("inventory.json.sha*")):
        path.rename(path.with_suffix(".sha256" if path.suffix == ".sha512" else ".sha512"))
