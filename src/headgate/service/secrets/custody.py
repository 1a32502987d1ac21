"""Sealed secrets and proofs of keys as the store keeps them, for clients that seal and open secrets themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.core.access.credentials import Custody, CustodyChange, MasterWrap
from headgate.core.values.names import check_name
from headgate.service.checks import check_limit
from headgate.stores.ports.ledger import LedgerStore


class CustodyRecords:
    """The records of one ledger. This code cannot open a secret."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    def dataset_custody(self, name: str) -> Custody:
        """Return a dataset's secrets, every copy of them, and the keys of all jobs that use it."""
        return self._store.dataset_custody(check_name("dataset", name))

    def job_custody(self, job: str) -> Custody:
        """Return a job's keys, the secrets of its datasets, and the copies that it or the master key opens."""
        return self._store.job_custody(check_name("job", job))

    def change_custody(self, known: Custody, change: CustodyChange) -> bool:
        """Change keys and sealed secrets if they are still as known. Returns False, and nothing changes, otherwise."""
        return self._store.change_custody(known, change)

    def master_wraps(self, before: int, limit: int = 100) -> Sequence[MasterWrap]:
        """Return what is wrapped with a master key older than that one."""
        return self._store.master_wraps(before, check_limit(limit))

    def rewrap(self, pairs: Sequence[tuple[MasterWrap, MasterWrap]]) -> int:
        """Replace the first of each pair by the second, if it is still stored. Returns how many were."""
        return self._store.rewrap(pairs)

    def refuse_masters(self, before: int) -> None:
        """Stop accepting copies under master keys older than that one. This cannot be undone."""
        self._store.refuse_masters(before)

    def masters(self) -> Mapping[int, str]:
        """Return the master keys that seal here: each number with its check value."""
        return self._store.masters()

    def know_master(self, number: int, check: str) -> str:
        """Store the check value of a master key, unless one of that number is known. Returns what is known then."""
        return self._store.know_master(number, check)

    def forget_masters(self) -> int:
        """Drop everything wrapped with a master key, and all check values. Returns how many wraps were dropped."""
        return self._store.forget_masters()
