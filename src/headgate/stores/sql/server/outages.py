"""Outages of the service: clients could not renew through it, so leases are extended by that time."""

from __future__ import annotations

from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction

READ_SIGN = Statement("The last sign of life of a service.", "select value from hg_meta where name = 'service_alive'")
ADD_SIGN = Statement(
    "Record a service's first sign of life.",
    "{insert_once} hg_meta (name, value) values ('service_alive', :now) {or_leave}",
)
SET_SIGN = Statement("Record a service's sign of life.", "update hg_meta set value = :now where name = 'service_alive'")
READ_NOW = Statement("The time on the lease clock.", "select {now}")
#: Never beyond a whole lease from now: a lease that was renewed meanwhile without the service is unchanged.
MOVES = tuple(
    Statement(
        f"What had not run out in {table} when the service was last heard of runs on by the time of the outage.",
        f"""update {table}
            set lease_until = case when lease_until + :outage < :now + lease then lease_until + :outage
                                   else :now + lease end
            where lease is not null and lease_until > :heard and lease_until < :now + lease""",
    )
    for table in ("hg_lock", "hg_chunk", "hg_batch", "hg_ingest_job")
)


class SqlOutages:
    """The times without a service, as recorded in one SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def report_alive(self) -> None:
        """Record that a service is running."""
        self._database.write(_report_alive)

    def bridge(self) -> float:
        """Extend leases by the time without a service. Returns that time, in seconds."""
        return self._database.write(_bridge)


def _report_alive(tx: Transaction) -> int:
    now = int(tx.one(READ_NOW)[0])
    if not tx.count(SET_SIGN, now=str(now)):
        tx.run(ADD_SIGN, now=str(now))
    return now


def _bridge(tx: Transaction) -> float:
    sign = tx.one(READ_SIGN)
    now = _report_alive(tx)
    heard = now if sign is None else int(sign[0])
    outage = max(now - heard, 0)
    if outage:
        move_leases(tx, outage, now=now, heard=heard)
    return outage / 1e6


def move_leases(tx: Transaction, ahead: int, *, now: int, heard: int) -> None:
    """Leases that had not expired at `heard` are extended by that time."""
    for statement in MOVES:
        tx.run(statement, outage=ahead, now=now, heard=heard)
