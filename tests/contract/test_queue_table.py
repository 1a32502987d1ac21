"""The tables, on every store: each state x event has the row's effects, or is refused and nothing changes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headgate import Batch, Gate, IngestJob, ItemLost, QueueRefused, TransitionRefused, UnknownName
from headgate.core.queue.model import Folder, Item, Taken, folder_of, forward_event, work_states
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.core.tables.states import BATCH, INGEST_JOB
from tests.contract.queue_steps import (
    FOLDERS,
    PROFILE,
    ROWS,
    STEPS,
    WHO,
    WHY,
    Everything,
    as_batch,
    as_job,
    as_taken,
    batch_in,
    batch_with_jobs,
    everything,
    fire_row,
    folders,
    is_there,
    item_in,
    job_in,
    new_batch,
    port,
    prepared_for,
    row_name,
    rows_for,
    take,
    taken_batch,
    taken_job,
    told,
    untaken,
)

CALLERS = (By.OWNER, By.OPERATOR, By.DAEMON)
EVENTS = tuple(dict.fromkeys((*BATCH.events, *INGEST_JOB.events, "lunch")))
#: States in which an item can be found, because it exists.
KEPT = [
    (machine, state)
    for machine in (BATCH, INGEST_JOB)
    for state in dict.fromkeys(row.target for row in machine.rows if Also.DROP_ALL not in row.also)
]
#: Crashes, and how they are undone, are tested in test_queue_crashes.py.
MOVES = [
    (machine, row)
    for machine, row in ROWS
    if row.source != machine.start and row.by is not By.STORE and not row.when.startswith("its workers crashed in ")
]


def of_kept(machine: Machine, state: str) -> str:
    return f"{machine.name}-{state}"


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize(("machine", "row"), MOVES, ids=[row_name(*each) for each in MOVES])
def test_a_row_has_exactly_its_effects(
    gate: Gate, machine: Machine, row: Transition, record_property: Callable[[str, Any], None]
) -> None:
    item = prepared_for(gate.queue, machine, row)
    before = everything(gate)
    moved = fire_row(gate, row, item)
    after = everything(gate)
    check_item(gate, item, row, moved)
    check_places(item, row, before, after)
    check_history(item, row, before, after)
    record_property("transition", row_name(machine, row))


def check_item(gate: Gate, old: Item, row: Transition, moved: Item) -> None:
    """State, last good step, retries, message, owner."""
    queue = gate.queue
    assert moved.id == old.id
    if Also.DROP_ALL in row.also:
        assert not is_there(queue, old.id)
        return
    found: Item = queue.batch(old.id) if isinstance(old, Batch) else queue.job(old.id)
    assert untaken(moved) == untaken(found)
    assert (found.state, found.message, found.worker, found.lease) == (row.target, WHY, "", None)
    assert found.since >= old.since
    if isinstance(old, IngestJob):
        job, was = as_job(found), old
        assert job.last_successful == (row.source if Also.MARK_STEP in row.also else was.last_successful)
        assert job.retry_count == was.retry_count + (Also.COUNT_RETRY in row.also)
        kept = ("batch", "priority", "space_needed", "identifiers", "configuration")
        assert [getattr(job, name) for name in kept] == [getattr(was, name) for name in kept]


def check_places(old: Item, row: Transition, before: Everything, after: Everything) -> None:
    """One entry in the queue, one in the batch, and none elsewhere."""
    noun = BATCH.name if isinstance(old, Batch) else INGEST_JOB.name
    gone = Also.DROP_ALL in row.also
    counts = {**before.counts[noun]}
    counts[row.source] -= 1
    counts[row.target] = counts.get(row.target, 0) + (not gone)
    assert after.counts[noun] == {state: n for state, n in counts.items() if n}
    if isinstance(old, IngestJob):
        batch = after.batches[0]
        expected: dict[str, list[str]] = {folder.value: [] for folder in FOLDERS}
        if not gone:
            expected[folder_of(row.target).value] = [old.id]
        assert after.folders[batch.id] == expected
        numbers = (batch.jobs.processing, batch.jobs.failed, batch.jobs.completed)
        assert numbers == tuple(len(found) for found in expected.values())
        assert [untaken(batch)] == [untaken(replace(each, jobs=batch.jobs)) for each in before.batches]
    elif gone:
        assert (after.batches, after.jobs) == ([], [])
    else:
        assert after.folders == before.folders
        assert after.jobs == before.jobs


def check_history(old: Item, row: Transition, before: Everything, after: Everything) -> None:
    """One additional entry, which contains all of it."""
    assert after.history[1:] == before.history
    entry = after.history[0]
    assert (entry.event, entry.before, entry.after, entry.reason) == (row.event, row.source, row.target, WHY)
    assert (entry.noun, entry.job) == (BATCH.name if isinstance(old, Batch) else INGEST_JOB.name, old.id)
    assert entry.spent is not None
    assert entry.spent >= 0
    if row.by is not By.OWNER:
        assert entry.client == WHO
    else:
        assert entry.client, "its former owner"


def test_the_rows_for_new_items(gate: Gate, record_property: Callable[[str, Any], None]) -> None:
    batch = gate.queue.submit(PROFILE, "ann", "https://example.org/x", erc_who="A. Author")
    assert (batch.state, batch.made, batch.jobs.processing, batch.submission.metadata) == (
        "pending", 0, 0, {"erc_who": "A. Author"},
    )  # fmt: skip
    taken = taken_batch(gate.queue)
    assert gate.queue.create_jobs(taken, [{"payload_url": "https://example.org/1", "identifiers": {"local": "a"}}]) == 1
    job = taken_job(gate.queue)
    assert (job.batch, job.last_successful, job.retry_count, job.priority, job.space_needed) == (
        batch.id, None, 0, 5, 0,
    )  # fmt: skip
    assert job.identifiers.local == ("a",)
    wanted = {
        "batch_id": batch.id, "profile_name": PROFILE, "submitter": "ann", "payload_url": "https://example.org/1",
        "payload_type": "object_manifest", "response_type": None, "submission_mode": "add",
    }  # fmt: skip
    assert {key: job.configuration[key] for key in wanted} == wanted
    assert job.configuration["working_dir"].endswith(f"/{batch.id}/{job.id}")
    assert folders(gate.queue, batch.id)[Folder.PROCESSING.value] == [job.id]
    for item in (batch.id, job.id):
        entry = told(gate, item)[0]
        assert (entry.before, entry.after) == ("new", "pending")
    for machine, row in ROWS:
        if row.source == machine.start:
            record_property("transition", row_name(machine, row))


def test_a_status_says_why_though_nobody_gave_a_reason(gate: Gate) -> None:
    """The row's meaning, if a message is missing; the history records the given text, which is empty."""
    queue = gate.queue
    assert new_batch(queue).message == BATCH.find(BATCH.start, "submit")[0].meaning
    batch = taken_batch(queue)
    queue.create_jobs(batch, rows_for(1))
    assert queue.fire(batch, "start").message == BATCH.find("pending", "start")[0].meaning
    job = queue.job(queue.job_ids(batch.id, Folder.PROCESSING)[0])
    assert job.message == INGEST_JOB.find(INGEST_JOB.start, "create")[0].meaning
    while job.state != "completed":
        row = INGEST_JOB.find(job.state, forward_event(INGEST_JOB, job.state))[0]
        assert queue.fire(taken_job(queue, job.state), row.event).message == row.meaning
        job = queue.job(job.id)
        assert (job.message, told(gate, job.id)[0].reason) == (row.meaning, "")


