"""Parsing of settings that are numbers or lengths of time."""

from __future__ import annotations

import math

from headgate.core.values.durations import LONGEST, parse_duration

#: The retention time of everything that is never removed; the minimum otherwise is a day.
FOREVER, SHORTEST_KEEP = "forever", 86_400.0


def parse_number(text: str) -> float:
    """A number from 0 on; ValueError otherwise."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError("is not a number") from None
    if not 0 <= number < math.inf:
        raise ValueError("is not a number of 0 or more")
    return number


def parse_count(text: str) -> int:
    """A whole number from 1 on; ValueError otherwise."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise ValueError("is not a whole number of 1 or more")
    return int(text)


def parse_limit(text: str) -> int:
    """A whole number from 0 on; ValueError otherwise."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("is not a whole number of 0 or more")
    return int(text)


def parse_span(text: str) -> float:
    """A length of time in seconds; ValueError when it is not one from 0 seconds to a hundred years."""
    seconds = parse_duration(text)
    if not 0 <= seconds <= LONGEST:
        raise ValueError("is not a duration from 0 seconds to 100 years")
    return seconds


def parse_keep(text: str) -> float | None:
    """A retention time, in seconds; None: forever. ValueError when it is less than a day."""
    if text == FOREVER:
        return None
    seconds = parse_span(text)
    if seconds < SHORTEST_KEEP:
        raise ValueError(f"is neither {FOREVER!r} nor a day or more")
    return seconds
