"""Lengths of time as people read and write them. Programs are given seconds."""

from __future__ import annotations

import math
import re

MINUTE, HOUR, DAY = 60, 3600, 86_400
#: The longest duration that is accepted: a hundred years, in seconds.
LONGEST = 100 * 365.25 * DAY
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s"))
#: Seconds in each unit of a length of time.
WRITTEN_UNITS = {"": 1, "s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
#: Each digit can be matched in one way only: otherwise the time grows with the square of their number.
_WRITTEN = re.compile(r"(?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)\s*(?P<unit>[smhd]?)")


def parse_duration(text: str) -> float:
    """The seconds of a text such as 30, 30s, 10m, 2h or 1d. ValueError with the reason otherwise."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise ValueError("is not a duration; write 30, 30s, 10m, 2h or 1d")
    return float(found["number"]) * WRITTEN_UNITS[found["unit"]]


def parse_seconds(value: object, most: float, *, least: float = 0.0) -> float:
    """The seconds of a number or of such a text. ValueError with the reason unless they are within these limits."""
    found = parse_duration(value) if isinstance(value, str) else value
    usable = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    if not usable or not least <= found <= most:  # type: ignore[operator]
        low = f"{least / DAY:g}" if least else "0"
        raise ValueError(f"is not a time from {low} to {most / DAY:g} days; write 90m, 2h or 1d")
    return float(found)  # type: ignore[arg-type]


def in_words(seconds: float) -> str:
    """59 min 47 s; 2 h; 0.5 s: the two largest units, rounded to the smaller one."""
    if 0 < seconds < 1:
        return f"{round(seconds, 1):g} s"
    step = HOUR if seconds >= DAY else MINUTE if seconds >= HOUR else 1
    left = max(round(seconds / step) * step, 0)
    parts = []
    for length, unit in _UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
