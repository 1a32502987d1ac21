"""Import of OCFL objects from other tools: they are checked, named, stored with all versions, and recorded.

Each version is stored again as ours, in order: its files under the same names, with its time, message and user. The
operation id of a version is derived from the object's id and the version's content, so that a repeat stores nothing
twice, continues after an interruption, and adds new versions of the object.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headgate.core.errors import BadPayload, BadValue, Invalid, ObjectRefused, Refused
from headgate.core.inventory import InventoryFile, Recording, import_id
from headgate.core.values.names import NAME_LENGTH
from headgate.ingest.context import Context
from headgate.ingest.formats.ark import dataid, mint, parse, parse_object
from headgate.ingest.formats.descriptions import Description
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.formats.file_names import check_file_names
from headgate.ingest.objects.foreign import object_roots, validate_folder
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.steps.object_name import register
from headgate.ingest.steps.storing import object_resource
from headgate.ingest.storage.port import NewFile, Note, ObjectChange, Problem, Progress, Storage, Version
from headgate.ingest.validation.inventories import CheckedInventory
from headgate.ingest.validation.inventory_digests import ContentDigests
from headgate.ingest.validation.trees import FolderTree

#: Larger than the numbers of ingest jobs, so that a name derived from an id never equals a job's name.
_BEYOND_JOBS = 10**10
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:\S+")
_ADDRESS = "urn:headgate:import"


@dataclass(frozen=True, slots=True)
class ImportedObject:
    """An imported object, or why it was not imported."""

    #: Its id in its OCFL inventory; its folder, if the inventory is unreadable.
    id: str
    #: Its name here; empty: it has none.
    ark: str
    versions: int  #: Number of its versions.
    #: How many of them were stored now; an earlier import stored the others.
    stored: int
    #: Why it was not imported; empty: it was.
    problems: tuple[Problem, ...] = ()


def import_folder(
    context: Context,
    client: str,
    folder: Path,
    profile: str,
    *,
    arks: Mapping[str, str] | None = None,
    dry_run: bool = False,
    wait: float = 0,
    progress: Progress | None = None,
) -> Iterator[ImportedObject]:
    """Import the object in a folder, or those of the storage root in it, one after another.

    `profile`: determines owner, collection, storage and minter. `arks`: names for objects by their OCFL ids. `dry_run`:
    only check and report. An object that cannot be imported is returned with its problems, and the next one follows.
    """
    if context.elsewhere is not None:
        raise BadValue("import", str(folder), "works on the store itself, not through a service; use the store's URL")
    chosen = context.current_profile(profile)
    if chosen.storage.kind == "http":
        raise BadValue("profile", profile, "stores objects behind HTTP; an import needs a folder or a bucket")
    names = {object_id: str(parse_object(ark)) for object_id, ark in (arks or {}).items()}
    for root in object_roots(folder):
        yield _Import(context, client, chosen, root, names, wait, progress).run(dry_run=dry_run)


def read_arks(file: Path) -> dict[str, str]:
    """The mapping in a CSV file of two columns, OCFL id and ARK. BadValue with the line of an error."""
    found: dict[str, str] = {}
    try:
        with file.open(newline="", encoding="utf-8") as source:
            for number, row in enumerate(csv.reader(source), 1):
                if len(row) != 2:
                    raise BadValue("mapping", str(file), f"line {number} does not have two columns, OCFL id and ARK")
                if found.setdefault(row[0], str(parse_object(row[1]))) != str(parse_object(row[1])):
                    raise BadValue("mapping", str(file), f"line {number} gives {row[0]} a second ARK")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadValue("mapping", str(file), f"cannot be read: {error}") from error
    return found


@dataclass(frozen=True, slots=True)
class _Content:
    """A file of the object, to be read and compared."""

    size: int
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Import:
    """One object during its import."""

    context: Context
    client: str
    profile: Profile
    root: Path
    names: Mapping[str, str]
    wait: float
    progress: Progress | None

    def run(self, *, dry_run: bool) -> ImportedObject:
        found = validate_folder(self.root, progress=self.progress)
        inventory = found.inventory
        object_id = inventory.id if inventory and inventory.id else str(self.root)
        if inventory is None or found.errors:
            problems = tuple(Problem(object_id, each.path, each.why, each.code) for each in found.errors)
            return ImportedObject(object_id, "", 0, 0, problems)
        versions = len(inventory.names.all)
        if problems := self._unfit_names(inventory, "" if dry_run else self.context.storage(self.profile).case_blind):
            return ImportedObject(object_id, "", versions, 0, problems)
        try:
            ark, local = self._name(inventory.id)
            stored = 0 if dry_run else self._import(inventory, ark, local)
        except (Invalid, Refused) as error:
            return ImportedObject(object_id, "", versions, 0, (Problem(object_id, "", str(error)),))
        return ImportedObject(object_id, ark, versions, stored)

    @staticmethod
    def _unfit_names(inventory: CheckedInventory, case_blind: str) -> tuple[Problem, ...]:
        """Versions whose files cannot be stored. Then none is: half an object would stay for good."""
        found: list[Problem] = []
        for name in inventory.names.all:
            try:
                check_file_names(list(inventory.states[name]), case_blind)
            except BadValue as error:
                found.append(Problem(inventory.id, name, str(error)))
        return tuple(found)

    # ------------------------------------------------------------ its name

    def _name(self, object_id: str) -> tuple[str, tuple[str, ...]]:
        """The ARK of the object, and its local id: the OCFL id, unless that is the ARK."""
        own = _ark_in(object_id)
        if own and self.names.get(object_id, own) != own:
            raise ObjectRefused(own, f"the object names itself so; the mapping says {self.names[object_id]}")
        local = () if own else _local_id(object_id, given=object_id in self.names)
        known = self.context.inventory.known_local_ids(self.profile.owner, local)
        ark = own or self.names.get(object_id) or known.get(object_id) or self._minted(object_id)
        if known.get(object_id, ark) != ark:
            raise ObjectRefused(ark, f"the id {object_id} belongs to {known[object_id]}")
        owner = self.context.inventory.owner_and_version(ark)
        if owner is not None and owner[0] != self.profile.owner:
            raise ObjectRefused(ark, f"its owner is not {self.profile.owner}")
        return ark, local

    def _minted(self, object_id: str) -> str:
        """The same id of the same owner always yields the same name, wherever it is imported."""
        minter = self.profile.minter
        if minter.kind == "ezid":
            why = f"is not an ARK, and the minter of {self.profile.name} names objects at EZID"
            raise BadValue("OCFL id", object_id, f"{why}; give it an ARK in the mapping")
        seed = hashlib.sha256(f"{self.profile.owner}\0{object_id}".encode()).digest()
        number = _BEYOND_JOBS + int.from_bytes(seed[:8])
        return str(mint(minter.shoulder, number, self.context.options.minter_key))

    # ------------------------------------------------------------ its versions

    def _import(self, inventory: CheckedInventory, ark: str, local: tuple[str, ...]) -> int:
        """Store and record the missing versions; returns how many were stored."""
        context, storage = self.context, self.context.storage(self.profile)
        with context.locks.held(self.client, object_resource(ark), wait=self.wait, note="importing"):
            notes = [_note(inventory, name, ark) for name in inventory.names.all]
            there = self._check_there(storage, ark, [each.operation for each in notes])
            chosen = context.inventory.claim_local_ids(self.profile.owner, local, ark)
            if chosen != ark:
                raise ObjectRefused(ark, f"the id {', '.join(local)} belongs to {chosen}")
            register(context, self.profile, ark, local, Description(what=inventory.id))
            contents = self._contents(inventory)
            for number, (name, note) in enumerate(zip(inventory.names.all, notes, strict=True), 1):
                files = self._files(inventory, name, contents)
                version = storage.put_version(ark, ObjectChange(files), note)
                if version.number != number:
                    raise ObjectRefused(ark, f"version {number} was stored as version {version.number}")
                self._record(version, files, inventory, local)
        return len(notes) - min(there, len(notes))

    def _check_there(self, storage: Storage, ark: str, operations: Sequence[str]) -> int:
        """Number of stored versions. They must be those of this import, as far as both exist."""
        there = [each.operation for each in storage.list_versions(ark)]
        for number, (stored, ours) in enumerate(zip(there, operations, strict=False), 1):
            if stored != ours:
                raise ObjectRefused(ark, f"its version {number} is stored with other content; it was not imported")
        return len(there)

    def _contents(self, inventory: CheckedInventory) -> dict[str, _Content]:
        """Each content path with its size and every digest, checked again during reading."""
        further: dict[str, dict[str, str]] = {}
        for algorithm, value, path in inventory.fixity:
            if algorithm in ("md5", "sha1", "sha512"):
                further.setdefault(path, {})[algorithm] = value
        tree = FolderTree(self.root)
        found: dict[str, _Content] = {}
        for path, digest in inventory.content.items():
            wanted = {**further.get(path, {}), inventory.algorithm: digest}
            digests, size = ContentDigests({*wanted, DEFAULT}), 0
            for block in tree.blocks(path):
                digests.update(block)
                size += len(block)
            if any(digests.value(algorithm) != value for algorithm, value in wanted.items()):
                raise BadPayload(path, "it changed since it was checked")
            found[path] = _Content(size, {**wanted, DEFAULT: digests.value(DEFAULT)})
        return found

    def _files(self, inventory: CheckedInventory, name: str, contents: Mapping[str, _Content]) -> dict[str, NewFile]:
        """The files of a version, by their logical paths."""
        place = {digest: path for path, digest in inventory.content.items()}
        return {
            logical: NewFile(self.root / place[digest], contents[place[digest]].size, contents[place[digest]].digests)
            for logical, digest in inventory.states[name].items()
        }

    def _record(
        self, version: Version, files: Mapping[str, NewFile], inventory: CheckedInventory, local: tuple[str, ...]
    ) -> None:
        profile, ark = self.profile, version.object_id
        listed = tuple(
            InventoryFile(
                each.name, each.size, each.digest, each.since,
                {name: value for name, value in files[each.name].digests.items() if name != DEFAULT},
            )
            for each in version.files
        )  # fmt: skip
        recording = Recording(
            ark, profile.owner, profile.collection, version.number, dataid(parse_object(ark), version.number),
            version.created, listed, what=inventory.id, membership=profile.membership, local=local,
            job=import_id(ark, version.number), profile=profile.name, submitter=self.client,
            payload=self.root.absolute().as_uri(), type="import",
        )  # fmt: skip
        self.context.inventory.record(recording, by=self.client)


def _ark_in(object_id: str) -> str:
    """The ARK in an OCFL id; empty: it is not an ARK, or one of a part of an object."""
    try:
        found = parse(object_id)
    except BadValue:
        return ""
    return "" if found.qualifier else str(found)


def _local_id(object_id: str, *, given: bool) -> tuple[str, ...]:
    """The OCFL id as a local id. An id that is not valid is left out if the mapping names the object."""
    if len(object_id) <= NAME_LENGTH and object_id.isprintable():
        return (object_id,)
    if given:
        return ()
    why = f"has more than {NAME_LENGTH} characters, or one that cannot be printed; give it an ARK in the mapping"
    raise BadValue("OCFL id", object_id[:60], why)


def _note(inventory: CheckedInventory, name: str, ark: str) -> Note:
    """The version's time, message and user, and an operation id derived from its content."""
    block: Mapping[str, Any] = inventory.document["versions"][name]
    said = "\0".join(f"{path}\0{digest}" for path, digest in sorted(inventory.states[name].items()))
    seed = f"{ark}\0{inventory.id}\0{name}\0{block['created']}\0{said}"
    user = block.get("user") or {}
    who, address = str(user.get("name") or "unknown"), str(user.get("address") or _ADDRESS)
    if not _URI.fullmatch(address):
        who, address = f"{who} <{address}>", _ADDRESS
    operation = f"import-{hashlib.sha256(seed.encode()).hexdigest()[:32]}"
    return Note(operation, _moment(block["created"]), str(block.get("message") or ""), who, address)


def _moment(created: str) -> datetime:
    """A time in RFC 3339, which allows leap seconds and lower-case letters."""
    text = re.sub(r"(?<=:[0-5][0-9]:)60", "59", created.upper())
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # The year 0, or an offset beyond the calendar.
        return datetime.min.replace(tzinfo=UTC)
