"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import ingest_io, locks

locks.main([])
ingest_io.main([])
