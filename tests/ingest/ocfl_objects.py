"""OCFL objects as other tools write them: of any version, algorithm and convention, whole or broken."""

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
#: The files of each version.
VERSIONS: Sequence[Mapping[str, bytes]] = (
    {"a.txt": b"one", "deep/b.txt": b"two"},
    {"a.txt": b"three", "deep/b.txt": b"two", "copy.txt": b"two"},
)


@dataclass
class Maker:
    """Makes an object. `edit` changes the inventory of each version before it is sealed."""

    specification: str = "1.1"
    algorithm: str = "sha512"
    #: Digits of a zero-padded version; 0: not padded.
    width: int = 0
    #: The content directory; None: the inventory does not say.
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
    """One way to break an object: its inventories before they are sealed, or its files afterwards."""

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
    """Set what stands at these keys."""

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
    """Give a key another name."""

    def edit(document: Document) -> None:
        for key in within:
            document = document[key]
        if old in document:
            document[new] = document.pop(old)

    return edit


def content_path(change: Callable[[str], Any]) -> Callable[[Document], object]:
    """Change the first content path, wherever it stands."""

    def edit(document: Document) -> None:
        digest = next(iter(document["manifest"]))
        document["manifest"][digest] = [change(document["manifest"][digest][0])]
        document["fixity"] = {}

    return edit


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
    """The first digest of the manifest a second time."""

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


def other_sidecar(root: Path) -> None:
    for path in list(root.glob("inventory.json.sha*")):
        path.rename(path.with_suffix(".sha256" if path.suffix == ".sha512" else ".sha512"))


