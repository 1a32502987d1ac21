"""Claims whose worker died, for the doctor."""

from __future__ import annotations

from headgate.core.faults import Fault
from headgate.service.ledger.use_cases import Ledger

#: The kind of fault for such a claim.
DEAD_WORKER = "dead-worker"
#: Seconds after which an expired claim that was not reaped counts as a fault.
LONG_GONE_SECONDS = 60.0
#: Number of expired claims that are named individually.
MOST_NOTICES = 3


def faults(ledger: Ledger) -> list[Fault]:
    """Return claims that expired long ago and were not reaped."""
    return [
        Fault(DEAD_WORKER, f"{row.job}/{row.dataid}", f"{row.worker} claimed it and died", "set it to ERROR")
        for row in ledger.running() if row.expires_in is not None and row.expires_in < -LONG_GONE_SECONDS
    ]  # fmt: skip


def notices(ledger: Ledger) -> list[str]:
    """Return recently expired claims, which the reaper or the next worker will reap."""
    dead = [row for row in ledger.running() if row.expired and (row.expires_in or 0) >= -LONG_GONE_SECONDS]
    lines = [f"{row.sentence()}; the next worker or the reaper frees it" for row in dead[:MOST_NOTICES]]
    more = f"{len(dead) - MOST_NOTICES} more claims whose lease has expired"
    return [*lines, more] if len(dead) > MOST_NOTICES else lines


def repair(ledger: Ledger, fault: Fault) -> bool:
    """Reap it, with all others of its kind. Returns False if it still exists."""
    ledger.reap()
    return fault not in faults(ledger)
