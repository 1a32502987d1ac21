"""Who asks, for people: host, process, batch job, and a mark that tells two lives of one process id apart."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping

_owners: dict[int, str] = {}


def owner() -> str:
    """This process, in words. A forked child is another one."""
    pid = os.getpid()
    if pid not in _owners:
        _owners[pid] = describe_process(pid, os.urandom(3).hex(), os.environ)
    return _owners[pid]


def describe_process(pid: int, mark: str, environment: Mapping[str, str]) -> str:
    """A process in words: host, id, mark, and its Slurm job."""
    text = f"{os.uname().nodename} pid {pid} #{mark}"
    if "SLURM_JOB_ID" in environment:
        cluster = environment.get("SLURM_CLUSTER_NAME", "slurm")
        restart = environment.get("SLURM_RESTART_COUNT", "0")
        text += f" {cluster}:{environment['SLURM_JOB_ID']}.{restart}"
    return text[:255]


def new_request_id() -> str:
    """A fresh id for one request."""
    return base64.urlsafe_b64encode(os.urandom(12)).decode()
