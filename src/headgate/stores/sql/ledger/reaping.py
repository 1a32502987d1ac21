"""Freeing the chunks of workers that died: many at once, in short steps."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.ledger import work as chunk_work
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.changes import ClaimTokens, apply_many
from headgate.stores.sql.ledger.shapes import all_jobs, shape_of
from headgate.stores.sql.ledger.snapshots import decide_many

#: Number of chunks that one transaction frees: a step takes about as long as a few commits.
AT_ONCE = 250
#: Number of rows that are read for each. A claim with more inputs and outputs is found too, with the rest in the next
#: step.
ROWS_OF_A_CLAIM = 4


def reap(database: Database, who: str, limit: int) -> int:
    """End at most `limit` claims whose lease has expired. Returns how many."""
    count = 0
    for number, job in database.read(all_jobs).items():
        left = limit - count
        dataids = database.read(lambda tx: read_expired(tx, number, left)) if left > 0 else []  # noqa: B023 - run at once
        for start in range(0, len(dataids), AT_ONCE):
            step = dataids[start : start + AT_ONCE]
            count += database.write_through(lambda tx: _reap(tx, job.name, step, who))  # noqa: B023 - the same
    return count


def read_expired(tx: Transaction, job: int, limit: int) -> list[str]:
    """Chunks of a job whose worker's lease has expired, up to a number."""
    return [str(row[0]) for row in tx.all(sql.READ_EXPIRED, job=job, limit=limit, rows=limit * ROWS_OF_A_CLAIM)]


def _reap(tx: Transaction, job: str, dataids: Sequence[str], who: str) -> int:
    shape = shape_of(tx, job, share=True)
    groups = decide_many(tx, shape, dataids, lambda chunk: chunk_work.reap(chunk, who), delays=True)
    # One new token for all of them: no worker has it, and each worker that wakes up finds its own token stale.
    tokens = ClaimTokens(tx)
    for group in groups:
        apply_many(tx, shape, group, tokens)
    return sum(len(group.dataids) for group in groups if group.outcome.changed)
