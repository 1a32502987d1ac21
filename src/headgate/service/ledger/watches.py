"""Watchers: which process publishes the files of a dataset, and which files were counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headgate.core.errors import BadValue
from headgate.core.ledger.watches.model import (
    LONGEST_NAME,
    Landed,
    Landing,
    OnChange,
    Parcel,
    Sighting,
    WatchedFile,
    Watcher,
    WatchTurn,
)
from headgate.core.values.names import NOTE_LENGTH, check_name, check_reason
from headgate.service.access.identity import actor
from headgate.service.checks import check_positive_lease, printable
from headgate.stores.ports.watches import WatchStore
from headgate.telemetry import event

#: Number of files that are requested at a time.
PAGE = 5000


class Watches:
    """Watchers of datasets; `gate.watches`. Only the watching process knows what is watched, and how."""

    def __init__(self, store: WatchStore) -> None:
        self._store = store

    def list(self) -> Sequence[Watcher]:
        """Return all watchers, by dataset, with their last reports."""
        return self._store.watchers()

    def forget(self, dataset: str, *, reason: str, by: str | None = None) -> None:
        """Remove a watcher that will not come back, so that no alarm is raised. The files that were counted stay.

        :param dataset: Name of the dataset.
        :param reason: Reason, for the log.
        :param by: Name of the operator (default: this process).
        """
        why, who = check_reason(reason), actor(by)
        self._store.forget_watcher(check_name("dataset", dataset))
        event("watch.forgotten", dataset=dataset, by=who, reason=why)

    def take_turn(self, seen: Sighting) -> WatchTurn:
        """Start watching a dataset, or renew the lease. Another watcher keeps its turn until its lease expires."""
        check_name("dataset", seen.dataset)
        check_positive_lease(seen.lease)
        return self._store.take_turn(replace(seen, problem=printable(seen.problem)[:NOTE_LENGTH]))

    def end_turn(self, dataset: str, worker: str, token: int) -> None:
        """Let another worker watch the dataset at once."""
        self._store.end_turn(dataset, worker, token)

    def counted(self, dataset: str) -> Iterator[WatchedFile]:
        """Return every file of a dataset that was counted."""
        after = None
        while page := self._store.counted(check_name("dataset", dataset), after, PAGE):
            yield from page
            after = page[-1].mark.name

    def land(
        self, dataset: str, token: int, parcels: Sequence[Parcel], on_change: OnChange, *, by: str | None = None
    ) -> Sequence[Landed] | None:
        """Publish chunks by their files, and record the files; None: another worker has taken the turn."""
        for each in parcels:
            check_name("dataid", each.dataid)
            if any(not file.name or len(file.name) > LONGEST_NAME for file in each.files):
                raise BadValue(
                    "files", each.dataid, f"has a name without text, or of more than {LONGEST_NAME} characters"
                )
        found = self._store.land(dataset, token, parcels, on_change, actor(by))
        for landing in Landing:
            count = sum(each.landing is landing for each in found or ())
            if count and landing is not Landing.SAME:
                event(f"watch.{landing}", dataset=dataset, count=count)
        return found
