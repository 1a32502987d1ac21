"""The claim table, cell by cell, and the other conditions that block a claim."""

from datetime import UTC, datetime
from itertools import product

import pytest

from headgate import BadValue, Lock, Mode, UnknownName
from headgate.core.ledger.claims import input_state, may_claim, missing_inputs, output_state, own_answer, retry_delay
from headgate.core.ledger.model import Job, Kind, Row
from headgate.core.ledger.parsing import parse_kind, parse_status
from headgate.core.ledger.pipeline import check_beside, check_job, differences, warnings_for
from headgate.core.ledger.rules import CHUNK_RULES, CLAIM_TABLE, INPUT_STATES
from headgate.core.ledger.snapshot import ChunkSnapshot
from headgate.core.ledger.verdicts import Answer

JOB = Job("clean", ("raw",), ("tidy",))
READY_INPUT = Row("raw", "1", "external", Kind.OUTPUT, "READY")
NOW = datetime(2026, 11, 15, tzinfo=UTC)

#: The table of the rules again, as drawn on its page.
DRAWN = """
absent            | yes   no no*  no    yes   no
RUNNING, alive    | no    no no   no    no    no
RUNNING, expired  | retry no retry no   retry no
READY             | no    no no   no    no    no
ERROR             | retry no retry no   retry no
RESUBMIT          | first no first first first first
other             | no    no no   no    no    no
""".replace("no*", "yes")


def row(kind: Kind, state: str, **more: object) -> Row | None:
    """A row in that state of the table."""
    status, _, life = state.partition(", ")
    if status == "absent":
        return None
    dataset = "raw" if kind is Kind.INPUT else "tidy"
    expires = {"alive": 30.0, "expired": -1.0}.get(life)
    word = "HOLD" if status == "other" else status
    return Row(dataset, "1", "clean", kind, word, expires_in=expires, **more)  # type: ignore[arg-type]


def chunk(output: str = "absent", given: str = "absent", job: Job = JOB, **more: object) -> ChunkSnapshot:
    found = [READY_INPUT, row(Kind.OUTPUT, output), row(Kind.INPUT, given)]
    return ChunkSnapshot(job, "1", tuple(each for each in found if each), **more)  # type: ignore[arg-type]


def test_the_table_is_the_one_that_the_rules_draw() -> None:
    drawn = {
        name.strip(): tuple(Answer(word) for word in words.split())
        for name, _, words in (line.partition("|") for line in DRAWN.strip().splitlines())
    }
    assert drawn == CLAIM_TABLE


@pytest.mark.parametrize(("output", "given"), list(product(CLAIM_TABLE, INPUT_STATES)))
def test_each_cell_decides(output: str, given: str) -> None:
    expected = CHUNK_RULES.cell(output, given)
    verdict = may_claim(chunk(output, given))
    assert verdict.granted == (expected is not Answer.NO)
    assert verdict.first == (expected is Answer.FIRST)
    assert (output_state(row(Kind.OUTPUT, output)), input_state(row(Kind.INPUT, given))) == (output, given)


@pytest.mark.parametrize("status", ["PENDING", "HOLD", "DONE", "lunch"])
def test_any_other_word_blocks_like_hold(status: str) -> None:
    assert output_state(Row("tidy", "1", "clean", Kind.OUTPUT, status)) == "other"


@pytest.mark.parametrize("status", ["RUNNING", "ERROR", "RESUBMIT", "HOLD", "PENDING", "lunch"])
def test_an_input_that_is_not_ready_blocks(status: str) -> None:
    rows = (Row("raw", "1", "external", Kind.OUTPUT, status),)
    assert [each.name for each in may_claim(ChunkSnapshot(JOB, "1", rows)).blockers] == ["input"]


def test_a_missing_input_blocks() -> None:
    verdict = may_claim(ChunkSnapshot(JOB, "1"))
    assert not verdict.granted
    assert "no job has produced it and nobody has published it" in verdict.sentence()


def test_a_join_lists_the_inputs_that_are_not_ready() -> None:
    join = Job("join", ("a", "raw", "b"), ("c",))
    assert missing_inputs(ChunkSnapshot(join, "1", (READY_INPUT,))) == 0b101


