"""The gate of a SQLite file and the sockets beside it: they keep order, and correctness does not depend on them."""

import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.stores.sql.dialects.sqlite import wake as sqlite_wake
from headgate.stores.sql.dialects.sqlite.gate import WriterGate
from headgate.stores.sql.dialects.sqlite.wake import WakeFolder
from tests.waiting import PATIENCE_SECONDS, until

CHANNEL, OTHER = "hg_0123456789abcdef", "hg_fedcba9876543210"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.sqlite"
    path.touch()
    return path


# ---------------------------------------------------------------- the gate


def test_one_is_inside_and_the_next_waits_until_its_deadline(file: Path) -> None:
    one, other = WriterGate(file), WriterGate(file)
    assert one.enter(0)
    assert not other.enter(0.01)
    assert not one.enter(0.01), "a second thread of the same process waits, too"
    one.leave()
    assert other.enter(PATIENCE_SECONDS)
    other.leave()


def test_a_caller_that_gave_up_does_not_hold_the_gate(file: Path) -> None:
    one, other = WriterGate(file), WriterGate(file)
    assert one.enter(0)
    assert not other.enter(0.01)
    one.leave()
    until(lambda: _passes(one), "the one that gave up to stay away")
    assert other.enter(PATIENCE_SECONDS)
    other.leave()


def _passes(gate: WriterGate) -> bool:
    if gate.enter(0):
        gate.leave()
        return True
    return False


def test_all_waiters_pass_the_gate_one_after_another(file: Path) -> None:
    gates = [WriterGate(file) for _ in range(8)]
    inside: list[int] = []

    def visit(gate: WriterGate) -> None:
        for _ in range(20):
            assert gate.enter(PATIENCE_SECONDS)
            inside.append(1)
            assert len(inside) == 1
            inside.pop()
            gate.leave()

    with ThreadPoolExecutor(len(gates)) as threads:
        list(threads.map(visit, gates))
    for gate in gates:
        gate.close()
    until(lambda: not any(gate._helper for gate in gates), "the threads that waited for others to end")


def test_a_forked_child_keeps_nothing_of_the_parents_gate(file: Path) -> None:
    """Nor does a child process that outlives a parent that was killed inside."""
    read, write = os.pipe()
    parent = os.fork()
    if not parent:
        gate = WriterGate(file)
        gate.enter(0)
        if not os.fork():
            gate.leave() if gate.enter(0) else None
            os.write(write, b"x")
            signal.pause()
        signal.pause()
    os.close(write)
    assert os.read(read, 1) == b"x"
    gate = WriterGate(file)
    assert not gate.enter(0.01)
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    try:
        assert gate.enter(PATIENCE_SECONDS)
    finally:
        os.kill(int(children[0]), signal.SIGKILL)
    gate.leave()


def test_a_deleted_gate_is_created_again(file: Path) -> None:
    one, other = WriterGate(file), WriterGate(file)
    assert _passes(one)
    assert one.path is not None
    one.path.unlink()
    assert one.enter(0)
    assert not other.enter(0.01)
    one.leave()


def test_without_rights_there_is_no_gate(tmp_path: Path) -> None:
    one, other = WriterGate(tmp_path / "nowhere" / "file"), WriterGate(tmp_path / "nowhere" / "file")
    assert one.enter(0)
    assert other.enter(0)
    one.leave()
    other.leave()


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o664, 0o666])
def test_users_of_the_database_can_use_the_gate_and_the_sockets(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert _passes(WriterGate(file))
    gate = file.with_name(f"{file.name}-gate")
    assert stat.S_IMODE(gate.stat().st_mode) == mode
    folder = WakeFolder(file)
    with folder._bind(CHANNEL):
        assert stat.S_IMODE((folder.path / CHANNEL).stat().st_mode) == mode
        hands_on = stat.S_ISGID if mode & stat.S_IWGRP else 0  # Files that its users create belong to their group.
        assert stat.S_IMODE(folder.path.stat().st_mode) == mode | (mode & 0o444) >> 2 | hands_on


# ---------------------------------------------------------------- the sockets


class Ears:
    """A thread that listens on a channel."""

    def __init__(self, folder: WakeFolder, channel: str = CHANNEL) -> None:
        self.heard: list[int] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=folder.listen, args=(channel, self.heard.append, self.stop), daemon=True)
        self.thread.start()
        until(lambda: self.heard, "the listener to begin")

    def close(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_SECONDS)


@pytest.fixture
def folder(file: Path) -> WakeFolder:
    return WakeFolder(file)


@pytest.fixture
def ears(folder: WakeFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ears]:
    monkeypatch.setattr(sqlite_wake, "LISTEN_SECONDS", 0.05)
    ears = Ears(folder)
    yield ears
    ears.close()


def test_a_number_reaches_its_channel_and_no_other(folder: WakeFolder, ears: Ears) -> None:
    folder.send([(OTHER, 6), (CHANNEL, 7), ("../headgate.sqlite", 8), ("", 9)])
    until(lambda: len(ears.heard) > 1, "the number to arrive")
    assert ears.heard == [0, 7]


def test_invalid_messages_are_ignored(folder: WakeFolder, ears: Ears) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as noise, sqlite_wake._opened(folder.path) as short:
        for message in (b"", b"x" * 100, b"-1", b"\xff"):
            noise.sendto(message, f"{short}/{CHANNEL}")
    folder.send([(CHANNEL, 7)])
    until(lambda: len(ears.heard) > 1, "the number to arrive")
    assert ears.heard == [0, 7]


def test_the_last_listener_removes_the_folder(folder: WakeFolder, ears: Ears) -> None:
    other = Ears(folder, OTHER)
    ears.close()
    assert [path.name for path in folder.path.iterdir()] == [OTHER]
    other.close()
    assert not folder.path.exists()


def test_a_path_may_be_longer_than_a_sockets_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_wake, "LISTEN_SECONDS", 0.05)
    path = tmp_path / ("x" * 200) / "headgate.sqlite"
    path.parent.mkdir()
    path.touch()
    folder = WakeFolder(path)
    ears = Ears(folder)
    folder.send([(CHANNEL, 7)])
    until(lambda: len(ears.heard) > 1, "the number to arrive")
    ears.close()


def _leave_dead(folder: WakeFolder, channel: str) -> Path:
    """The socket of a process that was killed."""
    folder.path.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead, sqlite_wake._opened(folder.path) as short:
        dead.bind(f"{short}/{channel}")
    return folder.path / channel


def test_a_dead_socket_is_removed_by_the_next_sender(folder: WakeFolder) -> None:
    dead = _leave_dead(folder, OTHER)
    folder.send([(OTHER, 1)])
    assert not dead.exists()


def test_dead_sockets_are_removed_by_a_new_listener(
    folder: WakeFolder, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = _leave_dead(folder, "hg_00000000000000aa")
    kept = folder.path / "somebody's letter"
    kept.touch()
    monkeypatch.setattr(sqlite_wake, "YOUNG_SECONDS", -60.0)
    other = Ears(folder, OTHER)
    assert not dead.exists()
    assert kept.exists()
    assert (folder.path / CHANNEL).exists(), "the living are left alone"
    other.close()
    kept.unlink()


def test_sending_without_listeners_does_nothing(folder: WakeFolder) -> None:
    folder.send([(CHANNEL, 1)])
    assert not folder.path.exists()
