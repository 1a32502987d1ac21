"""The units of work of the queue, without a store: each row, each effect, each condition, each refusal."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.core.access.owners import Actor, Override
from headgate.core.errors import BadValue, ItemLost, NotOwner, QueueRefused, TransitionRefused, UnknownName
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import (
    Batch,
    Changes,
    Folder,
    Hold,
    Identifiers,
    IngestJob,
    Item,
    JobCounts,
    NewJob,
    Report,
    Submission,
    Taken,
    folder_of,
)
from headgate.core.queue.rules import CONDITIONS, QUEUE_RULES, Look, QueueRules
from headgate.core.queue.snapshot import (
    AddBatch,
    AddJobs,
    ChangeItem,
    EditItem,
    FreeItem,
    MoveReference,
    QueueOutcome,
    QueueRecord,
    QueueSnapshot,
    RemoveItem,
    TakeItem,
)
from headgate.core.tables.machine import Also, By, Machine, Transition

RULES = QUEUE_RULES["design"]
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(seconds=90)
WHO, WHY, WORKER = "an operator", "because", "a consumer"
JOB = IngestJob(
    "jid0000000001", "bid0000000001", "pending", None, 0, 5, 0, Identifiers(), {"profile_name": "p"}, "new", BEFORE,
    token=7,
)  # fmt: skip
BATCH = Batch("bid0000000001", "pending", Submission("p", "ann", "https://x"), "new", BEFORE, token=7)
#: Every row that a caller fires on an item, in each spelling.
ROWS = [
    (spelling, machine, row)
    for spelling, rules in QUEUE_RULES.items()
    for machine in (rules.batch, rules.job)
    for row in machine.rows
    if row.source != machine.start
]


def item_for(machine: Machine, row: Transition) -> Item:
    """An item that meets the row's condition, as far as the item alone decides it."""
    item: Item = BATCH if machine.name == "batch" else JOB
    item = replace(item, state=row.source, former=row.when.partition("crashed in ")[2])
    if row.when == "max_crashes workers crashed on it":
        item = replace(item, crashes=2)
    if isinstance(item, Batch):
        failed = row.when.startswith("a job failed")
        return replace(item, made=1, jobs=JobCounts(failed=int(failed), completed=int(not failed)))
    return replace(item, last_successful=row.when.removeprefix("the last successful step was ") or None)


def seen(item: Item | None, rules: QueueRules = RULES, **more: Any) -> QueueSnapshot:
    known: dict[str, Any] = {"max_crashes": 3, "batch_state": "processing", **more}
    return QueueSnapshot(rules=rules, item=item, now=NOW, stamp=NOW, **known)


def seen_taken(item: Item, **more: Any) -> QueueSnapshot:
    return seen(replace(item, worker=WORKER, lease=60.0, principal="local"), taken=True, **more)


def shown(item: Item, **more: Any) -> Taken:
    return replace(Taken(item.id, item.token, item.state), **more)


def fire_row(rules: QueueRules, row: Transition, item: Item, **more: Any) -> QueueOutcome[Any]:
    """As an actor that the row names."""
    if row.by is By.OWNER:
        return queue_work.fire(seen_taken(item, rules=rules, **more), shown(item), row.event, WHY, Changes())
    if row.by is By.STORE:
        return queue_work.reap(seen(item, rules, dead=WORKER, **more))
    return queue_work.act(seen(item, rules, **more), item.id, row.event, row.by, WHY, WHO)


def kinds(outcome: QueueOutcome[Any]) -> list[type]:
    return [type(change) for change in outcome.changes]


def find(outcome: QueueOutcome[Any], kind: type) -> Any:
    return next((change for change in outcome.changes if type(change) is kind), None)


# ------------------------------------------------------------------ rows


