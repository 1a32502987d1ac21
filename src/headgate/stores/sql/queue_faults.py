"""What should not be in the queue's tables: found, explained, and mended where that is safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.core.faults import Fault
from headgate.core.queue import REPAIR_EVENT, Batch, Counts
from headgate.stores.sql import queue_fault_statements as sql
from headgate.stores.sql.engine import Transaction
from headgate.stores.sql.moments import MICROSECONDS
from headgate.stores.sql.queue_moving import (
    Held,
    count_folders,
    drop,
    hold_still,
    jobs_held_still,
    tell,
)
from headgate.stores.sql.queue_reaping import reap_held
from headgate.stores.sql.queue_rows import BATCHES, JOBS, number_of
from headgate.stores.sql.queue_schema import kept_states

#: A lease that ran out so long ago, and nobody has noticed.
LONG_GONE = 60 * MICROSECONDS
#: A batch whose making stopped, and that nobody has taken up for so long.
ABANDONED = 600 * MICROSECONDS
MOST = 1000
DEAD_OWNER = "dead-owner"
NOUNS = (BATCHES, JOBS)


def faults(tx: Transaction) -> list[Fault]:
    """Everything that should not be."""
    return [*_unknown_states(tx), *_wrong_counts(tx), *_lost_jobs(tx), *_dead_owners(tx), *_abandoned(tx)]


def repair(tx: Transaction, fault: Fault, who: str, max_crashes: int) -> bool:
    """Mend it, if it is still so. `max_crashes`: the store's."""
    if fault.kind == DEAD_OWNER:
        return _reap(tx, fault, who, max_crashes)
    mend = MENDERS.get(fault.kind)
    return mend is not None and mend(tx, fault, who)


def _unknown_states(tx: Transaction) -> list[Fault]:
    return [
        Fault("unknown-state", noun.id_of(int(number)), f"its state is {state!r}, which does not exist")
        for noun in NOUNS
        for number, state in tx.all(sql.UNKNOWN_STATES[noun.prefix], states=list(kept_states(noun.machine)), limit=MOST)
    ]


def _wrong_counts(tx: Transaction) -> list[Fault]:
    found = []
    for number, state, *figures in tx.all(sql.COUNTED):
        kept, true = Counts(*map(int, figures[:3])), Counts(*map(int, figures[3:6]))
        made, needed = int(figures[6]), int(figures[7])
        if kept == true and made >= needed:
            continue
        stuck = state == "processing" and kept.processing > 0 and true.processing == 0
        kind = "never-finishes" if stuck else "wrong-count"
        what = f"it records {_words(kept)} of {made} jobs; its jobs are {_words(true)} of {needed}"
        found.append(Fault(kind, BATCHES.id_of(int(number)), what, "count its jobs again"))
    return found


def _lost_jobs(tx: Transaction) -> list[Fault]:
    return [
        Fault(
            "no-batch", JOBS.id_of(int(number)), f"its batch {BATCHES.id_of(int(batch))} is missing", "remove the job"
        )
        for number, batch in tx.all(sql.JOBS_WITHOUT_BATCH, limit=MOST)
    ]


def _dead_owners(tx: Transaction) -> list[Fault]:
    return [
        Fault(
            DEAD_OWNER,
            noun.id_of(int(number)),
            f"{worker} took it as {state} and died",
            ("count the crash, and release it"),
        )
        for noun in NOUNS
        for number, worker, state in tx.all(noun.sql.find_dead, grace=LONG_GONE, limit=MOST)
    ]


def _abandoned(tx: Transaction) -> list[Fault]:
    return [
        Fault(
            "half-made", BATCHES.id_of(int(number)),
            f"{made} of its jobs were created, and no consumer continues; start a batch-pending consumer",
        )
        for number, made in tx.all(sql.ABANDONED, age=ABANDONED, limit=MOST)
    ]  # fmt: skip


def _recount(tx: Transaction, fault: Fault, who: str) -> bool:
    rows = jobs_held_still(tx, fault.item)
    held = hold_still(tx, fault.item)
    if held is None or not isinstance(held.item, Batch):
        return False
    true = count_folders([str(state) for _, state, _ in rows])
    made = max(held.item.made, len(rows))
    if (true, made) == (held.item.jobs, held.item.made):
        return False
    tx.run(
        sql.SET_COUNTS, id=number_of(fault.item), processing=true.processing, failed=true.failed,
        completed=true.completed, made=made,
    )  # fmt: skip
    _tell(tx, held, who, fault)
    return True


def _remove(tx: Transaction, fault: Fault, who: str) -> bool:
    held = hold_still(tx, fault.item)
    if held is None or held.item.lease is not None or tx.one(sql.HAS_BATCH, id=number_of(fault.item)):
        return False
    drop(tx, held.item)
    _tell(tx, held, who, fault)
    return True


def _reap(tx: Transaction, fault: Fault, who: str, max_crashes: int) -> bool:
    held = hold_still(tx, fault.item)
    reaped = None if held is None else reap_held(tx, held, max_crashes)
    if held is None or reaped is None:
        return False
    tell(tx, held, REPAIR_EVENT, who, reaped.state, f"{fault.what}: {fault.repair}")
    return True


def _tell(tx: Transaction, held: Held, who: str, fault: Fault) -> None:
    tell(tx, held, REPAIR_EVENT, who, held.item.state, f"{fault.what}: {fault.repair}")


def _words(counts: Counts) -> str:
    return f"{counts.processing} processing, {counts.failed} failed, {counts.completed} completed"


MENDERS: Mapping[str, Callable[[Transaction, Fault, str], bool]] = {
    "wrong-count": _recount,
    "never-finishes": _recount,
    "no-batch": _remove,
}
