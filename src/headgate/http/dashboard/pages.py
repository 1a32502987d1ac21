"""Every page of the dashboard. A page author adds a file and its router here."""

from __future__ import annotations

from headgate.http.dashboard import entrance, locks, overview

ROUTERS = (entrance.router, overview.router, locks.router)
