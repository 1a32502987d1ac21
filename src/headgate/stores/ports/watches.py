"""The port of watches: which worker publishes the files of a dataset, and which files were counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.core.ledger.watches.model import (
    Landed,
    OnChange,
    Parcel,
    Sighting,
    WatchedFile,
    Watcher,
    WatchTurn,
)


class WatchStore(Protocol):
    """Watchers of datasets. Every method that writes is one transaction."""

    #: The name of this store in error messages.
    name: str

    def take_turn(self, seen: Sighting) -> WatchTurn:
        """If no other worker watches the dataset, this worker does from now on, and its lease starts or is renewed.
        UnknownName without the dataset.
        """

    def end_turn(self, dataset: str, worker: str, token: int) -> None:
        """The worker stops watching; another one may start at once. For an earlier turn: nothing changes."""

    def counted(self, dataset: str, after: str | None, limit: int) -> Sequence[WatchedFile]:
        """Files that were counted, in the store's order, after the file with a given name."""

    def land(
        self, dataset: str, token: int, parcels: Sequence[Parcel], on_change: OnChange, who: str
    ) -> Sequence[Landed] | None:
        """Publish chunks whose files are new, and record the files, in one transaction; treat the others as requested.

        Refused chunks are unchanged. Returns None and changes nothing when another worker has taken the turn.
        """

    def watchers(self) -> Sequence[Watcher]:
        """All watchers, by dataset."""

    def forget_watcher(self, dataset: str) -> None:
        """Remove the dataset's watcher. The counted files stay recorded. UnknownName without a watcher."""
