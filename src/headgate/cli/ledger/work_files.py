"""The pipeline file of `headgate work`: it contains the commands, so nobody else may be able to change it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.cli.ledger.definitions import parse_pipeline
from headgate.cli.ledger.lookout import makers_first
from headgate.cli.processes.pair import CannotRun, check_command
from headgate.core.errors import BadValue, UnknownName
from headgate.core.ledger.commands import SHELL, JobCommand, parse_command
from headgate.core.values.words import suggestion
from headgate.store_search import distrust

#: A first word that a shell uses unchanged: the name of a command.
PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+-]+")


@dataclass(frozen=True, slots=True)
class WorkFile:
    """The commands of a pipeline file."""

    #: The folder of the file, in which commands run.
    folder: Path
    #: SHA-256 of the file, in hexadecimal.
    digest: str
    #: The jobs to run, makers before readers.
    commands: tuple[JobCommand, ...]


def read_work_file(path: Path, names: Sequence[str]) -> WorkFile:
    """Read the commands of these jobs, or of all that have one. Refused if others can change the file."""
    data = _trusted_content(path)
    pipeline = parse_pipeline(path, data)
    bodies = pipeline.get("job", {})
    found = {name: parse_command(name, body) for name, body in bodies.items()}
    commands = {name: each for name, each in found.items() if each is not None}
    if not commands:
        why = 'has no job with a command; write command = "./clean.sh" under [job.NAME]'
        raise BadValue("pipeline file", path.name, why)
    for name in names:
        if name in bodies and name not in commands:
            raise BadValue(
                "job", name, f'has no command in {path.name}; write command = "./{name}.sh" under [job.{name}]'
            )
        if name not in commands:
            raise UnknownName("job with a command", name, f"In {path.name}: {suggestion(name, tuple(commands))}")
    wanted = set(names or commands)
    order = makers_first((name, body.get("inputs", ()), body.get("outputs", ())) for name, body in bodies.items())
    return WorkFile(
        path.resolve().parent,
        hashlib.sha256(data).hexdigest(),
        tuple(commands[name] for name in order if name in wanted),
    )


class FileChange:
    """Notices that the file is another one than at the beginning: a run that stays does not read it again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _stamp(path)

    def sentence(self) -> str:
        """What to know about a change since the last time; empty: there was none."""
        before, self._known = self._known, _stamp(self._path)
        if before == self._known:
            return ""
        return f"{self._path} has changed; this run continues with the commands that it read at its start"


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_commands(file: WorkFile) -> None:
    """Raise CannotRun for the first missing command, before anything is claimed."""
    for command in file.commands:
        try:
            _check(command, file.folder)
        except CannotRun as error:
            raise CannotRun(f"command of job {command.job}", str(error), error.exit_code) from None


def _check(command: JobCommand, folder: Path) -> None:
    check_command(command.words[0], folder)
    if not command.text:
        return
    first = command.text.split()[0]
    if not PLAIN_WORD.fullmatch(first):
        return
    try:
        check_command(first, folder)
    except CannotRun:
        if "/" in first or not _is_of_the_shell(first):
            raise


def _is_of_the_shell(word: str) -> bool:
    """Whether the word is built into the shell: cd, if, test, and so on."""
    asked = [*SHELL, 'command -v -- "$1"', "sh", word]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0  # noqa: S603 - a plain word


def _remedy(path: Path) -> str:
    """What to do about a file that others can change."""
    open_places = [
        each for each in (path.absolute().parent, path) if each.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ]
    return shlex.join(["chmod", "go-w", *map(str, open_places)]) if open_places else "copy it to a folder of yours"


def _trusted_content(path: Path) -> bytes:
    """The content of a file that only its user, or root, can change."""
    try:
        # A named pipe that nobody writes would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise BadValue("pipeline file", str(path), "is not a regular file; commands run in the folder of one")
            place = next((each for each in (path, path.resolve()) if distrust(each)), path)
            why = distrust(place)
            if not why and mode & stat.S_IWGRP:
                why = "its group can write it"
            if why:
                todo = "its commands run as you, so nobody else may be able to change it"
                raise BadValue("pipeline file", str(path), f"is not used: {why}; {todo} ({_remedy(place)})")
            return file.read()
    except OSError as error:
        raise BadValue("pipeline file", str(path), f"cannot be read: {error.strerror}") from error
