"""The guardian: a small process that kills process groups at their deadline, or when this process dies.

This process may be stopped or killed while a lease expires. The guardian has its own session and does nothing else.
"""

from __future__ import annotations

import math
import os
import signal
import struct
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from headgate.cli.processes.readiness import ready
from headgate.cli.processes.stopping import fork
from headgate.service.leases.clock import steady

#: A group, and the time of steady() at which it is killed; infinite: when this process dies; negative: never.
ORDER = struct.Struct("qd")
#: Maximum number of descriptors to close if the system has no limit.
MOST_DESCRIPTORS = 1 << 20


class Guardian:
    """Watches over groups. Start it while there is one thread: it is a fork of this process."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: removed after the groups when this process dies."""
        orders, self._orders = os.pipe()
        self._process = fork()
        if self._process == 0:
            _guard(orders, folder)
        os.close(orders)

    def kill_at(self, group: int, moment: float = math.inf) -> None:
        """Kill the group at this time unless a later call changes it, and at once when this process dies."""
        self._send(group, moment)

    def forget(self, group: int) -> None:
        """Stop watching a group that has ended: its number may be reused."""
        self._send(group, -1.0)

    def end(self) -> None:
        """End the guardian."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._orders)

    def _send(self, group: int, moment: float) -> None:
        with suppress(BrokenPipeError):
            os.write(self._orders, ORDER.pack(group, moment))  # Short enough to be written atomically, by any thread.


def _guard(orders: int, folder: Path | None) -> NoReturn:
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        # Inherited descriptors would stay open when the parent dies: connections, and the pipes of other guardians.
        os.closerange(3, orders)
        os.closerange(orders + 1, min(os.sysconf("SC_OPEN_MAX"), MOST_DESCRIPTORS))
        for group in _watch(orders):
            send_to(group, signal.SIGKILL)
        if folder is not None:
            remove(folder)
    finally:
        os._exit(0)


def remove(folder: Path) -> None:
    """Remove a folder and the files in it, if they exist."""
    with suppress(OSError):
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()


def _watch(orders: int) -> list[int]:
    """Watch until this process dies. Returns the groups that are left."""
    moments: dict[int, float] = {}
    while True:
        due = min(moments.values(), default=math.inf)
        left = None if due == math.inf else max(due - steady(), 0)
        if ready([orders], left):
            heard = os.read(orders, 512 * ORDER.size)
            if not heard:
                return list(moments)
            moments |= dict(ORDER.iter_unpack(heard))
        for group, moment in list(moments.items()):
            if 0 <= moment <= steady():
                send_to(group, signal.SIGKILL)
            if moment <= steady():
                del moments[group]


def send_to(group: int, number: int) -> None:
    """Send a signal to every remaining process of a group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def is_alive(group: int) -> bool:
    """Whether any process of a group is still running."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