@pytest.mark.parametrize(("spelling", "machine", "row"), ROWS, ids=[f"{s}-{m.name}-{r.name}" for s, m, r in ROWS])
def test_a_row_is_followed_exactly(spelling: str, machine: Machine, row: Transition) -> None:
    rules, item = QUEUE_RULES[spelling], item_for(machine, row)
    outcome = fire_row(rules, row, item)
    gone = Also.DROP_ALL in row.also and row.target in machine.ends
    assert (find(outcome, RemoveItem) is not None) is gone
    entry = find(outcome, QueueRecord)
    assert (entry.event, entry.before, entry.after) == (row.event, row.source, row.target)
    assert (entry.token, entry.spent, entry.noun) == (7, 90.0, machine.name)
    if isinstance(item, IngestJob):
        moved = find(outcome, MoveReference)
        there = None if gone else folder_of(row.target)
        assert (moved.after if moved else folder_of(row.source)) is there
    if gone:
        assert outcome.result == item
        return
    change, after = find(outcome, ChangeItem), outcome.result
    assert (change.after, change.frees, change.queued) == (after, True, Also.DROP_ENTRY not in row.also)
    assert (after.state, after.worker, after.lease, after.token) == (row.target, "", None, 7)
    assert after.since == (BEFORE if row.target == row.source else NOW)
    crashed = Also.COUNT_CRASH in row.also
    assert after.crashes == (item.crashes + 1 if crashed else 0)
    assert after.former == (row.source if crashed and row.target != row.source else "")
    if isinstance(item, IngestJob):
        assert after.last_successful == (row.source if Also.MARK_STEP in row.also else item.last_successful)
        assert after.retry_count == int(Also.COUNT_RETRY in row.also)


@pytest.mark.parametrize(("spelling", "machine", "row"), ROWS, ids=[f"{s}-{m.name}-{r.name}" for s, m, r in ROWS])
def test_a_removed_row_is_never_followed(spelling: str, machine: Machine, row: Transition) -> None:
    rules, item = QUEUE_RULES[spelling], item_for(machine, row)
    # Another row that leads there from nowhere keeps the target reachable.
    stub = replace(row, source=machine.start, event="appear", when="")
    lacking = replace(machine, rows=tuple(stub if each == row else each for each in machine.rows))
    changed = QueueRules(lacking, rules.job) if machine.name == "batch" else QueueRules(rules.batch, lacking)
    if row.by is By.STORE:
        assert kinds(fire_row(changed, row, item)) == [FreeItem]
        return
    with pytest.raises((TransitionRefused, QueueRefused)):
        fire_row(changed, row, item)


EFFECTS: dict[Also, tuple[str, Callable[[QueueOutcome[Any]], bool]]] = {
    Also.RECORD_HISTORY: ("finish", lambda outcome: find(outcome, QueueRecord) is not None),
    Also.DROP_OWNER: ("finish", lambda outcome: outcome.result.worker == ""),
    Also.MARK_STEP: ("finish", lambda outcome: outcome.result.last_successful == "downloading"),
    Also.COUNT_RETRY: ("resume", lambda outcome: outcome.result.retry_count == 1),
    Also.COUNT_CRASH: ("reap", lambda outcome: outcome.result.crashes == 1),
    Also.DROP_ENTRY: ("clean", lambda outcome: not find(outcome, ChangeItem).queued),
    Also.DROP_ALL: ("delete", lambda outcome: find(outcome, RemoveItem) is not None),
    Also.DROP_OBJECT_LOCKS: ("force-fail", lambda outcome: find(outcome, ChangeItem).forces),
}  # fmt: skip
SOURCES = {"resume": "failed", "clean": "completed", "delete": "failed"}


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.name)
def test_an_effect_happens_only_where_its_row_names_it(effect: Also) -> None:
    event, happened = EFFECTS[effect]
    source = SOURCES.get(event, "downloading")
    rules = next(each for each in (RULES, QUEUE_RULES["mrt-zk"]) if event in {row.event for row in each.job.rows})
    row = rules.rows(JOB.id, source, event)[0]
    assert effect in row.also
    item = item_for(rules.job, row)
    assert happened(fire_row(rules, row, item))
    without = replace(row, also=row.also & ~effect)
    rows = tuple(without if each == row else each for each in rules.job.rows)
    assert not happened(fire_row(QueueRules(rules.batch, replace(rules.job, rows=rows)), without, item))


