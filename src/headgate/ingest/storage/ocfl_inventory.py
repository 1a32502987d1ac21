"""OCFL 1.1 inventories: reading the current one, and writing the next. No files are touched here.

The operation id is the last line of its version's message, so that it is stored with the version in the same write, and
a repeat is recognised from the inventory.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headgate.core.errors import BadPayload, BadValue, UnknownName
from headgate.core.values.documents import read_document
from headgate.ingest.formats.digests import DEFAULT, OCFL_DIGITS
from headgate.ingest.formats.file_names import check_file_names
from headgate.ingest.storage.port import NewFile, Note, ObjectChange, StoredFile, Version

OBJECT_DECLARATION = ("0=ocfl_object_1.1", b"ocfl_object_1.1\n")
INVENTORY = "inventory.json"
SIDECAR = f"inventory.json.{DEFAULT}"
_TYPE = "https://ocfl.io/1.1/spec/#inventory"
_OPERATION = re.compile(r"(?:\A|\n\n)operation: (\S+)\Z")

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """The next version: its inventory, and the files to write."""

    number: int
    document: Document
    #: Content path below the object (`v2/content/a.txt`) to the file to be stored there.
    content: Mapping[str, NewFile]


class OcflInventory:
    """A parsed inventory."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.object_id: str = document["id"]
        self.head = int(document["head"][1:])

    @property
    def content(self) -> dict[str, str]:
        """Each content path, and its digest."""
        return {path: digest for digest, paths in self.document["manifest"].items() for path in paths}

    def numbers(self) -> list[int]:
        return sorted(int(name[1:]) for name in self.document["versions"])

    def operation(self, number: int) -> str:
        return _split_message(self.document["versions"][f"v{number}"].get("message", ""))[1]

    def state(self, number: int) -> dict[str, str]:
        """Each file of a version, and its digest."""
        versions = self.document["versions"]
        if f"v{number}" not in versions:
            raise UnknownName("version", f"{self.object_id} v{number}", f"Existing versions: {', '.join(versions)}")
        return {name: digest for digest, names in versions[f"v{number}"]["state"].items() for name in names}

    def place(self, name: str, version: int | None) -> str:
        """The content path of a file, below the object."""
        number = self.head if version is None else version
        digest = self.state(number).get(name)
        if digest is None:
            raise UnknownName("file", name, f"It is not in version {number} of {self.object_id}")
        return str(self.document["manifest"][digest][0])

    def version(self, number: int, sizes: Mapping[str, int]) -> Version:
        block = self.document["versions"][f"v{number}"]
        message, operation = _split_message(block.get("message", ""))
        files = tuple(self._file(name, digest, sizes) for name, digest in sorted(self.state(number).items()))
        return Version(self.object_id, number, datetime.fromisoformat(block["created"]), message, operation, files)

    def _file(self, name: str, digest: str, sizes: Mapping[str, int]) -> StoredFile:
        path = self.document["manifest"][digest][0]
        return StoredFile(name, sizes[path], digest, int(path.partition("/")[0][1:]))


def parse(raw: bytes, sidecar: bytes, object_id: str) -> OcflInventory | None:
    """The inventory, if it is intact: its digest matches the sidecar, and its id is the object's."""
    if sidecar.split()[:1] != [_digest(raw).encode()]:
        return None
    return read_unsealed(raw, object_id)


def read_unsealed(raw: bytes, object_id: str) -> OcflInventory:
    """An inventory without its sidecar; only its form shows that it is complete."""
    try:
        found = OcflInventory(read_document(raw))
    except (ValueError, KeyError, TypeError) as error:
        raise BadPayload(object_id, "its inventory is damaged") from error
    if found.object_id != object_id:
        raise BadPayload(object_id, f"another object is stored in its place: {found.object_id}")
    return found


def id_in(raw: bytes) -> str:
    """The object id of an inventory; empty when it is unreadable. Its integrity is not checked here."""
    try:
        return str(read_document(raw)["id"])
    except (ValueError, LookupError, TypeError):
        return ""


def render(document: Document) -> tuple[bytes, bytes]:
    """An inventory and its sidecar, in their stored form."""
    raw = json.dumps(document, indent=1, ensure_ascii=False).encode()
    return raw, sidecar_of(raw)


