"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import ledger, locks

locks.main([])
ledger.main([])
