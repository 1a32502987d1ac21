"""`--work` of the service and of daemons: `headgate work` as a separate process, restarted when it ends."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.daemons.rounds import LONGEST_BACK_OFF_SECONDS, Rounds
from headgate.service.leases.clock import steady
from headgate.telemetry import event

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console

#: Pause between two checks whether it is running.
LOOK_SECONDS = 1.0
#: Added to the grace period of its commands: it then reports interrupted chunks.
MORE_SECONDS = 30.0


class WorkPath(click.Path):
    """A pipeline file whose jobs are run."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path of a readable file."""
        from headgate.cli.ledger.work_files import read_work_file

        path = Path(str(super().convert(value, param, ctx)))
        read_work_file(path, ())
        return path


class WorkProcess:
    """The process. It ends when the pipe to it closes: when it is stopped, or when this process dies."""

    def __init__(self, console: Console, file: Path, lease: float, grace: float) -> None:
        self._grace = min(grace, lease / 2)
        quiet = ["-q"] if console.quiet else []
        times = ["--lease", f"{lease:g}", "--grace", f"{self._grace:g}"]
        command = [sys.executable, "-m", "headgate", "work", "-f", str(file.absolute())]
        self._words = [*command, "--forever", "--until-eof", *times, *quiet]
        self._variables = console.store_variables()
        self._process: subprocess.Popen[bytes] | None = None
        self._starts_at = 0.0
        self._pause = LOOK_SECONDS
        #: Starts it, and restarts it when it has ended.
        self.rounds = Rounds("work", self._look, LOOK_SECONDS)

    def _look(self) -> int:
        if self._process is not None and self._process.poll() is not None:
            event("work.ended", logging.WARNING, exit_code=self._process.returncode, again_in=self._pause)
            self._process = None
            self._starts_at = steady() + self._pause
            self._pause = min(self._pause * 2, LONGEST_BACK_OFF_SECONDS)
        if self._process is None and steady() >= self._starts_at:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                self._words, stdin=subprocess.PIPE, env={**os.environ, **self._variables}, start_new_session=True
            )
            return 1
        return 0

    def stop(self, hurry: threading.Event) -> None:
        """End it: its commands get their grace period, unless it is in a `hurry`."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        until = steady() + self._grace + MORE_SECONDS
        hurried = False
        while process.poll() is None and steady() < until:
            if hurry.is_set() and not hurried:
                process.terminate()
                hurried = True
            time.sleep(LOOK_SECONDS / 10)
        process.kill()
        process.wait()
