"""Alarms on the terminal and in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.daemons.rounds import Rounds
from headgate.telemetry import event

if TYPE_CHECKING:
    from headgate.cli.terminal.console import Console
    from headgate.core.alarms import Alarm
    from headgate.gate import Gate

#: Seconds between two checks for stuck work.
LOOK_SECONDS = 30.0


def alarm_lines(console: Console, alarms: Sequence[Alarm]) -> list[str]:
    """Each alarm, followed by the command that fixes it."""
    return [line for each in alarms for line in (f"STUCK    {each.what}", f"         {console.command(*each.fix)}")]


def alarm_rounds(console: Console, gate: Gate) -> Rounds:
    """Log each alarm once, when it is raised, and again when it has ended."""
    known: dict[tuple[str, str], Alarm] = {}

    def look() -> int:
        found = {(alarm.kind, alarm.item): alarm for alarm in gate.alarms()}
        for key, alarm in found.items():
            if key not in known:
                fix = console.command(*alarm.fix)
                event("alarm.raised", logging.WARNING, kind=alarm.kind, item=alarm.item, what=alarm.what, fix=fix)
        for key in known.keys() - found.keys():
            event("alarm.ended", kind=key[0], item=key[1])
        known.clear()
        known.update(found)
        return 0

    return Rounds("alarms", look, LOOK_SECONDS)
