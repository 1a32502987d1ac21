"""Files and folders that only their owner can use, whatever the umask; or one group, if a store is shared.

The setting `store_group` decides when a store, a work folder or a storage root is made (`make_root`, `make_file` with a
group). Everything below such a folder follows it: in a shared one (mode 2770) files have mode 0660 and folders 2770,
and belong to the folder's group; otherwise they have 0600 and 0700. So users of one group can share a store without
agreeing on a umask, and a process that does not know the setting creates nothing that the others cannot use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

from headgate.core.errors import BadValue

FILE, FOLDER = 0o600, 0o700
SHARED_FILE, SHARED_FOLDER = 0o660, 0o2770
#: The permissions of all other users.
OTHERS = 0o007
SETTING = "store_group"
#: The errors of a file system without modes, or for another user's file.
NO_MODES = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS)


def find_group(name: str) -> int | None:
    """Return the number of the group that `store_group` names; None: the setting is empty, so nothing is shared."""
    if not name:
        return None
    import grp

    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise BadValue(SETTING, name, "is not a group on this machine") from None


def group_name(group: int) -> str:
    """Return a group's name, or its number if it has none."""
    import grp

    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def make_root(path: Path, group: int | None) -> None:
    """Create a folder that is shared with the group, or private for None. An existing one is unchanged."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with suppress(FileExistsError):
        _make(path, shared=group is not None, group=group)


def make_folder(path: Path, *, new: bool = False) -> None:
    """Create a folder and its missing parents, each shared or private like its parent. `new`: it must not exist."""
    for each in [*reversed(list(_missing(path))), path]:
        try:
            _make(each, shared=is_shared(each.parent.stat()))
        except FileExistsError:
            if new and each is path:
                raise
            if not each.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(each)) from None


def make_folder_in(parent: int, name: str) -> None:
    """Create a folder in an open one, shared or private like it."""
    os.mkdir(name, FOLDER, dir_fd=parent)
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        _set_mode(made, SHARED_FOLDER if is_shared(os.fstat(parent)) else FOLDER)
    finally:
        os.close(made)


def open_file(path: Path | str, flags: int, *, parent: int | None = None) -> int:
    """Open a file like `os.open`; a new one is shared or private like its folder.

    `parent`: the open folder that it is in.
    """
    if not flags & os.O_CREAT:
        return os.open(path, flags | os.O_CLOEXEC, dir_fd=parent)
    around = os.fstat(parent) if parent is not None else Path(path).parent.stat()
    wanted = SHARED_FILE if is_shared(around) else FILE
    descriptor = os.open(path, flags | os.O_CLOEXEC, wanted, dir_fd=parent)
    _set(descriptor, wanted)
    return descriptor


def make_file(path: Path, group: int | None) -> None:
    """Create an empty file; FileExistsError when it exists. Private, or shared with a group, whatever its folder."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE)
    try:
        if group is None:
            _set(descriptor, FILE)
        else:
            os.chown(descriptor, -1, group)
            _set(descriptor, SHARED_FILE)
    except PermissionError:
        path.unlink()
        raise not_a_member(group or 0) from None
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def opened(path: Path, mode: Literal["wb", "xb", "ab"]) -> BinaryIO:
    """Open a file for writing, like `Path.open`; a new one is shared or private like its folder."""
    return open(path, mode, opener=open_file)


def write(path: Path, content: bytes | str) -> None:
    """Write a whole file, created as by `opened`."""
    with opened(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def copy(source: Path, target: Path) -> None:
    """Copy the content of a file, without its mode."""
    import shutil

    os.close(open_file(target, os.O_WRONLY | os.O_CREAT))
    shutil.copyfile(source, target)


def is_shared(found: os.stat_result) -> bool:
    """Whether a folder is shared with its group, by its status: the group may write, and its files belong to it."""
    return stat.S_IMODE(found.st_mode) & SHARED_FOLDER == SHARED_FOLDER


def too_wide(path: Path, group: int | None) -> str:
    """Return who can use a file or folder without permission; empty: nobody. `group`: the group that shares it."""
    try:
        found = path.lstat()
    except OSError:
        return ""
    mode = stat.S_IMODE(found.st_mode)
    if mode & OTHERS:
        return f"every user of this machine has access to it (mode {mode & 511:04o})"
    if mode & 0o070 and found.st_gid != group and not _on_purpose(path, found):
        return f"the group {group_name(found.st_gid)} has access to it (mode {mode & 511:04o})"
    return ""


def wanted_mode(path: Path, group: int | None) -> int:
    """Return the mode that a file or folder should have: shared with `group`, or private."""
    found = path.lstat()
    shared = found.st_gid == group or _on_purpose(path, found)
    if stat.S_ISDIR(found.st_mode):
        return SHARED_FOLDER if shared else FOLDER
    return SHARED_FILE if shared else FILE


def tighten(path: Path, group: int | None) -> bool:
    """Set the mode that a file or folder should have. False: this user may not."""
    try:
        path.chmod(wanted_mode(path, group))
    except OSError:
        return False
    return True


def _on_purpose(path: Path, found: os.stat_result) -> bool:
    """Whether group and mode are those of a shared folder, so that a process without the setting keeps them."""
    if stat.S_ISDIR(found.st_mode):
        return is_shared(found) and not stat.S_IMODE(found.st_mode) & OTHERS
    around = path.parent.stat()
    return stat.S_IMODE(found.st_mode) == SHARED_FILE and is_shared(around) and around.st_gid == found.st_gid


def _make(path: Path, *, shared: bool, group: int | None = None) -> None:
    path.mkdir(FOLDER)
    if group is not None:
        try:
            os.chown(path, -1, group)
        except PermissionError:
            path.rmdir()
            raise not_a_member(group) from None
    # Also if it is private: a umask may have removed permissions of the owner.
    _set_mode(path, SHARED_FOLDER if shared else FOLDER)


def not_a_member(group: int) -> BadValue:
    """Return the error of a user who cannot share with a group."""
    return BadValue(SETTING, group_name(group), "is a group that this user does not belong to")


def _missing(path: Path) -> Iterator[Path]:
    """The missing parents of a folder, the innermost first, without the folder itself."""
    for each in path.parents:
        if each.exists():
            return
        yield each


def _set(descriptor: int, mode: int) -> None:
    """Set a file's mode, unless it is another user's file."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        _set_mode(descriptor, mode)


def _set_mode(target: int | Path, mode: int) -> None:
    """Set a mode, unless the file has it already. On file systems without modes (vfat, Windows shares), the mount
    determines the permissions; `headgate doctor` reports it.
    """
    if stat.S_IMODE(os.stat(target).st_mode) == mode:  # noqa: PTH116 - it may be an open file
        return
    try:
        os.chmod(target, mode)  # noqa: PTH101 - the same
    except OSError as error:
        if error.errno not in NO_MODES:
            raise
