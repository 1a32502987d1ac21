"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import locks, queue, queue_zookeeper

locks.main([])
queue.main([])
queue_zookeeper.main()
