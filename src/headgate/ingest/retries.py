"""Retrying requests that temporarily failed: a limited number of times, with growing, randomised pauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from headgate import chance
from headgate.core.errors import ServiceUnavailable

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retries:
    """The number of attempts, and the pauses."""

    tries: int = 5
    #: The pause after the first failure; it doubles each time, and a random half to all of it is waited.
    pause: float = 0.5
    longest_pause: float = 30.0

    def pause_after(self, tried: int, asked: float | None) -> float:
        """Seconds to wait; a pause requested by the other side is respected, within limits."""
        most = min(self.pause * 2 ** (tried - 1), self.longest_pause)
        chosen = chance.between(most / 2, most)
        return chosen if asked is None else max(chosen, min(asked, self.longest_pause))


def retried(work: Callable[[], Result], retries: Retries, wait: Callable[[float], object]) -> Result:
    """Repeat a function until it succeeds; the error of the last attempt is raised."""
    for tried in range(1, retries.tries):
        try:
            return work()
        except ServiceUnavailable as error:
            wait(retries.pause_after(tried, error.retry_after))
    return work()


def seconds_of(retry_after: str, now: datetime) -> float | None:
    """The pause that a Retry-After header requests; None: it is missing or unreadable."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None