def test_every_effect_and_guard_of_the_tables_has_a_case() -> None:
    every = [row for _, _, row in ROWS]
    assert {effect for row in every for effect in row.also} == set(EFFECTS)
    assert {row.by for row in every} == {By.OWNER, By.OPERATOR, By.DAEMON, By.STORE}
    assert {text for row in every for text in (row.when, row.needs) if text} <= set(CONDITIONS)


@pytest.mark.parametrize("by", [By.OPERATOR, By.DAEMON])
def test_only_actors_in_the_row_may_fire_it(by: By) -> None:
    batch = replace(BATCH, state="processing", made=1)
    if by is By.DAEMON:
        assert queue_work.act(seen(batch), batch.id, "report", by, WHY, WHO).result.state == "reporting"
        return
    with pytest.raises(TransitionRefused):
        queue_work.act(seen(batch), batch.id, "report", by, WHY, WHO)


# ------------------------------------------------------------------ conditions


HOLD = Hold("p", "not yet", "ann")
REFUSED: dict[str, tuple[Item, str, By, dict[str, Any], str]] = {
    "its collection is not held": (
        replace(JOB, state="held"), "release", By.OPERATOR, {"hold": HOLD}, "collection p is on hold",
    ),
    "none of its jobs is taken": (
        replace(BATCH, state="failed"), "delete", By.OPERATOR, {"taken_job": "jid0000000009"}, "jid0000000009 is being",
    ),
    "none of its jobs is in processing": (
        replace(BATCH, state="processing", jobs=JobCounts(2)), "report", By.DAEMON, {}, "2 of its jobs",
    ),
    "its batch is processing or failed": (
        replace(JOB, state="failed", last_successful="recording"), "resume", By.OPERATOR, {"batch_state": "reporting"},
        "its batch is reporting",
    ),
}  # fmt: skip


@pytest.mark.parametrize("condition", REFUSED)
def test_the_conditions_of_a_row_are_checked_named_and_guarded(condition: str) -> None:
    item, event, by, facts, why = REFUSED[condition]
    with pytest.raises(QueueRefused, match=why):
        queue_work.act(seen(item, **facts), item.id, event, by, WHY, WHO)
    look = CONDITIONS[condition].looks
    assert look in RULES.looks(item.id, item.state, event)
    well = replace(item, jobs=JobCounts()) if isinstance(item, Batch) else item
    assert queue_work.act(seen(well), item.id, event, by, WHY, WHO).guards is look


def test_every_need_of_the_tables_has_a_case() -> None:
    assert {row.needs for _, _, row in ROWS if row.needs} == set(REFUSED)


def test_an_event_without_conditions_reads_nothing_more() -> None:
    assert RULES.looks(JOB.id, "downloading", "finish") is Look.NOTHING
    assert RULES.looks(BATCH.id, "reporting", "finish") is Look.COUNTS


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (None, "before its first step"),
        ("notify", "its last successful step is notify, after which no job is resumed; submit it again"),
        ("failed", "its last successful step is failed"),  # Merritt's library writes this for a requeued job.
    ],
)
def test_a_job_that_cannot_be_resumed_says_why(step: str | None, why: str) -> None:
    job = replace(JOB, state="failed", last_successful=step)
    with pytest.raises(QueueRefused, match=why):
        queue_work.act(seen(job), job.id, "resume", By.OPERATOR, WHY, WHO)


@pytest.mark.parametrize(("own", "default", "state"), [(2, 5, "held"), (None, 2, "held"), (0, 1, "pending")])
def test_the_crash_limit_is_that_of_the_profile_or_the_store(own: int | None, default: int, state: str) -> None:
    job = replace(JOB, crashes=1, configuration={} if own is None else {"max_crashes": own})
    assert queue_work.reap(seen(job, dead=WORKER, max_crashes=default)).result.state == state  # type: ignore[union-attr]


