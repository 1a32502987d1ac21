"""The file of a SQLite store in the file system: its identity, its owner, and which processes block writers."""

from __future__ import annotations

import os
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headgate import private
from headgate.core.errors import StoreMisconfigured
from headgate.stores.options import StoreOptions, no_store

NETWORK_FILESYSTEMS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "fuse.sshfs",
    "lustre",
    "gpfs",
    "beegfs",
    "9p",
    "afs",
)


#: The suffix of the socket folder, after the database's name.
WAKE_SUFFIX = "-wake"
#: The suffixes of the files beside a database, after its name.
COMPANIONS = ("-journal", "-wal", "-shm", "-gate", WAKE_SUFFIX)
#: Advice for a missing permission.
RIGHTS = "Give this user permission to read and write the file and its folder, or use another file"


class Identity(NamedTuple):
    """The identity of the file, independent of its name."""

    device: int
    number: int


def identify(path: Path) -> Identity | None:
    """The file that currently has this name; None: there is none, or this user cannot see it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino)


def may(path: Path, rights: int) -> bool:
    """Whether this user has these permissions (`os.R_OK`, `os.W_OK`, `os.X_OK`) on the file or folder."""
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)


def missing_right(path: Path) -> str:
    """The permission on the database file or its folder that this user lacks, for an error message; empty: none."""
    if not may(path, os.R_OK | os.W_OK):
        return f"this user may not write {path}{_whose(path)}"
    if not may(path.parent, os.W_OK | os.X_OK):
        return f"this user may not create files in {path.parent}{_whose(path.parent)}, where SQLite keeps its journal"
    return ""


def check_place(name: str, path: Path) -> None:
    """Raise StoreMisconfigured with the cause of SQLite's "unable to open database file"."""
    folder = path.parent
    if not os.path.isdir(folder):  # noqa: PTH112 - a Path raises where it may not look
        why = f"the folder {folder} does not exist, or this user may not enter it"
        raise StoreMisconfigured(name, why, "Create the folder, or correct the URL")
    if os.path.isdir(path):  # noqa: PTH112 - the same
        raise StoreMisconfigured(name, f"{path} is a folder", "Name a file in it, or correct the URL")
    found = identify(path)
    if found is None and not may(folder, os.W_OK | os.X_OK):
        raise StoreMisconfigured(name, f"this user may not create files in {folder}{_whose(folder)}", RIGHTS)
    if found is not None and not may(path, os.R_OK):
        raise StoreMisconfigured(name, f"this user may not read {path}{_whose(path)}", RIGHTS)


def make_database(name: str, path: Path, options: StoreOptions) -> None:
    """Create the empty file of a new store: private, or shared with a group. SQLite gives its journals the same
    permissions.

    Their group comes from the folder, which must therefore pass on its group. NoStore when the options say not to
    create one.
    """
    if not options.create:
        raise no_store(name)
    group = options.store_group
    if group is not None:
        around = path.parent.stat()
        if not private.is_shared(around) or around.st_gid != group:
            who = private.group_name(group)
            why = f"store_group is {who}, but the folder {path.parent} is not shared with that group"
            raise StoreMisconfigured(name, why, f"First run: chgrp {who} {path.parent} && chmod 2770 {path.parent}")
    with suppress(FileExistsError):
        private.make_file(path, group)


def companions(path: Path) -> list[Path]:
    """The database's file, and the existing files that SQLite and Headgate keep beside it."""
    found = [path, *(path.with_name(path.name + suffix) for suffix in COMPANIONS)]
    return [each for each in found if each.exists()]


def _whose(path: Path) -> str:
    """The owner of a file or folder shared with a group, for an error message."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return (
        f", which is shared with the group {private.group_name(found.st_gid)}" if found.st_mode & 0o060 == 0o060 else ""
    )


def give_rights_of(database: Path, target: int | str) -> None:
    """Give a file or folder beside the database the database's permissions, so that its users can use both."""
    with suppress(OSError):
        like = database.stat()
        rights = stat.S_IMODE(like.st_mode) & 0o666
        if stat.S_ISDIR(os.stat(target).st_mode):  # noqa: PTH116 - it may be an open file
            rights |= (rights & 0o444) >> 2  # Users that may read the folder may enter it.
            rights |= stat.S_ISGID if rights & stat.S_IWGRP else 0
        with suppress(OSError):
            os.chown(target, like.st_uid if os.geteuid() == 0 else -1, like.st_gid)
        os.chmod(target, rights)  # noqa: PTH101 - the same


def describe_writer(*paths: Path) -> str:
    """The other processes that hold locks on these files, writers first, for an error message; empty: unknown."""
    found = [holder for path in paths for holder in _holders(path)]
    writers = [pid for pid, writes in found if writes]
    pids = dict.fromkeys(pid for pid in writers or [pid for pid, _ in found] if pid != os.getpid())
    return ", ".join(_describe_process(pid) for pid in list(pids)[:3])


def _holders(path: Path) -> list[tuple[int, bool]]:
    """Processes with a lock on the file, and whether it is one to write, as the kernel lists them."""
    try:
        found = path.stat()
        listed = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    which = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    rows = [line.split() for line in listed if f" {which} " in line and "->" not in line]
    return [(int(row[4]), row[3] == "WRITE") for row in rows if int(row[4]) > 0]


def _describe_process(pid: int) -> str:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"process {pid}"
    lines = dict(line.partition(":\t")[::2] for line in status.splitlines())
    stopped = " (stopped)" if lines.get("State", "").startswith(("T", "t")) else ""
    return f"process {pid}, {lines.get('Name', '?')}{stopped}"


def warn_of_network_filesystem(path: Path) -> None:
    """Warn when the file is on a file system where SQLite's locks are unreliable."""
    kind = _filesystem(path.parent)
    if kind in NETWORK_FILESYSTEMS:
        warnings.warn(
            f"{path} is on {kind}, where SQLite's locks are not reliable. Put it on a local disk, or use PostgreSQL "
            "or MariaDB.",
            RuntimeWarning,
            stacklevel=2,
        )


def _filesystem(folder: Path) -> str:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:  # pragma: no cover - no /proc
        return ""
    best, kind = "", ""
    for line in mounts:
        point, found = line.split()[1:3]
        inside = str(folder) == point or str(folder).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind
