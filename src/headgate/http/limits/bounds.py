"""Limits of the service: no caller can use it up for the others, and it never runs out of memory."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, fields

from headgate.http.errors import TooMany
from headgate.service.leases.clock import steady
from headgate.settings import Settings

#: Seconds of its rate that a caller may send at once.
BURST_SECONDS = 4
#: Tokens and addresses whose pace is remembered.
MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one service."""

    #: Connections that may be open side by side; those who wait are among them.
    connections: int = 5000
    #: Callers that wait for a lock, a chunk or an item.
    waiting: int = 4000
    #: Bytes of a form, and of a request's line and headers.
    form: int = 50_000
    head: int = 32_768
    #: Seconds in which a request's headers have to be sent, in which something of its body has to come, and in which
    #: an answer has to be taken.
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 30.0
    #: In each such time a body has to come at least so fast, in bytes a second.
    body_rate: int = 1000
    #: Seconds that a connection is kept on which nothing is asked.
    idle_seconds: int = 75
    # What follows are settings, by the same names; `headgate.settings` says what they mean.
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
        """The bounds that the settings name."""
        return cls(**{field.name: settings.value(field.name) for field in fields(cls) if settings.has(field.name)})


class RequestPace:
    """How many requests a second are taken from one token, or wrong tokens from one address: a bucket for each.

    `limit`: the setting that says so, which has a second one for this machine. `what`: of what it is the number.
    """

    def __init__(self, settings: Settings, limit: str = "rate_limit", what: str = "requests") -> None:
        self._limit, self._what = limit, what
        self._elsewhere = settings.number(limit)
        self._here = settings.number(f"{limit}_local")
        #: By caller: what is left, and since when.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._guard = threading.Lock()

    def take(self, whose: str, address: str, cost: int = 1) -> None:
        """Count one more request. Raises TooMany if it comes too early. Of no cost: only ask whether it would."""
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
        """What was left, before the cost is taken if there was enough."""
        now, most = steady(), max(rate * BURST_SECONDS, 1)
        left, when = self._left.get(whose, (most, now))
        left = min(left + (now - when) * rate, most)
        self._left[whose] = (left - cost if left >= 1 else left, now)
        self._left.move_to_end(whose)
        while len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)
        return left


def subtract(counts: Counter[str], whose: str, count: int = 1) -> None:
    """Subtract from a count; callers with none left are forgotten."""
    counts[whose] -= count
    if not counts[whose]:
        del counts[whose]


def is_here(address: str) -> bool:
    """Whether an address is the local host."""
    return address.startswith("127.") or address in ("::1", "")
