"""The record kept beside a backup: each restore of it, and how far its tokens and ids jumped.

A line for each restore: when, the two jumps, and the store. The file travels with the backup. Without it, two restores
of one backup still differ by the random part of their jumps, but the second does not necessarily go further than the
first.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from headgate import private
from headgate.core.errors import BadPayload
from headgate.core.jumps import LAST_NUMBER, LAST_TOKEN, Jump, next_jump

#: The suffix of its name, after the name of the backup.
SUFFIX = ".restored"
_LINE = re.compile(r"\S+ tokens \+([0-9]{1,16}) ids \+([0-9]{1,10})")


class RestoreLog:
    """The restores of one backup."""

    def __init__(self, backup: Path) -> None:
        self._path = backup.with_name(backup.name + SUFFIX)
        #: Warnings, for display.
        self.notes: list[str] = []

    def known(self, least: Jump) -> Jump:
        """The greatest known jump, or the given one if that is greater."""
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return least
        return self._greatest(text, least)

    def next(self, least: Jump) -> Jump:
        """Return a jump beyond all known ones, after recording it."""
        try:
            return self._write(least)
        except OSError as error:
            self.notes.append(
                f"{self._path} cannot be written ({error.strerror}), so another restore of this backup will not know "
                "about this one. If you use both, raise the tokens of the second with: headgate store raise-tokens"
            )
            return next_jump(self.known(least), secrets.randbelow)

    def _write(self, least: Jump) -> Jump:
        # Do not follow a link that somebody else has created.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        descriptor = private.open_file(self._path, flags)
        with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as file:
            # Two restores at once would each read the log without the other's line.
            fcntl.flock(file, fcntl.LOCK_EX)
            jump = next_jump(self._greatest(file.read(), least), secrets.randbelow)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            file.write(f"{now} tokens +{jump.tokens} ids +{jump.ids}\n")
            file.flush()
            os.fsync(descriptor)
        return jump

    def _greatest(self, text: str, least: Jump) -> Jump:
        found = [least]
        for number, line in enumerate(text.splitlines(), 1):
            parts = _LINE.fullmatch(line)
            if not parts:
                raise BadPayload(
                    str(self._path),
                    (
                        f"line {number} was not written by a restore. The file lists how far earlier "
                        "restores of this backup raised ids and tokens; repair the line, or remove the "
                        "file if none of those restores was used"
                    ),
                )
            found.append(Jump(min(int(parts[1]), LAST_TOKEN), min(int(parts[2]), LAST_NUMBER)))
        return Jump(max(each.tokens for each in found), max(each.ids for each in found))
