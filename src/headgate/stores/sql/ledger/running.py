"""Where locks and the ledger meet: a job running on a chunk acts as a lock on it.

Both sides lock the chunk's dataset while they decide: claims share this lock, a lock on a chunk has it exclusively. So
one of them always sees what the other has written.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.ledger.claims import claim_mode
from headgate.core.ledger.model import Kind, chunk_resource, parse_chunk_resource
from headgate.core.locks.model import Lock, lock_id
from headgate.stores.sql.database.moments import moment, to_seconds
from headgate.stores.sql.database.sql_text import Row
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql

#: Seconds from which a lease counts as endless.
ENDLESS = 1e12
#: A lease that was set by hand, to a time in seventy thousand years.
BY_HAND = 2**61


def running_on(tx: Transaction, resources: Iterable[str], tag: str, *, hold_still: bool) -> list[Lock]:
    """The jobs running on these resources, as locks. `hold_still`: their chunks cannot be claimed until the transaction
    ends.
    """
    chunks = [chunk for chunk in map(parse_chunk_resource, resources) if chunk]
    if not chunks:
        return []
    named: dict[str, list[str]] = {}
    for dataset, dataid in chunks:
        named.setdefault(dataset, []).append(dataid)
    known = tx.all(sql.OWN_DATASETS if hold_still else sql.READ_NAMED, names=sorted(named))
    return [
        as_lock(tag, (dataset, *row))
        for number, dataset in ((int(row[0]), str(row[1])) for row in known)
        for row in tx.all(sql.READ_RUNNING, dataset=number, dataids=named[dataset])
    ]


def as_lock(tag: str, row: Row) -> Lock:
    """A running row as the lock that it acts as: exclusive for a writer, shared for readers."""
    dataset, dataid, job, kind, token, worker, lease, left, since, attempt, principal = row
    resource = chunk_resource(str(dataset), str(dataid))
    expires = to_seconds(left)
    return Lock(
        id=lock_id(tag, resource, f"{kind} {job}"),
        resource=resource,
        client=str(worker) or str(job),
        mode=claim_mode(Kind(kind)),
        token=int(token),
        since=moment(since),
        lease=to_seconds(lease),
        expires_in=None if expires is None or expires > ENDLESS else expires,
        owner=f"job {job}",
        note=f"job {job} runs on it, attempt {attempt}",
        principal=str(principal),
    )
