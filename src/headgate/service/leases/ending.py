"""Waiting for the end of something: a batch, an ingest job, the chunks of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headgate.service.leases.looking import Looking

T = TypeVar("T")
#: Returns the progress. A side that can wait receives the known state, or None, and a number of seconds: it answers
#: when the state changes, or only at the end, or when the time is over.
Ask = Callable[[Any, float], T]
#: Asks within that many seconds, and returns nothing while nothing has changed.
Look = Callable[[float], T | None]


class EndWait(Generic[T]):
    """A caller that waits for the end of something, and may also want changes on the way."""

    def __init__(
        self, ask: Ask[T], ended: Callable[[T], bool], mark: Callable[[T], Any],
        looking: Callable[[Look[T]], Looking[T]], known: Any = None,
    ) -> None:  # fmt: skip
        """`mark`: the part of an answer that is compared. `known`: the known mark; None: only the end is of interest.
        `looking`: returns the waiter that checks.
        """
        self._ask, self._mark, self._known = ask, mark, known
        #: Whether an answer is the last.
        self.ended = ended
        #: Takes the steps of the wait.
        self.looking = looking(self._look)
        #: The last answer.
        self.last: T | None = None

    def now(self) -> T:
        """The progress."""
        return self._answer(0)

    def to_its_end(self, timeout: float | None) -> T:
        """The progress at the end, or after that many seconds; None: no limit."""
        self.looking.within(timeout)
        return self.now() if self.last is None else self.last

    def change(self, timeout: float | None) -> T:
        """The progress: the first answer at once, then one after each change, or after that many seconds."""
        if self.last is None:
            return self.now()
        self._known = self._mark(self.last)
        return self.to_its_end(timeout)

    def _look(self, wait: float) -> T | None:
        found = self._answer(wait)
        changed = self._known is not None and self._mark(found) != self._known
        return found if changed or self.ended(found) else None

    def _answer(self, wait: float) -> T:
        self.last = self._ask(self._known, wait)
        return self.last
