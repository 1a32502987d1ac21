"""Damage in a store: what `headgate doctor` finds, explains and repairs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from headgate.core.values.durations import in_words

#: A store's clock may differ from this machine's by this much: less is a matter of NTP, not of damage.
CLOCK_TOLERANCE = timedelta(days=1)
#: The kind of fault that a mail or callback is which did not arrive.
UNDELIVERED = "undelivered"
#: The kind of fault that a file or folder of the store is which other users can read or write.
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
    #: What a repair does; empty: nothing can be repaired automatically, an operator has to.
    repair: str = ""


def clock_fault(store: str, clock: datetime, here: datetime) -> Fault | None:
    """A store's clock that is far from this machine's; None when they agree."""
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
