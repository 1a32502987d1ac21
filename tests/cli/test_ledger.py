"""The ledger's commands, run like a user runs them."""

import re
from pathlib import Path

import pytest

from tests.cli.commands import Headgate

PIPELINE = """
[dataset.orders_raw]
uri = "postgresql://warehouse/raw"
[dataset.orders_clean]
uri = "s3://bucket/clean"
[dataset.report]
[job.clean]
inputs = ["orders_raw"]
outputs = ["orders_clean"]
max_attempts = 2
[job.clean.environment]
PARAM_REGION = "eu"
[job.report]
inputs = ["orders_clean"]
outputs = ["report"]
"""


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    write(headgate.folder, PIPELINE)
    done = headgate("define", "pipeline.toml")
    assert done.code == 0, done.err
    return headgate


def write(folder: Path, text: str) -> None:
    (folder / "pipeline.toml").write_text(text, encoding="utf-8")


def claim(command: Headgate, job: str = "clean") -> tuple[str, str]:
    """The next chunk: data id and token."""
    done = command("job", "next", job, "--json")
    assert done.code == 0, done.err
    return done.json["dataid"], str(done.json["token"])


def test_define_reports_changes_and_a_repeat_reports_none(headgate: Headgate) -> None:
    write(headgate.folder, PIPELINE)
    first = headgate("define", "pipeline.toml")
    assert first.code == 0
    assert "job clean: new" in first.out
    assert "nobody has published yet" in first.err
    assert headgate("define", "pipeline.toml", "--json").json["changes"] == []
    write(headgate.folder, PIPELINE.replace("max_attempts = 2", "max_attempts = 5"))
    assert headgate("define", "pipeline.toml").out.strip() == "job clean: max_attempts 2 → 5"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("max_attempts = 2", "max_atempts = 2", ["line 10", "did you mean 'max_attempts'"]),
        ("[job.report]", "[jub.report]", ["line 13", "did you mean 'job'"]),
        ('inputs = ["orders_raw"]', 'inputs = "orders_raw"', ["line 8", "not a list"]),
        ('inputs = ["orders_clean"]', 'inputs = ["orders_claen"]', ["orders_claen"]),
        ('uri = "s3', "uri = s3", ["line 5"]),
        ('outputs = ["report"]', 'outputs = ["orders_clean"]', ["could never start"]),
        ("max_attempts = 2", "max_attempts = -2", ["max_attempts -2 of job 'clean' is not a whole number"]),
        ('uri = "s3', 'order = "up"\nuri = "s3', ["order 'up' of dataset 'orders_clean' is"]),
    ],
)
def test_a_typo_is_reported_with_its_line_and_the_nearest_name(
    headgate: Headgate, old: str, new: str, expected: list[str]
) -> None:
    write(headgate.folder, PIPELINE.replace(old, new, 1))
    done = headgate("define", "pipeline.toml")
    assert done.code == 2
    for word in expected:
        assert word in done.err


def test_a_chunk_goes_through_its_life(pipeline: Headgate) -> None:
    assert pipeline("data", "publish", "orders_raw", "2026-11-01..2026-11-03").out.startswith("published  3 chunks")
    dataid, token = claim(pipeline)
    assert dataid == "2026-11-01"
    assert pipeline("job", "heartbeat", "clean", dataid, "--token", token).code == 0
    assert pipeline("job", "success", "clean", dataid, "--token", token).code == 0
    assert pipeline("job", "success", "clean", dataid, "--token", token).code == 0
    assert pipeline("job", "success", "clean", dataid, "--token", "999").code == 76
    second, token = claim(pipeline)
    assert pipeline("job", "fail", "clean", second, "--token", token, "--message", "no space").code == 0
    listed = pipeline("data", "list", "--status", "ERROR", "--json").json["items"]
    assert {(row["dataid"], row["message"]) for row in listed} == {(second, "no space")}
    assert claim(pipeline, "report")[0] == dataid
    told = pipeline("history", "--job", "clean", "--dataid", second, "--json").json["items"]
    assert [(entry["event"], entry["reason"]) for entry in told] == [("fail", "no space"), ("claim", "")]
    assert "no space" in pipeline("history", "--job", "clean").out


