"""Every page of the dashboard. Each page adds a file, and its router here."""

from __future__ import annotations

from headgate.http.dashboard import entrance, history, locks, messages, objects, overview
from headgate.http.dashboard.ingest import acts as ingest_acts
from headgate.http.dashboard.ingest import lists as ingest_lists
from headgate.http.dashboard.ingest import pages as ingest
from headgate.http.dashboard.ingest import refresh as ingest_refresh
from headgate.http.dashboard.pipeline import chunks, grid, incidents, jobs, late, selected
from headgate.http.dashboard.pipeline import pages as pipeline

ROUTERS = (
    entrance.router,
    overview.router,
    pipeline.router,
    grid.router,
    selected.router,
    incidents.router,
    late.router,
    jobs.router,
    chunks.router,
    locks.router,
    ingest.router,
    ingest_lists.router,
    messages.router,
    objects.router,
    ingest_refresh.router,
    # Its last addresses match any item and event, so they come after the pages of the same depth.
    ingest_acts.router,
    history.router,
)
