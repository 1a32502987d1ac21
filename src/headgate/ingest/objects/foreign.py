"""OCFL objects from other tools in a folder of this machine: finding and checking them."""

from __future__ import annotations

import os
from pathlib import Path

from headgate.core.errors import BadValue
from headgate.ingest.stopping import Stop
from headgate.ingest.storage.port import Problem, Progress
from headgate.ingest.validation.inventories import INVENTORY
from headgate.ingest.validation.objects import Validation, validate_object
from headgate.ingest.validation.trees import FolderTree

_DECLARATION = "0=ocfl_object_"
#: Folders of a storage root that are skipped.
_APART = ("extensions", "logs")


def object_roots(folder: Path) -> list[Path]:
    """The object in a folder, or those of the storage root in it, by path. BadValue when there is none.

    Links are not followed.
    """
    if not folder.is_dir():
        raise BadValue("folder", str(folder), "does not exist, or is not a folder")
    found: list[Path] = []
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                names = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        except OSError as error:
            raise BadValue("folder", str(here), f"cannot be read: {error.strerror}") from error
        if INVENTORY in names or any(name.startswith(_DECLARATION) for name in names):
            found.append(here)
        else:
            waiting += [here / name for name, is_folder in names.items() if is_folder and name not in _APART]
    if not found:
        raise BadValue("folder", str(folder), f"has no OCFL object: no {_DECLARATION}1.1 and no {INVENTORY} in it")
    return sorted(found)


def validate_folder(root: Path, *, stop: Stop | None = None, progress: Progress | None = None) -> Validation:
    """Check every rule for the object in a folder, and read every byte."""
    return validate_object(FolderTree(root), stop=stop, progress=progress)


def verify_folder(root: Path, *, progress: Progress | None = None, warnings: bool = False) -> list[Problem]:
    """The problems of the object in a folder; with `warnings` also violations of OCFL's recommendations."""
    found = validate_folder(root, progress=progress)
    name = found.inventory.id if found.inventory and found.inventory.id else str(root)
    rows = found.findings if warnings else found.errors
    return [Problem(name, each.path, each.why, each.code) for each in rows]
