"""Every benchmark, one after another."""

from __future__ import annotations

from benchmarks import http, ingest, latency, ledger, locks, loop, queue, queue_zookeeper, reaping, wakeups

locks.main([])
reaping.main([])
wakeups.main([])
ledger.main([])
loop.main([])
queue.main([])
queue_zookeeper.main()
ingest.main([])
http.main([])
latency.main([])
