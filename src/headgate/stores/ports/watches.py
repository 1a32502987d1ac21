"""The port of watches: who publishes the files of a dataset, and which files were counted."""

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

    #: What errors call this store.
    name: str

    def take_turn(self, seen: Sighting) -> WatchTurn:
        """Nobody else watches the dataset: this worker does, and its lease runs. UnknownName without the dataset."""

    def end_turn(self, dataset: str, worker: str, token: int) -> None:
        """The worker watches no more; another one may at once. Of an earlier turn: nothing changes."""

    def counted(self, dataset: str, after: str | None, limit: int) -> Sequence[WatchedFile]:
        """Files that were counted, in an order of the store, from behind the file of a name."""

    def land(
        self, dataset: str, token: int, parcels: Sequence[Parcel], on_change: OnChange, who: str
    ) -> Sequence[Landed] | None:
        """Publish chunks whose files are new, and record the files, in one transaction; do with others as is said.

        What is refused stays as it is. None, changing nothing, when another worker has taken the turn.
        """

    def watchers(self) -> Sequence[Watcher]:
        """All watchers, by dataset."""

    def forget_watcher(self, dataset: str) -> None:
        """Nobody watches the dataset any more. The files that were counted stay. UnknownName without a watcher."""
