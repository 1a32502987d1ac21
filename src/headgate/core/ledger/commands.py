"""The command of each job in a pipeline file, which `headgate work` runs. It never leaves that file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.values.durations import LONGEST, parse_duration

#: The shell that runs a command given as one text.
SHELL = ("/bin/sh", "-c")
#: Maximum number of workers of a job in one process.
MOST_WORKERS = 1000
#: The keys of a job that are not stored.
COMMAND, WORKERS, TIMEOUT, KEY_FILE = "command", "workers", "timeout", "key_file"


@dataclass(frozen=True, slots=True)
class JobCommand:
    """The command for each chunk of a job, and how to run it."""

    #: The job.
    job: str
    #: The words of the command.
    words: tuple[str, ...]
    #: The text, if a shell reads it.
    text: str = ""
    #: Number of chunks at a time.
    workers: int = 1
    #: Seconds after which the command is stopped and its chunk fails.
    timeout: float | None = None
    #: A file with the job's key; empty: the key in the settings.
    key_file: str = ""
    #: Variables for the command, beside those of the job's definition.
    environment: Mapping[str, str] = field(default_factory=dict)


def parse_command(job: str, body: Mapping[str, Any]) -> JobCommand | None:
    """The command of a job; None if the file has none. BadValue names the key that is wrong."""
    if COMMAND not in body:
        for key in (WORKERS, TIMEOUT, KEY_FILE):
            if key in body:
                raise BadValue(key, body[key], f"describes how a command runs; add `{COMMAND}`")
        return None
    command = body[COMMAND]
    is_text = isinstance(command, str)
    if not (_is_line(command) if is_text else _is_words(command)):
        why = 'is not a command; write a line for the shell, "./clean.sh", or a list of words, ["./clean.sh", "-v"]'
        raise BadValue(COMMAND, command, why)
    return JobCommand(
        job,
        (*SHELL, command) if is_text else tuple(command),
        command if is_text else "",
        _workers(body.get(WORKERS, 1)),
        _timeout(body.get(TIMEOUT)),
        _key_file(body.get(KEY_FILE, "")),
        _variables(body.get("environment", {})),
    )


def _is_line(text: str) -> bool:
    return bool(text.strip()) and "\0" not in text


def _is_words(words: object) -> bool:
    return (
        isinstance(words, list)
        and all(isinstance(word, str) and "\0" not in word for word in words)
        and bool(words and words[0])
    )


def _workers(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_WORKERS:
        raise BadValue(WORKERS, number, f"must be a whole number from 1 to {MOST_WORKERS:,}")
    return number


def _timeout(given: object) -> float | None:
    if given is None:
        return None
    try:
        seconds = parse_duration(given) if isinstance(given, str) else given
    except ValueError as error:
        raise BadValue(TIMEOUT, given, str(error)) from None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST:
        raise BadValue(TIMEOUT, given, "must be more than 0 seconds")
    return float(seconds)


def _key_file(given: object) -> str:
    if not isinstance(given, str):
        raise BadValue(KEY_FILE, given, "is not the path of a file")
    return given


def _variables(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given.values()):
        raise BadValue("environment", given, "is not a table of texts")
    return dict(given)
