"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import http, ingest_io, ledger, locks, queue, queue_zookeeper

locks.main([])
ledger.main([])
queue.main([])
queue_zookeeper.main()
ingest_io.main([])
http.main([])
