"""Sizes such as 512 MiB or 10GB. Programs use bytes."""

from __future__ import annotations

import re
from decimal import Decimal

#: Bytes in each unit: powers of 1000, and powers of 1024 where the unit has an i.
UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", 1)},
}
_SHOWN = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
#: The largest size that a store can keep.
LARGEST = 2**63 - 1
_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?)\s*(?P<unit>[A-Za-z]*)")


def parse_size(text: str) -> int:
    """The number of bytes in a text, rounded to whole bytes. ValueError with the reason otherwise."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found["unit"].lower() not in UNITS:
        raise ValueError("is not a size; write a number of bytes, or a number with a unit such as 512 MiB or 10GB")
    size = int(Decimal(found["number"]) * UNITS[found["unit"].lower()])
    if size > LARGEST:
        raise ValueError(f"is too large; the largest size is {LARGEST} bytes")
    return size


def size_in_words(count: float) -> str:
    """1.5 GiB"""
    value, unit = float(count), _SHOWN[0]
    for unit in _SHOWN:
        if value < 1024 or unit == _SHOWN[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
