"""Conversion of table rows to rows of chunks."""

from __future__ import annotations

from headgate.core.ledger.model import EXTERNAL, Kind, Row
from headgate.stores.sql.database.moments import moment, to_seconds
from headgate.stores.sql.database.sql_text import Row as SqlRow
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.running import ENDLESS


def read_row(row: SqlRow, datasets: dict[int, str], jobs: dict[int, str]) -> Row:
    """Columns of a chunk as a row; numbers become names."""
    (dataset, dataid, job, kind, status, former, attempt, failures, crashes, token, worker, lease, left, forced,
     retry, since, started, message, principal, interruptions) = row  # fmt: skip
    expires = to_seconds(left)
    return Row(
        dataset=datasets[int(dataset)],
        dataid=str(dataid),
        # A job whose definition was lost: the doctor reports it, and lists must not fail.
        job=jobs.get(int(job), f"lost job {job}"),
        kind=Kind(kind),
        status=str(status),
        former=str(former),
        attempt=int(attempt),
        failures=int(failures),
        crashes=int(crashes),
        token=int(token),
        worker=str(worker),
        lease=to_seconds(lease),
        expires_in=None if expires is None or expires > ENDLESS else expires,
        forced=bool(forced),
        retry_in=to_seconds(retry),
        since=moment(since),
        started=None if started is None else moment(started),
        message=str(message),
        principal=str(principal),
        interruptions=int(interruptions),
    )


def job_names(tx: Transaction) -> dict[int, str]:
    """Every job's name by its number, with that of data made elsewhere."""
    return {0: EXTERNAL, **{int(number): str(name) for number, name in tx.all(sql.READ_JOB_NAMES)}}
