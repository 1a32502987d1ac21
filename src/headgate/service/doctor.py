"""The doctor: finds and repairs damage in a store and its environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.core.access.scopes import ApiToken
from headgate.core.faults import OPEN_FILES, UNDELIVERED, Fault
from headgate.service import file_rights
from headgate.service.access.tokens import expiry_note
from headgate.service.inventory import Inventory
from headgate.service.ledger import dead_workers
from headgate.service.ledger.use_cases import Ledger
from headgate.service.locks.use_cases import Locks
from headgate.service.overview.status import deadly_items
from headgate.service.queue.use_cases import Queue
from headgate.stores.store import Root


@dataclass(frozen=True, slots=True)
class Doctor:
    """The doctor of one store and its services."""

    store: Root
    locks: Locks
    queue: Queue
    ledger: Ledger | None
    inventory: Inventory | None
    #: Folders on this machine that belong to the store: work folder and storage.
    folders: Sequence[Path]
    #: The group that shares files and folders; None: they are private.
    group: int | None

    def faults(self) -> list[Fault]:
        """Return damage, each with the effect of a repair."""
        claims = () if self.ledger is None else dead_workers.faults(self.ledger)
        deliveries = () if self.inventory is None else self.inventory.faults()
        return [
            *self.queue.faults(), *self.locks.faults(), *claims, *deliveries, *self.locks.tending.faults(),
            *file_rights.faults(self._files(), self.group),
        ]  # fmt: skip

    def notices(self, expiring: Sequence[ApiToken]) -> list[str]:
        """Return warnings that are not faults: about the connection to the store, about what kills workers, and about
        expiring tokens.
        """
        claims = () if self.ledger is None else dead_workers.notices(self.ledger)
        tokens = [f"{expiry_note(each)}; create another with: headgate token new" for each in expiring]
        return [*self.store.notices(), *claims, *deadly_items(self.queue), *tokens]

    def repair(self, fault: Fault, by: str) -> bool:
        """Repair a fault, if it still exists. Returns False if it does not, or cannot be repaired."""
        if fault.kind == OPEN_FILES:
            return file_rights.repair(fault, self._files(), self.group)
        if fault.kind == dead_workers.DEAD_WORKER:
            return self.ledger is not None and dead_workers.repair(self.ledger, fault)
        if fault.kind == UNDELIVERED:
            return self.inventory is not None and self.inventory.repair(fault)
        return self.queue.repair(fault, by=by) or self.locks.repair(fault, by=by)

    def _files(self) -> list[Path]:
        return [*self.store.files(), *(path for path in self.folders if path.is_dir())]
