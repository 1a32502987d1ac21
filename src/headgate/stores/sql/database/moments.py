"""Conversion of times and durations to microseconds, as the store keeps them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import SupportsFloat

MICROSECONDS = 1_000_000


def moment(microseconds: int) -> datetime:
    """A stored number as a time."""
    return datetime.fromtimestamp(microseconds / MICROSECONDS, UTC)


def micro(at: datetime) -> int:
    """A time as a stored number."""
    return round(at.timestamp() * MICROSECONDS)


def to_micro(seconds: float | None) -> int | None:
    """Seconds as a stored number."""
    return None if seconds is None else round(seconds * MICROSECONDS)


def to_seconds(microseconds: SupportsFloat | None) -> float | None:
    """A stored number as seconds. Databases return decimals or integers."""
    return None if microseconds is None else float(microseconds) / MICROSECONDS
