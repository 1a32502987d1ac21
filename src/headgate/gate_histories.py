"""The histories of a gate: what happened to locks, to chunks and in the queue, read and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from headgate.core.names import check_name
from headgate.service.checks import check_limit
from headgate.service.history_filters import check_entry_id, check_time, lock_filter
from headgate.stores.base import HistoryFilter, LedgerHistoryFilter, LockStore
from headgate.stores.store import Store

if TYPE_CHECKING:
    from headgate.core.history import Entry
    from headgate.service.activity import Activity, Ask
    from headgate.service.histories import Told, Wanted
    from headgate.service.ledger import Ledger
    from headgate.service.queue import Queue
    from headgate.stores.history import Happened


class GateHistories:
    """The part of a gate that reads histories."""

    store: Store

    if TYPE_CHECKING:

        @cached_property
        def _ledger(self) -> Ledger | None:
            """The gate's ledger, if it keeps one."""

        @property
        def ledger(self) -> Ledger:
            """The gate's ledger."""

        @cached_property
        def queue(self) -> Queue:
            """The gate's queue."""

    def history(  # noqa: PLR0913 - each is a filter by its name
        self,
        resource: str | None = None,
        client: str | None = None,
        event: str | None = None,
        *,
        job: str | None = None,
        dataid: str | None = None,
        item: str | None = None,
        lock_id: str | None = None,
        since: datetime | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Entry]:
        """What happened to locks, newest first; with a job or a data id, to chunks and jobs; with an item, to
        that batch (and its jobs) or ingest job.

        Page on with `before` the last entry's id; where two stores are joined, with `lock_history`.
        """
        page: dict[str, Any] = {
            "client": None if client is None else check_name("client", client),
            "event": event,
            "since": check_time(since),
            "before": check_entry_id(before),
            "limit": check_limit(limit),
        }
        if item is not None:
            from headgate.core.queue import check_item_id
            from headgate.stores.queue_port import QueueHistoryFilter

            return self.queue.history(QueueHistoryFilter(item=check_item_id(item), **page))
        if job is not None or dataid is not None:
            which = LedgerHistoryFilter(
                job=None if job is None else check_name("job", job),
                dataid=None if dataid is None else check_name("dataid", dataid),
                **page,
            )
            return self.ledger.history(which)
        return self.store.locks.history(lock_filter(resource, lock_id, page))

    def lock_history(
        self,
        resource: str | None = None,
        client: str | None = None,
        event: str | None = None,
        *,
        lock_id: str | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Told:
        """What happened to locks, newest first; page on with `next`, also where two stores are joined."""
        from headgate.service.histories import read_locks

        page: dict[str, Any] = {
            "client": None if client is None else check_name("client", client),
            "event": event,
            "since": check_time(since),
            "limit": check_limit(limit),
        }
        which = lock_filter(resource, lock_id, page)
        # A resource lives in one of them.
        asks = self._lock_histories() if resource is None else [self.store.locks.history]
        return read_locks(asks, which, after)

    def histories(self) -> tuple[Ask, ...]:
        """How to read the histories of locks (where two stores are joined, of each), ledger and queue, newest first."""
        from headgate.service.activity import asking as ask
        from headgate.stores.queue_port import QueueHistoryFilter

        ledger = (lambda _which: ()) if self._ledger is None else self._ledger.history
        locks = (ask(each, HistoryFilter) for each in self._lock_histories())
        return (*locks, ask(ledger, LedgerHistoryFilter), ask(self.queue.history, QueueHistoryFilter))

    def whole_history(self, which: Wanted, *, after: str | None = None, limit: int = 100) -> Told:
        """What happened to locks, to chunks and in the queue together, newest first; page on with `next`."""
        from headgate.service.histories import read

        ledger = None if self._ledger is None else self._ledger.history
        return read((self._lock_histories(), ledger, self.queue.history), which, after, limit)

    def _lock_histories(self) -> list[Callable[[HistoryFilter], Sequence[Entry]]]:
        return [each.history for each in self._lock_stores()]

    def _lock_stores(self) -> Sequence[LockStore]:
        return [each.locks for each in self.store.parts]

    @cached_property
    def activity(self) -> Activity:
        """What happened in the last day, hour by hour."""
        from headgate.service.activity import Activity

        return Activity(
            [partial(self.count_history, "locks")], [partial(self.count_history, each) for each in ("ledger", "queue")]
        )

    def count_history(self, of: str, since: datetime, events: Sequence[str]) -> Sequence[Happened]:
        """How often these events happened, hour by hour: of locks, ledger or queue."""
        from headgate.stores.history import count_history

        ledger = [] if self._ledger is None else [self._ledger.store]
        stores: dict[str, Sequence[Any]] = {
            "locks": self._lock_stores(),
            "ledger": ledger,
            "queue": [self.store.queue],
        }
        return [found for each in stores[of] for found in count_history(of, each, since, events)]
