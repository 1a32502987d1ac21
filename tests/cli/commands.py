"""The installed command, run like a user runs it: a real process with its own interpreter."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.cli.forked import Forge, Start, read_at_start
from tests.waiting import PATIENT, until

PROGRAM = Path(sys.executable).parent / "headgate"
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)


class Headgate:
    """The command on one store (or on that of its working folder), with its own home and working folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def environment(self, **more: str) -> dict[str, str]:
        home = str(self.folder)
        code = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        store = {"HEADGATE_URL": self.url} if self.url else {}
        return {**code, **store, **PATIENT, "PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", **more}

    def __call__(self, *words: str, stdin: str = "", **environment: str) -> Result:
        told = self.environment(**environment)
        code, out, err = forge_for(told).run([str(PROGRAM), *words], stdin.encode(), told, self.folder)
        return Result(code, out.decode(), err.decode())

    def start(self, *words: str, more: Mapping[str, str] | None = None, **settings: Any) -> subprocess.Popen[bytes]:
        """`more`: variables besides those that every command gets."""
        process = subprocess.Popen(
            [PROGRAM, *words],
            env=self.environment(**(more or {})),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **settings,
        )
        self.started.append(process)
        return process

    def acquire(self, resource: str, *words: str, client: str = "alice") -> Any:
        done = self("lock", "acquire", resource, "--client", client, "--json", *words)
        assert done.code == 0, done.err
        return done.json

    def locks(self, resource: str) -> Any:
        return self("lock", "list", "--resource", resource, "--json").json

    def end_all(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.communicate()


def forge_for(environment: Mapping[str, str]) -> Forge:
    """The forge of such commands: one for all with the same start."""
    return _forge(read_at_start(environment))


@cache
def _forge(start: Start) -> Forge:
    return Forge(dict(start))


def process_state(pid: int) -> str:
    """The kernel's letter for what a process does: R, S, T (stopped), Z; empty when it no longer exists."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    """It has ended; whether its parent has reaped it is not checked."""
    return process_state(pid) in ("", "Z", "X")


def read_number(path: Path) -> int:
    """A number that another process writes, once it exists."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} to be written")
    return int(path.read_text())
