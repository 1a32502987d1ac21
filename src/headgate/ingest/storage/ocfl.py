"""A storage in a folder: an OCFL 1.1 storage root with layout 0004.

A version is built in a stage beside the root, synced, and moved into its object by one rename, at which moment it is
stored. The rest (the object's own inventory and sidecar) is derived from that version, and completed by the next writer
if this one dies in between. Until then readers find the previous version.

A writer holds a file lock on its stage while it lives. A stage that can be locked is therefore an orphan: its work is
completed, and it is removed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from headgate import private
from headgate.core.errors import BadPayload, BadValue, ForeignStore, ServiceUnavailable, UnknownName, VersionLost
from headgate.ingest.safe_files import keeps_case, replace_synced, sync_folder, sync_tree, write_synced
from headgate.ingest.stopping import Stop
from headgate.ingest.storage.ocfl_content import write_content
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
    render,
)
from headgate.ingest.storage.ocfl_layout import (
    CONFIG,
    CONFIG_FILE,
    LAYOUT,
    LAYOUT_FILE,
    ROOT_DECLARATION,
    home_of,
    root_files,
)
from headgate.ingest.storage.port import KnownDigests, Note, ObjectChange, Problem, Progress, Version, storage_errors
from headgate.ingest.storage.verifying import problems_of
from headgate.ingest.validation.objects import validate_object
from headgate.ingest.validation.trees import FolderTree

_INTENT = "intent.json"
_STAGED = "object"
#: How long a commit may wait for another process's commit on the same object.
_COMMIT_SECONDS = 10.0
_MOVES = 100


class OcflStorage:
    """See Storage for the methods."""

    def __init__(self, root: Path, staging: Path | None = None, group: int | None = None) -> None:
        self._root = root
        #: The group that a new root is shared with; None: it is private.
        self._group = group
        #: Outside the root, which may contain only objects; on the same file system, so that a rename is enough.
        self._staging = staging or root.with_name(f"{root.name}.staging")
        with storage_errors(root):
            self._open_root()
            self.recover()
            #: See Storage.
            self.case_blind = "" if keeps_case(root, ROOT_DECLARATION) else f"the storage {root}"

    def put_version(
        self,
        object_id: str,
        change: ObjectChange,
        note: Note,
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> Version:
        with storage_errors(self._root):
            return self._put_version(object_id, change, note, stop, progress)

    def _put_version(
        self, object_id: str, change: ObjectChange, note: Note, stop: Stop | None, progress: Progress | None
    ) -> Version:
        home = self._home(object_id)
        self._repair_inventory(home, object_id)
        inventory = self._load(home, object_id)
        number = earlier_version(inventory, change, note)
        if number is None:
            made = plan(object_id, inventory, change, note, case_blind=self.case_blind)
            with self._stage(object_id) as stage:
                self._make(stage / _STAGED, made, stop, progress)
                self._commit(stage, home, inventory, made)
            number = made.number
        return self.list_versions(object_id)[number - 1]

    def list_versions(self, object_id: str) -> tuple[Version, ...]:
        home = self._home(object_id)
        with storage_errors(self._root):
            inventory = self._load(home, object_id)
            if inventory is None:
                return ()
            try:
                sizes = {path: (home / path).stat().st_size for path in inventory.content}
            except FileNotFoundError as error:
                raise BadPayload(object_id, f"one of its files is missing: {error.filename}") from error
        return tuple(inventory.version(number, sizes) for number in inventory.numbers())

    @contextmanager
    def read(self, object_id: str, name: str, version: int | None = None) -> Iterator[BinaryIO]:
        home = self._home(object_id)
        with storage_errors(self._root):
            inventory = self._load(home, object_id)
            if inventory is None:
                raise UnknownName("object", object_id)
            path = home / inventory.place(name, version)
            if not path.is_file():
                raise BadPayload(object_id, f"one of its files is missing: {path}")
            with path.open("rb") as source:
                yield source

    def delete(self, object_id: str) -> None:
        home = self._home(object_id)
        if not home.exists():
            return
        with storage_errors(self._root), self._stage(object_id) as stage, self._locked(home):
            home.rename(stage / _STAGED)
            sync_folder(home.parent)
            self._prune(home)

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
        if not home.exists():
            return [Problem(object_id, "", "there is no such object")]
        with storage_errors(self._root):
            found = validate_object(FolderTree(home), known=known, stop=stop, progress=progress)
        return problems_of(object_id, found, warnings=warnings)

    def objects(self) -> Iterator[str]:
        for declaration in sorted(self._root.glob(f"???/???/???/*/{OBJECT_DECLARATION[0]}")):
            if found := _id_of(declaration.parent):
                yield found

    def recover(self) -> None:
        """Complete the work of writers that died, and remove their stages. Runs automatically at the start."""
        for stage in sorted(self._staging.iterdir()):
            with _try_lock(stage) as mine:
                if mine:
                    self._recover_stage(stage)

    # ---------------------------------------------------------------- the root

    def _open_root(self) -> None:
        private.make_root(self._root, self._group)
        private.make_root(self._staging, self._group)
        if self._root.stat().st_dev != self._staging.stat().st_dev:
            raise BadValue("staging folder", str(self._staging), "is not on the file system of the storage root")
        if not (self._root / ROOT_DECLARATION).exists():
            self._make_root()
        try:
            same = json.loads((self._root / CONFIG_FILE).read_bytes()) == CONFIG
        except (OSError, ValueError):
            same = False
        if not same:
            raise ForeignStore(f"{self._root} is an OCFL storage root with another layout than {LAYOUT}")

    def _make_root(self) -> None:
        strangers = {each.name for each in self._root.iterdir()} - {"extensions", LAYOUT_FILE}
        if strangers:
            raise ForeignStore(f"{self._root} is not an OCFL 1.1 storage root and not empty: {', '.join(strangers)}")
        private.make_folder((self._root / CONFIG_FILE).parent)
        with self._stage("") as stage:
            for name, content in root_files().items():
                replace_synced(self._root / name, content, stage)
                sync_tree(self._root)

    def _home(self, object_id: str) -> Path:
        return self._root / home_of(object_id)

    # ---------------------------------------------------------------- reading

    def _load(self, home: Path, object_id: str) -> OcflInventory | None:
        """The present inventory. Between a commit's last two writes, the newest version has the current one."""
        for folder in (home, *_version_folders(home)):
            if found := _read_pair(folder, object_id):
                return found
        if home.exists():
            raise BadPayload(object_id, "its inventory is damaged")
        return None

    # ---------------------------------------------------------------- writing

    def _make(self, folder: Path, made: VersionPlan, stop: Stop | None, progress: Progress | None) -> None:
        version = folder / f"v{made.number}"
        private.make_folder(version, new=True)
        write_content(folder, made.content, stop, progress)
        raw, sidecar = render(made.document)
        for place in (version, folder) if made.number == 1 else (version,):
            write_synced(place / INVENTORY, raw)
            write_synced(place / SIDECAR, sidecar)
        write_synced(folder / OBJECT_DECLARATION[0], OBJECT_DECLARATION[1])
        sync_tree(folder)

    def _commit(self, stage: Path, home: Path, former: OcflInventory | None, made: VersionPlan) -> None:
        try:
            if former is None:
                self._move_object(stage / _STAGED, home)
            else:
                with self._locked(home):
                    self._move_version(stage, home, former, made)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise VersionLost(made.document["id"], made.number) from error
            raise

    def _move_version(self, stage: Path, home: Path, former: OcflInventory, made: VersionPlan) -> None:
        present = self._load(home, former.object_id)
        if present is None or present.document != former.document:
            raise VersionLost(former.object_id, made.number)
        place = home / f"v{made.number}"
        (stage / _STAGED / place.name).rename(place)
        sync_folder(home)
        _copy_head(place, home, stage)

    def _move_object(self, staged: Path, home: Path) -> None:
        for left in reversed(range(_MOVES)):
            private.make_folder(home.parent)
            try:
                staged.rename(home)
                break
            except FileNotFoundError:
                # A cleaner removed the empty folders in between.
                if not left:
                    raise
        for folder in home.parents:
            sync_folder(folder)
            if folder == self._root:
                return

    def _repair_inventory(self, home: Path, object_id: str) -> None:
        """Set an object's inventory to that of its newest version, if a writer died before it could."""
        if not home.exists():
            return
        newest = next((each for each in _version_folders(home) if _read_pair(each, object_id)), None)
        if newest is None or _pair(newest) == _pair(home):
            return
        with self._stage(object_id) as stage, self._locked(home):
            newest = next(each for each in _version_folders(home) if _read_pair(each, object_id))
            _copy_head(newest, home, stage)

    def _prune(self, home: Path) -> None:
        """A storage root has no empty folders."""
        for folder in home.parents:
            if folder == self._root:
                return
            try:
                folder.rmdir()
            except FileNotFoundError:
                # An earlier process died while creating or removing folders.
                continue
            except OSError:
                return

    @contextmanager
    def _stage(self, object_id: str) -> Iterator[Path]:
        while True:
            stage = self._staging / uuid.uuid4().hex
            private.make_folder(stage, new=True)
            with _try_lock(stage) as mine:
                # A cleaner may have removed it between its creation and its locking.
                if not mine:
                    continue
                write_synced(stage / _INTENT, json.dumps({"object": object_id}).encode())
                sync_folder(stage)
                sync_folder(self._staging)
                try:
                    yield stage
                finally:
                    shutil.rmtree(stage)
                return

    def _recover_stage(self, stage: Path) -> None:
        object_id = _intent(stage)
        if object_id:
            home = self._home(object_id)
            try:
                self._repair_inventory(home, object_id)
            except BadPayload:
                # `verify` reports a damaged object, and operators repair it; the others are not affected.
                return
            self._prune(home)
        shutil.rmtree(stage)

    @contextmanager
    def _locked(self, home: Path) -> Iterator[None]:
        """One commit at a time on an object. FileNotFoundError when the object no longer exists."""
        until = time.monotonic() + _COMMIT_SECONDS
        while True:
            with _try_lock(home) as mine:
                if mine:
                    yield
                    return
            if not home.exists():
                raise FileNotFoundError(errno.ENOENT, "the object no longer exists", str(home))
            if time.monotonic() > until:
                raise ServiceUnavailable(str(self._root), "another process has held the object for too long")
            time.sleep(0.02)


