"""A client that stops in the middle of a transaction: it holds rows, or the file, and sends nothing more."""

import time

import headgate
from headgate.stores.sql.ledger.shapes import shape_of
from headgate.stores.sql.locks.snapshots import load
from headgate.stores.sql.store import SqlStore
from tests.faults.processes import Channel


def hold_rows(channel: Channel, url: str, resource: str, job: str) -> None:
    """Begin a transaction that locks the resource's row, and the job's datasets, and stay in it."""
    gate = headgate.connect(url, answer_within="2")  # It decides after how long a server ends the transaction.
    store = gate.store
    assert isinstance(store, SqlStore)

    def work(tx: object) -> None:
        load(tx, store.tag, [resource])  # type: ignore[arg-type] # a transaction
        shape_of(tx, job, share=False)  # type: ignore[arg-type] # the same
        channel.send("inside")
        time.sleep(3600)

    store._database.write(work)
