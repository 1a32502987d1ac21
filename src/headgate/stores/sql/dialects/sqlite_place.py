"""The file of a SQLite store, seen from outside: is it still the same, whose is it, who keeps others from writing."""

from __future__ import annotations

import os
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

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


class Identity(NamedTuple):
    """Which file it is, whatever it is called."""

    device: int
    number: int


def identify(path: Path) -> Identity | None:
    """The file that has this name now; None: there is none, or this user cannot see it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino)


def may(path: Path, rights: int) -> bool:
    """Whether this user has these rights (`os.R_OK`, `os.W_OK`, `os.X_OK`) on the file or folder."""
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)


def missing_right(path: Path) -> str:
    """The right on the database file or its folder that this user lacks, for an error message; empty: none."""
    if not may(path, os.R_OK | os.W_OK):
        return f"this user may not write {path}"
    if not may(path.parent, os.W_OK | os.X_OK):
        return f"this user may not create files in {path.parent}, where SQLite keeps its journal"
    return ""


def give_rights_of(database: Path, target: int | str) -> None:
    """Give a file or folder beside the database the rights of the database, so that its users can use both."""
    with suppress(OSError):
        like = database.stat()
        rights = stat.S_IMODE(like.st_mode) & 0o666
        if stat.S_ISDIR(os.stat(target).st_mode):  # noqa: PTH116 - it may be an open file
            rights |= (rights & 0o444) >> 2  # Whoever may read a folder may enter it.
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
    """Warn when the file is where SQLite's locks cannot be trusted."""
    kind = _filesystem(path.parent)
    if kind in NETWORK_FILESYSTEMS:
        warnings.warn(
            f"{path} is on {kind}: SQLite's locks cannot be trusted there. "
            "Put it on a local disk, or use PostgreSQL or MariaDB.",
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
