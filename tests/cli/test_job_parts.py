"""Commands of jobs that fan out: each lists the data ids that it made in a file."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.commands import Headgate

PIPELINE = """
[dataset.runs]
[dataset."lane-files"]
[dataset.reports]
[job.split]
inputs = ["runs"]
outputs = ["reports"]
fan_out = ["lane-files"]
max_attempts = 1
"""
LIST = 'printf "a\\n\\n b \\r\\na\\n" >"$HEADGATE_OUTPUT_IDS_FILE"'


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "runs", "1..2").code == 0
    return headgate


def rows(command: Headgate, dataset: str) -> dict[str, tuple[str, str]]:
    found: list[dict[str, Any]] = command("data", "list", "--dataset", dataset, "--kind", "OUT", "--json").json["items"]
    return {row["dataid"]: (row["status"], row["message"]) for row in found}


def run(command: Headgate, script: str, *words: str) -> Any:
    return command("job", "run", "split", *words, "--", "sh", "-c", script)


def test_a_command_lists_the_data_ids_that_it_made(pipeline: Headgate) -> None:
    done = run(pipeline, f'test ! -e "$HEADGATE_OUTPUT_LANE_FILES_IDS_FILE" && {LIST}')
    assert (done.code, done.out, done.err) == (0, "", "")
    assert rows(pipeline, "lane-files") == {"a": ("READY", "made from 1"), "b": ("READY", "made from 1")}
    assert rows(pipeline, "reports") == {"1": ("READY", "")}


def test_a_chunk_that_was_made_of_a_part_that_is_no_longer_listed_says_how_to_remove_it(pipeline: Headgate) -> None:
    more = '[dataset.aligned]\n[job.align]\ninputs = ["lane-files"]\noutputs = ["aligned"]\n'
    (pipeline.folder / "pipeline.toml").write_text(PIPELINE + more)
    assert pipeline("define", "pipeline.toml").code == 0
    assert run(pipeline, LIST, "--dataid", "1").code == 0
    assert pipeline("job", "run", "align", "--loop", "--", "true").code == 0
    assert pipeline("job", "resubmit", "split", "1", "--downstream", "--reason", "x").code == 0
    assert run(pipeline, 'echo a >"$HEADGATE_OUTPUT_IDS_FILE"').code == 0
    explained = pipeline("job", "explain", "align", "b")
    assert "made from 1, which no longer lists it" in explained.out
    assert "to remove what it made: headgate job forget align b --reason why" in explained.err
    assert pipeline("job", "forget", "align", "b", "--reason", "x").code == 0
    assert rows(pipeline, "aligned") == {"a": ("RESUBMIT", "x")}


@pytest.mark.parametrize(
    ("script", "why"),
    [("true", "the command did not write the data ids of lane-files to $HEADGATE_OUTPUT_LANE_FILES_IDS_FILE"),
     ('printf "\\377" >"$HEADGATE_OUTPUT_IDS_FILE"', "is not UTF-8: byte 0"),
     ('printf "a/../b\\000" >"$HEADGATE_OUTPUT_IDS_FILE"', "has a control character")],
)  # fmt: skip
def test_a_list_that_cannot_be_read_is_a_failure_with_its_reason(pipeline: Headgate, script: str, why: str) -> None:
    done = run(pipeline, script)
    assert done.code == 1
    assert why in done.err
    (status, message) = rows(pipeline, "reports")["1"]
    assert status == "ERROR"
    assert why in message


def test_a_data_id_of_another_chunk_is_a_failure_with_its_reason(pipeline: Headgate) -> None:
    assert run(pipeline, LIST).code == 0
    done = run(pipeline, LIST)
    assert (done.code, rows(pipeline, "reports")["2"][0]) == (1, "ERROR")
    assert "lane-files/a was made by split from 1" in done.err
    assert "lane-files/a was made by split from 1" in rows(pipeline, "reports")["2"][1]


def test_a_command_that_failed_needs_no_list_and_an_empty_one_is_a_list(pipeline: Headgate) -> None:
    assert run(pipeline, "exit 4").code == 4
    assert rows(pipeline, "reports")["1"] == ("ERROR", "exit code 4")
    assert run(pipeline, ': >"$HEADGATE_OUTPUT_IDS_FILE"').code == 0
    assert rows(pipeline, "lane-files") == {}


def test_a_script_that_claims_by_itself_reports_the_list_from_a_file(pipeline: Headgate) -> None:
    claim = pipeline("job", "next", "split", "--json").json
    assert claim["outputs"]["lane-files"]["dataids"] == []
    report = ("job", "success", "split", "1", "--token", str(claim["token"]))
    refused = pipeline(*report)
    assert refused.code != 0
    assert "--ids-from" in refused.err
    assert "is not of the form DATASET=FILE" in pipeline(*report, "--ids-from", "ids").err
    missing = pipeline(*report, "--ids-from", "lane-files=no-such-file")
    assert missing.code == 2
    assert missing.err == "headgate: ids-from 'no-such-file' cannot be read: No such file or directory\n"
    (pipeline.folder / "ids").write_text("x\ny\n")
    assert pipeline(*report, "--ids-from", "lane-files=ids").code == 0
    assert set(rows(pipeline, "lane-files")) == {"x", "y"}


def test_a_definition_shows_where_a_job_fans_out_to(pipeline: Headgate) -> None:
    assert "fans out to:        lane-files" in pipeline("job", "show", "split").out
    assert "reports, lane-files" in pipeline("job", "list").out
