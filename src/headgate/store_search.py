"""The search for a store that is not named: in this folder and those above it.

The nearest folder with a `headgate.toml` or a `headgate.db` counts, up to the home folder or a mount point. Files that
another user could have created are skipped, because a store or settings file determines what commands work on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SETTINGS_FILE = "headgate.toml"
DATABASE = "headgate.db"


@dataclass(frozen=True, slots=True)
class Search:
    """What was found."""

    #: The first and the last folder that was searched; None: the working folder no longer exists.
    start: Path | None = None
    end: Path | None = None
    #: The settings file of the folder that counts, if it has one.
    settings_file: Path | None = None
    #: The SQLite store of that folder, if it has one.
    database: Path | None = None
    #: Files that are not used, each with the reason.
    passed_over: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """The files that count, the stronger one first."""
        return [path for path in (self.settings_file, self.database) if path]


def search(folder: Path | None, home: str) -> Search:
    """Search `folder` (None: the working folder) and those above it; `home`: the user's home folder."""
    try:
        start = Path(os.path.realpath(folder or Path.cwd()))
        home = os.path.realpath(home) if home else ""
    except OSError:  # The working folder was deleted, or this user may not enter it.
        return Search()
    passed_over: list[str] = []
    end = start
    for end in _upwards(start, home):
        settings_file, database = (_usable(end / name, passed_over) for name in (SETTINGS_FILE, DATABASE))
        if settings_file or database:
            return Search(start, end, settings_file, database, tuple(passed_over))
    return Search(start, end, passed_over=tuple(passed_over))


def distrust(path: Path) -> str:
    """Return why a file is not used as a store or settings file; empty: it is. The file need not exist."""
    folder = path.parent.stat()
    if not _is_trusted(folder.st_uid):
        return f"its folder belongs to {_user_name(folder.st_uid)}"
    if folder.st_mode & stat.S_IWOTH:
        return "every user can write in its folder"
    if folder.st_mode & stat.S_IWGRP and not _is_own_group(folder.st_gid):
        return f"the group {_group_name(folder.st_gid)} can write in its folder"
    if os.path.lexists(path):
        # A link belongs to the user who created it.
        owner = next((each.st_uid for each in (path.lstat(), path.stat()) if not _is_trusted(each.st_uid)), None)
        if owner is not None:
            return f"it belongs to {_user_name(owner)}"
        if path.stat().st_mode & stat.S_IWOTH:
            return "every user can write it"
    return ""


def _upwards(start: Path, home: str) -> Iterator[Path]:
    for folder in (start, *start.parents):
        yield folder
        if str(folder) == home or os.path.ismount(folder):  # A Path raises an error for folders that it may not read.
            return


def _usable(path: Path, passed_over: list[str]) -> Path | None:
    if not os.path.isfile(path):  # noqa: PTH113 - a Path raises where this user may not search
        return None
    why = distrust(path)
    if why:
        passed_over.append(f"{path} is not used: {why}")
    return None if why else path


def _is_trusted(user: int) -> bool:
    return user in (0, os.geteuid())


def _is_own_group(group: int) -> bool:
    """Whether it is a personal group, which many systems create for each user, with no other members."""
    import grp
    import pwd

    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return found.gr_name == user and set(found.gr_mem) <= {user}


def _user_name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _group_name(group: int) -> str:
    import grp

    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
