"""Damage in the queue's tables: detection, explanation, and repair where that is safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.core.faults import Fault
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import Batch, Item, JobCounts
from headgate.core.queue.snapshot import QueueSnapshot, RemoveItem
from headgate.stores.sql.database.moments import MICROSECONDS
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.queue import fault_statements as sql
from headgate.stores.sql.queue.changes import add_entry, apply, remove
from headgate.stores.sql.queue.rows import BATCHES, JOBS, number_of
from headgate.stores.sql.queue.schema import kept_states
from headgate.stores.sql.queue.snapshots import count_folders, jobs_held_still, load, rules_of

#: Seconds after which an expired lease that was not reaped counts as a fault.
LONG_GONE = 60 * MICROSECONDS
#: Time after which a batch whose creation stopped, and was not continued, is reported.
ABANDONED = 600 * MICROSECONDS
MOST = 1000
DEAD_OWNER = "dead-owner"
NOUNS = (BATCHES, JOBS)


def faults(tx: Transaction) -> list[Fault]:
    """All damage."""
    return [*_unknown_states(tx), *_wrong_counts(tx), *_lost_jobs(tx), *_dead_owners(tx), *_abandoned(tx)]


def repair(tx: Transaction, fault: Fault, who: str) -> bool:
    """Repair it, if the fault is still there."""
    fix = REPAIRS.get(fault.kind)
    return fix is not None and fix(tx, fault, who)


def _unknown_states(tx: Transaction) -> list[Fault]:
    return [
        Fault("unknown-state", noun.id_of(int(number)), f"its state is {state!r}, which does not exist")
        for noun in NOUNS
        for number, state in tx.all(
            sql.UNKNOWN_STATES[noun.prefix], states=list(kept_states(rules_of(tx).machine(noun.prefix))), limit=MOST
        )
    ]


def _wrong_counts(tx: Transaction) -> list[Fault]:
    found = []
    for number, state, *figures in tx.all(sql.COUNTED):
        kept, true = JobCounts(*map(int, figures[:3])), JobCounts(*map(int, figures[3:6]))
        made, needed = int(figures[6]), int(figures[7])
        if kept == true and made >= needed:
            continue
        stuck = state in rules_of(tx).reportable and kept.processing > 0 and true.processing == 0
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
        for number, made in tx.all(sql.ABANDONED, state=rules_of(tx).submit.target, age=ABANDONED, limit=MOST)
    ]  # fmt: skip


def _recount(tx: Transaction, fault: Fault, who: str) -> bool:
    rows = jobs_held_still(tx, fault.item)
    seen = load(tx, fault.item)
    if not isinstance(seen.item, Batch):
        return False
    true = count_folders([str(state) for _, state, _ in rows])
    made = max(seen.item.made, len(rows))
    if (true, made) == (seen.item.jobs, seen.item.made):
        return False
    tx.run(
        sql.SET_COUNTS, id=number_of(fault.item), processing=true.processing, failed=true.failed,
        completed=true.completed, made=made,
    )  # fmt: skip
    return _record(tx, seen, seen.item, fault, who)


def _remove(tx: Transaction, fault: Fault, who: str) -> bool:
    seen = load(tx, fault.item)
    if seen.item is None or seen.taken or tx.one(sql.HAS_BATCH, id=number_of(fault.item)):
        return False
    remove(tx, RemoveItem(seen.item, seen.item.state))
    return _record(tx, seen, seen.item, fault, who)


def _reap(tx: Transaction, fault: Fault, who: str) -> bool:
    seen = load(tx, fault.item)
    reaped = apply(tx, queue_work.reap(seen), seen.now)
    return reaped is not None and _record(tx, seen, reaped, fault, who)


def _record(tx: Transaction, seen: QueueSnapshot, after: Item, fault: Fault, who: str) -> bool:
    add_entry(tx, queue_work.record_repair(seen, after, f"{fault.what}: {fault.repair}", who), seen.now)
    return True


def _words(counts: JobCounts) -> str:
    return f"{counts.processing} processing, {counts.failed} failed, {counts.completed} completed"


REPAIRS: Mapping[str, Callable[[Transaction, Fault, str], bool]] = {
    "wrong-count": _recount,
    "never-finishes": _recount,
    "no-batch": _remove,
    DEAD_OWNER: _reap,
}
