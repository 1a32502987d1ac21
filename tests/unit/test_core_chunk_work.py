"""Units of work for chunks: every row of the table decides, with each of its effects and its guard."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import ClaimLost, ClaimRefused, NotOwner, TransitionRefused, UnknownName
from headgate.core.access.owners import Actor
from headgate.core.ledger import work as chunk_work
from headgate.core.ledger.mappings.model import InputMap, MapKind, OnLate
from headgate.core.ledger.model import EXTERNAL, Job, Kind, OnFailure, Row
from headgate.core.ledger.rules import CHUNK_RULES, CLAIM_TABLE, ChunkRules
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot
from headgate.core.ledger.sources import source_set
from headgate.core.ledger.verdicts import Answer
from headgate.core.tables.machine import Also, By, Transition
from headgate.core.tables.states import CHUNK

JOB = Job("clean", ("raw",), ("tidy",), max_attempts=9, max_crashes=9)
READY_INPUT = Row("raw", "1", EXTERNAL, Kind.OUTPUT, "READY", token=5)
TOKEN = 7
WORDS = {"other": "lunch", "absent": ""}
#: What a `when` of the table requires of the job and of the row before.
POLICIES: dict[str, dict[str, Any]] = {
    "on_failure is rerun, and max_attempts is reached": {"max_attempts": 2},
    "on_failure is hold": {"on_failure": OnFailure.HOLD},
    "max_crashes workers crashed on it": {"max_crashes": 2},
    "max_interruptions workers were stopped on it": {"max_interruptions": 2},
}
#: A job without outputs does it again.
AGAIN, NOW = "it was done longer ago than recur", datetime(2026, 11, 14, tzinfo=UTC)
BEFORE = {
    "it was HOLD before the claim": "HOLD",
    "it was PENDING before the claim": "PENDING",
    "it had an unknown status before the claim": "lunch",
}
Unit = Callable[[ChunkSnapshot], ChunkOutcome[Any]]
UNITS: dict[str, Unit] = {
    "publish": lambda seen: chunk_work.publish(seen, "ann"),
    "claim": lambda seen: chunk_work.claim(seen, "ann", 60.0),
    "success": lambda seen: chunk_work.succeed(seen, TOKEN, "ann"),
    "fail": lambda seen: chunk_work.fail(seen, TOKEN, "no", "ann"),
    "interrupt": lambda seen: chunk_work.interrupt(seen, TOKEN, "SIGTERM", "ann"),
    "reap": lambda seen: chunk_work.reap(seen, "ann"),
    "force": lambda seen: chunk_work.force(seen, "ann", 60.0, "why", steal=True),
    "resubmit": lambda seen: chunk_work.resubmit(seen, "why", "ann", steal=True),
    "hold": lambda seen: chunk_work.hold(seen, "why", "ann"),
    "unhold": lambda seen: chunk_work.unhold(seen, "why", "ann"),
    "forget": lambda seen: chunk_work.forget(seen, "why", "ann", steal=True),
    "late": lambda seen: chunk_work.arrive(seen, {("raw", "1")}, "ann"),
}
ROWS = pytest.mark.parametrize("row", CHUNK.rows, ids=lambda row: row.name)


def chunk(
    state: str, *, event: str = "", when: str = "", former: str = "", job: Job = JOB, **more: Any
) -> ChunkSnapshot:
    """A chunk in a state, with a value in every counter, and a row for its job's input."""
    job = replace(job, **POLICIES.get(when, {}))
    if event == "publish":
        job = Job(EXTERNAL, (), ("tidy",))
    if state == "absent":
        return ChunkSnapshot(job, "1", (READY_INPUT,), **more)
    left = (-1.0 if event == "reap" else 30.0) if state == "RUNNING" else None
    output = Row(
        "tidy", "1", job.name, Kind.OUTPUT, WORDS.get(state, state), former or BEFORE.get(when, ""), attempt=2,
        failures=1, crashes=1, interruptions=1, token=TOKEN, worker="ann", expires_in=left,
    )  # fmt: skip
    if event == "late":
        late = InputMap(MapKind.ALL, on_late=OnLate.REDO if "redo" in when else OnLate.NOTE)
        job = replace(job, maps={"raw": late})
        more["sources"] = {"raw": source_set("raw", late, job.name, "1", [READY_INPUT], closed=False, most=9)}
    if when == AGAIN:
        job = replace(job, outputs=(), recur=1.0)
        done = replace(output, dataset="raw", kind=Kind.INPUT, status="DONE", since=NOW - timedelta(seconds=1))
        return ChunkSnapshot(job, "1", (READY_INPUT, done), at=NOW, **more)
    given = replace(output, dataset="raw", kind=Kind.INPUT, status="RUNNING" if state == "RUNNING" else "ERROR")
    return ChunkSnapshot(job, "1", (READY_INPUT, output, given), **more)


