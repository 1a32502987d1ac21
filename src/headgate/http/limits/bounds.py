"""Limits of the service: no caller can use it up, and it never runs out of memory."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, fields

from headgate.http.errors import TooMany
from headgate.service.leases.clock import steady
from headgate.settings import Settings

#: Number of seconds of its rate that a caller may use at once.
BURST_SECONDS = 4
#: Number of tokens and addresses whose rate is tracked.
MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one service."""

    #: Number of connections that may be open; those of waiters are included.
    connections: int = 5000
    #: Number of callers that wait for a lock, a chunk or an item.
    waiting: int = 4000
    #: Size of a form, and of a request's line and headers, in bytes.
    form: int = 50_000
    head: int = 32_768
    #: Seconds in which a request's headers have to arrive, in which some of its body has to arrive, and in which an
    #: answer has to be read.
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 30.0
    #: The minimum speed of a body in each of these intervals, in bytes per second.
    body_rate: int = 1000
    #: Seconds that an idle connection is kept.
    idle_seconds: int = 75
    # The following are settings with the same names; `headgate.settings` describes them.
    body_limit: int = 1_000_000
    large_body_limit: int = 50_000_000
    body_time: float = 300.0
    body_memory: int = 200_000_000
    body_memory_per_token: int = 100_000_000
    bodies_per_token: int = 16
    upload_time: float = 21_600.0
    uploads_at_once: int = 16
    uploads_per_token: int = 4
    streams_at_once: int = 2000
    streams_per_token: int = 50

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The limits in the settings."""
        return cls(**{field.name: settings.value(field.name) for field in fields(cls) if settings.has(field.name)})


class RequestPace:
    """How many requests per second are accepted from one token, or wrong tokens from one address: a token bucket for
    each.

    `limit`: the name of the setting, which has a counterpart for this machine. `what`: the noun for messages.
    """

    def __init__(self, settings: Settings, limit: str = "rate_limit", what: str = "requests") -> None:
        self._limit, self._what = limit, what
        self._elsewhere = settings.number(limit)
        self._here = settings.number(f"{limit}_local")
        #: By caller: the remaining amount, and since when.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._guard = threading.Lock()

    def take(self, whose: str, address: str, cost: int = 1) -> None:
        """Count one more request. Raises TooMany if it comes too early. Without cost: only check."""
        rate = self._here if is_here(address) else self._elsewhere
        if not rate:
            return
        with self._guard:
            left = self._leave(whose, rate, cost)
        if left < 1:
            limit = f"{self._limit}_local" if is_here(address) else self._limit
            seconds = math.ceil((1 - left) / rate)
            raise TooMany(f"more than {rate:g} {self._what} per second", seconds, limit, rate)

    def _leave(self, whose: str, rate: float, cost: int) -> float:
        """The remaining amount, before the cost is subtracted if there was enough."""
        now, most = steady(), max(rate * BURST_SECONDS, 1)
        left, when = self._left.get(whose, (most, now))
        left = min(left + (now - when) * rate, most)
        self._left[whose] = (left - cost if left >= 1 else left, now)
        self._left.move_to_end(whose)
        while len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)
        return left


def subtract(counts: Counter[str], whose: str, count: int = 1) -> None:
    """Subtract from a count; callers that reach zero are forgotten."""
    counts[whose] -= count
    if not counts[whose]:
        del counts[whose]


def is_here(address: str) -> bool:
    """Whether an address is the local host."""
    return address.startswith("127.") or address in ("::1", "")
