"""Every page of the dashboard. A page author adds a file and its router here."""

from __future__ import annotations

from headgate.http.dashboard import chunks, entrance, grid, jobs, locks, overview, pipeline

ROUTERS = (
    entrance.router,
    overview.router,
    pipeline.router,
    grid.router,
    jobs.router,
    chunks.router,
    locks.router,
)
