"""The scenarios of a pipeline: what each job may read and write in turn."""

import json

import pytest

from headgate import ClaimRefused, Gate
from tests.contract.ledger_steps import WHY, claimed, next_id, one_job, status_of, told
from tests.contract.over_http import LEDGER_STORES

pytestmark = pytest.mark.parametrize("kind", LEDGER_STORES)


def test_scenario_1_happy_path(gate: Gate) -> None:
    """The framework looks for a dataid that is READY and not locked, and launches the job with it."""
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = claimed(ledger, "clean")
    assert (claim.dataid, list(claim.inputs), list(claim.outputs)) == ("1", ["raw"], ["tidy"])
    assert status_of(ledger, "tidy", "1", "clean") == "RUNNING"
    assert status_of(ledger, "raw", "1", "clean", "INPUT") == "RUNNING"
    ledger.success(claim)
    assert status_of(ledger, "tidy", "1", "clean") == "READY"
    assert status_of(ledger, "raw", "1", "clean", "INPUT") == "DONE"
    assert next_id(ledger, "clean") is None, "jobA will not run again on the same data"
    assert next_id(ledger, "report") == "1", "downstream jobs are clear to consume its output"


def test_scenario_1_on_failure_the_job_will_run_again_and_downstream_will_not(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.fail(claimed(ledger, "clean"), "no space left")
    assert status_of(ledger, "tidy", "1", "clean") == "ERROR"
    assert status_of(ledger, "raw", "1", "clean", "INPUT") == "ERROR"
    assert next_id(ledger, "report") is None
    assert next_id(ledger, "clean") == "1"


def test_dependent_job_a_second_copy_takes_the_next_one(gate: Gate) -> None:
    """If another JobB is run concurrently it skips this dataid and looks for the next one."""
    ledger = one_job(gate)
    ledger.publish("raw", ["1", "2"])
    assert [next_id(ledger, "clean") for _ in range(3)] == ["1", "2", None]


def test_dependent_job_does_not_read_a_chunk_that_is_being_made(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claim = claimed(ledger, "clean")
    assert next_id(ledger, "report") is None
    with pytest.raises(ClaimRefused, match="tidy/1 of clean is RUNNING"):
        ledger.claim("report", "1")
    ledger.success(claim)
    assert next_id(ledger, "report") == "1"


def test_different_jobs_read_the_same_chunk_at_once(gate: Gate) -> None:
    """The lock is job-local: different jobs are allowed to use it."""
    ledger = one_job(gate)
    ledger.define_job("audit", inputs=["raw"])
    ledger.publish("raw", "1")
    assert (next_id(ledger, "clean"), next_id(ledger, "audit"), next_id(ledger, "audit")) == ("1", "1", None)


def test_scenario_2_job_b_fails_and_runs_again(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "report"), "boom")
    assert status_of(ledger, "tidy", "1", "report", "INPUT") == "ERROR"
    assert status_of(ledger, "rep", "1", "report") == "ERROR"
    assert status_of(ledger, "tidy", "1", "clean") == "READY", "the framework again finds DataA/1 READY"
    again = claimed(ledger, "report")
    assert (again.dataid, again.attempt) == ("1", 2)


def test_scenario_3_previous_job_failed_undetected(gate: Gate) -> None:
    """We set the status row for DataA/1/JobA OUTPUT to RERUN; JobB is in ERROR, its locks need no release."""
    ledger = one_job(gate, max_attempts=1)
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "clean"))
    ledger.fail(claimed(ledger, "report"), "JobA's data was invalid")
    ledger.set_status("tidy", "1", "clean", "OUT", "RERUN", reason="JobA's data was invalid")
    assert status_of(ledger, "tidy", "1", "clean") == "RESUBMIT"
    assert next_id(ledger, "report") is None, "there is a global read lock"
    ledger.success(claimed(ledger, "clean"))
    again = claimed(ledger, "report")
    assert again.dataid == "1", "a new READY of its input starts the counts again"
    ledger.success(again)
    assert status_of(ledger, "rep", "1", "report") == "READY"


def test_find_next_answers_with_one_json(gate: Gate) -> None:
    """All the required data can be returned in a single json string, parsed by a script utility."""
    ledger = gate.ledger
    ledger.define_dataset("raw", uri="postgresql://warehouse/raw", settings={"schema": "staging"})
    ledger.define_dataset("tidy", uri="s3://bucket/tidy")
    ledger.define_job("clean", inputs=["raw"], outputs=["tidy"], environment={"PARAM_REGION": "eu"})
    ledger.publish("raw", "2026-11-01")
    claim = claimed(ledger, "clean")
    assert json.loads(claim.to_json()) == {
        "dataid": "2026-11-01", "job": "clean", "attempt": 1, "token": claim.token, "worker": claim.worker,
        "lease": 60.0, "forced": False, "stop_exit": "interrupt", "environment": {"PARAM_REGION": "eu"},
        "inputs": {"raw": {
            "dataset": "raw", "dataid": "2026-11-01", "uri": "postgresql://warehouse/raw",
            "settings": {"schema": "staging"}, "secrets": {},
        }},
        "outputs": {"tidy": {
            "dataset": "tidy", "dataid": "2026-11-01", "uri": "s3://bucket/tidy", "settings": {}, "secrets": {},
        }},
    }  # fmt: skip