def test_of_several_outputs_the_most_blocking_one_decides() -> None:
    job = Job("two", ("raw",), ("x", "y"))
    rows = (READY_INPUT, Row("x", "1", "two", Kind.OUTPUT, "ERROR"), Row("y", "1", "two", Kind.OUTPUT, "READY"))
    assert not may_claim(ChunkSnapshot(job, "1", rows)).granted
    assert may_claim(ChunkSnapshot(job, "1", rows[:2])).granted


def test_an_output_of_another_job_blocks() -> None:
    other = Row("tidy", "1", "external", Kind.OUTPUT, "ERROR")
    assert [each.name for each in may_claim(ChunkSnapshot(JOB, "1", (READY_INPUT, other))).blockers] == ["owner"]


def test_a_job_that_reads_the_output_now_blocks() -> None:
    reader = Row("tidy", "1", "report", Kind.INPUT, "RUNNING", expires_in=5)
    found = may_claim(ChunkSnapshot(JOB, "1", (READY_INPUT, reader)))
    assert [each.name for each in found.blockers] == ["reader"]
    dead = Row("tidy", "1", "report", Kind.INPUT, "RUNNING", expires_in=-5)
    assert may_claim(ChunkSnapshot(JOB, "1", (READY_INPUT, dead))).granted


@pytest.mark.parametrize(
    ("resource", "mode", "granted"),
    [
        ("data:tidy/1", Mode.SHARED, False),
        ("data:tidy/1", Mode.EXCLUSIVE, False),
        ("data:raw/1", Mode.SHARED, True),
        ("data:raw/1", Mode.EXCLUSIVE, False),
        ("data:raw/2", Mode.EXCLUSIVE, True),
    ],
)
def test_an_output_is_written_and_an_input_is_read(resource: str, mode: Mode, granted: bool) -> None:
    lock = Lock("id", resource, "ann", mode, 1, NOW)
    assert may_claim(chunk(locks=(lock,))).granted is granted


def test_a_paused_job_claims_nothing() -> None:
    verdict = may_claim(chunk(job=Job("clean", ("raw",), ("tidy",), paused="disk is full")))
    assert [each.text for each in verdict.blockers] == ["the job is paused: disk is full"]


# ------------------------------------------------------------------ the retry policy


def tried(job: Job, **counts: object) -> ChunkSnapshot:
    failed = row(Kind.OUTPUT, "ERROR", **counts)
    assert failed
    return ChunkSnapshot(job, "1", (READY_INPUT, failed))


def test_a_chunk_without_attempts_left_stays_error_and_says_so() -> None:
    assert may_claim(tried(JOB, failures=2)).granted
    verdict = may_claim(tried(JOB, failures=3))
    assert "it used up its attempts (3 of 3 failed)" in verdict.sentence()
    assert own_answer(tried(JOB, failures=3)) is Answer.NO


def test_zero_means_no_limit() -> None:
    endless = Job("clean", ("raw",), ("tidy",), max_attempts=0, max_crashes=0)
    assert may_claim(tried(endless, failures=10**6, crashes=10**6)).granted


def test_a_delay_blocks_until_it_is_over() -> None:
    assert not may_claim(tried(JOB, failures=1, retry_in=3.0)).granted
    assert may_claim(tried(JOB, failures=1, retry_in=-0.1)).granted
    assert own_answer(tried(JOB, failures=1, retry_in=3.0)) is Answer.RETRY


def test_an_expired_claim_counts_as_a_crash() -> None:
    dying = row(Kind.OUTPUT, "RUNNING, expired", crashes=2)
    assert dying
    assert not may_claim(ChunkSnapshot(JOB, "1", (READY_INPUT, dying))).granted


def test_interruptions_of_a_chunk_whose_worker_died_are_not_failures() -> None:
    dead = row(Kind.OUTPUT, "RUNNING, expired", interruptions=2)
    assert dead
    conditions = may_claim(ChunkSnapshot(JOB, "1", (READY_INPUT, dead))).conditions
    assert {each.name: each.failed for each in conditions if each.row == dead} == {
        "table": True,
        "interruptions": False,
    }


