"""Chance, to spread tries and to tell things apart.

It does not come from the generator of the `random` module: a program that seeds that one, or checks that nobody else
draws from it, must not be disturbed by a thread of ours; and two processes that were forked must not draw the same.
"""

from __future__ import annotations

import os

_BITS = 53  # As many as a float can tell apart.


def some() -> float:
    """A number from 0 up to 1, another one each time."""
    return (int.from_bytes(os.urandom(7), "big") >> 3) / (1 << _BITS)


def between(low: float, high: float) -> float:
    """A number from `low` to `high`."""
    return low + (high - low) * some()


def below(count: int) -> int:
    """A whole number from 0 to `count` - 1."""
    return int(some() * count)
