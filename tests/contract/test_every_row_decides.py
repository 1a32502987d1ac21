"""Every row of a state table has an effect: a store that is opened without it behaves differently."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from headgate import Gate, HeadgateError, LockRefused
from headgate.core.ledger.rules import CHUNK_RULES
from headgate.core.locks.rules import LOCK_RULES
from headgate.core.queue.model import Folder, Item, Taken, work_states
from headgate.core.queue.rules import QUEUE_RULES, QueueRules
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.core.tables.states import BATCH, CHUNK, INGEST_JOB, LOCK
from headgate.store_opening import open_store
from headgate.stores.options import StoreOptions
from headgate.stores.sql.locks import changes as lock_changes
from headgate.stores.sql.locks import turns as queueing
from headgate.stores.store import Store
from tests.conftest import SQL_STORES, STORES
from tests.contract import lock_states, queue_steps
from tests.contract.ledger_steps import clear
from tests.contract.lock_states import Case, is_waiting, new_case
from tests.contract.queue_steps import (
    PROFILE,
    WHO,
    WHY,
    advance,
    as_job,
    as_taken,
    batch_in,
    batch_with_jobs,
    item_in,
    prepared_for,
    row_name,
    rows_for,
    take,
    told,
)
from tests.contract.steps import EXCLUSIVE, Gates, history_of, request_for
from tests.contract.test_ledger_rows import take as take_chunk
from tests.contract.test_ledger_rows import words_of
from tests.contract.test_locks_table import case_wanting
from tests.contract.test_queue_crashes import die, taken_to_die
from tests.waiting import PATIENT_OPTIONS, until

#: Rows that are not decided by the store.
APART = {("zookeeper", "lock: waiting lapse withdrawn"): "the ensemble removes the place of a session that ended"}
#: Number of workers that may crash on an item, if its profile does not say.
MOST_CRASHES = 3
#: A lease that outlives the test.
ENDLESS = 3600.0
#: Fires a row: the gate that prepares everything, and the gate that fires. Returns whether it had the row's effects.
Taking = Callable[[Gate, Gate], bool]


@pytest.fixture
def without(gates: Gates) -> Iterator[Callable[[StoreOptions], Gate]]:
    """Opens the same store with other tables."""
    opened: list[Store] = []
    usual = gates.open()

    def open_with(options: StoreOptions) -> Gate:
        while opened:
            opened.pop().close()
        opened.append(open_store(gates.url, options=options))
        gate = object.__new__(Gate)
        gate.settings, gate.service, gate.guards, gate.sight, gate.root = usual.settings, None, [], None, opened[-1]
        return gate

    yield open_with
    for store in opened:
        store.close()


def less(machine: Machine, row: Transition) -> Machine:
    """The table without a row; states that only this row led to are kept."""
    found = replace(machine)
    object.__setattr__(found, "rows", tuple(each for each in machine.rows if each is not row))
    return found


def options_without(machine: Machine, row: Transition) -> StoreOptions:
    rest = less(machine, row)
    if machine is LOCK:
        return replace(PATIENT_OPTIONS, lock_rules=replace(LOCK_RULES, machine=rest))
    if machine is CHUNK:
        return replace(PATIENT_OPTIONS, chunk_rules=replace(CHUNK_RULES, machine=rest))
    rules = QueueRules(rest, INGEST_JOB) if machine is BATCH else QueueRules(BATCH, rest)
    return replace(PATIENT_OPTIONS, queue_rules={**QUEUE_RULES, "design": rules})


def idle_rows(
    kind: str, machine: Machine, gate: Gate, without: Callable[[StoreOptions], Gate],
    taking: Callable[[Transition], Taking],
) -> Sequence[str]:  # fmt: skip
    """The rows whose removal changes nothing; each row is first fired as it is."""
    idle = []
    for row in machine.rows:
        assert taking(row)(gate, gate), row.name
        if taking(row)(gate, without(options_without(machine, row))):
            idle.append(row_name(machine, row))
    return [name for name in idle if (kind, name) not in APART]


# ---------------------------------------------------------------- locks


@pytest.mark.parametrize("kind", STORES)
def test_every_row_of_the_lock_decides(
    kind: str, store_url: str, gate: Gate, without: Callable[[StoreOptions], Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lock_changes, queueing):
        monkeypatch.setattr(module, "WAITER_LEASE", lock_states.WAITER_LEASE_MICROSECONDS)
    numbers = iter(range(1_000))

    def taking(row: Transition) -> Taking:
        return lambda usual, firing: take_lock_row(store_url, usual, firing, row, f"row:{next(numbers)}")

    assert idle_rows(kind, LOCK, gate, without, taking) == []


def take_lock_row(url: str, usual: Gate, firing: Gate, row: Transition, resource: str) -> bool:
    store = usual.store.locks
    named = row.source in ("new", "waiting") and row.target in ("shared", "exclusive")
    case = case_wanting(url, store, row, resource) if named else new_case(url, store, row.source, row.event, resource)
    case.store = firing.store.locks
    try:
        before = records(case, row)
        with suppress(AssertionError):  # It is not granted, although it is its turn.
            lock_states.fire(case, row.event)
        if Also.RECORD_HISTORY in row.also:
            return len(records(case, row)) > len(before)
        return is_waiting(case) if row.event == "wait" else is_free(case)
    finally:
        case.doomed.close()


def records(case: Case, row: Transition) -> list[int]:
    found = history_of(case.store, resource=case.resource, event=row.event)
    return [entry.id for entry in found if (entry.before, entry.after) == (row.source, row.target)]


def is_free(case: Case) -> bool:
    """Whether no waiter is ahead of the next one, once the holder has left."""
    lock_states.clear(case)
    try:
        case.store.acquire(request_for("the next", (case.resource, EXCLUSIVE)))
    except LockRefused:
        return False
    return True


# ---------------------------------------------------------------- chunks


@pytest.mark.parametrize("kind", SQL_STORES)
def test_every_row_of_the_chunk_decides(kind: str, gate: Gate, without: Callable[[StoreOptions], Gate]) -> None:
    def taking(row: Transition) -> Taking:
        return lambda usual, firing: take_chunk_row(usual, firing, row)

    assert idle_rows(kind, CHUNK, gate, without, taking) == []


def take_chunk_row(usual: Gate, firing: Gate, row: Transition) -> bool:
    clear(usual)
    try:
        before, after = take_chunk(usual, row, firing)
    except HeadgateError:
        return False
    if Also.RECORD_HISTORY not in row.also:
        return True
    if row.also.has(Also.OPEN_INCIDENT) and not after.incident:
        return False
    return (row.event, *words_of(row)) in after.told[len(before.told) :]


# ---------------------------------------------------------------- batches and ingest jobs


@pytest.mark.parametrize("machine", [BATCH, INGEST_JOB], ids=["batch", "job"])
@pytest.mark.parametrize("kind", STORES)
def test_every_row_of_the_queue_decides(
    kind: str, machine: Machine, gate: Gate, without: Callable[[StoreOptions], Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_steps, "LONG", ENDLESS)

    def taking(row: Transition) -> Taking:
        return lambda usual, firing: take_queue_row(usual, firing, machine, row)

    assert idle_rows(kind, machine, gate, without, taking) == []


def take_queue_row(usual: Gate, firing: Gate, machine: Machine, row: Transition) -> bool:
    item, act = ready_to_fire(usual, firing, machine, row)
    before = len(told(usual, item)) if item else 0
    with suppress(HeadgateError):
        item = act() or item
    more = told(usual, item)[before:] if item else []
    empty(usual)
    return (row.event, row.source, row.target) in [(entry.event, entry.before, entry.after) for entry in more]


def ready_to_fire(usual: Gate, firing: Gate, machine: Machine, row: Transition) -> tuple[str, Callable[[], str | None]]:
    """The item in its state, and a function that fires the event and returns the id of a new item."""
    queue = usual.queue
    if row.event == "submit":
        return "", lambda: firing.queue.submit(PROFILE, "ann", "https://example.org/x").id
    if row.event == "create":
        batch = take(queue, batch_in(queue, "pending"))
        return "", lambda: created(firing, as_taken(batch), batch.id)
    if row.event == "reap":
        found = about_to_die(usual, machine, row)
        return found.id, lambda: until(firing.queue.reap, "the reaper to notice")
    if row.when.startswith("its workers crashed in "):
        found = crashed(usual, machine, row.target)
        return found.id, lambda: acted(firing, found, row)
    found = prepared_for(queue, machine, row)
    if row.by is By.OWNER:
        taken = take(queue, found)
        return found.id, lambda: firing.queue.fire(taken, row.event, WHY).id
    return found.id, lambda: acted(firing, found, row)


def acted(gate: Gate, item: Item, row: Transition) -> str:
    return gate.store.queue.act(item.id, row.event, row.by, WHY, WHO).id


def created(gate: Gate, taken: Taken, batch: str) -> str:
    gate.queue.create_jobs(taken, rows_for(1))
    return gate.queue.job_ids(batch, Folder.PROCESSING)[0]


def about_to_die(gate: Gate, machine: Machine, row: Transition) -> Item:
    """Taken by a worker that died; with its last crash, if the row requires that."""
    item = item_in(gate.queue, machine, row.source)
    for _ in range(MOST_CRASHES - 1 if row.target == "held" else 0):
        die(gate.queue, item)
    return taken_to_die(gate.queue, item)


def crashed(gate: Gate, machine: Machine, state: str) -> Item:
    """Held, after its workers crashed in that state."""
    if machine is BATCH:
        item: Item = batch_in(gate.queue, state)
        for _ in range(MOST_CRASHES):
            item = die(gate.queue, item)
        return item
    batch = batch_with_jobs(gate.queue, max_crashes=1)
    job = advance(gate.queue, gate.queue.job(gate.queue.job_ids(batch.id, Folder.PROCESSING)[0]), state)
    return as_job(die(gate.queue, job))


def empty(gate: Gate) -> None:
    """All remaining items are taken, so that none blocks the next row."""
    gate.queue.report_finished()
    until(lambda: not any(take_all(gate, machine) for machine in (BATCH, INGEST_JOB)), "all items to be taken")


def take_all(gate: Gate, machine: Machine) -> bool:
    """Take all free items. Returns whether there were any: a store with cached lists may show some of them later."""
    acquire = gate.queue.acquire_batch if machine is BATCH else gate.queue.acquire_job
    items = gate.queue.batches() if machine is BATCH else gate.queue.jobs()
    free = {item.state for item in items if not item.worker and item.state in work_states(machine)}
    for state in free:
        while acquire(state, lease=ENDLESS):
            pass
    return bool(free)
