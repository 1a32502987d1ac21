"""A private folder for the files that a command reads: claims and items with their secrets.

It is removed at the end, by the guardian if this process is killed, and by the next command after a reboot.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.cli.processes.guardian import remove

PREFIX = "headgate-run-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def run_folder() -> Iterator[Path]:
    """Create a folder that only its user can read, in memory if possible, and remove it afterwards.

    OSError if it cannot be created. It is locked while this process lives, so that others know that it is in use.
    """
    place = _place()
    remove_left(place)
    folder, lock = _made(place)
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


@contextmanager
def private_file(folder: Path, prefix: str, text: str, suffix: str = ".json") -> Iterator[Path]:
    """Create a file with this text that only its user can read, and remove it afterwards."""
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        yield path
    finally:
        path.unlink(missing_ok=True)


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
    """Return a new folder and its lock. If another process removes it before it is locked, try again."""
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
