"""Every page of the dashboard. A page author adds a file and its router here."""

from __future__ import annotations

from headgate.http.dashboard import (
    chunks,
    entrance,
    grid,
    history,
    ingest,
    ingest_acts,
    ingest_lists,
    ingest_refresh,
    jobs,
    locks,
    messages,
    objects,
    overview,
    pipeline,
)

ROUTERS = (
    entrance.router,
    overview.router,
    pipeline.router,
    grid.router,
    jobs.router,
    chunks.router,
    locks.router,
    ingest.router,
    ingest_lists.router,
    messages.router,
    objects.router,
    ingest_refresh.router,
    # Its last addresses fit any item and event: behind the pages of the same depth.
    ingest_acts.router,
    history.router,
)
