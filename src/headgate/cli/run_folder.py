"""A private folder for what a command reads: claims and items with their secrets. Nothing of it outlives us for long.

It is removed at the end, by the guardian when we are killed, and by the next command when the machine went down.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.cli.guardian import remove

PREFIX = "headgate-run-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def run_folder() -> Iterator[Path]:
    """A folder that only its user can look into, gone afterwards; in memory where the system has such a place.

    OSError when it cannot be made. Its lock is ours as long as we live, which is how others know that it is used.
    """
    place = _place()
    remove_left(place)
    folder, lock = _made(place)
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def remove_left(place: Path) -> None:
    """Remove the folders of this user that no living process uses."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                _remove_unused(Path(entry.path))


def _place() -> Path:
    import tempfile

    place = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(place if os.access(place, os.W_OK) else tempfile.gettempdir())


def _made(place: Path) -> tuple[Path, int]:
    """A new folder and its lock. Somebody may remove it before it is locked; then another one is made."""
    import tempfile

    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        with suppress(FileNotFoundError):
            lock = os.open(folder, _FOLDER)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_unused(folder: Path) -> None:
    with suppress(OSError):
        lock = os.open(folder, _FOLDER)
        try:
            if stat.S_IMODE(os.fstat(lock).st_mode) == stat.S_IRWXU:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
        finally:
            os.close(lock)