# ---------------------------------------------------------------- every event that has no row


@pytest.mark.parametrize(("machine", "state"), KEPT, ids=[of_kept(*each) for each in KEPT])
def test_an_event_without_a_row_for_its_caller_changes_nothing(gate: Gate, machine: Machine, state: str) -> None:
    item = item_in(gate.queue, machine, state)
    if state in work_states(machine):
        item = take(gate.queue, item)
    before = everything(gate)
    tried = 0
    for event in EVENTS:
        rows = [row for row in machine.rows if (row.source, row.event) == (state, event)]
        for by in CALLERS:
            if any(row.by is by for row in rows):
                continue
            tried += 1
            with pytest.raises(TransitionRefused) as refusal:
                attempt(gate, item, event, by)
            assert (refusal.value.machine, refusal.value.state) == (machine.name, state), (event, by)
            if not rows:
                assert refusal.value.allowed == machine.allowed(state), (event, by)
    assert everything(gate) == before
    assert tried


def attempt(gate: Gate, item: Item, event: str, by: By) -> Item:
    """Fire an event as a given actor."""
    if by is By.OWNER:
        return gate.queue.fire(as_taken(item), event, WHY)
    return port(gate).act(item.id, event, by, WHY, WHO)


def test_a_deleted_item_accepts_no_events(gate: Gate) -> None:
    job = job_in(gate.queue, "held")
    gate.queue.delete(job.id, reason=WHY)
    batch = batch_in(gate.queue, "held")
    gate.queue.delete(batch.id, reason=WHY)
    before = everything(gate)
    for item in (job, batch):
        machine = BATCH if item is batch else INGEST_JOB
        for row in machine.rows:
            if row.source == machine.start:
                continue
            with pytest.raises(ItemLost if row.by is By.OWNER else UnknownName):
                attempt(gate, replace(item, state=row.source), row.event, row.by)
    assert everything(gate) == before


