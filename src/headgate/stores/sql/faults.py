"""Damage to locks, chunks, counters and history: detection, explanation, and repair where that is safe.

Damage to batches and ingest jobs is found by `queue/faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from headgate.core.faults import CLOCK_TOLERANCE, Fault, clock_fault
from headgate.core.ledger import work as chunk_work
from headgate.core.ledger.claims import find_candidate
from headgate.core.locks.draft import TRIAL_SECONDS
from headgate.core.locks.model import resource_digest
from headgate.core.locks.work import serve
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural
from headgate.stores.sql import fault_statements as sql
from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.moments import MICROSECONDS, moment, to_micro, to_seconds
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.ledger.changes import carry_out as carry_out_chunk
from headgate.stores.sql.ledger.changes import refresh_candidate
from headgate.stores.sql.ledger.mapping_statements import HAS_ARRIVALS
from headgate.stores.sql.ledger.shapes import Shape, all_jobs, shape_of
from headgate.stores.sql.ledger.snapshots import look
from headgate.stores.sql.locks.changes import Committed, carry_out
from headgate.stores.sql.queue import statements as queue_statements
from headgate.stores.sql.queue.rows import BATCHES, JOBS, noun_of, number_of

#: Number of faults of one kind that are reported at a time.
MOST = 1000
#: How far beyond its length a lease may end before this counts as damage.
SLACK = 3600 * MICROSECONDS
AHEAD = {"trial": to_micro(TRIAL_SECONDS), "slack": SLACK}
#: A retry deferred beyond the job's delay by this much would not happen for a long time.
LONG_DEFERRED = 3600 * MICROSECONDS

Found = Iterator[Fault]


def faults(database: Database) -> list[Fault]:
    """All damage in the tables of locks and ledger. Writes nothing."""
    return database.read(lambda tx: [*_of_locks(tx), *_of_leases(tx), *_of_ledger(tx), *_of_store(database, tx)])


def repair(database: Database, tag: str, fault: Fault, who: str) -> Committed[bool]:
    """Repair it, if the fault is still there. Returns whether it was, and the waiters to wake."""

    def work(tx: Transaction) -> Committed[bool]:
        if fault.kind == "wrong-resource":
            return _recount_resource(tx, tag, fault.item)
        if fault.kind == "token-behind":
            return Committed(_raise_tokens(database, tx), [])
        fix = REPAIRS.get(fault.kind)
        return Committed(fix is not None and fix(tx, fault, who), [])

    return database.write_through(work)


# ---------------------------------------------------------------- locks


def _of_locks(tx: Transaction) -> Found:
    for lock, client, mode in tx.all(sql.LOCKS_WITHOUT_RESOURCE, limit=MOST):
        what = (
            f"{client} holds it {mode}, but the row of its resource is missing: other clients would be granted "
            "the resource"
        )
        yield Fault("no-resource", str(lock), what, "restore the row; the resource is listed by its key")
    for row in tx.all(sql.WRONG_RESOURCES, limit=MOST):
        uri, holders, locks, waiting, waiters, token, newest, mode, true_mode = row
        what = (
            f"its row records {holders} holders ({mode}), {waiting} waiters and token {token}; actual: {locks} "
            f"({true_mode}), {waiters}, and a lock with token {newest}"
        )
        yield Fault("wrong-resource", str(uri), what, "count its locks and waiters again")
    for ticket, mode in tx.all(sql.PLACES_WITHOUT_TICKET, limit=MOST):
        yield Fault(
            "lost-waiter", f"waiter {ticket}", f"a queue position ({mode}) without a waiter", ("remove the position")
        )


def _restore_resource(tx: Transaction, fault: Fault, _who: str) -> bool:
    key = fault.item.split("-")[1]
    return tx.count(sql.RESTORE_RESOURCE, id=fault.item, uri=f"lost:{key}", known=True) > 0


def _recount_resource(tx: Transaction, tag: str, uri: str) -> Committed[bool]:
    tx.run(sql.RAISE_RESOURCE, rkey=resource_digest(uri))
    return Committed(result=True, wakes=carry_out(tx, tag, [uri], serve).wakes)


def _drop_places(tx: Transaction, fault: Fault, _who: str) -> bool:
    return tx.count(sql.DROP_PLACES, ticket=int(fault.item.removeprefix("waiter "))) > 0


# ---------------------------------------------------------------- leases


def _of_leases(tx: Transaction) -> Found:
    for lock, client, left in tx.all(sql.LONG_LOCKS, **AHEAD, limit=MOST):
        yield _long("long-lease", str(lock), f"the lease of {client}", left)
    for job, dataid, worker, left in tx.all(sql.LONG_CLAIMS, **AHEAD, limit=MOST):
        yield _long("long-claim", f"{job}/{dataid}", f"the claim of {worker}", left)
    for noun in (BATCHES, JOBS):
        for number, worker, left in tx.all(sql.LONG_ITEMS[noun.prefix], **AHEAD, limit=MOST):
            yield _long("long-item", noun.id_of(int(number)), f"the lease of {worker}", left)


def _long(kind: str, item: str, what: str, left: int) -> Fault:
    ends = in_words(to_seconds(left) or 0)
    return Fault(kind, item, f"{what} expires in {ends}, far beyond its length", "restart the lease now")


def _shorten_lock(tx: Transaction, fault: Fault, _who: str) -> bool:
    return tx.count(sql.SHORTEN_LOCK, id=fault.item, **AHEAD) > 0


def _shorten_claim(tx: Transaction, fault: Fault, _who: str) -> bool:
    shape, dataid = _chunk_of(tx, fault.item)
    return tx.count(sql.SHORTEN_CLAIM, job=shape.id, dataid=dataid, **AHEAD) > 0


def _shorten_item(tx: Transaction, fault: Fault, _who: str) -> bool:
    return tx.count(sql.SHORTEN_ITEM[noun_of(fault.item).prefix], id=number_of(fault.item)) > 0


# ---------------------------------------------------------------- the ledger


def _of_ledger(tx: Transaction) -> Found:
    yield from _lost_definitions(tx)
    jobs = {number: job.name for number, job in all_jobs(tx).items()}
    for number, dataid, worker in tx.all(sql.RUNNING_WITHOUT_LEASE, limit=MOST):
        what = f"{worker or 'a worker'} runs it without a lease: a crash of the worker would go unnoticed"
        if int(number) in jobs:
            yield Fault("no-lease", f"{jobs[int(number)]}/{dataid}", what, "set it to ERROR, as an expired claim")
    for number, dataid in tx.all(sql.ORPHAN_CANDIDATES, limit=MOST):
        item = f"{jobs.get(int(number), f'job number {number}')}/{dataid}"
        yield Fault("orphan-candidate", item, "it is listed as claimable, but there is no such chunk", "remove it")
    for name in jobs.values():
        shape = shape_of(tx, name, share=False)
        if shape.ids:
            yield from _lost_outputs(tx, shape)
            yield from _lost_candidates(tx, shape)


def _lost_definitions(tx: Transaction) -> Found:
    help_ = "Restore them from a backup, or define the pipeline again"
    for number, count in tx.all(sql.LOST_JOBS, limit=MOST):
        yield Fault(
            "no-job",
            f"job number {number}",
            (f"the ledger has {plural(count, 'row')} of it, but its definition is missing. {help_}"),
        )
    for number, count in tx.all(sql.LOST_DATASETS, limit=MOST):
        what = f"the ledger has {plural(count, 'row')} of it, but its definition is missing. {help_}"
        yield Fault("no-dataset", f"dataset number {number}", what)
    for (name,) in tx.all(sql.JOBS_WITHOUT_DATASETS, limit=MOST):
        yield Fault("no-datasets", str(name), "its inputs and outputs are missing; define the job again")


def _lost_outputs(tx: Transaction, shape: Shape) -> Found:
    if not shape.job.outputs:
        return
    for dataid, status in tx.all(sql.LOST_OUTPUTS, job=shape.id, limit=MOST):
        what = (
            f"its input row is {status} but its output row is missing, so it is never produced. To produce it again: "
            f"headgate job forget {shape.job.name} {dataid} --reason WHY"
        )
        yield Fault("lost-output", f"{shape.job.name}/{dataid}", what)


def _lost_candidates(tx: Transaction, shape: Shape) -> Found:
    """Chunks that the table allows to be claimed, but find_next does not list."""
    if shape.job.mapped and tx.one(HAS_ARRIVALS, job=shape.id) is not None:
        return  # Its next call processes the arrivals.
    lost: dict[str, None] = {}
    # The claimable data ids of a mapped job are not those of its inputs; find_next processes the arrivals.
    for position, name in enumerate(() if shape.job.mapped else shape.job.inputs):
        params = {"dataset": shape.ids[name], "job": shape.id, "bit": 1 << position, "linked": shape.numbers}
        lost.update((str(row[0]), None) for row in tx.all(sql.UNSEEN_CHUNKS, **params, limit=MOST))
    for (dataid,) in tx.all(_TROUBLE, job=shape.id, datasets=shape.numbers, limit=MOST):
        if _is_lost(tx, shape, str(dataid)):
            lost[str(dataid)] = None
    for dataid in list(lost)[:MOST]:
        what = "it can be claimed once its inputs are READY, but it is not in the list that find_next reads"
        yield Fault("lost-candidate", f"{shape.job.name}/{dataid}", what, "list it as claimable")


def _is_lost(tx: Transaction, shape: Shape, dataid: str) -> bool:
    wanted = find_candidate(look(tx, shape, dataid))
    if wanted is None:
        return False
    if wanted.age is not None and wanted.delay > 0:
        return False  # It is DONE, and not due yet.
    kept = tx.one(sql.READ_CANDIDATE, job=shape.id, dataid=dataid)
    if kept is None or int(kept[1]) & ~wanted.missing != 0 or int(kept[0]) > wanted.place:
        return True
    return int(kept[2]) > round(wanted.delay * MICROSECONDS) + LONG_DEFERRED


def _list_candidate(tx: Transaction, fault: Fault, _who: str) -> bool:
    shape, dataid = _chunk_of(tx, fault.item)
    refresh_candidate(tx, shape, dataid)
    return True


def _drop_candidate(tx: Transaction, fault: Fault, _who: str) -> bool:
    for number, dataid in tx.all(sql.ORPHAN_CANDIDATES, limit=MOST):
        jobs = {job_number: job.name for job_number, job in all_jobs(tx).items()}
        if fault.item == f"{jobs.get(int(number), f'job number {number}')}/{dataid}":
            return tx.count(_DROP_CANDIDATE, job=int(number), dataid=str(dataid)) > 0
    return False


def _expire_claim(tx: Transaction, fault: Fault, who: str) -> bool:
    shape, dataid = _chunk_of(tx, fault.item)
    if not tx.count(sql.EXPIRE_CLAIM, job=shape.id, dataid=dataid):
        return False
    return carry_out_chunk(tx, shape, dataid, lambda chunk: chunk_work.reap(chunk, who)).result


def _chunk_of(tx: Transaction, item: str) -> tuple[Shape, str]:
    """The job and data id in `job/dataid`; either may contain a slash."""
    names = sorted((job.name for job in all_jobs(tx).values() if item.startswith(f"{job.name}/")), key=len)
    return shape_of(tx, names[-1], share=True), item[len(names[-1]) + 1 :]


# ---------------------------------------------------------------- counters, history, clock


def _of_store(database: Database, tx: Transaction) -> Found:
    for name, top, value in tx.all(sql.COUNTERS_BEHIND):
        noun = BATCHES if name == BATCHES.prefix else JOBS
        what = f"the counter is at {value}, but {noun.id_of(int(top))} is in use: the next submission would fail"
        yield Fault("counter-behind", f"counter {name}", what, "raise it")
    given, greatest = _tokens(database, tx)
    if greatest > given:
        what = f"the counter of tokens is at {given}, but token {greatest} is in use: tokens would be issued twice"
        yield Fault("token-behind", "counter of tokens", what, "raise it")
    yield from _lost_history(tx)
    newest, now = tx.one(sql.NEWEST_ENTRIES)
    if fault := clock_fault(database.name, moment(now), datetime.now(UTC)):
        yield fault
    elif newest is not None and moment(newest) - moment(now) > CLOCK_TOLERANCE:
        what = f"the newest entry is from {moment(newest):%Y-%m-%d %H:%M} UTC, later than the store's clock"
        yield Fault("future-history", "history", f"{what}: the clock was ahead when it was written")


def _lost_history(tx: Transaction) -> Found:
    def lost(item: str, what: str) -> Fault:
        return Fault("lost-history", item, f"{what}, but the history has no entry of it: entries were deleted")

    # Entries about changes before that time may have been removed because of their age.
    fact = tx.one(sql.READ_HISTORY_SINCE)
    since = int(fact[0]) if fact else 0
    for lock, client in tx.all(sql.LOCKS_WITHOUT_HISTORY, limit=MOST, since=since):
        yield lost(str(lock), f"{client} holds the lock")
    for job, dataid in tx.all(sql.CHUNKS_WITHOUT_HISTORY, limit=MOST, since=since):
        yield lost(f"{job}/{dataid}", "it was claimed")
    for noun, statement in ((BATCHES, sql.BATCHES_WITHOUT_HISTORY), (JOBS, sql.JOBS_WITHOUT_HISTORY)):
        for (number,) in tx.all(statement, limit=MOST, since=since):
            yield lost(noun.id_of(int(number)), "it exists")


def _raise_counter(tx: Transaction, fault: Fault, _who: str) -> bool:
    for name, top, _ in tx.all(sql.COUNTERS_BEHIND):
        if fault.item == f"counter {name}":
            if not tx.count(sql.SET_COUNTER, name=name, value=int(top)):
                tx.run(queue_statements.ADD_COUNTER, name=name, count=int(top))
            return True
    return False


def _tokens(database: Database, tx: Transaction) -> tuple[int, int]:
    """The last issued token, and the greatest one in use."""
    row = tx.one(database.dialect.last_token)
    return int(row[0] or 0) if row else 0, int(tx.one(sql.GREATEST_TOKEN)[0])


def _raise_tokens(database: Database, tx: Transaction) -> bool:
    given, greatest = _tokens(database, tx)
    if greatest > given:
        database.dialect.raise_token(tx, greatest)
    return greatest > given


_TROUBLE = Statement(
    "Data ids of a job that wait for a retry, or were resubmitted.",
    """select distinct dataid from hg_chunk
       where job_id = :job and dataset_id in (:datasets*) and status not in {settled_or_held} limit :limit""",
)
_DROP_CANDIDATE = Statement("Remove a candidate.", "delete from hg_candidate where job_id = :job and dataid = :dataid")
REPAIRS: Mapping[str, Callable[[Transaction, Fault, str], bool]] = {
    "no-resource": _restore_resource,
    "lost-waiter": _drop_places,
    "long-lease": _shorten_lock,
    "long-claim": _shorten_claim,
    "long-item": _shorten_item,
    "no-lease": _expire_claim,
    "lost-candidate": _list_candidate,
    "orphan-candidate": _drop_candidate,
    "counter-behind": _raise_counter,
}