def test_nothing_to_do_is_3_and_refused_is_75(pipeline: Headgate) -> None:
    nothing = pipeline("job", "next", "clean")
    assert (nothing.code, nothing.out) == (3, "")
    assert "nothing to do" in nothing.err
    refused = pipeline("job", "next", "clean", "--dataid", "7", "--json")
    assert refused.code == 75
    assert refused.error["error"] == "claim-refused"
    assert "no job has produced it and nobody has published it" in refused.error["detail"]


def test_explain_and_plan_say_why(pipeline: Headgate) -> None:
    pipeline("data", "publish", "orders_raw", "1", "2")
    claim(pipeline)
    explained = pipeline("job", "explain", "clean", "1")
    assert explained.code == 0
    assert explained.out.startswith("clean may not claim 1")
    assert "NO " in explained.out
    assert pipeline("job", "explain", "clean", "2", "--json").json["granted"] is True
    plan = pipeline("job", "plan", "clean", "--json").json
    assert [(each["dataid"], each["granted"]) for each in plan["items"]] == [("2", True), ("1", False)]


def test_chunks_are_listed_page_by_page_and_no_data_id_is_split(pipeline: Headgate) -> None:
    pipeline("data", "publish", "orders_raw", "1", "2", "3")
    for _ in range(2):
        claim(pipeline)
    for words in ([], ["--dataset", "orders_raw"], ["--dataid", "1..3"]):
        whole = pipeline("data", "list", *words, "--json").json
        assert (len(whole["items"]) >= 3, whole["next"]) == (True, None)
        found: list[dict[str, str]] = []
        after: list[str] = []
        while page := pipeline("data", "list", *words, "--limit", "2", *after, "--json").json:
            found += page["items"]
            if page["next"] is None:
                break
            after = ["--after", page["next"]]
        assert [(row["dataset"], row["dataid"], row["kind"]) for row in found] == [
            (row["dataset"], row["dataid"], row["kind"]) for row in whole["items"]
        ]
        assert "continue with: --after" in pipeline("data", "list", *words, "--limit", "2").err
    assert "data id of this range" in pipeline("data", "list", "--dataid", "1..3", "--after", "7").err


def test_support_resubmits_holds_and_forgets(pipeline: Headgate) -> None:
    pipeline("data", "publish", "orders_raw", "1")
    for job in ("clean", "report"):
        dataid, token = claim(pipeline, job)
        pipeline("job", "success", job, dataid, "--token", token)
    words = ("job", "resubmit", "clean", "1", "--reason", "wrong", "--downstream")
    preview = pipeline(*words, "--dry-run", "--json").json["items"]
    assert {(each["job"], each["after"]) for each in preview} >= {("clean", "RESUBMIT"), ("report", "RESUBMIT")}
    assert pipeline(*words, "--json").json == {"items": preview, "next": None}
    assert pipeline("job", "hold", "clean", "1", "--reason", "wait").code == 0
    assert pipeline("job", "next", "clean").code == 3
    assert pipeline("job", "unhold", "clean", "1").code == 0
    assert pipeline("job", "forget", "report", "1", "--reason", "start again").code == 0
    assert pipeline("job", "pause", "clean", "--reason", "disk").code == 0
    assert pipeline("job", "next", "clean").code == 3
    assert pipeline("job", "unpause", "clean").code == 0
    forced = pipeline("job", "force", "clean", "1", "--reason", "now", "--json").json
    assert forced["forced"] is True
    assert pipeline("job", "resubmit", "clean", "1", "--reason", "no").code == 75
    set_by_hand = ("job", "set-status", "orders_clean", "1", "clean", "OUT", "RERUN", "--reason", "bad data")
    assert pipeline(*set_by_hand, "--json").json["items"][0]["after"] == "RESUBMIT"