# ------------------------------------------------------------------ consumers


LOST: dict[str, Callable[[], tuple[QueueSnapshot, Taken]]] = {
    "it no longer exists": lambda: (seen(None), shown(JOB)),
    "it is estimating, not pending": lambda: (seen_taken(replace(JOB, state="estimating")), shown(JOB)),
    f"{WORKER} has taken it": lambda: (seen_taken(JOB), shown(JOB, token=6)),
    "it was released, or its lease expired": lambda: (seen(JOB), shown(JOB)),
    "its session ended": lambda: (seen_taken(JOB, lost="its session ended"), shown(JOB)),
}


@pytest.mark.parametrize("why", LOST)
def test_a_consumer_that_lost_an_item_changes_nothing_and_gets_the_reason(why: str) -> None:
    snapshot, taken = LOST[why]()
    units: list[Callable[[], QueueOutcome[Any]]] = [
        lambda: queue_work.fire(snapshot, taken, "accept", "", Changes()),
        lambda: queue_work.change(snapshot, taken, Changes(priority=1)),
        lambda: queue_work.give_back(snapshot, taken, ""),
    ]
    for unit in units:
        with pytest.raises(ItemLost) as lost:
            unit()
        assert lost.value.why == why


def test_an_item_of_another_principal_needs_an_override() -> None:
    taken = seen_taken(JOB)
    with pytest.raises(NotOwner):
        queue_work.fire(replace(taken, actor=Actor("ann")), shown(JOB), "accept", "", Changes())
    outcome = queue_work.fire(replace(taken, actor=Actor("ann", "he left")), shown(JOB), "accept", "", Changes())
    assert find(outcome, Override) == Override(JOB.id, "local")
    assert find(outcome, QueueRecord).reason == "override: he left"


@pytest.mark.parametrize("step", [0, 1])
def test_a_repeated_report_changes_nothing(step: int) -> None:
    """Whether tokens stay (0) or are versions (1)."""
    moved = queue_work.fire(seen_taken(JOB, token_step=step), shown(JOB), "accept", "", Changes()).result
    assert moved.token == 7 + step
    again = queue_work.fire(seen(moved, token_step=step), shown(JOB), "accept", "", Changes())
    assert (again.result, again.changes) == (moved, ())
    with pytest.raises(ItemLost):
        queue_work.fire(seen(moved, token_step=step), shown(JOB), "fail", "", Changes())
    freed = queue_work.give_back(seen_taken(JOB, token_step=step), shown(JOB), "later").result
    assert (freed.message, freed.worker, freed.state) == ("later", "", "pending")
    assert queue_work.give_back(seen(freed, token_step=step, again=True), shown(JOB), "later").changes == ()


def test_changes_are_written_with_the_event_or_by_themselves() -> None:
    changes = Changes(priority=9, space_needed=3, identifiers=Identifiers("ark:/1"), configuration={"k": 1})
    outcome = queue_work.fire(seen_taken(JOB), shown(JOB), "accept", "", changes)
    job = outcome.result
    assert isinstance(job, IngestJob)
    assert (job.priority, job.space_needed, job.identifiers.primary, job.configuration["k"]) == (9, 3, "ark:/1", 1)
    kept = queue_work.change(seen_taken(JOB), shown(JOB), changes)
    assert (kinds(kept), kept.result.worker) == ([EditItem], WORKER)
    assert queue_work.change(seen_taken(JOB), shown(JOB), Changes()).changes == ()
    reporting = replace(BATCH, state="reporting", made=1)
    report = Report((), ("jid0000000001",))
    done = queue_work.fire(seen_taken(reporting), shown(reporting), "finish", "", Changes(report=report)).result
    assert isinstance(done, Batch)
    assert (done.state, done.report) == ("completed", replace(report, at=NOW))