@contextmanager
def _try_lock(folder: Path) -> Iterator[bool]:
    """Hold the file lock of a folder, if it is free and the folder still exists."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = os.path.samestat(os.fstat(descriptor), folder.stat())
    except (BlockingIOError, FileNotFoundError):
        mine = False
    try:
        yield mine
    finally:
        os.close(descriptor)


def _intent(stage: Path) -> str:
    """The object of a stage; empty when its writer died before recording it."""
    try:
        return str(json.loads((stage / _INTENT).read_bytes())["object"])
    except (OSError, ValueError):
        return ""


def _id_of(home: Path) -> str:
    """The id of the object in a folder; empty when no inventory in it is readable."""
    for folder in (home, *_version_folders(home)):
        pair = _pair(folder)
        if found := id_in(pair[0]) if pair else "":
            return found
    return ""


def _version_folders(home: Path) -> list[Path]:
    """Newest first."""
    names = [each.name for each in home.glob("v*")]
    numbers = sorted((int(name[1:]) for name in names if name[1:].isdigit()), reverse=True)
    return [home / f"v{number}" for number in numbers]


def _pair(folder: Path) -> tuple[bytes, bytes] | None:
    try:
        return (folder / INVENTORY).read_bytes(), (folder / SIDECAR).read_bytes()
    except FileNotFoundError:
        return None


def _read_pair(folder: Path, object_id: str) -> OcflInventory | None:
    pair = _pair(folder)
    return parse(*pair, object_id) if pair else None


def _copy_head(version: Path, home: Path, stage: Path) -> None:
    for name in (INVENTORY, SIDECAR):
        replace_synced(home / name, (version / name).read_bytes(), stage)
    sync_folder(home)
