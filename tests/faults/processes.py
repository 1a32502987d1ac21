"""Processes that a test may kill and stop: forked from one that has imported everything, so that each costs a fork.

A fresh interpreter costs half a second, a fork a few milliseconds. Connections are made after the fork, by the
child itself. Each child has a channel: lines of JSON, which end when the child is dead.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.waiting import PATIENT, until

Message = dict[str, Any]
ROOT = Path(__file__).parents[2]
#: Far longer than anything here takes, even on a busy machine.
PATIENCE = 60.0


def now() -> float:
    """Seconds on the clock of the holders' deadlines: the same for all processes, and it never stops."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ChildFailed(Exception):
    """A child process sent something unexpected, or ended."""


class Channel:
    """Messages over a socket, both ways."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, **content: Any) -> None:
        self._socket.sendall(json.dumps({"kind": kind, **content}).encode() + b"\n")

    def receive(self, seconds: float = PATIENCE) -> Message | None:
        """The next message; None when the other side is gone."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not select.select([self._socket], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise ChildFailed(f"no message within {seconds:g} s")
            if not self._read():
                return None
        return self._first()

    def ask(self, kind: str, **content: Any) -> Message:
        """Send, and return the answer. The other side decides when to answer; if it is gone, this process exits."""
        self.send(kind, **content)
        answer = self.receive()
        if answer is None:
            os._exit(0)
        return answer

    def read_all(self) -> tuple[list[Message], bool]:
        """What has arrived, without waiting; and whether the other side is gone."""
        gone = False
        while not gone and select.select([self._socket], [], [], 0)[0]:
            gone = not self._read()
        found = []
        while b"\n" in self._rest:
            found.append(self._first())
        return found, gone

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self._rest += data
        return bool(data)

    def _first(self) -> Message:
        line, _, self._rest = self._rest.partition(b"\n")
        message: Message = json.loads(line)
        return message


class Child:
    """One forked process."""

    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid = pid
        self.channel = channel
        self._exit = os.pidfd_open(pid)

    @property
    def alive(self) -> bool:
        return not select.select([self._exit], [], [], 0)[0]

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._exit, number)

    def kill(self) -> None:
        """SIGKILL; returns when the process has ended. Messages that it had sent before can still be read."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """SIGSTOP; returns when all of its threads are stopped."""
        self.signal(signal.SIGSTOP)
        until(lambda: not self.alive or self._stands_still(), f"process {self.pid} to stop")

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def wait(self, seconds: float = PATIENCE) -> None:
        """Wait until it has ended."""
        if not select.select([self._exit], [], [], seconds)[0]:
            raise ChildFailed(f"process {self.pid} did not end within {seconds:g} s")

    def expect(self, kind: str, seconds: float = PATIENCE) -> Message:
        """The next message, which must be of that kind."""
        message = self.channel.receive(seconds)
        if message is None or message["kind"] != kind:
            raise ChildFailed(f"{kind!r} was expected and not {message}")
        return message

    def discard(self) -> None:
        self.signal(signal.SIGKILL)
        self.channel.close()
        os.close(self._exit)

    def _stands_still(self) -> bool:
        try:
            texts = [path.read_text() for path in Path(f"/proc/{self.pid}/task").glob("*/stat")]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return bool(texts) and all(text.rpartition(")")[2].split()[0] in "Tt" for text in texts)


class Zygote:
    """The process that the others are forked from."""

    def __init__(self, **environment: str) -> None:
        self._desk, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**clean, **PATIENT, **environment},
        )
        theirs.close()
        self._children: list[Child] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    def spawn(self, work: str, **arguments: Any) -> Child:
        """Fork a process that runs `module:function(channel, **arguments)`."""
        ours, theirs = socket.socketpair()
        order = json.dumps({"work": work, "arguments": arguments}).encode()
        socket.send_fds(self._desk, [order], [theirs.fileno()])
        theirs.close()
        answer = self._desk.recv(100)
        if not answer:
            raise ChildFailed("the zygote has ended")
        child = Child(int(answer), Channel(ours))
        self._children.append(child)
        return child

    def discard_children(self) -> None:
        for child in self._children:
            child.discard()
        self._children.clear()

    def close(self) -> None:
        """The zygote exits when its channel closes, and its children with it."""
        self.discard_children()
        self._desk.close()
        self._process.wait(PATIENCE)


@contextmanager
def zygote() -> Iterator[Zygote]:
    running = Zygote()
    try:
        yield running
    finally:
        running.close()
