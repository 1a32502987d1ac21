"""Lengths of time as people read them. Programs are given seconds."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60, 3600, 86_400
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s"))


def in_words(seconds: float) -> str:
    """59 min 47 s; 2 h; 0.5 s: the two greatest units, rounded to the smaller one."""
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