# ---------------------------------------------------------------- conditions


def release_while_held(gate: Gate) -> tuple[Item, str, By]:
    job = job_in(gate.queue, "held")
    gate.queue.set_hold(PROFILE, reason="not yet")
    return job, "release", By.OPERATOR


def release_batch_while_held(gate: Gate) -> tuple[Item, str, By]:
    batch = batch_in(gate.queue, "held")
    gate.queue.set_hold(PROFILE, reason="not yet")
    return batch, "release", By.OPERATOR


def report_too_early(gate: Gate) -> tuple[Item, str, By]:
    return batch_in(gate.queue, "processing"), "report", By.DAEMON


def failed_batch_at_work(gate: Gate) -> Item:
    """A failed batch whose failed job was resumed and is taken."""
    job = job_in(gate.queue, "failed", "provisioning")
    assert gate.queue.report_finished() == [job.batch]
    gate.queue.fire(taken_batch(gate.queue, "reporting"), "finish")
    gate.queue.resume(job.id)
    taken_job(gate.queue, "downloading")
    return gate.queue.batch(job.batch)


CONDITIONS: dict[str, Callable[[Gate], tuple[Item, str, By]]] = {
    "release a job into a held collection": release_while_held,
    "release a batch into a held collection": release_batch_while_held,
    "report a batch with a job on its way": report_too_early,
    "delete a batch with a job at work": lambda gate: (failed_batch_at_work(gate), "delete", By.OPERATOR),
    "report again with a job on its way": lambda gate: (failed_batch_at_work(gate), "update-report", By.OPERATOR),
    "resume what never ended a step well": lambda gate: (job_in(gate.queue, "failed"), "resume", By.OPERATOR),
    "resume while the batch reports": lambda gate: (failed_job_of_a_reporting_batch(gate), "resume", By.OPERATOR),
}


def failed_job_of_a_reporting_batch(gate: Gate) -> Item:
    job = job_in(gate.queue, "failed", "provisioning")
    assert gate.queue.report_finished() == [job.batch]
    return job


