"""Run one server, and take it down with everything that it started once the tests that asked for it are gone.

    python supervise.py PARENT FOLDER LOG ACCOUNT COMMAND...

Prints the server's process id, then waits for it. SIGTERM takes it down as the end of the tests does.

A supervisor was chosen over PR_SET_PDEATHSIG because that signal fires when the *thread* that started the
server ends, reaches the main process only (a suspended PostgreSQL leaves suspended children), removes no
folder, and needs preexec_fn, which is unsafe beside threads.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

PARENT_CHECK_SECONDS = 0.2


class Dismissed(Exception):
    """The tests are done with this server (SIGTERM)."""


def main() -> int:
    parent, folder, log, account, *command = sys.argv[1:]
    adopt_orphans()
    signal.signal(signal.SIGTERM, dismiss)
    server = launch(command, Path(folder), Path(log), account)
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    try:
        if wait_for_exit(server, int(parent)):
            return server.returncode
    except Dismissed:
        pass
    take_down(server)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def wait_for_exit(server: subprocess.Popen[bytes], parent: int) -> bool:
    """Whether the server and its children ended; False when the tests ended first."""
    exited = os.pidfd_open(server.pid)
    # The parent is compared, and not a pipe watched: a process that a test forked would hold the pipe open.
    while os.getppid() == parent:
        if select.select([exited], [], [], PARENT_CHECK_SECONDS)[0]:
            server.wait()
            reap_orphans()
            return True
    return False


def dismiss(*_: object) -> None:
    raise Dismissed


def launch(command: list[str], folder: Path, log: Path, account: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=account or None,
            group=account or None,
            extra_groups=[] if account else None,
        )


def take_down(server: subprocess.Popen[bytes]) -> None:
    for pid in (server.pid, *descendants(server.pid)):
        send(pid, signal.SIGKILL)
    server.wait()
    reap_orphans()


def adopt_orphans() -> None:
    """Become the parent of what a killed server leaves: not every container's first process reaps orphans."""
    set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap_orphans() -> None:
    """Wait for the server's children; PostgreSQL's notice by themselves that their parent is gone."""
    with suppress(ChildProcessError):
        while True:
            os.wait()


def descendants(pid: int) -> list[int]:
    """Every process below this one, parents before children."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(entry)) is not None:
            children[parent].append(int(entry.name))
    found = list(children[pid])
    for child in found:
        found.extend(children[child])
    return found


def parent_of(entry: Path) -> int | None:
    """The parent's process id, or None when the process is gone or is a zombie."""
    try:
        text = (entry / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name before it is in parentheses and may hold anything, spaces and parentheses too.
    state, parent, *_ = text.rpartition(")")[2].split()
    return None if state == "Z" else int(parent)


def stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped or gone."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if stat.read_text().rpartition(")")[2].split()[0] not in "TtXZ":
                return False
    return True


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main())
