"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import ledger, locks, queue

locks.main([])
ledger.main([])
queue.main([])
