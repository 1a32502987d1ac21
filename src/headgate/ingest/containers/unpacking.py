"""Unpacking a container in a separate process, with limits on memory, processor time and file size.

`container` charges a budget for every byte that it produces. The operating system's limits also apply if a library
exceeds its bounds. `python -m headgate.ingest.containers.unpacking` is the child process.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headgate.core.errors import BadPayload, BadValue
from headgate.ingest.containers.budget import BYTES_PER_FILE, ContainerLimits
from headgate.ingest.containers.members import Member, staging_of, unpack
from headgate.ingest.stopping import Stop, check_stop

#: How often the parent checks whether it should stop.
POLL_SECONDS = 0.2
#: Compressed bytes per second of processor time that the slowest method reads on a slow machine.
SLOWEST_RATE = 1_000_000
#: Exit code of a child that ran out of memory.
NO_MEMORY = 77
#: Number of files in a container that fit into the minimum memory of a child.
USUAL_FILES = ContainerLimits().files
_DIE_WITH_PARENT = 1


@dataclass(frozen=True, slots=True)
class Confinement:
    """The limits of the child."""

    #: Bytes of address space: for the interpreter, the list of members, and the largest dictionary of a method.
    memory: int = 768 << 20
    #: Seconds of processor time, in addition to those for the size of the container.
    seconds: int = 60

    def address_space(self, limits: ContainerLimits) -> int:
        """Bytes of address space for a container with the maximum number of files of a profile: each is listed in
        memory.
        """
        return self.memory + max(0, limits.files - USUAL_FILES) * BYTES_PER_FILE

    def processor_seconds(self, size: int) -> int:
        """Seconds of processor time for a container of the given size."""
        return self.seconds + size // SLOWEST_RATE


def unpack_confined(
    archive: Path,
    kind: str,
    folder: Path,
    *,
    limits: ContainerLimits,
    stop: Stop | None = None,
    confinement: Confinement = Confinement(),  # noqa: B008 - frozen
) -> list[Member]:
    """Unpack a container like `container.unpack`, in a confined child process.

    Raises BadPayload also when the child exceeds its limits, and WorkStopped when `stop` requests it.
    """
    task = {
        "archive": str(archive), "kind": kind, "folder": str(folder), "limits": asdict(limits),
        "confinement": asdict(confinement), "parent": os.getpid(),
    }  # fmt: skip
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    command = [sys.executable, "-I", "-m", "headgate.ingest.containers.unpacking"]
    with subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as child:
        try:
            said = _answer(child, json.dumps(task).encode(), stop)
        except BaseException:
            child.kill()
            child.wait()
            shutil.rmtree(staging_of(folder), ignore_errors=True)
            raise
    if child.returncode != 0:
        shutil.rmtree(staging_of(folder), ignore_errors=True)
        raise BadPayload(archive.name, _why_it_died(child.returncode, confinement, limits, archive))
    return _members(archive.name, json.loads(said))


def _answer(child: subprocess.Popen[bytes], task: bytes, stop: Stop | None) -> bytes:
    given: bytes | None = task
    while True:
        check_stop(stop, "unpacking")
        try:
            return child.communicate(given, timeout=POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            given = None


def _why_it_died(code: int, confinement: Confinement, limits: ContainerLimits, archive: Path) -> str:
    memory = f"{confinement.address_space(limits) >> 20:,} MiB"
    if code == NO_MEMORY:
        return f"unpacking it needs more memory than is allowed ({memory})"
    if code == -signal.SIGXCPU:
        allowed = confinement.processor_seconds(archive.stat().st_size)
        return f"unpacking it needs more than {allowed:,} s of processor time"
    if code == -signal.SIGKILL:
        return f"unpacking it was ended by SIGKILL: the machine is out of memory, or an operator stopped it ({memory})"
    cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"unpacking it ended with {cause}; it may use {memory} of memory"


def _members(archive: str, said: Mapping[str, Any]) -> list[Member]:
    if "members" in said:
        return [Member(name, size, digests) for name, size, digests in said["members"]]
    if "errno" in said:
        raise OSError(said["errno"], said["why"], said["what"])
    if said["error"] == "BadValue":
        raise BadValue("container", said["what"], said["why"])
    raise BadPayload(archive, said["why"])


# ---------------------------------------------------------------- the child


def main() -> None:
    """Read a task from standard input, and write its outcome to standard output."""
    try:
        _work(json.load(sys.stdin))
        sys.stdout.flush()
    except MemoryError:
        os._exit(NO_MEMORY)


def _work(task: Mapping[str, Any]) -> None:
    archive, confinement = Path(task["archive"]), Confinement(**task["confinement"])
    limits = ContainerLimits(**task["limits"])
    _confine(confinement, limits, archive.stat().st_size, task["parent"])
    try:
        members = unpack(archive, task["kind"], Path(task["folder"]), limits=limits)
        said: dict[str, Any] = {"members": [[each.name, each.size, dict(each.digests)] for each in members]}
    except BadPayload as error:
        said = {"error": "BadPayload", "why": error.why}
    except BadValue as error:
        said = {"error": "BadValue", "what": task["kind"], "why": str(error)}
    except OSError as error:
        said = {"errno": error.errno, "why": error.strerror, "what": str(error.filename or task["folder"])}
    json.dump(said, sys.stdout)


def _confine(confinement: Confinement, limits: ContainerLimits, size: int, parent: int) -> None:
    """Apply the limits to this process, and end it with its parent."""
    import ctypes

    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    seconds, memory = confinement.processor_seconds(size), confinement.address_space(limits)
    for what, soft, hard in (
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_CPU, seconds, seconds + 5),
        (resource.RLIMIT_FSIZE, limits.total_bytes, limits.total_bytes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(what, (soft, hard))


if __name__ == "__main__":
    main()
