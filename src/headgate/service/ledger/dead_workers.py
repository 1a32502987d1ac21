"""Claims whose worker died, as the doctor sees them."""

from __future__ import annotations

from headgate.core.faults import Fault
from headgate.service.ledger.use_cases import Ledger

#: The kind of fault that the ledger can have.
DEAD_WORKER = "dead-worker"
#: Seconds after which an expired claim that nobody has reaped is a fault.
LONG_GONE_SECONDS = 60.0
#: Expired claims that are named one by one.
MOST_NOTICES = 3


def faults(ledger: Ledger) -> list[Fault]:
    """Return claims that ended long ago, and that nobody has turned into errors."""
    return [
        Fault(DEAD_WORKER, f"{row.job}/{row.dataid}", f"{row.worker} claimed it and died", "set it to ERROR")
        for row in ledger.running() if row.expires_in is not None and row.expires_in < -LONG_GONE_SECONDS
    ]  # fmt: skip


def notices(ledger: Ledger) -> list[str]:
    """Return claims whose lease expired a short while ago: the reaper, or the next worker, turns them into errors."""
    dead = [row for row in ledger.running() if row.expired and (row.expires_in or 0) >= -LONG_GONE_SECONDS]
    lines = [f"{row.sentence()}; the next worker or the reaper frees it" for row in dead[:MOST_NOTICES]]
    more = f"{len(dead) - MOST_NOTICES} more claims whose lease has expired"
    return [*lines, more] if len(dead) > MOST_NOTICES else lines


def repair(ledger: Ledger, fault: Fault) -> bool:
    """Repair it as the reaper would, and all others of its kind. Returns False if it is still there."""
    ledger.reap()
    return fault not in faults(ledger)
