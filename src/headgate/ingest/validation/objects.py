"""An object as a whole: its structure, the consistency of its inventories, and every byte."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate.ingest.formats.digests import OCFL_DIGITS
from headgate.ingest.stopping import Stop
from headgate.ingest.validation.codes import EXTENSIONS
from headgate.ingest.validation.contents import Expected, KnownDigests, Progress, check_contents
from headgate.ingest.validation.findings import Findings, RuleFinding
from headgate.ingest.validation.histories import Inventories, check_history
from headgate.ingest.validation.inventories import INVENTORY, SPECIFICATIONS, CheckedInventory, check_inventory
from headgate.ingest.validation.inventory_digests import CONTENT, ContentDigests, is_value
from headgate.ingest.validation.trees import EntryKind, ObjectTree, TreeEntry
from headgate.ingest.validation.version_names import number_of

#: Maximum size of an inventory in bytes: enough for some millions of files.
LARGEST_INVENTORY = 1 << 30
#: Maximum length of a path; deeper ones are not followed.
LONGEST_PATH = 4096
_DECLARED = "0=ocfl_object_"
_SIDECAR = re.compile(rb"(\S+)[ \t]+inventory\.json\s*")
Entries = Mapping[str, TreeEntry]


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of validating an object."""

    findings: tuple[RuleFinding, ...]
    #: The inventory of the object root; None: it is missing or unreadable.
    inventory: CheckedInventory | None
    #: The version of the specification that the object declares; empty: none.
    declared: str

    @property
    def errors(self) -> list[RuleFinding]:
        return [each for each in self.findings if not each.is_warning]