def setting(row: Transition) -> tuple[ChunkSnapshot, Unit]:
    """A chunk to which a row of the table applies, and the command that fires it."""
    former = WORDS.get(row.target, row.target) if row.event == "unhold" else ""
    seen = chunk(row.source, event=row.event, when=row.when, former=former)
    if row.event == "set_status":
        wanted = Row("tidy", "1", "clean", Kind.OUTPUT, WORDS.get(row.target, row.target))
        return seen, lambda seen: chunk_work.set_status(seen, wanted, "why", "ann")
    if "made from" in row.when:
        return seen, lambda seen: chunk_work.resubmit(seen, "why", "ann", named=False)
    return seen, UNITS[row.event]


def effects(seen: ChunkSnapshot, outcome: ChunkOutcome[Any]) -> Also:
    """The other changes."""
    blank = Row("tidy", "1", "clean", Kind.OUTPUT, "absent")
    before, after = (each.speaker or blank for each in (seen, outcome.snapshot))
    found = Also.RECORD_HISTORY if outcome.records else Also.NOTHING
    if after.status != "absent":
        found |= Also.NEW_TOKEN if after.token < 0 else Also.NOTHING
        found |= {1: Also.COUNT_ATTEMPT, -1: Also.RESTORE_ATTEMPT}.get(after.attempt - before.attempt, Also.NOTHING)
        for count, effect in (
            ("failures", Also.COUNT_FAILURE), ("crashes", Also.COUNT_CRASH),
            ("interruptions", Also.COUNT_INTERRUPTION),
        ):  # fmt: skip
            found |= effect if getattr(after, count) == getattr(before, count) + 1 else Also.NOTHING
        if before.failures and not (after.failures or after.crashes or after.interruptions):
            found |= Also.CLEAR_COUNTS
    for each in outcome.incidents:
        found |= Also.OPEN_INCIDENT if each.kind else Also.CLOSE_INCIDENT
    had, has = (each.own(Kind.INPUT, "raw") for each in (seen, outcome.snapshot))
    return found | Also.CLEAR_INPUTS if had and not has else found


def with_row(row: Transition, **changes: Any) -> ChunkRules:
    """The rules with a changed row."""
    rows = tuple(replace(each, **changes) if each is row else each for each in CHUNK.rows)
    return replace(CHUNK_RULES, machine=replace(CHUNK, rows=rows))


def without(row: Transition) -> ChunkRules:
    """The rules without a row. All states must stay reachable, so the row is removed after the check."""
    machine = replace(CHUNK)
    object.__setattr__(machine, "rows", tuple(each for each in CHUNK.rows if each is not row))
    return replace(CHUNK_RULES, machine=machine)


# ------------------------------------------------------------------ the tables are executed


@ROWS
def test_a_row_leads_to_its_target_and_has_exactly_its_effects(row: Transition) -> None:
    seen, unit = setting(row)
    outcome = unit(seen)
    target = "lunch" if row.target == "other" else row.target
    assert (outcome.snapshot.status, effects(seen, outcome)) == (target, row.also)
    assert [each.event for each in outcome.records] == [row.event] * (Also.RECORD_HISTORY in row.also)


@ROWS
def test_without_its_row_an_event_is_refused_or_the_next_row_applies(row: Transition) -> None:
    seen, unit = setting(row)
    less = replace(seen, rules=without(row))
    if row.by is By.STORE:
        assert not unit(less).changed
    elif row.when in BEFORE:
        assert unit(less).snapshot.status == "RESUBMIT"
    else:
        with pytest.raises((TransitionRefused, ClaimRefused)):
            unit(less)


@ROWS
def test_an_effect_that_is_removed_from_a_row_does_not_happen(row: Transition) -> None:
    seen, unit = setting(row)
    for effect in row.also:
        less = replace(seen, rules=with_row(row, also=row.also & ~effect))
        assert effects(seen, unit(less)) == row.also & ~effect


@pytest.mark.parametrize(
    ("event", "target"),
    [("success", "PENDING"), ("fail", "HOLD"), ("claim", "PENDING"), ("hold", "PENDING"), ("resubmit", "ERROR")],
)
def test_a_row_with_another_target_leads_there(event: str, target: str) -> None:
    row = next(each for each in CHUNK.rows if each.event == event and each.target != target)
    seen, unit = setting(row)
    outcome = unit(replace(seen, rules=with_row(row, target=target)))
    assert outcome.snapshot.status == target
    assert outcome.records[-1].after == target
    assert outcome.ready == frozenset()


