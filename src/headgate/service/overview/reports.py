"""Reports on the state of a store: the status, every count, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.core.access.scopes import ApiToken
from headgate.core.alarms import Alarm
from headgate.core.counts import Counts
from headgate.service.activity import Activity
from headgate.service.expectations import Expectations
from headgate.service.inventory import Inventory
from headgate.service.ledger.use_cases import Ledger
from headgate.service.locks.use_cases import Locks
from headgate.service.overview.counts import count_all
from headgate.service.overview.glance import Overview, overview
from headgate.service.overview.status import add_rich, short_status
from headgate.service.queue.use_cases import Queue


@dataclass(frozen=True, slots=True)
class OverviewReports:
    """The reports on one store. Each is cheap, however much the store contains."""

    locks: Locks
    queue: Queue
    ledger: Ledger | None
    inventory: Inventory | None
    activity: Activity
    expectations: Expectations | None

    def status(self) -> dict[str, Any]:
        """Return running work, locks and failures, in the format of ICAT's IDS."""
        return short_status(self.locks, self.queue, self.ledger, rich=False)

    def rich_status(self, expiring: Sequence[ApiToken], alarms: Sequence[Alarm]) -> dict[str, Any]:
        """Return the status with counts, running chunks, holders, waiters, the queue, and problems that need an
        operator.
        """
        found = short_status(self.locks, self.queue, self.ledger, rich=True)
        return add_rich(found, self.queue, self.ledger, self.counts(), expiring, alarms)

    def counts(self) -> Counts:
        """Return every number that the command, the API and the dashboard show."""
        return count_all(self.locks, self.ledger, self.queue, self.inventory, self.activity, self.expectations)

    def overview(self, expiring: Sequence[ApiToken], alarms: Sequence[Alarm]) -> Overview:
        """Return running work, waiting work, and problems that need an operator."""
        found = overview(self.counts(), self.locks, self.ledger, self.queue, self.inventory, expiring)
        return replace(found, alarms=alarms)
