"""The clock by which a process judges its own leases."""

from __future__ import annotations

import time
from datetime import UTC, datetime

if hasattr(time, "CLOCK_BOOTTIME"):

    def steady() -> float:
        """Seconds that only grow, and continue while the machine sleeps, as leases do."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # pragma: no cover - Linux has it
    steady = time.monotonic


def wall() -> datetime:
    """The current time, by this machine's clock."""
    return datetime.now(UTC)
