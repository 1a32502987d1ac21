"""Which jobs would become holders of a dataset's secrets, and whether an admin has confirmed that.

Otherwise anyone who may define jobs could make a job read a dataset, and the next definition by an admin with the ring
of master keys would seal the dataset's secrets for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.core.access.credentials import Custody, holder
from headgate.core.errors import HoldersUnconfirmed, UnknownName
from headgate.service.secrets.custody import CustodyRecords

if TYPE_CHECKING:
    from headgate.service.secrets.sealing import Sealer

#: The jobs that may hold a dataset's secrets, by dataset, according to a definition; None: any.
Allowed = Mapping[str, Sequence[str] | None]


def new_holders(
    records: CustodyRecords,
    sealer_for: Callable[[Custody], Sealer],
    uses: Mapping[str, Iterable[str]],
    named: Iterable[str],
    allowed: Allowed,
) -> list[str]:
    """The jobs that would become holders, as DATASET/JOB, if they used these datasets.

    `named`: datasets that are about to get secrets, besides those that have some. Only jobs with a key that can be used
    for sealing here are listed. Datasets and jobs that do not exist yet have neither keys nor secrets.
    """
    secret, bars = set(named), dict(allowed)
    found = []
    for job, datasets in uses.items():
        sealer = _sealer_for_keys(records, sealer_for, job)
        if sealer is None:
            continue
        for dataset in sorted(set(datasets)):
            custody = _custody(records.dataset_custody, dataset)
            may = bars.get(dataset, custody.allowed.get(dataset))
            has = dataset in secret or (sealer.with_master and custody.secrets[dataset])
            if has and (may is None or job in may) and not sealer_for(custody).holds(dataset, job):
                found.append(holder(dataset, job))
    return found


def users_of(records: CustodyRecords, datasets: Iterable[str]) -> dict[str, list[str]]:
    """The jobs with a key that currently use these datasets, each with its datasets."""
    found: dict[str, list[str]] = {}
    for dataset in datasets:
        for job in sorted({key.job for key in _custody(records.dataset_custody, dataset).keys}):
            found.setdefault(job, []).append(dataset)
    return found


def check_confirmed(new: Iterable[str], confirmed: Iterable[str]) -> None:
    """Raise HoldersUnconfirmed with the unconfirmed ones."""
    known = set(confirmed)
    missing = [each for each in new if each not in known]
    if missing:
        raise HoldersUnconfirmed(missing)


def _sealer_for_keys(records: CustodyRecords, sealer_for: Callable[[Custody], Sealer], job: str) -> Sealer | None:
    """A sealer for a job with a key that can be used for sealing here; None when there is no such job."""
    custody = _custody(records.job_custody, job)
    sealer = sealer_for(custody) if custody.keys else None
    return sealer if sealer is not None and any(sealer.kek(key) for key in custody.keys) else None


def _custody(read: Callable[[str], Custody], name: str) -> Custody:
    try:
        return read(name)
    except UnknownName:
        return Custody("", "", {name: {}}, (), (), 0)