def test_chunks_are_chosen_by_status_range_and_pattern(pipeline: Headgate) -> None:
    why = ("--reason", "more space")
    pipeline("data", "publish", "orders_raw", "2026-10-30..2026-11-02")
    pipeline("job", "run", "clean", "--loop", "--", "sh", "-c", "test $HEADGATE_DATAID != 2026-10-31")
    preview = pipeline("job", "resubmit", "clean", "--failed", "--dry-run", *why)
    assert preview.out.startswith("would change  1 chunk: 1 clean (selected: 1 ERROR)")
    ranged = pipeline("job", "resubmit", "clean", "2026-10-30..2026-11-02", "--dry-run", *why)
    assert ranged.out.splitlines()[0] == "would change  4 chunks: 4 clean"
    held = pipeline("job", "hold", "clean", "2026-11-*", *why, "--json").json
    assert (held["selected"], held["changed"], held["refused"]) == ({"READY": 2}, {"clean": 2}, 0)
    assert pipeline("job", "unhold", "clean", "*").out.startswith("changed  2 chunks")
    pipeline("job", "force", "clean", "2026-11-01", "--reason", "by hand")
    some = pipeline(
        "job", "resubmit", "clean", "2026-10-31..2026-11-02", "--status", "error", "--status", "running", *why
    )
    assert some.code == 75
    assert "1 of 2 chunks were refused" in some.err
    assert "2026-11-01: a worker is processing it" in some.err
    none = pipeline("job", "resubmit", "clean", "--status", "EROR", *why)
    assert (none.code, none.out) == (3, "no chunks of clean that are EROR; did you mean ERROR?\n")
    bare = pipeline("job", "resubmit", "clean", *why)
    assert (bare.code, "--failed" in bare.err) == (2, True)
    assert pipeline("job", "hold", "clean", "a*", "--exact", *why).code == 0, "a data id of that name"


def test_a_running_chunk_is_listed_with_the_locks(pipeline: Headgate) -> None:
    pipeline("data", "publish", "orders_raw", "1")
    claim(pipeline)
    assert "data:orders_clean/1" in pipeline("lock", "list").out
    refused = pipeline("lock", "acquire", "data:orders_clean/1", "--client", "ann")
    assert refused.code == 75
    assert "job clean runs on it" in refused.err
    assert "lock break" not in refused.err


def test_the_grid_is_readable_without_colours(pipeline: Headgate) -> None:
    pipeline("data", "publish", "orders_raw", "9", "10")
    claim(pipeline)
    lines = pipeline("data", "grid").out.splitlines()
    assert lines[0].split() == ["DATAID", "orders_raw", "orders_clean", "report"]
    assert [line.split() for line in lines[1:3]] == [["9", "#", ">", "."], ["10", "#", ".", "."]]
    assert "> RUNNING" in lines[-1]


def test_chunks_are_published_from_a_file(pipeline: Headgate) -> None:
    (pipeline.folder / "ids.txt").write_text("".join(f"{number}\n" for number in range(12_000)))
    first = pipeline("data", "publish", "orders_raw", "--from-file", "ids.txt", "--json")
    assert first.json == {"dataset": "orders_raw", "published": 12_000, "given": 12_000}
    again = pipeline("data", "publish", "orders_raw", "--from-file", "-", "--json", stdin="5\n12000\n")
    assert again.json["published"] == 1
    assert pipeline("data", "publish", "orders_raw").code == 2
    assert pipeline("data", "publish", "orders_raw", "2024-02-30..2024-03-01").code == 2


def test_an_unknown_name_is_wrong_usage(pipeline: Headgate) -> None:
    for words in (("job", "next", "claen"), ("job", "plan", "claen"), ("data", "publish", "orders_rwa", "1")):
        done = pipeline(*words)
        assert done.code == 2
        assert "Did you mean" in done.err


