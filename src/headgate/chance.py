"""Random numbers that spread retries.

They come from the operating system, not from the `random` module: a background thread of Headgate must not disturb a
program that seeds that generator, and forked processes must not draw the same numbers.
"""

from __future__ import annotations

import os

_BITS = 53  # The precision of a float.


def fraction() -> float:
    """Return a number from 0 up to, but not including, 1."""
    return (int.from_bytes(os.urandom(7), "big") >> 3) / (1 << _BITS)


def between(low: float, high: float) -> float:
    """Return a number from `low` to `high`."""
    return low + (high - low) * fraction()


def below(count: int) -> int:
    """Return a whole number from 0 to `count` - 1."""
    return int(fraction() * count)
