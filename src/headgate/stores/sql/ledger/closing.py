"""Closing data ids of mapped jobs, for which nothing else will arrive."""

from __future__ import annotations

from headgate.core.ledger.model import CLOSE_EVENT, CLOSED, OPEN, REOPEN_EVENT
from headgate.core.ledger.sources import check_closable
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import mapping_statements as mapping_sql
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.shapes import shape_of


def close(tx: Transaction, job: str, dataid: str, reason: str, who: str, *, reopen: bool) -> bool:
    """Close a data id, or reopen it. Returns whether that was a change."""
    shape = shape_of(tx, job, share=True)
    check_closable(shape.job, dataid)
    if not tx.count(mapping_sql.DROP_CLOSED if reopen else mapping_sql.ADD_CLOSED, job=shape.id, dataid=dataid):
        return False
    event, before, after = (REOPEN_EVENT, CLOSED, OPEN) if reopen else (CLOSE_EVENT, OPEN, CLOSED)
    tx.run(
        sql.RECORD, event=event, job=shape.id, dataset=shape.told, dataid=dataid, who=who, token=0, before=before,
        after=after, reason=reason,
    )  # fmt: skip
    # find_next re-evaluates the data id.
    tx.run(mapping_sql.ADD_ARRIVAL, job=shape.id, dataset=0, dataid=dataid, ready=False)
    return True
