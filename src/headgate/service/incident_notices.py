"""Turns incidents into notices: groups them, and puts them into the outbox in the transaction that records it."""

from __future__ import annotations

from datetime import timedelta

from headgate.core.notices import NoticePolicy, parse_routes, plan_notices
from headgate.service.leases.clock import steady
from headgate.settings import Settings
from headgate.stores.store import Store
from headgate.telemetry import event

#: Maximum number of incidents in one round.
AT_ONCE = 10_000
#: Seconds between two removals of old incidents.
CLEANED_EVERY = 3600.0


class IncidentNotices:
    """The notices of one store. Several processes can plan them: an incident is reported once."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._store = None if store.ledger is None else store.ledger.incidents
        self._tag = store.tag
        self._routes = parse_routes(settings["notices"])
        window = timedelta(seconds=settings.seconds("notice_window"))
        self._policy = NoticePolicy(window, settings.count("notices_per_hour"))
        self._keep = settings.keep("incident_keep")
        self._cleaned = steady() - CLEANED_EVERY

    def plan(self) -> int:
        """Put due notices into the outbox. Returns how many."""
        if self._store is None:
            return 0
        self._clean()
        due, sent = self._store.due(AT_ONCE), self._store.notices()
        if not due and not any(each.kept is not None for each in sent):
            return 0
        found = plan_notices(due, sent, self._routes, self._policy, self._store.now(), self._tag)
        if not (found.reported or found.messages):
            return 0
        if not self._store.report(found.reported, found.notices, found.messages, found.released):
            return 0
        for message in found.messages:
            event("incident.notice", message=message.id, recipient=message.to)
        return len(found.messages)

    def _clean(self) -> None:
        if self._store is not None and self._keep is not None and steady() - self._cleaned >= CLEANED_EVERY:
            self._cleaned = steady()
            self._store.prune(self._keep)
