"""The list of chunks that may be claimable, updated in the transactions that change statuses, so that find_next never
reads the history.

A chunk has a row for a job when the job's own rows allow a claim; a bit is set for each input that is not READY.
An input that becomes READY clears its bit, and one that is no longer READY sets it: repeating this does no harm. A row
may be listed wrongly (find_next checks again, and repairs it), but never be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from headgate.core.ledger.ordering import Order, order_key
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger import statements as sql
from headgate.stores.sql.ledger.mapping_statements import ADD_ARRIVAL

#: Number of data ids that one statement handles.
BATCH = 5000


@dataclass(frozen=True, slots=True)
class ConsumingJob:
    """A job that reads a dataset."""

    id: int
    #: Its inputs' numbers, by position.
    inputs: tuple[int, ...]
    #: The first input's order.
    order: Order
    #: Whether an input has other data ids than the job, so that find_next folds its arrivals.
    mapped: bool = False

    def missing(self, ready: Iterable[int]) -> int:
        """Bits of the inputs that are not among these."""
        there = set(ready)
        return sum(1 << place for place, dataset in enumerate(self.inputs) if dataset not in there)


def consumers_of(tx: Transaction, datasets: Sequence[int]) -> list[ConsumingJob]:
    """The jobs that read any of these datasets."""
    found: dict[int, list[tuple[int, str, bool]]] = {}
    for job, dataset, mapped, order in tx.all(sql.READ_CONSUMERS, datasets=datasets):
        found.setdefault(int(job), []).append((int(dataset), str(order), bool(mapped)))
    return [
        ConsumingJob(job, tuple(each[0] for each in inputs), Order(inputs[0][1]), inputs[0][2])
        for job, inputs in found.items()
    ]


def became_ready(tx: Transaction, datasets: Sequence[int], dataids: Sequence[str]) -> None:
    """These chunks are READY now: their readers may find them, and earlier failures no longer count."""
    consumers = consumers_of(tx, datasets) if datasets else []
    if not consumers:
        return
    linked: dict[int, list[int]] = {}
    for job, dataset in tx.all(sql.READ_LINKED, jobs=[each.id for each in consumers]):
        linked.setdefault(int(job), []).append(int(dataset))
    add_arrivals(tx, consumers, datasets, dataids, ready=True)
    for batch in batches(dataids):
        for consumer in consumers:
            if consumer.mapped:
                continue
            tx.run(sql.CLEAR_COUNTS, datasets=linked[consumer.id], dataids=batch, job=consumer.id)
            clear_missing(tx, consumer, datasets, batch)


def clear_missing(tx: Transaction, consumer: ConsumingJob, datasets: Sequence[int], dataids: Sequence[str]) -> None:
    """For one job: clear the bits of these inputs, and of those that are known to be READY."""
    others = [each for each in consumer.inputs if each not in datasets]
    ready: dict[str, set[int]] = {}
    if others:
        for dataset, dataid in tx.all(sql.READ_READY, datasets=others, dataids=dataids):
            ready.setdefault(str(dataid), set()).add(int(dataset))
    alone = consumer.missing(datasets)
    tx.many(
        sql.CLEAR_MISSING,
        {
            "dataid": dataids,
            "order_key": [order_key(each, consumer.order) for each in dataids],
            "missing": [consumer.missing({*datasets, *ready[each]}) if each in ready else alone for each in dataids],
        },
        job=consumer.id, place=1, not_before=0,
    )  # fmt: skip


def became_unready(tx: Transaction, datasets: Sequence[int], dataids: Sequence[str]) -> None:
    """These chunks are no longer READY, or no longer exist: the jobs that read them must wait, or no longer wait."""
    consumers = consumers_of(tx, datasets) if datasets else []
    add_arrivals(tx, consumers, datasets, dataids, ready=False)
    for consumer in consumers:
        if consumer.mapped:
            continue
        bit = sum(1 << place for place, dataset in enumerate(consumer.inputs) if dataset in datasets)
        for batch in batches(dataids):
            tx.run(sql.SET_MISSING, job=consumer.id, bit=bit, dataids=batch)


def add_arrivals(
    tx: Transaction, consumers: Iterable[ConsumingJob], datasets: Sequence[int], dataids: Sequence[str], *, ready: bool
) -> None:
    """Announce to mapped jobs that these chunks are READY, or no longer: as separate rows, so that nobody waits."""
    for consumer in consumers:
        for dataset in consumer.inputs if consumer.mapped else ():
            if dataset in datasets:
                tx.many(ADD_ARRIVAL, {"dataid": list(dataids)}, job=consumer.id, dataset=dataset, ready=ready)


def batches(dataids: Sequence[str]) -> Iterator[list[str]]:
    """As many as one statement takes, in the same order for all transactions."""
    rest = iter(sorted(dataids))
    while batch := list(islice(rest, BATCH)):
        yield batch
