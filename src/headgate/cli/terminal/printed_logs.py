"""Logs of attempts and steps, as printed on the terminal."""

from __future__ import annotations

import sys

from headgate.cli.terminal.output import ago
from headgate.core.logs import Log
from headgate.core.values.sizes import size_in_words
from headgate.core.values.visible import visible


def heading(log: Log) -> str:
    """The line above a log: where it was written, and whether it is complete."""
    step = f"{log.step}, " if log.step else ""
    cut = f", the end of {size_in_words(log.size)}" if log.cut else ""
    end = "" if log.ended else f", last sent {ago(log.at)}"
    return f"==> {step}{log.stream} of attempt {log.attempt}{cut}{end} <==\n"


def print_log(title: str, text: str) -> None:
    """Print it; an unfinished line gets a line end."""
    sys.stdout.write(title + visible(text) + ("" if text.endswith("\n") or not text else "\n"))
    sys.stdout.flush()
