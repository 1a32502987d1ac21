"""Opens and closes incidents in the transactions of the changes that they report."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.incidents import IncidentChange
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import incident_statements as sql
from headgate.stores.sql.ledger.candidates import batches


def write_incidents(tx: Transaction, job: int, subjects: Sequence[str], changes: Sequence[IncidentChange]) -> None:
    """Open or close the incidents of these chunks of a job."""
    for change in changes if job else ():  # Data that is made elsewhere has no incidents.
        if not change.kind:
            for batch in batches(subjects):
                tx.run(sql.CLOSE_INCIDENTS, job=job, subjects=batch, event=change.message)
            continue
        for subject in subjects:
            named = {"job": job, "subject": subject, "kind": change.kind, "message": change.message, "reported": False}
            if not tx.count(sql.REPEAT_INCIDENT, **named):
                tx.run(sql.OPEN_INCIDENT, **named)
