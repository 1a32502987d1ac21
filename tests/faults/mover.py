"""Movers of history as processes, with folders so small that a few entries fill several."""

import os
import signal
from collections.abc import Callable
from typing import Any

import headgate
from headgate import Gate
from headgate.daemon_wiring import daemon_rounds
from headgate.daemons import history_mover
from headgate.stores.sql.database.engine import Database
from headgate.stores.zookeeper.ensemble.session import ZkSession
from headgate.stores.zookeeper.history import folders as history_folders
from tests.faults.processes import Channel

#: Entries in a folder, folders that stay, and entries that are moved together.
FOLDER_SIZE, KEPT_FOLDERS, PORTION = 5, 2, 3


def shrink(setattr_: Callable[[Any, str, Any], None] = setattr) -> None:
    """Set all sizes to small values."""
    setattr_(history_folders, "FOLDER_SIZE", FOLDER_SIZE)
    setattr_(history_folders, "KEPT_FOLDERS", KEPT_FOLDERS)
    setattr_(history_mover, "PORTION", PORTION)


def joined(url: str, coordination_url: str) -> Gate:
    """A folder may be moved as soon as it is closed."""
    return headgate.connect(url, coordination_url=coordination_url, history_age="0")


def move_all(gate: Gate) -> int:
    """One round of the daemon."""
    return sum(rounds.act() for rounds in daemon_rounds(gate, ["history"], 1.0))


def move_and_die(channel: Channel, url: str, coordination_url: str, step: int) -> None:
    """Move, and die of SIGKILL at that step: half of the requests of a batch have been sent, nothing was written."""
    shrink()
    with joined(url, coordination_url) as gate:
        rounds = daemon_rounds(gate, ["history"], 1.0)
        left = step

        def count() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        ask, write = ZkSession.ask, Database.write_through

        def ask_half(self: ZkSession, *questions: Any) -> list[Any]:
            if count():
                ask(self, *questions[: len(questions) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return ask(self, *questions)

        def write_or_die(self: Database, *work: Any, **how: Any) -> Any:
            if count():
                os.kill(os.getpid(), signal.SIGKILL)
            return write(self, *work, **how)

        ZkSession.ask, Database.write_through = ask_half, write_or_die  # type: ignore[method-assign]
        channel.send("done", moved=sum(each.act() for each in rounds))


def keep_moving(channel: Channel, url: str, coordination_url: str) -> None:
    """Run round after round, until asked to stop."""
    shrink()
    with joined(url, coordination_url) as gate:
        moved = 0
        channel.send("ready")
        while not channel.read_all()[0]:
            moved += move_all(gate)
        channel.send("done", moved=moved)
