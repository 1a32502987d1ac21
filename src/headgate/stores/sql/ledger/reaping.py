"""Freeing the chunks of workers that died: many at once, in steps that keep nobody waiting."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.ledger import work as chunk_work
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.changes import ClaimTokens, apply_many
from headgate.stores.sql.ledger.shapes import all_jobs, shape_of
from headgate.stores.sql.ledger.snapshots import decide_many

#: Chunks that one transaction frees: a step lasts about as long as a few commits.
AT_ONCE = 250


def reap(database: Database, who: str, limit: int) -> int:
    """End at most `limit` claims whose lease has expired. Returns how many."""
    count = 0
    for number, job in database.read(all_jobs).items():
        left = limit - count
        found = database.read(lambda tx: tx.all(sql.READ_EXPIRED, job=number, limit=left)) if left > 0 else []  # noqa: B023 - run at once
        dataids = [str(row[0]) for row in found]
        for start in range(0, len(dataids), AT_ONCE):
            step = dataids[start : start + AT_ONCE]
            count += database.write_through(lambda tx: _reap(tx, job.name, step, who))  # noqa: B023 - the same
    return count


def _reap(tx: Transaction, job: str, dataids: Sequence[str], who: str) -> int:
    shape = shape_of(tx, job, share=True)
    groups = decide_many(tx, shape, dataids, lambda chunk: chunk_work.reap(chunk, who), delays=True)
    # One new token for all of them: nobody was given it, and each dead worker that wakes up finds its own stale.
    tokens = ClaimTokens(tx)
    for group in groups:
        apply_many(tx, shape, group, tokens)
    return sum(len(group.dataids) for group in groups if group.outcome.changed)
