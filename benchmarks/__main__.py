"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import http, ingest, latency, ledger, locks, queue, queue_zookeeper, reaping, wakeups

locks.main([])
reaping.main([])
wakeups.main([])
ledger.main([])
queue.main([])
queue_zookeeper.main()
ingest.main([])
http.main([])
latency.main([])
