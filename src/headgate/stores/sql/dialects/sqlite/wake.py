"""Wake-ups between the processes of one machine: each waiting process binds a socket in a folder beside the database.

A datagram may get lost (its reader died, or its buffer is full), so waiters still poll, but less often.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from headgate import private
from headgate.stores.sql.dialects.sqlite.place import WAKE_SUFFIX, give_rights_of

#: The prefix of the channels of processes that listen for news.
NEWS = "hg_news_"
#: Names of channels are also names of files, and they come from the database.
CHANNEL = re.compile(rf"({NEWS}|hg_)[0-9a-f]{{16}}")
#: How long one wait for a datagram lasts, so that closing is noticed in time.
LISTEN_SECONDS = 1.0
#: A socket's file exists a moment before the socket can be reached.
YOUNG_SECONDS = 10.0
LONGEST_MESSAGE = 32
#: The sockets that this process bound, to be removed at its end: folder and name.
_bound: set[tuple[int, Path, str]] = set()


class WakeFolder:
    """The folder of sockets beside one database."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.path = Path(f"{database}{WAKE_SUFFIX}")

    def send(self, messages: Iterable[tuple[str, int]]) -> None:
        """Send each number to its channel. No process listens: its socket's file is removed."""
        known = [(channel, str(number).encode()) for channel, number in messages if CHANNEL.fullmatch(channel)]
        with (
            suppress(OSError),
            _opened(self.path) as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            for channel, message in known:
                _send(sender, Path(folder, channel), message)

    def send_to_all(self, numbers: Iterable[int]) -> None:
        """Send each number to every process that listens for news."""
        with suppress(OSError):
            channels = [each.name for each in Path(self.path).iterdir() if each.name.startswith(NEWS)]
            self.send((channel, number) for number in numbers for channel in channels)

    def listen(self, channel: str, heard: Callable[[int], None], stop: Event) -> None:
        """Call `heard(number)` for each number that is sent to the channel, until `stop` is set."""
        with self._bind(channel) as receiver:
            heard(0)
            arrivals = select.poll()  # Select knows no more than 1,024 descriptors.
            arrivals.register(receiver, select.POLLIN)
            while not stop.is_set():
                if arrivals.poll(LISTEN_SECONDS * 1000):
                    message = receiver.recv(LONGEST_MESSAGE)
                    if message.isdigit():
                        heard(int(message))

    @contextmanager
    def _bind(self, channel: str) -> Iterator[socket.socket]:
        mine = (os.getpid(), self.path, channel)
        with _new_socket() as receiver:
            self._bind_in_folder(receiver, channel)
            _bound.add(mine)
            try:
                yield receiver
            finally:
                _bound.discard(mine)
                _remove(*mine)

    def _bind_in_folder(self, receiver: socket.socket, channel: str) -> None:
        """Bind; again if a leaving process has removed the folder meanwhile."""
        for last in (False, False, True):
            with suppress(FileExistsError):
                private.make_folder(self.path, new=True)
                give_rights_of(self._database, str(self.path))
            try:
                with _opened(self.path) as folder:
                    receiver.bind(f"{folder}/{channel}")
                    give_rights_of(self._database, f"{folder}/{channel}")
                    _remove_dead(self.path, folder)
            except FileNotFoundError:
                if last:
                    raise
            else:
                return


@contextmanager
def _opened(path: Path) -> Iterator[str]:
    """A short name for the folder: a socket's address has room for only about a hundred bytes."""
    folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}"
    finally:
        os.close(folder)


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def _send(sender: socket.socket, target: Path, message: bytes) -> None:
    try:
        sender.sendto(message, socket.MSG_DONTWAIT, str(target))
    except ConnectionRefusedError:
        with suppress(OSError):
            target.unlink()
    except OSError:  # It is gone, full, or not writable: its process polls.
        pass


def _remove_dead(path: Path, folder: str) -> None:
    """Remove the sockets of processes that were killed."""
    youngest = time.time() - YOUNG_SECONDS
    with suppress(OSError), _new_socket() as probe, os.scandir(path) as entries:
        for entry in entries:
            if CHANNEL.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < youngest:
                try:
                    probe.connect(f"{folder}/{entry.name}")
                except OSError as error:
                    if error.errno == errno.ECONNREFUSED:
                        with suppress(OSError):
                            Path(entry.path).unlink()


def _remove(pid: int, path: Path, channel: str) -> None:
    """Remove a socket of this process, and with the last one the folder."""
    if pid == os.getpid():
        with suppress(OSError):
            (path / channel).unlink()
            path.rmdir()


@atexit.register
def _remove_all() -> None:
    for pid, path, channel in tuple(_bound):
        _remove(pid, path, channel)