def test_a_job_without_outputs_has_its_counts_on_its_inputs() -> None:
    sink = Job("mail", ("raw",))
    failed = Row("raw", "1", "mail", Kind.INPUT, "ERROR", failures=3)
    assert not may_claim(ChunkSnapshot(sink, "1", (READY_INPUT, failed))).granted


def test_the_delay_grows() -> None:
    slow = Job("clean", ("raw",), ("tidy",), retry_delay=10)
    assert [retry_delay(slow, tries) for tries in (1, 2, 3)] == [10, 20, 40]
    assert retry_delay(slow, 10_000) == 30 * 86_400


# ------------------------------------------------------------------ words and definitions


def test_failed_is_error_and_rerun_is_resubmit_in_any_case() -> None:
    assert [parse_status(word) for word in ("failed", "Rerun", "ready", "lunch")] == [
        "ERROR", "RESUBMIT", "READY", "lunch",
    ]  # fmt: skip
    assert [parse_kind(word) for word in ("in", "OUT", "Input")] == [Kind.INPUT, Kind.OUTPUT, Kind.INPUT]
    for wrong in ("", " ", "a/b", "x" * 41, "a\nb", 7):
        with pytest.raises(BadValue):
            parse_status(wrong)
    with pytest.raises(BadValue, match="not one of INPUT, IN, OUTPUT"):
        parse_kind("sideways")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job("j", ("a",), ("a",)), "could never start"),
        (Job("j", ("a", "a"), ("b",)), "named twice"),
        (Job("j"), "neither inputs nor outputs"),
        (Job("external", ("a",)), "choose another"),
        (Job("j", tuple(f"d{n}" for n in range(61))), "too many"),
        (Job("j", ("a/b",)), "slash"),
    ],
)
def test_an_impossible_job_is_refused(job: Job, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        check_job(job)


def test_a_dataset_has_one_producer() -> None:
    with pytest.raises(BadValue, match="is already produced by job 'first'"):
        check_beside(Job("second", (), ("a",)), ["a"], [Job("first", (), ("a",))])
    check_beside(Job("first", (), ("a",)), ["a"], [Job("first", (), ("a",))])
    with pytest.raises(UnknownName, match="there is no dataset 'b'"):
        check_beside(Job("second", ("b",)), ["a"], [])


def test_a_job_that_can_never_start_is_reported() -> None:
    ring = [Job("one", ("a",), ("b",)), Job("two", ("b",), ("a",))]
    assert any("can never start: one → two → one" in line for line in warnings_for(ring, {}))
    assert not warnings_for(ring, {"a": ["1"]})
    assert "which no job produces and nobody has published yet" in warnings_for([Job("one", ("x",))], {})[0]
    assert not warnings_for([Job("one", ("x",)), Job("make", (), ("x",))], {})


def test_a_long_pipeline_is_walked() -> None:
    chain = [Job(f"j{n}", (f"d{n}",), (f"d{n + 1}",)) for n in range(5000)]
    assert warnings_for(chain, {"d0": ["1"]}) == []


def test_a_definition_says_what_it_changes() -> None:
    assert differences(None, JOB) == ["job clean: new"]
    assert differences(JOB, JOB) == []
    assert differences(JOB, Job("clean", ("raw", "more"), ("tidy",))) == ["job clean: inputs raw → raw, more"]


def test_a_chunk_that_was_never_claimed_is_reported_once() -> None:
    job = Job("join", ("raw", "rates"), ("joined", "left"))
    verdict = may_claim(ChunkSnapshot(job, "1"))
    assert [each.text for each in verdict.conditions if each.name == "table"] == ["it was never claimed"]


def test_an_input_that_was_never_claimed_is_named() -> None:
    """A job without outputs that now reads one dataset more."""
    done = Row("raw", "1", "join", Kind.INPUT, "DONE")
    texts = [each.text for each in may_claim(ChunkSnapshot(Job("join", ("raw", "rates"), ()), "1", (done,))).conditions]
    assert texts[-2:] == [done.sentence(), "rates/1 was never claimed"]