def test_jobs_and_connections_are_listed(pipeline: Headgate) -> None:
    assert [each["name"] for each in pipeline("job", "list", "--json").json["items"]] == ["clean", "report"]
    found = pipeline("job", "connections", "clean", "--json").json
    assert found["inputs"]["orders_raw"]["uri"] == "postgresql://warehouse/raw"
    assert pipeline("job", "reap", "--json").json == {"reaped": 0}


MONTHLY = """\
[dataset.days]
[dataset.months]
[job.monthly]
inputs = ["days"]
outputs = ["months"]
[job.monthly.maps.days]
kind = "period"
period = "month"
unit = "day"
"""


def test_a_mistake_in_a_mapping_is_shown_with_its_line(headgate: Headgate, tmp_path: Path) -> None:
    for line, (right, wrong, said) in {
        7: ('"period"', '"perod"', "maps.days.kind 'perod' of job monthly in m.toml, line 7, .* did you mean 'period'"),
        9: ("unit", "unti", "maps.days.unti 'day' of job monthly in m.toml, line 9, .* did you mean 'unit'"),
        6: ("maps.days", "maps.dayz", "maps 'dayz' of job monthly in m.toml, line 6, .* did you mean 'days'"),
    }.items():
        (tmp_path / "m.toml").write_text(MONTHLY.replace(right, wrong, 1), encoding="utf-8")
        done = headgate("define", "m.toml")
        assert done.code == 2, line
        assert re.search(said, done.err)


def test_the_delay_of_a_redo_is_written_with_a_unit_and_printed_in_a_form_that_is_accepted(headgate: Headgate) -> None:
    write(headgate.folder, f'{MONTHLY}on_late = "redo"\nlate_delay = "10m"\n')
    assert headgate("define", "pipeline.toml").code == 0
    assert "redone 10 min after a late input" in headgate("job", "show", "monthly").out
    printed = headgate("job", "show", "monthly", "--json").json["maps"]["days"]["late_delay"]
    write(headgate.folder, f'{MONTHLY}on_late = "redo"\nlate_delay = {printed}\n')
    assert headgate("define", "pipeline.toml", "--json").json["changes"] == []


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('maps = "x"', r"maps 'x' of job monthly in m.toml, line 7, is not a table; write \[job.monthly.maps.INPUT\]"),
        ('maps = {days = {kind = "perod"}}', "maps.days.kind 'perod' of job monthly in m.toml, line 7, "),
        ('[job.monthly.maps]\ndays = "all"', "maps.days 'all' of job monthly in m.toml, line 8, is not a table"),
    ],
)
def test_a_mapping_that_is_written_in_another_form_is_found_too(headgate: Headgate, written: str, said: str) -> None:
    text = MONTHLY.partition("[job.monthly.maps")[0].replace("[dataset.days]", "# days\n[dataset.days]")
    write(headgate.folder, text + written)
    done = headgate("define", "pipeline.toml")
    assert done.code == 2
    assert re.search(said.replace("m.toml", "pipeline.toml"), done.err), done.err


@pytest.mark.parametrize(
    ("mapping", "what"),
    [
        ('kind="period",period="month",unit="days"', "maps.days.unit 'days'"),
        ('kind="period",period="month",unit="day",need="al"', "maps.days.need 'al'"),
        ('kind="period",period="month",unt="day"', "maps.days.unt 'day'"),
        ('kind="period",unit="day"', "maps.days {'kind': 'period', 'unit': 'day'}"),
        ('kind="list"', "maps.days.ids None"),
    ],
)
def test_a_mistake_in_a_mapping_on_one_line_is_shown_with_that_line(
    headgate: Headgate, mapping: str, what: str
) -> None:
    table = '[dataset.days]\n[dataset.months]\n[job.monthly]\ninputs=["days"]\noutputs=["months"]\n'
    later = '[job.other]\ninputs=["days"]\nmaps.days={kind="all",need="any"}\n'
    write(headgate.folder, f"{table}maps.days={{{mapping}}}\n{later}")
    done = headgate("define", "pipeline.toml")
    assert done.code == 2
    assert f"{what} of job monthly in pipeline.toml, line 6," in done.err, done.err


