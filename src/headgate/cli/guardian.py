"""The guardian: a small process that kills groups of processes when their moment has come, or when we are gone.

We may be stopped or killed while a lease runs out; it is not, since nobody knows it, and it does nothing else.
"""

from __future__ import annotations

import math
import os
import select
import signal
import struct
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from headgate.service.clock import steady

#: A group, and the moment of steady() at which it is killed; infinite: when we are gone; negative: never.
ORDER = struct.Struct("qd")
#: Where the system names no limit, looking further would take too long.
MOST_DESCRIPTORS = 1 << 20


class Guardian:
    """Watches over groups. Start it while there is one thread: it is a fork of this process."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: it goes with the groups when we are gone."""
        orders, self._orders = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _guard(orders, folder)
        os.close(orders)

    def kill_at(self, group: int, moment: float = math.inf) -> None:
        """Kill the group at this moment, unless another one is heard; and at once when we are gone."""
        self._tell(group, moment)

    def forget(self, group: int) -> None:
        """The group has ended: its number may become somebody else's."""
        self._tell(group, -1.0)

    def end(self) -> None:
        """Nothing is watched over any more."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._orders)

    def _tell(self, group: int, moment: float) -> None:
        with suppress(BrokenPipeError):
            os.write(self._orders, ORDER.pack(group, moment))  # Short enough to be written whole, by any thread.


def _guard(orders: int, folder: Path | None) -> NoReturn:
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        # What is open here would stay open when we die: connections, and the pipes of other guardians.
        os.closerange(3, orders)
        os.closerange(orders + 1, min(os.sysconf("SC_OPEN_MAX"), MOST_DESCRIPTORS))
        for group in _watch(orders):
            _kill(group)
        if folder is not None:
            remove(folder)
    finally:
        os._exit(0)


def remove(folder: Path) -> None:
    """A folder and the files in it, as far as they are there."""
    with suppress(OSError):
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()


def _watch(orders: int) -> list[int]:
    """Until we are gone. Gives the groups that are left then."""
    moments: dict[int, float] = {}
    while True:
        due = min(moments.values(), default=math.inf)
        left = None if due == math.inf else max(due - steady(), 0)
        if select.select([orders], [], [], left)[0]:
            heard = os.read(orders, 512 * ORDER.size)
            if not heard:
                return list(moments)
            moments |= dict(ORDER.iter_unpack(heard))
        for group, moment in list(moments.items()):
            if 0 <= moment <= steady():
                _kill(group)
            if moment <= steady():
                del moments[group]


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