# ------------------------------------------------------------------ guards


def row_of(state: str, event: str) -> Transition:
    return CHUNK.find(state, event)[0]


def test_a_worker_reports_by_its_token() -> None:
    for event in ("success", "fail", "interrupt"):
        stale = chunk("RUNNING")
        rows = tuple(replace(each, token=8) if each.job == "clean" else each for each in stale.rows)
        with pytest.raises(ClaimLost, match="the newest claim has token 8"):
            UNITS[event](replace(stale, rows=rows))
        with pytest.raises(ClaimLost, match="there is no such claim"):
            UNITS[event](chunk("absent"))
        with pytest.raises(ClaimLost, match="it is not running: it is PENDING"):
            UNITS[event](chunk("PENDING")) if event != "interrupt" else UNITS["success"](chunk("PENDING"))


def test_where_the_store_is_the_guard_a_worker_reports_only_expired_claims() -> None:
    row = row_of("RUNNING", "success")
    rules = with_row(row, by=By.STORE)
    with pytest.raises(ClaimLost, match="its lease has not expired"):
        UNITS["success"](chunk("RUNNING", rules=rules))
    assert UNITS["success"](chunk("RUNNING", event="reap", rules=rules)).snapshot.status == "READY"


def test_only_the_owner_reports_and_an_override_is_noted() -> None:
    seen = chunk("RUNNING")
    rows = tuple(replace(each, principal="ann") for each in seen.rows)
    with pytest.raises(NotOwner):
        UNITS["success"](replace(seen, rows=rows, actor=Actor("bob")))
    outcome = UNITS["success"](replace(seen, rows=rows, actor=Actor("bob", "ann left")))
    assert [each.owner for each in outcome.overrides] == ["ann"]
    assert outcome.records[0].reason == "override: ann left"


def test_a_living_worker_keeps_its_claim_unless_an_operator_steals_it() -> None:
    seen = chunk("RUNNING")
    for unit in (
        lambda seen: chunk_work.force(seen, "bob", 60.0, "why", steal=False),
        lambda seen: chunk_work.resubmit(seen, "why", "bob"),
        lambda seen: chunk_work.forget(seen, "why", "bob"),
        UNITS["hold"],
    ):
        with pytest.raises(ClaimRefused, match="a worker is processing it"):
            unit(seen)
    for event in ("force", "resubmit", "forget"):
        rules = with_row(row_of("RUNNING", event), by=By.CLIENT)
        with pytest.raises(ClaimRefused, match="a worker is processing it"):
            UNITS[event](replace(seen, rules=rules))


def test_only_commands_that_can_steal_advise_to_steal() -> None:
    seen = chunk("RUNNING")
    with pytest.raises(ClaimRefused, match="Wait for it, or override its claim with steal"):
        chunk_work.resubmit(seen, "why", "ann")
    with pytest.raises(ClaimRefused, match=r"Wait for it$"):
        chunk_work.hold(seen, "why", "ann")


def test_a_claim_that_only_an_operator_may_make_is_refused() -> None:
    rules = with_row(row_of("absent", "claim"), by=By.OPERATOR)
    with pytest.raises(ClaimRefused, match="a chunk that is absent cannot be claimed"):
        UNITS["claim"](chunk("absent", rules=rules))


def test_a_living_claim_is_not_reaped() -> None:
    assert not UNITS["reap"](chunk("RUNNING")).changed
    rules = with_row(next(row for row in CHUNK.rows if row.event == "reap"), by=By.OPERATOR)
    assert not UNITS["reap"](chunk("RUNNING", event="reap", rules=rules)).changed


# ------------------------------------------------------------------ cells


@pytest.mark.parametrize("event", ["claim", "find_next"])
def test_a_changed_cell_decides(event: str) -> None:
    table = {**CLAIM_TABLE, "absent": (Answer.NO, *CLAIM_TABLE["absent"][1:])}
    seen = chunk("absent", rules=replace(CHUNK_RULES, table=table))
    if event == "claim":
        with pytest.raises(ClaimRefused, match="it was never claimed"):
            UNITS["claim"](seen)
    else:
        outcome = chunk_work.claim_next(seen, "ann", 60.0)
        assert (outcome.result, outcome.candidate, outcome.changed) == (False, None, True)


# ------------------------------------------------------------------ beyond the tables


