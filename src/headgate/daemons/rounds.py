"""Repeating a task until asked to stop: the base of every daemon.

A round that the store does not allow (it is unavailable, or refuses) is logged, and retried after a growing pause. Any
other error is a bug: it ends everything, so that a supervisor notices.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.chance import fraction
from headgate.core.errors import HeadgateError
from headgate.service.leases.clock import steady
from headgate.telemetry import event

#: The maximum pause after failures, unless the interval itself is longer.
LONGEST_BACK_OFF_SECONDS = 60.0
#: Pauses vary by this factor, so that daemons that were started together do not stay in step.
JITTER = 0.2
#: The maximum delay before a signal is handled.
HEARING_SECONDS = 0.5
#: The time that a running round has to end at a stop. Abandoning it is safe: a transaction takes effect completely or
#: not at all.
GOODBYE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Rounds:
    """A repeated task."""

    #: Its name in the log.
    name: str
    #: One round; returns the amount of work that it did.
    act: Callable[[], int]
    #: Seconds from the end of one round to the start of the next.
    interval: float
    #: A number from 0 to 1, different each time.
    chance: Callable[[], float] = fraction
    #: The log text for work that was done.
    done_word: str = "ended"
    #: Why there is no work, and never will be; empty: there may be some.
    idle: str = ""
    #: Runs after the last round.
    end: Callable[[], None] = lambda: None

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set; the first round starts at once."""
        if self.idle:
            event("daemon.idle", daemon=self.name, why=self.idle)
            return
        event("daemon.started", daemon=self.name, interval=self.interval)
        failures = 0
        while not stop.is_set():
            failures = self._round(failures)
            stop.wait(self.pause(failures))
        self.finish()
        event("daemon.stopped", daemon=self.name)

    def finish(self) -> None:
        """Run the final act; an unavailable store notices the end when leases expire."""
        try:
            self.end()
        except HeadgateError as error:
            event("daemon.not_ended", logging.WARNING, daemon=self.name, why=str(error))

    def pause(self, failures: int) -> float:
        """Seconds until the next round, after this many consecutive failures."""
        longest = max(self.interval, LONGEST_BACK_OFF_SECONDS)
        # The exponent is limited: a store may be unavailable for years.
        wanted = min(self.interval * 2.0 ** min(failures, 30), longest)
        return wanted * (1 + JITTER * (2 * self.chance() - 1))

    def _round(self, failures: int) -> int:
        """One round. Returns the number of consecutive failures."""
        try:
            done = self.act()
        except HeadgateError as error:
            event("daemon.failed", logging.WARNING, daemon=self.name, failures=failures + 1, why=str(error))
            return failures + 1
        if failures:
            event("daemon.recovered", daemon=self.name, failures=failures)
        event("daemon.round", logging.INFO if done else logging.DEBUG, daemon=self.name, done=done)
        return 0


def run_together(every: Sequence[Rounds], stop: threading.Event) -> None:
    """Each in its own thread, until `stop` is set. When one fails, all stop, and its error is raised."""
    broken: list[BaseException] = []

    def run(rounds: Rounds) -> None:
        try:
            rounds.run(stop)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that started all
            broken.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(each,), name=f"headgate-{each.name}", daemon=True) for each in every]
    for thread in threads:
        thread.start()
    # A signal that the system delivers to another thread is handled by this one when it wakes up: never sleep without a
    # limit.
    while not stop.wait(HEARING_SECONDS):
        pass
    deadline = steady() + GOODBYE_SECONDS
    for thread in threads:
        thread.join(max(deadline - steady(), 0))
    if broken:
        raise broken[0]