def test_connection_info_without_a_claim(gate: Gate) -> None:
    """Provide connection info for all input and output data."""
    found = one_job(gate).connections("clean")
    assert {name: port.uri for name, port in found["inputs"].items()} == {"raw": "file:///raw"}
    assert {name: port.uri for name, port in found["outputs"].items()} == {"tidy": "file:///tidy"}


def test_find_next_takes_resubmit_first_then_the_smallest(gate: Gate) -> None:
    """Either the minimum of RESUBMIT, or the minimum of all."""
    ledger = one_job(gate)
    ledger.publish("raw", [str(number) for number in range(1, 13)])
    for _ in range(12):
        ledger.success(claimed(ledger, "clean"))
    ledger.publish("raw", ["0"])
    ledger.resubmit("clean", ["11", "9"], reason=WHY)
    assert [next_id(ledger, "clean") for _ in range(4)] == ["9", "11", "0", None]


def test_find_next_goes_in_natural_order(gate: Gate) -> None:
    ledger = one_job(gate)
    ledger.publish("raw", ["10", "9", "1.10", "1.2", "b", "a"])
    assert [next_id(ledger, "clean") for _ in range(6)] == ["1.2", "1.10", "9", "10", "a", "b"]


def test_text_order_is_a_property_of_the_dataset(gate: Gate) -> None:
    ledger = gate.ledger
    ledger.define_dataset("raw", order="text")
    ledger.define_job("mail", inputs=["raw"])
    ledger.publish("raw", ["10", "9", "1"])
    assert [next_id(ledger, "mail") for _ in range(3)] == ["1", "10", "9"]


def test_job_force_is_called_directly_from_support(gate: Gate) -> None:
    """It upserts RUNNING rows and returns the same structure as FindNext."""
    ledger = one_job(gate)
    claim = ledger.force("clean", "7", reason="support said so")
    assert (claim.dataid, claim.forced, list(claim.inputs), list(claim.outputs)) == ("7", True, ["raw"], ["tidy"])
    assert status_of(ledger, "tidy", "7", "clean") == "RUNNING"
    ledger.success(claim)
    assert told(gate, "clean", "7") == [("force", "absent", "RUNNING"), ("success", "RUNNING", "READY")]


def test_a_stale_lock_does_not_block_a_restart(gate: Gate) -> None:
    """If the system crashes before the deletes, they will be stale: leases expire, and resubmit clears them."""
    ledger = one_job(gate)
    ledger.publish("raw", "1")
    claimed(ledger, "clean")
    ledger.resubmit("clean", "1", reason="the machine crashed", steal=True)
    assert status_of(ledger, "raw", "1", "clean", "INPUT") == "absent"
    assert next_id(ledger, "clean") == "1"


def test_a_join_waits_for_all_inputs(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("a", "b", "c", "joined"):
        ledger.define_dataset(name)
    ledger.define_job("join", inputs=["a", "b", "c"], outputs=["joined"])
    ledger.publish("a", ["1", "2"])
    ledger.publish("c", ["2", "1"])
    assert next_id(ledger, "join") is None
    ledger.publish("b", "2")
    assert (next_id(ledger, "join"), next_id(ledger, "join")) == ("2", None)


def test_several_outputs_move_together(gate: Gate) -> None:
    ledger = gate.ledger
    for name in ("raw", "x", "y"):
        ledger.define_dataset(name)
    ledger.define_job("split", inputs=["raw"], outputs=["x", "y"])
    ledger.publish("raw", "1")
    claim = claimed(ledger, "split")
    assert {status_of(ledger, name, "1", "split") for name in "xy"} == {"RUNNING"}
    ledger.success(claim)
    assert {status_of(ledger, name, "1", "split") for name in "xy"} == {"READY"}


def test_a_job_without_outputs_cannot_run_twice(gate: Gate) -> None:
    ledger = gate.ledger
    ledger.define_dataset("raw")
    ledger.define_job("mail", inputs=["raw"])
    ledger.publish("raw", "1")
    ledger.success(claimed(ledger, "mail"))
    assert next_id(ledger, "mail") is None
    ledger.resubmit("mail", "1", reason=WHY)
    assert next_id(ledger, "mail") == "1"


def test_a_job_without_inputs_is_claimed_by_its_dataid(gate: Gate) -> None:
    ledger = gate.ledger
    ledger.define_dataset("raw")
    ledger.define_job("fetch", outputs=["raw"])
    assert next_id(ledger, "fetch") is None
    claim = ledger.claim("fetch", "2026-11-01")
    with pytest.raises(ClaimRefused):
        ledger.claim("fetch", "2026-11-01")
    ledger.fail(claim, "404")
    assert next_id(ledger, "fetch") == "2026-11-01", "find_next offers its retryable chunks"
