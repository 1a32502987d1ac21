"""One inventory on its own: its form and its content. No other file is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.values.documents import read_document
from headgate.ingest.formats.digests import OCFL_DIGITS
from headgate.ingest.validation.findings import Findings
from headgate.ingest.validation.inventory_digests import CONTENT, FORM_CODES, form_of, is_value
from headgate.ingest.validation.version_names import VersionNames
from headgate.ingest.validation.versions import check_versions

INVENTORY = "inventory.json"
SPECIFICATIONS = ("1.0", "1.1")
DEFAULT_DIRECTORY = "content"
_TYPE = re.compile(r"https://ocfl\.io/([0-9]+\.[0-9]+)/spec/#inventory")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:.+", re.DOTALL)
_KEYS = frozenset(["id", "type", "digestAlgorithm", "head", "contentDirectory", "manifest", "versions", "fixity"])
#: Keys whose spelling has its own code, and that code.
_SPELLED = {"versions": "E044", "fixity": "E055"}


@dataclass(slots=True)
class CheckedInventory:
    """The readable part of an inventory."""

    #: Its path below the object root.
    path: str
    raw: bytes = field(repr=False)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    id: str = ""
    #: 1.0 or 1.1; empty: it does not say.
    specification: str = ""
    #: sha512 or sha256; empty: neither.
    algorithm: str = ""
    content_directory: str = DEFAULT_DIRECTORY
    sets_directory: bool = False
    names: VersionNames = field(default_factory=VersionNames)
    #: Content path to digest, in lower case.
    content: dict[str, str] = field(default_factory=dict, repr=False)
    #: Algorithm, value in lower case, and content path.
    fixity: list[tuple[str, str, str]] = field(default_factory=list, repr=False)
    #: By the name of a version: logical path to digest, in lower case.
    states: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)


def check_inventory(raw: bytes, path: str, findings: Findings) -> CheckedInventory | None:
    """The content of an inventory. None: it is not a JSON object."""
    try:
        document = read_document(raw)
    except (ValueError, RecursionError) as error:
        findings.add("E033", path, f"it cannot be read as JSON: {error}")
        return None
    if not isinstance(document, dict):
        findings.add("E033", path, f"it is {_kind(document)}, not an object")
        return None
    found = CheckedInventory(path, raw, document)
    _Check(found, findings).all()
    return found


class _Check:
    """The rules for one inventory, each a function."""

    def __init__(self, found: CheckedInventory, findings: Findings) -> None:
        self._found, self._findings, self._document = found, findings, found.document

    def all(self) -> None:
        """Every rule. Later ones use the results of earlier ones."""
        self._keys()
        self._id()
        self._type()
        self._algorithm()
        self._directory()
        check_versions(self._found.document, self._found.names, self._found.path, self._findings)
        self._head()
        self._manifest()
        self._states()
        self._fixity()

    def _say(self, code: str, why: str) -> None:
        self._findings.add(code, self._found.path, why)

    # ------------------------------------------------------------ keys

    def _keys(self) -> None:
        for key in self._document:
            if key in _KEYS:
                continue
            self._say("E102", f"it has the key {key!r}")
            lower = key.lower()
            if lower in _SPELLED and lower not in self._document:
                self._say(_SPELLED[lower], f"its key is {key!r}, not {lower!r}")
        for key in ("id", "type", "digestAlgorithm", "head"):
            if key not in self._document:
                self._say("E036", f"it has no {key!r}")

    def _id(self) -> None:
        value = self._document.get("id")
        if isinstance(value, str) and value:
            self._found.id = value
            if not _URI.fullmatch(value):
                self._say("W005", f"its id {value!r} is not a URI")
        elif "id" in self._document:
            self._say("E037", f"its id is {_kind(value)}" if value != "" else "its id is empty")

    def _type(self) -> None:
        value = self._document.get("type")
        match = _TYPE.fullmatch(value) if isinstance(value, str) else None
        if match and match[1] in SPECIFICATIONS:
            self._found.specification = match[1]
        elif "type" in self._document:
            known = " or ".join(f"https://ocfl.io/{each}/spec/#inventory" for each in SPECIFICATIONS)
            self._say("E038", f"its type is {value!r}, not {known}")

    def _algorithm(self) -> None:
        value = self._document.get("digestAlgorithm")
        if value in CONTENT and isinstance(value, str):
            self._found.algorithm = value
            if value != "sha512":
                self._say("W004", f"its digestAlgorithm is {value}")
        elif "digestAlgorithm" in self._document:
            self._say("E025", f"its digestAlgorithm is {value!r}")

    def _directory(self) -> None:
        if "contentDirectory" not in self._document:
            return
        value = self._document["contentDirectory"]
        if not isinstance(value, str) or not value:
            self._say("E108", "its contentDirectory is empty" if value == "" else "its contentDirectory is not a text")
        elif "/" in value:
            self._say("E017", f"its contentDirectory {value!r} has a slash")
        elif value in (".", ".."):
            self._say("E018", f"its contentDirectory is {value!r}")
        else:
            self._found.content_directory, self._found.sets_directory = value, True

    def _head(self) -> None:
        head, newest = self._document.get("head"), self._found.names.newest
        if "head" in self._document and newest and head != newest:
            self._say("E040", f"its head is {head!r}; the newest version is {newest!r}")

    # ------------------------------------------------------------ manifest

    def _manifest(self) -> None:
        block = self._document.get("manifest")
        if "manifest" not in self._document:
            self._say("E041", "it has no manifest")
        elif not isinstance(block, dict):
            self._say("E106", f"its manifest is {_kind(block)}, not an object")
        else:
            seen: set[str] = set()
            for digest, paths in block.items():
                self._entry(digest, paths, seen)
            self._conflicts(self._found.content, "E101", "content path", "the manifest")

    def _entry(self, digest: str, paths: Any, seen: set[str]) -> None:
        self._form(digest, "the manifest")
        plain = digest.lower()
        if plain in seen:
            self._say("E096", f"the digest {plain} is in the manifest twice")
        seen.add(plain)
        if not isinstance(paths, list):
            self._say("E092", f"the manifest has {_kind(paths)} for {digest}, not an array")
            return
        if not paths:
            self._say("E092", f"the manifest has no content path for {digest}")
        for path in paths:
            if not isinstance(path, str):
                self._say("E098", f"the manifest has {_kind(path)} as a content path of {digest}")
            elif path in self._found.content:
                self._say("E101", f"the content path {path!r} is in the manifest twice")
            elif self._is_path(path):
                self._found.content[path] = plain

    def _form(self, digest: str, where: str) -> None:
        algorithm = self._found.algorithm
        if not algorithm or is_value(algorithm, digest):
            return
        if other := next((each for each in CONTENT if is_value(each, digest)), None):
            self._say("E039", f"{where} has a digest of {other}: {digest}; the digestAlgorithm is {algorithm}")
        else:
            self._say(FORM_CODES[algorithm], f"{where} has {digest!r}, not {form_of(algorithm)}")

    def _is_path(self, path: str) -> bool:
        """Whether a content path is a file of a version."""
        said = _why_no_path(path)
        if said:
            self._say(said[0], f"the content path {path!r} {said[1]}")
            return False
        version, _, rest = path.partition("/")
        directory = rest.partition("/")[0]
        if version not in self._found.names.all:
            if actual := self._found.names.same_number(version):
                self._say("E014", f"the content path {path!r} has {version!r}; that version is named {actual!r}")
            else:
                self._say("E042", f"the content path {path!r} is in no version of the inventory")
            return False
        if directory != self._found.content_directory:
            code = "E042" if self._found.sets_directory else "E021"
            self._say(code, f"the content path {path!r} is not in {version}/{self._found.content_directory}")
            return False
        return True

    def _conflicts(self, paths: Iterable[str], code: str, what: str, where: str) -> None:
        known = set(paths)
        for path in known:
            place = path.rfind("/")
            while place > 0:
                if path[:place] in known:
                    self._say(code, f"the {what} {path[:place]!r} of {where} is a file and a directory")
                    break
                place = path.rfind("/", 0, place)

    # ------------------------------------------------------------ states

    def _states(self) -> None:
        manifest = self._document.get("manifest")
        spelled = manifest.keys() if isinstance(manifest, dict) else ()
        used: set[str] = set()
        versions = self._document.get("versions")
        for name, block in versions.items() if isinstance(versions, dict) else ():
            if isinstance(block, dict) and "state" in block:
                used |= self._state(name, block["state"], spelled)
        for digest in spelled:
            if digest.lower() not in used:
                self._say("E107", f"the manifest has {digest}, which is in the state of no version")

    def _state(self, name: str, state: Any, spelled: Any) -> set[str]:
        """The digests of a version, in lower case."""
        if not isinstance(state, dict):
            self._say("E050", f"the state of {name} is {_kind(state)}, not an object")
            return set()
        files: dict[str, str] = {}
        for digest, paths in state.items():
            self._form(digest, f"the state of {name}")
            if digest not in spelled:
                self._say("E050", f"the state of {name} has {digest}, which is not in the manifest")
            if not isinstance(paths, list):
                self._say("E050", f"the state of {name} has {_kind(paths)} for {digest}, not an array")
                continue
            for path in paths:
                self._logical(name, path, digest.lower(), files)
        self._conflicts(files, "E095", "logical path", f"the state of {name}")
        self._found.states[name] = files
        return {digest.lower() for digest in state}

    def _logical(self, name: str, path: Any, digest: str, files: dict[str, str]) -> None:
        if not isinstance(path, str):
            self._say("E051", f"the state of {name} has {_kind(path)} as a logical path")
        elif path.startswith("/") or path.endswith("/"):
            self._say("E053", f"the logical path {path!r} of {name} starts or ends with a slash")
        elif not {"", ".", ".."}.isdisjoint(path.split("/")):
            self._say("E052", f"the logical path {path!r} of {name} has an empty part, '.' or '..'")
        elif path in files:
            self._say("E095", f"the logical path {path!r} is in the state of {name} twice")
        else:
            files[path] = digest

    # ------------------------------------------------------------ fixity

    def _fixity(self) -> None:
        block = self._document.get("fixity", {})
        if not isinstance(block, dict):
            self._say("E111", f"its fixity is {_kind(block)}, not an object")
            return
        for algorithm, values in block.items():
            if algorithm not in OCFL_DIGITS:
                self._say("E056", f"its fixity has {algorithm!r}, which neither OCFL nor an extension names")
            elif not isinstance(values, dict):
                self._say("E057", f"its fixity has {_kind(values)} for {algorithm}, not an object")
            else:
                self._values(algorithm, values)

    def _values(self, algorithm: str, values: Mapping[str, Any]) -> None:
        seen: set[str] = set()
        known: set[str] = set()
        for value, paths in values.items():
            if not is_value(algorithm, value):
                code = FORM_CODES.get(algorithm, "E057")
                self._say(code, f"its fixity has {value!r} as {algorithm}, not {form_of(algorithm)}")
            if value.lower() in seen:
                self._say("E097", f"its fixity has the {algorithm} {value.lower()} twice")
            seen.add(value.lower())
            if not isinstance(paths, list):
                self._say("E057", f"its fixity has {_kind(paths)} for the {algorithm} {value}, not an array")
                continue
            for path in paths:
                if isinstance(path, str) and path in self._found.content:
                    if path in known:
                        self._say("E101", f"its fixity has the content path {path!r} twice for {algorithm}")
                    known.add(path)
                    self._found.fixity.append((algorithm, value.lower(), path))
                else:
                    self._unknown_path(path)

    def _unknown_path(self, path: Any) -> None:
        """A path of the fixity block that the manifest lacks, and what is wrong with it by itself."""
        self._say("E057", f"its fixity has {path!r}, which is not a content path of the manifest")
        if not isinstance(path, str):
            self._say("E098", f"its fixity has {_kind(path)} as a content path")
        elif said := _why_no_path(path):
            self._say(said[0], f"the content path {path!r} of its fixity {said[1]}")


def _why_no_path(path: str) -> tuple[str, str] | None:
    if "\\" in path and "/" not in path:
        return "E035", "has backslashes for slashes"
    if path.startswith("/") or path.endswith("/"):
        return "E100", "starts or ends with a slash"
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "E099", "has an empty part, '.' or '..'"
    return ("E042", "is not below the content directory of a version") if len(parts) < 3 else None


def _kind(value: Any) -> str:
    """The JSON type of a value, for messages."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    kinds: tuple[tuple[Any, str], ...] = (
        (str, "a string"), (list, "an array"), (dict, "an object"), ((int, float), "a number"),
    )  # fmt: skip
    return next(name for kind, name in kinds if isinstance(value, kind))