@pytest.mark.parametrize("what", CONDITIONS)
def test_a_condition_that_is_not_met_refuses(gate: Gate, what: str) -> None:
    item, event, by = CONDITIONS[what](gate)
    before = everything(gate)
    with pytest.raises(QueueRefused) as refusal:
        port(gate).act(item.id, event, by, WHY, WHO)
    assert (refusal.value.item, refusal.value.event) == (item.id, event)
    assert everything(gate) == before


def test_every_condition_of_the_tables_has_a_case() -> None:
    conditions = {row.needs for _, row in ROWS if row.needs}
    assert len(conditions) == 4
    assert {row.event for _, row in ROWS if row.needs} == {"release", "delete", "report", "update-report", "resume"}


# ---------------------------------------------------------------- every other actual state


def test_an_old_owner_changes_nothing_in_any_state_that_the_job_goes_through(gate: Gate) -> None:
    """At each step the job is taken, returned and taken again; all former owners fire all events that they could have
    fired.
    """
    queue = gate.queue
    batch = batch_with_jobs(queue)
    old: list[Taken] = []
    state = "pending"
    while state != "completed":
        first = taken_job(queue, state)
        queue.give_back(first)
        second = taken_job(queue, state)
        old += [as_taken(first), *(as_taken(second, other) for other in STEPS if other != state)]
        refuse_all(gate, old)
        done = as_taken(second)
        state = queue.fire(second, next(iter(forward(state))), WHY).state
        old.append(done)
        refuse_all(gate, [each for each in old if each is not done])
    refuse_all(gate, old[:-1])
    assert queue.batch(batch.id).jobs.completed == 1


def forward(state: str) -> list[str]:
    """The events by which a job advances."""
    return [row.event for row in INGEST_JOB.rows if row.source == state and row.event in ("accept", "finish")]


def refuse_all(gate: Gate, owners: list[Taken]) -> None:
    before = everything(gate)
    for taken in owners:
        for row in INGEST_JOB.rows:
            if row.source == taken.state and row.by is By.OWNER:
                with pytest.raises(ItemLost):
                    gate.queue.fire(taken, row.event, "I am back")
    assert everything(gate) == before


@pytest.mark.parametrize("state", work_states(BATCH))
def test_an_old_owner_of_a_batch_changes_nothing(gate: Gate, state: str) -> None:
    queue = gate.queue
    batch = as_batch(batch_in(queue, state))
    first = take(queue, batch)
    queue.give_back(first)
    second = take(queue, batch)
    others = [as_taken(second, other) for other in work_states(BATCH) if other != state]
    before = everything(gate)
    for taken in (as_taken(first), *others):
        for row in BATCH.rows:
            if row.source == taken.state and row.by is By.OWNER:
                with pytest.raises(ItemLost):
                    queue.fire(taken, row.event, "I am back")
    assert everything(gate) == before


def test_a_repeated_call_returns_the_same_answer_and_changes_nothing(gate: Gate) -> None:
    queue = gate.queue
    job = as_job(item_in(queue, INGEST_JOB, "pending"))
    for state in STEPS:
        taken = taken_job(queue, state)
        moved = queue.fire(taken, forward(state)[0], WHY)
        before = everything(gate)
        assert queue.fire(taken, forward(state)[0], WHY) == moved
        assert everything(gate) == before
        if any(row.event == "fail" for row in INGEST_JOB.rows if row.source == state):
            with pytest.raises(ItemLost):
                queue.fire(taken, "fail", "after all")
        assert everything(gate) == before
    assert queue.job(job.id).state == "completed"


def test_a_repeated_call_on_a_batch_changes_nothing(gate: Gate) -> None:
    queue = gate.queue
    batch = batch_in(queue, "reporting")
    taken = take(queue, batch)
    moved = queue.fire(taken, "finish", WHY)
    before = everything(gate)
    assert queue.fire(taken, "finish", WHY) == moved
    assert everything(gate) == before