def test_a_month_that_was_made_without_a_late_day_says_how_to_make_it_again(headgate: Headgate) -> None:
    write(headgate.folder, f"{MONTHLY}need = 27\n")
    headgate("define", "pipeline.toml")
    headgate("data", "publish", "days", "2026-02-01..2026-02-27")
    assert headgate("job", "run", "monthly", "--", "true").code == 0
    assert "to run it again" not in headgate("job", "explain", "monthly", "2026-02").err
    headgate("data", "publish", "days", "2026-02-28")
    headgate("job", "plan", "monthly")
    done = headgate("job", "explain", "monthly", "2026-02")
    assert "late: days/2026-02-28 arrived or changed" in done.out
    assert "to run it again: headgate job resubmit monthly 2026-02 --reason why" in done.err


def test_data_ids_are_closed_by_name_and_in_ranges(headgate: Headgate) -> None:
    write(headgate.folder, MONTHLY.replace('unit = "day"', 'format = "%Y-%m-%d"'))
    headgate("define", "pipeline.toml")
    headgate("data", "publish", "days", "2026-01-05", "2026-02-06")
    assert "when nothing else arrives: headgate job close monthly DATAID" in headgate("job", "plan", "monthly").err
    assert headgate("job", "close", "monthly", "2026-01").out == "closed  monthly 2026-01\n"
    assert headgate("job", "close", "monthly", "2026-01").out == "closed already  monthly 2026-01\n"
    assert headgate("job", "close", "monthly", "2026-01..2026-03").out == "closed  3 data ids of monthly (1 already)\n"
    assert headgate("job", "run", "monthly", "--loop", "--", "true").code == 0
    items = headgate("job", "close", "monthly", "2026-02", "2026-03", "--reopen", "--json").json["items"]
    assert items[0] == {"job": "monthly", "dataid": "2026-02", "closed": False, "changed": True}
    wrong = headgate("job", "close", "monthly", "2026-13")
    assert (wrong.code, "does not name a month" in wrong.err) == (2, True)


def test_the_grid_shows_how_many_days_of_a_month_are_ready(headgate: Headgate, tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MONTHLY, encoding="utf-8")
    assert headgate("define", "m.toml").code == 0
    assert headgate("data", "publish", "days", "2026-02-01..2026-02-27").code == 0
    assert re.search(r"^2026-02 +27/28 +\.$", headgate("data", "grid").out, re.MULTILINE)
    assert headgate("data", "grid", "--json").json["2026-02"] == {"days": {"ready": 27, "needed": 28}, "months": None}
    shown = headgate("job", "show", "monthly")
    assert re.search(r"^reads days: +every day of the month$", shown.out, re.MULTILINE)
    assert headgate("job", "show", "monthly", "--json").json["maps"]["days"]["unit"] == "day"


def test_late_reports_that_nothing_was_judged_yet(headgate: Headgate) -> None:
    text = '[dataset.raw]\nexpect = { ids = ["1"], from = "2026-01-01" }\n'
    (headgate.folder / "pipeline.toml").write_text(text)
    assert headgate("define", "pipeline.toml").code == 0
    done = headgate("late")
    assert done.out == "nothing was found late so far; what 1 dataset expected by now was not judged yet\n"
    assert "headgate daemon timekeeper" in done.err
    assert headgate("daemon", "timekeeper", "--once").code == 0
    assert "raw/1 was never published" in headgate("late").out
    headgate("data", "publish", "raw", "1")
    assert headgate("daemon", "timekeeper", "--once").code == 0
    done = headgate("late")
    assert (done.out, done.err) == ("nothing is late: 1 dataset with an expectation\n", "")