def validate_object(
    tree: ObjectTree,
    *,
    known: KnownDigests = MappingProxyType({}),
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> Validation:
    """Check every rule and read every byte. `known`: digests from elsewhere."""
    work = _ObjectCheck(tree)
    work.structure()
    if work.inventory is not None:
        expected = Expected(work.inventory, work.priors, known)
        check_contents(tree, expected, work.files, work.findings, stop, progress)
    return Validation(tuple(work.findings.all), work.inventory, work.declared)


class _ObjectCheck:
    """The files of an object, and its inventories."""

    def __init__(self, tree: ObjectTree) -> None:
        self._tree = tree
        self.findings = Findings()
        self.inventory: CheckedInventory | None = None
        #: The inventories of version directories except the newest, by the names of these.
        self.priors: Inventories = {}
        #: Every file in a content directory.
        self.files: set[str] = set()
        self.declared = ""
        self._names: dict[str, str] = {}

    def structure(self) -> None:
        """Check everything except the bytes of the content."""
        root = self._entries("")
        declarations = self._declarations(root)
        self._root_inventory(root)
        self._root_entries(root, declarations)
        found = self.inventory
        if found is None:
            return
        if self.declared and found.specification and found.specification != self.declared:
            why = f"its type is that of {found.specification}; the object declares {self.declared}"
            self.findings.add("E038", INVENTORY, why)
        for name in found.names.all:
            self._version(name, root.get(name), found)
        check_history(found, self.priors, self.findings)

    # ------------------------------------------------------------ the object root

    def _declarations(self, root: Entries) -> set[str]:
        """The entries that are, or are meant as, declarations."""
        right = [name for name in root if name.removeprefix(_DECLARED) in SPECIFICATIONS and _is_file(root[name])]
        right = [name for name in right if name.startswith(_DECLARED)]
        wrong = {name: fault for name in root if name not in right and (fault := _declaration_fault(name))}
        for name, (code, why) in wrong.items():
            self.findings.add(code, name, why)
        if len(right) != 1:
            said = f"there are {len(right)} declarations: {', '.join(right)}" if right else "there is no declaration"
            self.findings.add("E003", "", said)
        for name in right:
            content = self._read(name, 100)
            if content is not None and content != f"{name.removeprefix('0=')}\n".encode():
                self.findings.add("E007", name, f"it contains {content!r}")
        self.declared = max((name.removeprefix(_DECLARED) for name in right), default="")
        return {*right, *wrong}

    def _root_inventory(self, root: Entries) -> None:
        if INVENTORY not in root or not _is_file(root[INVENTORY]):
            self.findings.add("E063", "", f"there is no {INVENTORY}")
            for name in root:
                if _is_like_inventory(name):
                    self.findings.add("E034", name, f"it is not named {INVENTORY}")
            return
        self.inventory = self._inventory(INVENTORY, root)

    def _root_entries(self, root: Entries, declarations: set[str]) -> None:
        algorithm = self.inventory.algorithm if self.inventory else ""
        for name, entry in root.items():
            if name in declarations or name == INVENTORY or entry.kind is EntryKind.LINK:
                continue
            if entry.kind is EntryKind.FOLDER:
                self._root_folder(name)
            elif not (_is_sidecar(name, algorithm) or (self.inventory is None and _is_like_inventory(name))):
                self.findings.add("E001", name, "it does not belong in an object root")

    def _root_folder(self, name: str) -> None:
        if name == "extensions":
            for inner, entry in self._entries(name).items():
                if entry.kind not in (EntryKind.FOLDER, EntryKind.LINK):
                    self.findings.add("E067", f"{name}/{inner}", "it is not a directory of an extension")
                elif inner not in EXTENSIONS:
                    self.findings.add("W013", f"{name}/{inner}", "this extension is not registered")
        elif number_of(name):
            if self.inventory is not None and name not in self.inventory.names.all:
                self.findings.add("E046", name, "it is not in the inventory")
        elif name != "logs":
            self.findings.add("E001", name, "it does not belong in an object root")

    # ------------------------------------------------------------ versions

    def _version(self, name: str, entry: TreeEntry | None, current: CheckedInventory) -> None:
        if entry is None or entry.kind is not EntryKind.FOLDER:
            why = "it is missing" if entry is None else "it is not a directory"
            for code in ("E010", "E046"):
                self.findings.add(code, name, why)
            return
        found = self._entries(name)
        has_inventory = INVENTORY in found and _is_file(found[INVENTORY])
        algorithm = self._version_inventory(name, found, current) if has_inventory else ""
        directory = current.content_directory
        for inner, each in found.items():
            path = f"{name}/{inner}"
            if inner == directory or each.kind is EntryKind.LINK:
                continue
            if each.kind is EntryKind.FOLDER:
                self.findings.add("W002", path, f"the content directory is {directory!r}")
            elif not has_inventory or not (inner == INVENTORY or _is_sidecar(inner, algorithm)):
                self.findings.add("E015", path, "it does not belong in a version directory")
        if not has_inventory:
            self.findings.add("W010", name, "it has no inventory")
        self._content_directory(name, found.get(directory), current)

    def _version_inventory(self, name: str, found: Entries, current: CheckedInventory) -> str:
        """Check the inventory of a version; returns its algorithm."""
        path = f"{name}/{INVENTORY}"
        if name == current.names.newest:
            raw = self._read(path, LARGEST_INVENTORY + 1)
            if raw is not None and raw != current.raw:
                self.findings.add("E064", path, "it differs from the inventory of the object root")
            if raw is not None:
                self._sidecar(path, found, raw, current.algorithm)
        elif prior := self._inventory(path, found):
            self.priors[name] = prior
            return prior.algorithm
        return current.algorithm

    def _content_directory(self, name: str, entry: TreeEntry | None, current: CheckedInventory) -> None:
        path = f"{name}/{current.content_directory}"
        if entry is not None and entry.kind is EntryKind.FOLDER:
            before = len(self.files)
            self._walk(path)
            if len(self.files) == before:
                self.findings.add("W003", path, "there is no file in it")
        elif entry is not None and entry.kind is not EntryKind.LINK:
            self.findings.add("E015", path, "it is not a directory")
        elif any(each.startswith(f"{path}/") for each in current.content):
            self.findings.add("E016", path, "it is missing, and the manifest has files in it")

    def _walk(self, top: str) -> None:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            entries = self._entries(folder)
            if not entries and folder != top:
                self.findings.add("E024", folder, "it is empty")
            for name, entry in entries.items():
                path = f"{folder}/{name}"
                if len(path) > LONGEST_PATH:
                    self.findings.add("", path, f"its path has more than {LONGEST_PATH:,} characters")
                elif entry.kind is EntryKind.FOLDER:
                    waiting.append(path)
                elif entry.kind is EntryKind.FILE:
                    self.files.add(path)
                elif entry.kind is EntryKind.OTHER:
                    self.findings.add("E089", path, "it is a device, a pipe or a socket")

    # ------------------------------------------------------------ inventories

    def _inventory(self, path: str, entries: Entries) -> CheckedInventory | None:
        raw = self._read(path, LARGEST_INVENTORY + 1)
        if raw is None:
            return None
        if len(raw) > LARGEST_INVENTORY:
            self.findings.add("", path, f"it has more than {LARGEST_INVENTORY:,} bytes and is not read")
            return None
        found = check_inventory(raw, path, self.findings)
        if found is not None:
            self._sidecar(path, entries, raw, found.algorithm)
        return found

    def _sidecar(self, path: str, entries: Entries, raw: bytes, algorithm: str) -> None:
        """Check an inventory's sidecar."""
        if not algorithm:
            return
        expected = f"{INVENTORY}.{algorithm}"
        place = path.removesuffix(INVENTORY)
        if expected not in entries or not _is_file(entries[expected]):
            for name, entry in entries.items():
                if _is_sidecar(name, "") and _is_file(entry):
                    self.findings.add("E059", place + name, f"the digestAlgorithm of the inventory is {algorithm}")
            self.findings.add("E058", path, f"there is no {expected}")
            return
        content = self._read(place + expected, 4096)
        match = _SIDECAR.fullmatch(content) if content is not None else None
        value = match[1].decode(errors="replace") if match else ""
        if content is not None and not is_value(algorithm, value):
            self.findings.add("E061", place + expected, f"it is not 'DIGEST {INVENTORY}', but {content[:200]!r}")
        elif content is not None and value.lower() != (actual := _digest(algorithm, raw)):
            why = f"the {algorithm} of the inventory is {actual}, not {value}"
            self.findings.add("E060", place + expected, why)

    # ------------------------------------------------------------ the tree

    def _entries(self, folder: str) -> dict[str, TreeEntry]:
        """The content of a folder; links and unreadable folders are reported."""
        try:
            found = self._tree.entries(folder)
        except OSError as error:
            self.findings.add("", folder, f"it cannot be read: {error.strerror or error}")
            return {}
        for entry in found:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.kind is EntryKind.LINK:
                self.findings.add("E090", path, "it is a symbolic link")
            elif entry.identity and (other := self._names.setdefault(entry.identity, path)) != path:
                self.findings.add("E090", path, f"it is a hard link to {other}")
        return {entry.name: entry for entry in found}

    def _read(self, path: str, most: int) -> bytes | None:
        try:
            return self._tree.read(path, most)
        except OSError as error:
            self.findings.add("", path, f"it cannot be read: {error.strerror or error}")
            return None


def _declaration_fault(name: str) -> tuple[str, str] | None:
    """The code and the reason, if a name is meant as a declaration but is not valid."""
    sign, equals, value = name.partition("=")
    if not equals:
        return ("E002", "there is no '=' in its name") if "ocfl_object" in name else None
    if not re.fullmatch("[0-9]", sign):
        return "E004", f"before the '=' in its name there is {sign!r}, not a digit"
    if sign != "0":
        return "E005", f"the digit in its name is {sign}, not 0"
    return "E006", f"it declares {value!r}, not {' or '.join(f'ocfl_object_{each}' for each in SPECIFICATIONS)}"


def _digest(algorithm: str, raw: bytes) -> str:
    running = ContentDigests([algorithm])
    running.update(raw)
    return running.value(algorithm)


def _is_file(entry: TreeEntry) -> bool:
    return entry.kind is EntryKind.FILE


def _is_like_inventory(name: str) -> bool:
    return name != INVENTORY and name.lower().startswith("inventory.") and not _is_sidecar(name, "")


def _is_sidecar(name: str, algorithm: str) -> bool:
    """Whether a file is the sidecar of that algorithm (empty: of any)."""
    known = (algorithm,) if algorithm else (*OCFL_DIGITS, *CONTENT)
    return name.startswith(f"{INVENTORY}.") and name.removeprefix(f"{INVENTORY}.") in known
