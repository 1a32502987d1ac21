"""Damage in a store: what `headgate doctor` finds, explains and repairs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from headgate.core.values.durations import in_words

#: A store's clock may differ from this machine's by this much: smaller differences are a matter of NTP, not damage.
CLOCK_TOLERANCE = timedelta(days=1)
#: The kind of fault for a mail or callback that was not delivered.
UNDELIVERED = "undelivered"
#: The kind of fault for a file or folder of the store that other users can read or write.
OPEN_FILES = "open-files"


@dataclass(frozen=True, slots=True)
class Fault:
    """Damage in the store."""

    #: The kind of damage, a fixed word: `two-entries`, `lost-candidate`, …
    kind: str
    #: The batch, job, chunk, lock, resource or node concerned.
    item: str
    #: What is wrong, for people.
    what: str
    #: The action of a repair; empty: it cannot be repaired automatically, and an operator has to act.
    repair: str = ""


def clock_fault(store: str, clock: datetime, here: datetime) -> Fault | None:
    """A store's clock that differs too much from this machine's; None when they agree."""
    apart = clock - here
    if abs(apart) <= CLOCK_TOLERANCE:
        return None
    direction = "ahead of" if apart > timedelta(0) else "behind"
    what = (
        f"its clock shows {clock:%Y-%m-%d %H:%M} UTC, {in_words(abs(apart).total_seconds())} {direction} this "
        "machine's clock. Leases follow the server's clock, so they and the times in the history are wrong. Set the "
        "clock of the server"
    )
    return Fault("store-clock", store, what)
