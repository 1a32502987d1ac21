"""Permissions of our files and folders that are too open: found and tightened for `headgate doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headgate import private
from headgate.core.faults import OPEN_FILES, Fault


def faults(paths: Iterable[Path], group: int | None) -> list[Fault]:
    """Return a fault for each of these that other users can access. `group`: the group that shares them.

    The content of a folder is not checked: users that may not enter it cannot reach it.
    """
    return [
        Fault(OPEN_FILES, str(path), why, f"set its mode to {private.wanted_mode(path, group) & 0o7777:04o}")
        for path in paths
        if (why := private.too_wide(path, group))
    ]


def repair(fault: Fault, paths: Iterable[Path], group: int | None) -> bool:
    """Tighten the file or folder that a fault names, if it is one of ours and still open to others."""
    found = [path for path in paths if str(path) == fault.item and private.too_wide(path, group)]
    return bool(found) and private.tighten(found[0], group)