def test_an_item_is_taken_only_in_a_consumers_state_and_when_it_is_free() -> None:
    outcome = queue_work.take(seen(JOB), "pending", WORKER, 30.0, 8)
    assert kinds(outcome) == [TakeItem]
    assert outcome.result == replace(JOB, worker=WORKER, token=8, lease=30.0, principal="local")
    held = replace(JOB, state="held")
    for snapshot, state in ((seen_taken(JOB), "pending"), (seen(JOB), "estimating"), (seen(held), "held")):
        assert queue_work.take(snapshot, state, WORKER, 30.0, 8).result is None


# ------------------------------------------------------------------ other operations


def test_new_items_follow_their_rows() -> None:
    made = queue_work.submit(RULES, BATCH.id, BATCH.submission, "ann", NOW, Actor())
    assert kinds(made) == [AddBatch, QueueRecord]
    assert (made.result.state, made.result.message) == ("pending", RULES.submit.meaning)
    jobs = [NewJob("https://x/1"), NewJob("https://x/2")]
    half = replace(BATCH, made=1)
    outcome = queue_work.create_jobs(seen_taken(half), shown(half), 0, jobs, "/work")
    added = find(outcome, AddJobs)
    assert (outcome.result, added.jobs, added.state, added.entry.event) == (2, jobs[1:], "pending", "create")
    assert queue_work.create_jobs(seen_taken(half), shown(half), 0, jobs[:1], "/work").changes == ()
    with pytest.raises(BadValue, match="beyond the 1 jobs"):
        queue_work.create_jobs(seen_taken(half), shown(half), 2, jobs, "/work")
    reporting = replace(BATCH, state="reporting")
    with pytest.raises(TransitionRefused):
        queue_work.create_jobs(seen_taken(reporting), shown(reporting), 0, jobs, "/work")


def test_a_priority_changes_while_the_job_is_in_the_queue() -> None:
    outcome = queue_work.set_priority(seen_taken(JOB), JOB.id, 1, "urgent", WHO)
    assert (kinds(outcome), outcome.result.priority) == ([EditItem, QueueRecord], 1)
    assert find(outcome, QueueRecord).reason == "priority 5 to 1: urgent"
    assert queue_work.set_priority(seen(JOB), JOB.id, 5, "", WHO).changes == ()
    with pytest.raises(QueueRefused):
        queue_work.set_priority(seen(replace(JOB, state="cleaned")), JOB.id, 1, "", WHO)
    for item in (None, BATCH):
        with pytest.raises(UnknownName):
            queue_work.set_priority(seen(item), JOB.id, 1, "", WHO)


def test_operations_on_taken_or_missing_items_are_refused() -> None:
    failed = replace(JOB, state="failed")
    with pytest.raises(QueueRefused, match=f"{WORKER} is processing it"):
        queue_work.act(seen_taken(failed), failed.id, "delete", By.OPERATOR, WHY, WHO)
    with pytest.raises(UnknownName):
        queue_work.act(seen(None), failed.id, "delete", By.OPERATOR, WHY, WHO)
    assert queue_work.reap(seen(JOB)).changes == ()


def test_a_fast_path_takes_only_rows_whose_effects_it_has() -> None:
    row = RULES.fast_row(JOB.id, "downloading", "finish")
    assert row is not None
    assert row.target == "processing"
    assert RULES.fast_row(BATCH.id, "pending", "start") is None
    for change in ({"also": row.also & ~Also.RECORD_HISTORY}, {"needs": "its collection is not held"}):
        rows = tuple(replace(each, **change) if each == row else each for each in RULES.job.rows)
        changed = QueueRules(RULES.batch, replace(RULES.job, rows=rows))
        assert changed.fast_row(JOB.id, "downloading", "finish") is None


def test_states_that_stores_query_come_from_the_tables() -> None:
    assert (RULES.reportable, RULES.with_jobs) == (("processing",), ("processing", "failed"))
    assert (RULES.before_jobs, RULES.after_jobs) == (("pending", "held"), ("reporting", "update-reporting"))
    assert RULES.cleaned == {"cleaned": "completed"}
    assert folder_of("cleaned") is Folder.COMPLETED
