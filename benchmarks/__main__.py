"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import locks, queue

locks.main([])
queue.main([])
