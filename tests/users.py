"""Run something as another user of this machine, under another umask, in a separate process."""

import os
import pickle
import stat
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def as_user(user: int, groups: Sequence[int], work: Callable[[], Any], umask: int = 0o022) -> Any:
    """Return what `work` returns; what it raises, as a text. The first of the groups is the user's own.

    Root alone can be another user; all other users keep their identity. All modules must be loaded before: another user
    may not read where they are.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.umask(umask)
            if os.getuid() == 0 and user:
                os.setgroups(groups)
                os.setresgid(groups[0], groups[0], groups[0])
                os.setresuid(user, user, user)
            said = work()
        except Exception as error:  # noqa: BLE001 - the test reads it
            said = f"{type(error).__name__}: {error}"
            if os.environ.get("HEADGATE_TEST_TRACE"):
                traceback.print_exc()
        finally:
            os.write(writing, pickle.dumps(said))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(said)  # noqa: S301 - a child of ours wrote it


def rights(path: Path) -> int:
    """The mode of a file or folder."""
    return stat.S_IMODE(path.lstat().st_mode)
