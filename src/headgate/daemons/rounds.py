"""Doing something again and again until asked to stop: what every daemon is made of.

A round that the store does not allow (it is away, or says no) is logged, and tried again after a growing pause. An
error of any other kind is a bug: it ends everything, so that a supervisor sees it.
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

#: No pause after failures grows beyond this, unless the interval itself does.
LONGEST_BACK_OFF_SECONDS = 60.0
#: Pauses vary by this factor, so that daemons that were started together do not stay in step.
JITTER = 0.2
#: The longest time until a signal is heard.
HEARING_SECONDS = 0.5
#: What is under way when it is time to stop gets this long. Leaving it is safe: a transaction happens wholly or not.
GOODBYE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Rounds:
    """One act, again and again."""

    #: Its name in the log.
    name: str
    #: One round; gives how much there was to do.
    act: Callable[[], int]
    #: Seconds from one round's end to the next one's beginning.
    interval: float
    #: A number from 0 to 1, another one each time.
    chance: Callable[[], float] = fraction
    #: What happened to what there was to do.
    done_word: str = "ended"
    #: Why there is nothing to do, and never will be; empty: there may be.
    idle: str = ""
    #: What is done after the last round.
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
        """Do what is done after the last round; a store that is away hears of it by the end of leases."""
        try:
            self.end()
        except HeadgateError as error:
            event("daemon.not_ended", logging.WARNING, daemon=self.name, why=str(error))

    def pause(self, failures: int) -> float:
        """Seconds until the next round, after this many failures in a row."""
        longest = max(self.interval, LONGEST_BACK_OFF_SECONDS)
        # The exponent has a limit of its own: a store may be away for years.
        wanted = min(self.interval * 2.0 ** min(failures, 30), longest)
        return wanted * (1 + JITTER * (2 * self.chance() - 1))

    def _round(self, failures: int) -> int:
        """One round. Returns how many have failed in a row."""
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
    """Each in a thread of its own, until `stop` is set. When one breaks, all stop, and its error is raised."""
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
    # A signal that the system hands to another thread is heard by this one when it wakes up: never sleep for good.
    while not stop.wait(HEARING_SECONDS):
        pass
    deadline = steady() + GOODBYE_SECONDS
    for thread in threads:
        thread.join(max(deadline - steady(), 0))
    if broken:
        raise broken[0]
