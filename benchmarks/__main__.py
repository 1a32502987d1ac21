"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import ingest_io, ledger, locks, queue

locks.main([])
ledger.main([])
queue.main([])
ingest_io.main([])
