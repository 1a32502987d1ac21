"""How a caller identifies itself: host, process, batch job, and a mark that distinguishes two processes with one id."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping

from headgate.core.ledger.model import Asker
from headgate.core.values.names import check_name, check_request_id
from headgate.service.checks import check_positive_lease

#: Number of request ids that are generated at a time.
DRAWN = 64
_owners: dict[int, str] = {}
#: Generated, unused ids, by process: a forked child generates its own.
_noise: dict[int, list[str]] = {}


def owner() -> str:
    """The current process, in words. A forked child is another process."""
    pid = os.getpid()
    if pid not in _owners:
        _owners[pid] = describe_process(pid, os.urandom(3).hex(), os.environ)
    return _owners[pid]


def describe_process(pid: int, mark: str, environment: Mapping[str, str]) -> str:
    """Describe a process: host, id, mark, and its Slurm job."""
    text = f"{os.uname().nodename} pid {pid} #{mark}"
    if "SLURM_JOB_ID" in environment:
        cluster = environment.get("SLURM_CLUSTER_NAME", "slurm")
        restart = environment.get("SLURM_RESTART_COUNT", "0")
        text += f" {cluster}:{environment['SLURM_JOB_ID']}.{restart}"
    return text[:255]


def new_request_id() -> str:
    """A new random id for one request."""
    noise = _noise.setdefault(os.getpid(), [])
    while True:
        try:
            return noise.pop()
        except IndexError:  # One system call for many: each lets another thread run first.
            drawn = base64.urlsafe_b64encode(os.urandom(12 * DRAWN)).decode()
            noise.extend(drawn[at : at + 16] for at in range(0, len(drawn), 16))


def asker_for(worker: str | None, lease: object, request_id: str | None, *, outlives: bool = False) -> Asker:
    """The caller that requests work: this process unless a worker is named. A given id may mean a repeat."""
    return Asker(
        owner() if worker is None else check_name("worker", worker),
        check_positive_lease(lease),
        new_request_id() if request_id is None else check_request_id(request_id),
        fresh=request_id is None,
        outlives=outlives,
    )


def actor(by: str | None) -> str:
    """The name of the caller: this process by default."""
    return owner() if by is None else check_name("by", by)
