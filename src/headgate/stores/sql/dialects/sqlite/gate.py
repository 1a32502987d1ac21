"""The gate: writers of one SQLite file queue for it, across threads and processes.

SQLite has no wait queue: writers that find the file busy retry, and the more there are, the fewer succeed. Here the
kernel queues them on a file lock. The gate only provides order: SQLite's own lock keeps two writers apart, so a gate
that cannot be opened, or was deleted, costs speed but not safety.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from headgate import private
from headgate.stores.sql.dialects.sqlite.place import give_rights_of

#: The suffix of the gate's file, after the database's name.
SUFFIX = "-gate"


class WriterGate:
    """The gate of one file in this process; without a path, only for the threads of this process."""

    def __init__(self, path: Path | None) -> None:
        self._database = path
        self.path = None if path is None else Path(f"{path}{SUFFIX}")
        self._file: int | None = None
        self._reset()
        _gates.add(self)

    def _reset(self) -> None:
        self._closing = False
        self._turn = threading.Lock()
        self._change = threading.Condition(threading.Lock())
        #: A thread that waits in the kernel's queue for the process inside the gate, because that wait has no time
        #: limit.
        self._helper: threading.Thread | None = None
        self._queued = self._wanted = self._granted = False

    def enter(self, seconds: float) -> bool:
        """Enter within that many seconds; False: other writers were inside all the time."""
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            return False
        entered = False
        try:
            entered = self._enter_file(until)
        finally:
            if not entered:
                self._turn.release()
        return entered

    def leave(self) -> None:
        """Let the next writer in."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        if self._closing:
            self._close_file()
        self._turn.release()

    def close(self) -> None:
        """Close the file, at once or when the writer inside leaves. It stays where it is: others may use it."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._close_when_free()

    def _enter_file(self, until: float) -> bool:
        with self._change:
            if not self._queued:
                self._open()
                if self._file is None or _lock_at_once(self._file):
                    return True
                self._queued = True
                self._call_helper()
            self._wanted = True
            try:
                self._change.wait_for(lambda: self._granted, max(until - time.monotonic(), 0))
            finally:
                entered, self._wanted, self._granted = self._granted, False, False
            return entered

    def _call_helper(self) -> None:
        if self._helper is None:
            self._helper = threading.Thread(target=self._wait_for_others, name="headgate-gate", daemon=True)
            self._helper.start()
        else:
            self._change.notify_all()

    def _wait_for_others(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._queued or self._closing)
                if not self._queued:
                    self._helper = None
                    break
                file = self._file
            if file is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            with self._change:
                self._queued = False
                self._granted = self._wanted
                if self._granted:
                    self._change.notify_all()
                elif file is not None:  # The requesting thread has given up.
                    fcntl.flock(file, fcntl.LOCK_UN)
        self._close_when_free()

    def _open(self) -> None:
        """Open the file, or a new one if it was deleted meanwhile. Without permissions there is no gate."""
        if self.path is None or self._database is None:
            return
        if self._file is not None:
            if os.fstat(self._file).st_nlink:
                return
            os.close(self._file)
            self._file = None
        try:
            self._file = private.open_file(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            with suppress(OSError):
                self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        else:
            give_rights_of(self._database, self._file)

    def _close_when_free(self) -> None:
        if self._turn.acquire(blocking=False):
            self._close_file()
            self._turn.release()

    def _close_file(self) -> None:
        with self._change:
            if self._file is not None and not self._queued:
                os.close(self._file)
                self._file = None

    def forget_parent(self) -> None:
        """In a forked child: the parent's open file would share the parent's lock."""
        self._reset()
        self._close_file()


class Turn(AbstractContextManager[None]):
    """Enters the gate within that many seconds, or raises an error. (A generator takes longer.)"""

    __slots__ = ("_gate", "_refuse", "_seconds")

    def __init__(self, gate: WriterGate, seconds: float, refuse: Callable[[float], Exception]) -> None:
        self._gate, self._seconds, self._refuse = gate, seconds, refuse

    def __enter__(self) -> None:
        if not self._gate.enter(self._seconds):
            raise self._refuse(self._seconds)

    def __exit__(self, *_: object) -> None:
        self._gate.leave()


def _lock_at_once(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_gates: weakref.WeakSet[WriterGate] = weakref.WeakSet()


def _forked() -> None:
    for gate in list(_gates):
        gate.forget_parent()


os.register_at_fork(after_in_child=_forked)