def test_reporting_the_same_twice_changes_nothing() -> None:
    ended = {"success": "READY", "fail": "ERROR", "interrupt": "RESUBMIT"}
    for event, state in ended.items():
        seen = chunk(state)
        assert not UNITS[event](seen).changed
        other = next(each for each in ended if each != event)
        with pytest.raises(ClaimLost, match=f"it is not running: it is {state}"):
            UNITS[other](seen)


def test_failures_and_crashes_are_counted_separately_and_delay_the_next_attempt() -> None:
    slow = replace(JOB, retry_delay=10.0)
    failed = UNITS["fail"](chunk("RUNNING", job=slow)).snapshot.speaker
    died = UNITS["reap"](chunk("RUNNING", job=slow, event="reap")).snapshot.speaker
    assert failed
    assert died
    assert (failed.failures, failed.crashes, failed.retry_in) == (2, 1, 40.0)
    assert (died.failures, died.crashes, died.retry_in) == (1, 2, 40.0)


def test_chunks_held_automatically_return_to_error_or_resubmit() -> None:
    held = {"fail": "on_failure is hold", "reap": "max_crashes workers crashed on it"}
    formers = [UNITS[event](chunk("RUNNING", event=event, when=when)).snapshot.speaker for event, when in held.items()]
    assert [(each.status, each.former) for each in formers if each] == [("HOLD", "ERROR")] * 2
    row = UNITS["interrupt"](chunk("RUNNING", when="max_interruptions workers were stopped on it")).snapshot.speaker
    assert row
    assert (row.status, row.former) == ("HOLD", "RESUBMIT")
    assert row.message == "SIGTERM; held after 2 interruptions (max_interruptions is 2)"


def test_a_job_that_makes_nothing_has_its_status_on_its_inputs() -> None:
    sink = Job("mail", ("raw",))
    run = chunk_work.claim(ChunkSnapshot(sink, "1", (READY_INPUT,)), "ann", 60.0).snapshot
    assert [(row.kind, row.status) for row in run.owned()] == [(Kind.INPUT, "RUNNING")]
    run = replace(run, rows=tuple(replace(row, token=TOKEN) for row in run.rows))
    assert UNITS["success"](run).snapshot.status == "DONE"
    assert UNITS["interrupt"](run).snapshot.owned() == ()
    assert UNITS["resubmit"](UNITS["fail"](run).snapshot).snapshot.owned() == ()


def test_readers_are_notified_of_chunks_that_are_ready_or_no_longer_ready() -> None:
    assert UNITS["success"](chunk("RUNNING")).ready == {"tidy"}
    assert UNITS["resubmit"](chunk("READY")).unready == {"tidy"}
    candidate = UNITS["resubmit"](chunk("READY")).candidate
    assert candidate
    assert (candidate.place, candidate.missing) == (0, 0)


def test_a_resubmission_that_happened_already_is_not_recorded_twice() -> None:
    done = UNITS["resubmit"](chunk("READY")).snapshot
    assert not UNITS["resubmit"](replace(done, again=True)).changed
    assert chunk_work.resubmit(replace(done, again=True), "another reason", "ann").changed


def test_holding_an_expired_claim_is_recorded_with_the_token_of_its_reaping() -> None:
    seen = chunk("RUNNING", event="reap")
    earlier = tuple(replace(row, status="DONE") if row.kind is Kind.INPUT else row for row in seen.rows)
    reaped, held = chunk_work.hold(replace(seen, rows=earlier), "why", "ann").records
    assert (reaped.event, held.event) == ("reap", "hold")
    assert held.token == reaped.token != TOKEN


def test_a_chunk_without_rows_can_be_held_only() -> None:
    for event in ("resubmit", "forget"):
        with pytest.raises(UnknownName):
            UNITS[event](chunk("absent"))
    with pytest.raises(TransitionRefused):
        UNITS["unhold"](chunk("absent"))
    assert not chunk_work.resubmit(chunk("absent"), "why", "ann", named=False).changed
    with pytest.raises(ClaimRefused, match="is produced by job clean"):
        chunk_work.publish(ChunkSnapshot(Job(EXTERNAL, (), ("tidy",)), "1", chunk("READY").rows), "ann")


def test_a_heartbeat_says_why_it_is_refused() -> None:
    assert "its lease expired" in str(chunk_work.refuse_heartbeat(chunk("RUNNING", event="reap"), TOKEN))
    with pytest.raises(ClaimLost, match="it is not running: it is READY"):
        chunk_work.refuse_heartbeat(chunk("READY"), TOKEN)
