"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import http, ingest, ledger, locks, queue, queue_zookeeper

locks.main([])
ledger.main([])
queue.main([])
queue_zookeeper.main()
ingest.main([])
http.main([])