def sidecar_of(raw: bytes) -> bytes:
    return f"{_digest(raw)} {INVENTORY}\n".encode()


def earlier_version(inventory: OcflInventory | None, change: ObjectChange, note: Note) -> int | None:
    """The version that this operation has stored already; BadValue when the same operation stored different files."""
    if inventory is None:
        return None
    number = next((each for each in inventory.numbers() if inventory.operation(each) == note.operation), None)
    if number is not None:
        state = inventory.state(number)
        if any(state.get(name) != file.digests[DEFAULT] for name, file in change.files.items()):
            raise BadValue("operation", note.operation, f"stored other files before, as version {number}")
    return number


def plan(
    object_id: str,
    inventory: OcflInventory | None,
    change: ObjectChange,
    note: Note,
    apart: str = "",
    case_blind: str = "",
) -> VersionPlan:
    """The next inventory. Content that the object already has is not stored again.

    `apart`: a separate content folder, for storages in which two writers could use the same one. `case_blind`: the
    location that cannot distinguish names that differ only in case; empty: this storage can.
    """
    _check(change, note)
    number = inventory.head + 1 if inventory else 1
    state = dict(inventory.state(inventory.head)) if inventory and change.keep else {}
    for name in change.remove:
        state.pop(name, None)
    state.update((name, file.digests[DEFAULT]) for name, file in change.files.items())
    check_file_names(list(state), case_blind)
    document = _copied(inventory.document) if inventory else _empty(object_id)
    content = _add_content(document, f"v{number}/content/{apart}", change)
    _add_fixity(document, content)
    document["head"] = f"v{number}"
    document["versions"][f"v{number}"] = _version_block(state, note)
    return VersionPlan(number, document, content)


def _check(change: ObjectChange, note: Note) -> None:
    if not re.fullmatch(r"\S{1,200}", note.operation):
        raise BadValue("operation", note.operation, "must be one word")
    if note.created.tzinfo is None:
        raise BadValue("created", note.created, "has no time zone")
    for name, file in change.files.items():
        if not re.fullmatch(r"[0-9a-f]{64}", file.digests.get(DEFAULT, "")):
            raise BadValue("file", name, f"has no {DEFAULT} in lower-case hexadecimal")


def _add_content(document: Document, folder: str, change: ObjectChange) -> dict[str, NewFile]:
    content = {}
    for name, file in change.files.items():
        digest = file.digests[DEFAULT]
        if digest not in document["manifest"]:
            path = folder + name
            document["manifest"][digest] = [path]
            content[path] = file
    return content


def _add_fixity(document: Document, content: Mapping[str, NewFile]) -> None:
    for path, file in content.items():
        for algorithm, value in file.digests.items():
            if algorithm != DEFAULT and algorithm in OCFL_DIGITS:
                known = document.setdefault("fixity", {}).setdefault(algorithm, {})
                known.setdefault(value.lower(), []).append(path)


def _version_block(state: Mapping[str, str], note: Note) -> Document:
    by_digest: dict[str, list[str]] = {}
    for name, digest in sorted(state.items()):
        by_digest.setdefault(digest, []).append(name)
    return {
        "created": note.created.isoformat(timespec="seconds"),
        "message": "\n\n".join(filter(None, [note.message, f"operation: {note.operation}"])),
        "state": by_digest,
        "user": {"name": note.user, "address": note.user_address},
    }


def _empty(object_id: str) -> Document:
    return {"id": object_id, "type": _TYPE, "digestAlgorithm": DEFAULT, "head": "", "manifest": {}, "versions": {}}


def _copied(document: Document) -> Document:
    """A copy that `plan` can change."""
    copy = dict(document)
    copy["manifest"] = dict(document["manifest"])
    copy["versions"] = dict(document["versions"])
    if "fixity" in document:
        # Others make an inventory invalid; versions from earlier releases may have them.
        copy["fixity"] = {
            algorithm: {value: list(paths) for value, paths in known.items()}
            for algorithm, known in document["fixity"].items()
            if algorithm in OCFL_DIGITS
        }
    return copy


def _split_message(text: str) -> tuple[str, str]:
    found = _OPERATION.search(text)
    return (text[: found.start()], found[1]) if found else (text, "")


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
