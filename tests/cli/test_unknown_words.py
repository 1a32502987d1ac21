"""Unknown words are errors that suggest the intended one, and ranges mean the same in every command."""

import pytest

from headgate import connect
from tests.cli.commands import Headgate
from tests.cli.terminal import typed

PIPELINE = '[dataset.raw]\n[dataset.tidy]\n[job.clean]\ninputs = ["raw"]\noutputs = ["tidy"]\n'
WHY = ("--reason", "a test")


@pytest.fixture
def pipeline(headgate: Headgate) -> Headgate:
    (headgate.folder / "pipeline.toml").write_text(PIPELINE)
    assert headgate("define", "pipeline.toml").code == 0
    assert headgate("data", "publish", "raw", "1..3").code == 0
    return headgate


def statuses(command: Headgate) -> dict[str, str]:
    """The chunks that `clean` makes."""
    return {
        row["dataid"]: row["status"] for row in command("data", "list", "--dataset", "tidy", "--json").json["items"]
    }


def test_a_mistyped_mode_locks_nothing(headgate: Headgate) -> None:
    writer = headgate.acquire("db")
    for words in (["lock", "run", "db=shraed", "--", "true"], ["lock", "acquire", "db=shraed"]):
        refused = headgate(*words)
        assert refused.code == 2
        assert "did you mean 'shared'?" in refused.err
        assert "'db=shraed=exclusive'" in refused.err
    assert [lock["id"] for lock in headgate("lock", "list", "--json").json["items"]] == [writer["id"]]
    assert headgate("lock", "run", "db=shraed=exclusive", "--", "true").code == 0


def test_acquire_takes_the_mode_with_the_resource_or_as_an_option(headgate: Headgate) -> None:
    assert headgate.acquire("db=shared")["resource"] == "db"
    assert headgate.acquire("db", "--mode", "read")["mode"] == "shared"
    assert headgate.acquire("x?a=b", "--mode", "write")["resource"] == "x?a=b"
    twice = headgate("lock", "acquire", "db=shared", "--mode", "shared")
    assert (twice.code, "give one of them" in twice.err) == (2, True)
    assert "did you mean 'shared'" in headgate("lock", "list", "--mode", "shraed").err


def test_a_word_with_dots_that_is_not_a_range_is_not_a_chunk(pipeline: Headgate) -> None:
    for words in (
        ["job", "hold", "clean", "A..B", *WHY], ["job", "resubmit", "clean", "1..B", *WHY],
        ["job", "forget", "clean", "1...3", *WHY], ["data", "publish", "raw", "a..b"],
    ):  # fmt: skip
        refused = pipeline(*words)
        assert refused.code == 2
        assert "is not a range of days" in refused.err
        assert "--exact" in refused.err
    assert statuses(pipeline) == {}
    assert pipeline("job", "hold", "clean", "A..B", "--exact", *WHY).code == 0
    assert statuses(pipeline) == {"A..B": "HOLD"}


def test_ranges_mean_the_same_in_every_command(pipeline: Headgate) -> None:
    assert len(pipeline("job", "hold", "clean", "1..2", "7", *WHY, "--json").json["items"]) == 3
    assert statuses(pipeline) == {"1": "HOLD", "2": "HOLD", "7": "HOLD"}
    some = pipeline("job", "unhold", "clean", "1..3")
    assert some.code == 75
    assert "1 of 3 chunks were refused" in some.err
    assert statuses(pipeline) == {"7": "HOLD"}
    assert pipeline("job", "run", "clean", "--loop", "--", "true").code == 0
    assert pipeline("job", "resubmit", "clean", "1..2", *WHY).code == 0
    assert pipeline("job", "forget", "clean", "2..3", *WHY).code == 0
    assert statuses(pipeline) == {"1": "RESUBMIT", "7": "HOLD"}
    listed = pipeline("data", "list", "--dataset", "raw", "--dataid", "2..9", "--json").json["items"]
    assert [row["dataid"] for row in listed if row["kind"] == "OUTPUT"] == ["2", "3"]


def test_a_command_for_one_chunk_refuses_a_range(pipeline: Headgate) -> None:
    for words in (
        ["job", "explain", "clean", "1..3"], ["job", "next", "clean", "--dataid", "1..3"],
        ["job", "run", "clean", "--dataid", "1..3", "--", "true"], ["job", "force", "clean", "1..3", *WHY],
        ["job", "set-status", "raw", "1..3", "external", "OUTPUT", "READY", *WHY], ["history", "--dataid", "1..3"],
    ):  # fmt: skip
        refused = pipeline(*words)
        assert (refused.code, "is a range of 3 data ids; this command takes one" in refused.err) == (2, True), words
    assert statuses(pipeline) == {}


def test_a_large_range_is_confirmed(pipeline: Headgate) -> None:
    words = ("data", "publish", "raw", "1..100000000")
    refused = pipeline(*words)
    assert refused.code == 2
    assert "publish would change 100,000,000 chunks: add --yes" in refused.err
    lines = pipeline("data", "publish", "raw", "--from-file", "-", stdin="1..20000\n")
    assert (lines.code, "20,000 chunks" in lines.err) == (2, True)
    code, shown = typed(pipeline, *words, answer="n\n")
    assert "publish 100,000,000 chunks? [y/N]" in shown
    assert (code, "nothing was changed" in shown) == (0, True)
    with connect(pipeline.url) as gate:
        assert gate.ledger.left("clean") == 3


def test_an_unknown_profile_is_not_accepted_as_a_filter(headgate: Headgate) -> None:
    (headgate.folder / "headgate-profiles").mkdir()
    (headgate.folder / "headgate-profiles" / "maps.toml").write_text("")
    for words in (["batches"], ["jobs"], ["release", *WHY], ["resume", *WHY], ["delete", "--failed", *WHY]):
        refused = headgate("ingest", *words, "--profile", "mapz")
        assert (refused.code, "maps" in refused.err) == (2, True), words
    assert headgate("ingest", "batches", "--profile", "maps").code == 0


def test_unknown_statuses_are_refused_or_noted(pipeline: Headgate) -> None:
    unknown = pipeline("data", "list", "--status", "banana")
    assert (unknown.code, "RUNNING, READY, ERROR" in unknown.err) == (2, True)
    by_hand = pipeline("job", "set-status", "raw", "1", "external", "OUTPUT", "REDY", *WHY)
    assert (by_hand.code, "did you mean READY?" in by_hand.err) == (0, True)
    assert "did you mean 'clean'" in pipeline("token", "new", "ann", "--job", "claen").err
