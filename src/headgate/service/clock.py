"""The clock by which a process judges its own leases."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def steady() -> float:
        """Seconds that only grow, and go on while the machine sleeps: a lease does not sleep either."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # pragma: no cover - Linux has it
    steady = time.monotonic