#: No values of md5 with arrays of content paths.
STRANGE_MD5: list[Any] = [
    [], {"0" * 32: "a.txt"}, {"0" * 32: ["ghost.txt"]}, {"x": []}, {"0" * 32: [7]}, None,
]  # fmt: skip
#: For each code that objects are reported with: ways to get it.
BROKEN: dict[str, list[Broken]] = {
    "E001": [
        Broken(files=write("stray.txt")),
        Broken(files=folder("stray")),
        Broken(files=pipe("pipe")),
        Broken(files=write("logs")),
    ],
    "E002": [Broken(files=move("0=*", lambda name: name.removeprefix("0=")))],
    "E003": [Broken(files=remove("0=*")), Broken(files=write("0=ocfl_object_1.0", b"ocfl_object_1.0\n"))],
    "E004": [
        Broken(files=move("0=*", lambda name: name.replace("0=", "x="))),
        Broken(files=move("0=*", lambda name: name.replace("0=", "00="))),
    ],
    "E005": [Broken(files=move("0=*", lambda name: name.replace("0=", "1=")))],
    "E006": [
        Broken(files=move("0=*", lambda _name: "0=ocfl_object_9.9")),
        Broken(files=move("0=*", lambda _name: "0=ocfl_objekt_1.1")),
    ],
    "E007": [
        Broken(files=write("0=ocfl_object_1.1", b"ocfl_object_1.1"), change={"specification": "1.1"}),
        Broken(files=write("0=ocfl_object_1.0", b""), change={"specification": "1.0"}),
    ],
    "E008": [Broken(put("versions", value={}))],
    "E009": [Broken(rename("v1", "v3", "versions")), Broken(drop("versions", "v1"), only=2)],
    "E010": [Broken(rename("v2", "v3", "versions"))],
    "E011": [Broken(rename("v02", "v10", "versions"), change={"width": 2})],
    "E012": [Broken(rename("v02", "v002", "versions"), change={"width": 2})],
    "E013": [
        Broken(rename("v2", "v02", "versions")),
        Broken(rename("v002", "v2", "versions"), change={"width": 3}),
    ],
    "E014": [Broken(content_path(lambda path: path.replace("v1/", "v01/")))],
    "E015": [
        Broken(files=write("v1/stray.txt")),
        Broken(files=remove("v1/inventory.json")),
        Broken(files=write("v1/inventory.json.sha256", b"0" * 64 + b" inventory.json\n")),
    ],
    "E016": [Broken(files=remove("v1/content"))],
    "E017": [Broken(put("contentDirectory", value="a/b"))],
    "E018": [Broken(put("contentDirectory", value="..")), Broken(put("contentDirectory", value="."))],
    "E019": [Broken(put("contentDirectory", value="content"), only=2)],
    "E020": [Broken(put("contentDirectory", value="other"), only=1)],
    "E021": [Broken(content_path(lambda path: path.replace("/content/", "/data/")))],
    "E023": [Broken(files=write("v1/content/stray.txt"))],
    "E024": [Broken(files=folder("v1/content/empty")), Broken(files=folder("v1/content/x/y"))],
    "E025": [Broken(put("digestAlgorithm", value="md5")), Broken(put("digestAlgorithm", value=["sha512"]))],
    "E029": [Broken(put("fixity", value={"sha1": {"xyz": ["v1/content/a.txt"]}}))],
    "E030": [Broken(put("fixity", value={"sha256": {"g" * 64: ["v1/content/a.txt"]}}))],
    "E031": [Broken(put("fixity", value={"sha512": {"": ["v1/content/a.txt"]}}))],
    "E032": [Broken(put("fixity", value={"blake2b-512": {"0" * 64: ["v1/content/a.txt"]}}))],
    "E033": [
        Broken(files=write("inventory.json", content))
        for content in (
            b"", b"{", b"[]", b"null", b"\xff\xfe{}", b'{"id": "a", "id": "b"}', b'{"id": NaN}', b'{"id": "\\ud800"}',
            b"[" * 100_000, b'{"a":' * 60 + b"1" + b"}" * 60, b"\xef\xbb\xbf{}", b"123", b'"inventory"',
        )
    ],
    "E034": [
        Broken(files=move("inventory.json", lambda _name: "inventory.jsonld")),
        Broken(files=move("inventory.json", lambda _name: "Inventory.json")),
    ],
    "E035": [Broken(content_path(lambda path: path.replace("/", "\\")))],
    "E036": [Broken(drop(key)) for key in ("id", "type", "digestAlgorithm", "head")],
    "E037": [Broken(put("id", value="")), Broken(put("id", value=7)), Broken(put("id", value=None))],
    "E038": [
        Broken(put("type", value="https://ocfl.io/9.9/spec/#inventory")),
        Broken(put("type", value={})),
        Broken(put("type", value="https://ocfl.io/1.1/spec/#inventory"), change={"specification": "1.0"}),
    ],
    "E039": [Broken(other_algorithm)],
    "E040": [Broken(put("head", value="v1"), only=2), Broken(put("head", value=2))],
    "E041": [Broken(drop("manifest"))],
    "E042": [
        Broken(content_path(lambda _path: "elsewhere/content/a.txt")),
        Broken(content_path(lambda _path: "a.txt")),
        Broken(content_path(lambda _path: "v1/content")),
        Broken(content_path(lambda path: path.replace("/d/", "/e/")), change={"directory": "d"}),
    ],
    "E043": [Broken(drop("versions"))],
    "E044": [Broken(rename("versions", "Versions"))],
    "E045": [Broken(put("versions", value=[])), Broken(put("versions", value=None))],
    "E046": [Broken(files=remove("v1")), Broken(files=folder("v3"))],
    "E047": [Broken(put("versions", "v1", value=[])), Broken(put("versions", "v1", value="one"))],
    "E048": [Broken(of_each_version(drop("created"))), Broken(of_each_version(drop("state")))],
    "E049": [
        Broken(of_each_version(put("created", value=value)))
        for value in (
            "yesterday", "2026-11-18", "2026-11-18T08:00:00", "2026-11-18T08:00Z", "2026-02-30T08:00:00Z",
            "2026-11-18T25:00:00Z", 20261118, None, "2026-11-18 08:00:00Z",
        )
    ],
    "E050": [
        Broken(unknown_state_digest),
        Broken(of_each_version(put("state", value=[]))),
        Broken(of_each_version(put("state", value={"0" * 128: "a.txt"}))),
    ],
    "E051": [Broken(logical_path(lambda _path: 7)), Broken(logical_path(lambda path: [path]))],
    "E052": [
        Broken(logical_path(below(part))) for part in ("..", ".", "")
    ] + [Broken(logical_path(lambda _path: ".."))],
    "E053": [Broken(logical_path(lambda path: f"/{path}")), Broken(logical_path(lambda path: f"{path}/"))],
    "E054": [
        Broken(of_each_version(put("user", value=value)))
        for value in ({}, "Ann", {"name": 7}, {"name": ""}, {"name": "Ann", "address": 7}, None)
    ],
    "E055": [Broken(rename("fixity", "Fixity"))],
    "E056": [
        Broken(put("fixity", value={name: {}})) for name in ("crc32", "adler32", "sha384", "MD5", "sha3-256", "")
    ],
    "E057": [
        Broken(put("fixity", value={"md5": value}))
        for value in STRANGE_MD5
    ] + [Broken(put("fixity", value={"size": {"many": ["v1/content/a.txt"]}}))],
    "E058": [Broken(files=remove("inventory.json.sha*")), Broken(files=remove("v1/inventory.json.sha*"))],
    "E059": [Broken(files=other_sidecar)],
    "E060": [Broken(files=write("inventory.json.sha512", b"0" * 128 + b" inventory.json\n"))],
    "E061": [
        Broken(files=write("inventory.json.sha512", content))
        for content in (b"", b"0" * 128, b"0" * 128 + b" inventory.txt\n", b"xyz inventory.json\n", b"\xff" * 9000)
    ],
    "E063": [Broken(files=remove("inventory.json")), Broken(files=remove("*"))],
    "E064": [Broken(files=write("v2/inventory.json", b"{}"))],
    "E066": [
        Broken(logical_path(lambda path: f"other-{path}"), only=1),
        Broken(rename("v1", "v7", "versions"), only=1),
    ],
    "E067": [Broken(files=write("extensions/stray.txt"))],
    "E089": [Broken(files=pipe("v1/content/pipe"))],
    "E090": [
        Broken(files=link("v1/content/link", "a.txt")),
        Broken(files=link("link", "/etc")),
        Broken(files=hard_link("v1/content/again.txt", "v1/content/a.txt")),
    ],
    "E092": [
        Broken(files=write("v1/content/a.txt", b"damaged")),
        Broken(files=remove("v1/content/a.txt")),
        Broken(put("manifest", "0" * 128, value="v1/content/a.txt")),
        Broken(put("manifest", "0" * 128, value=[])),
    ],
    "E093": [Broken(put("fixity", value={name: {"0" * digits: ["v1/content/a.txt"]}})) for name, digits in (
        ("md5", 32), ("sha1", 40), ("sha256", 64), ("sha512", 128), ("blake2b-512", 128), ("blake2b-160", 40),
        ("blake2b-256", 64), ("blake2b-384", 96), ("sha512/256", 64), ("size", 1),
    )],
    "E094": [Broken(of_each_version(put("message", value=7))), Broken(of_each_version(put("message", value=None)))],
    "E095": [
        Broken(twice_in_state),
        Broken(logical_path(lambda _path: "deep")),
    ],
    "E096": [Broken(add_digest(str.upper))],
    "E097": [Broken(twice_in_fixity)],
    "E098": [Broken(content_path(lambda _path: 7)), Broken(content_path(lambda path: [path]))],
    "E099": [
        Broken(content_path(within(part))) for part in ("..", ".", "")
    ],
    "E100": [Broken(content_path(lambda path: f"/{path}")), Broken(content_path(lambda path: f"{path}/"))],
    "E101": [Broken(twice_in_manifest), Broken(content_path(lambda _path: "v1/content/deep"))],
    "E102": [
        Broken(put("note", value="x")),
        Broken(of_each_version(put("note", value="x"))),
        Broken(of_each_version(put("user", value={"name": "Ann", "address": "mailto:a@b", "note": 1}))),
    ],
    "E103": [
        Broken(put("type", value="https://ocfl.io/1.1/spec/#inventory"), only=1, change={"specification": "1.0"})
    ],
    "E104": [Broken(rename("v2", "2", "versions")), Broken(rename("v2", "", "versions"))],
    "E105": [
        Broken(rename("v2", name, "versions")) for name in ("v0", "v-2", "v2a", "v\u0662", "v", "v" + "9" * 5000)
    ],
    "E106": [Broken(put("manifest", value=[])), Broken(put("manifest", value=None))],
    "E107": [Broken(unused_digest)],
    "E108": [Broken(put("contentDirectory", value="")), Broken(put("contentDirectory", value=7))],
    "E110": [Broken(put("id", value="info:example/other"), only=1)],
    "E111": [Broken(put("fixity", value=[])), Broken(put("fixity", value=None))],
    "W001": [Broken(change={"width": 4})],
    "W002": [
        Broken(files=write("v1/notes/a.txt")),
        Broken(files=folder("v1/inventory.json.sha256")),
    ],
    "W003": [
        Broken(files=folder("v2/content"), change={"versions": (VERSIONS[0], {"a.txt": b"two"})}),
    ],
    "W004": [Broken(change={"algorithm": "sha256"})],
    "W005": [Broken(change={"object_id": "object one"})],
    "W007": [Broken(of_each_version(drop("message"))), Broken(of_each_version(drop("user")))],
    "W008": [Broken(of_each_version(put("user", value={"name": "Ann"})))],
    "W009": [Broken(of_each_version(put("user", value={"name": "Ann", "address": "Main Street 1"})))],
    "W010": [
        Broken(files=remove("v1/inventory.json*")),
        Broken(files=lambda root: [shutil.copy(path, root / "v2") for path in (root / "v1").glob("inv*")],
               change={"versions": (*VERSIONS, VERSIONS[0])}),
    ],
    "W011": [Broken(of_each_version(put("message", value="another")), only=1)],
    "W013": [Broken(files=folder("extensions/my-own"))],
}  # fmt: skip
