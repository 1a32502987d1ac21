"""Every refusal has its exit code, its reason, and advice; as text and as JSON."""

import os
import shlex
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.commands import PROGRAM, Headgate

DB = "mysql://db1/core"
NO_SUCH_ID = "abcd-aaaaaaaaaaaaaaaa-bbbbbbbbbbbb"


def test_a_refusal_names_the_holder_and_ends_with_the_next_commands(headgate: Headgate) -> None:
    lock = headgate.acquire(DB, "--note", "nightly copy")
    refused = headgate("lock", "acquire", DB, "--client", "bob", "--wait=0")
    assert refused.code == 75
    assert refused.out == ""
    lines = refused.err.splitlines()
    assert lines[0] == f"headgate: bob cannot acquire exclusive on {DB} now:"
    for part in ("alice", lock["owner"], "holds it exclusive since", "nightly copy", lock["id"]):
        assert part in lines[1]
    commands = [line[line.index("headgate ") :] for line in lines[2:]]
    assert commands == [
        f"headgate lock acquire --wait 60 {DB} --client bob",
        f"headgate lock list --resource {DB}",
        f"headgate lock break {lock['id']} --reason why",
    ]
    for command in commands[1:]:
        assert headgate(*shlex.split(command)[1:]).code == 0
    assert headgate(*shlex.split(commands[0])[1:]).code == 0


def test_a_refusal_in_json_carries_the_blockers(headgate: Headgate) -> None:
    lock = headgate.acquire(DB, "--lease", "60")
    refused = headgate("lock", "acquire", DB, "--client", "bob", "--json")
    assert refused.out == ""
    assert refused.error["error"] == "lock-refused"
    assert "alice" in refused.error["detail"]
    (blocker,) = refused.error["blockers"]
    assert (blocker["kind"], blocker["client"], blocker["mode"]) == ("holder", "alice", "exclusive")
    assert (blocker["lock_id"], blocker["owner"], blocker["since"]) == (lock["id"], lock["owner"], lock["since"])
    assert 0 < blocker["expires_in"] <= 60
    assert len(refused.error["next"]) == 3


def test_the_advice_of_a_refused_run_is_the_same_run_with_a_wait(headgate: Headgate) -> None:
    headgate.acquire("a b")
    refused = headgate("lock", "run", "--wait", "0", "a b=write", "--", "echo", "--wait", "5")
    assert "headgate lock run --wait 60 'a b=write' -- echo --wait 5" in refused.err
    assert "headgate lock list --resource 'a b'" in refused.err


def test_a_refused_upgrade_is_not_advised_to_wait(headgate: Headgate) -> None:
    lock = headgate.acquire(DB, "--mode", "shared")
    headgate.acquire(DB, "--mode", "shared", client="bob")
    refused = headgate("lock", "upgrade", lock["id"], "--token", str(lock["token"]))
    assert refused.code == 75
    assert "--wait" not in refused.err
    again = headgate("lock", "downgrade", lock["id"], "--token", str(lock["token"]), "--json")
    assert (again.code, again.error["error"]) == (75, "transition-refused")


def test_a_lost_lock_is_76(headgate: Headgate) -> None:
    lock = headgate.acquire(DB)
    words = ("lock", "release", lock["id"], "--token", str(lock["token"]))
    assert headgate(*words).code == 0
    again = headgate(*words, "--json")
    assert again.code == 76
    assert again.error["error"] == "lock-lost"
    assert (again.error["lock_id"], again.error["token"]) == (lock["id"], lock["token"])
    assert "released" in again.error["detail"]
    for verb in ("renew", "check", "upgrade", "downgrade"):
        assert headgate("lock", verb, lock["id"], "--token", "1").code == 76


def test_an_old_token_is_lost_too_and_changes_nothing(headgate: Headgate) -> None:
    lock = headgate.acquire(DB)
    assert headgate("lock", "release", lock["id"], "--token", "999").code == 76
    assert headgate("lock", "check", lock["id"], "--token", str(lock["token"])).code == 0


def test_a_store_that_cannot_be_reached_is_69(headgate: Headgate) -> None:
    for url in ("postgresql://me@127.0.0.1:1/x", "mysql://me@127.0.0.1:1/x"):
        done = headgate("lock", "list", "--url", url, "--json")
        assert (done.code, done.error["error"]) == (69, "store-unavailable"), done.err
        assert done.out == ""


def test_a_store_that_an_operator_must_repair_is_2(headgate: Headgate) -> None:
    done = headgate("lock", "list", "--url", "sqlite:////no/such/folder/x.db", "--json")
    assert (done.code, done.error["error"]) == (2, "store-misconfigured"), done.err
    assert done.error["advice"] in done.error["detail"]
    assert done.out == ""


BAD_INPUT = {
    "empty resource": ["lock", "acquire", ""],
    "blank resource": ["lock", "acquire", "  "],
    "over-long resource": ["lock", "acquire", "x" * 2049],
    "control character": ["lock", "acquire", "a\x07b"],
    "new line": ["lock", "acquire", "a\nb"],
    "undecodable bytes": ["lock", "acquire", "a\udcffb"],
    "empty client": ["lock", "acquire", DB, "--client", ""],
    "over-long client": ["lock", "acquire", DB, "--client", "x" * 256],
    "slash in client": ["lock", "acquire", DB, "--client", "a/b"],
    "control character in note": ["lock", "acquire", DB, "--note", "\x1b[31m"],
    "unknown mode": ["lock", "acquire", DB, "--mode", "sharde"],
    "negative wait": ["lock", "acquire", DB, "--wait", "-1"],
    "negative lease": ["lock", "acquire", DB, "--lease", "-5m"],
    "no lease": ["lock", "acquire", DB, "--lease", "0"],
    "wait forever": ["lock", "acquire", DB, "--wait", "inf"],
    "wait without a number": ["lock", "acquire", DB, "--wait", "soon"],
    "wait in unknown units": ["lock", "acquire", DB, "--wait", "3w"],
    "empty wait": ["lock", "acquire", DB, "--wait", ""],
    "empty request id": ["lock", "acquire", DB, "--request-id", ""],
    "lock id of nothing": ["lock", "release", "nonsense", "--token", "1"],
    "lock id of another store": ["lock", "release", NO_SUCH_ID, "--token", "1"],
    "token of no kind": ["lock", "release", NO_SUCH_ID, "--token", "x"],
    "token below 1": ["lock", "release", NO_SUCH_ID, "--token", "0"],
    "token beyond numbers": ["lock", "release", NO_SUCH_ID, "--token", "9" * 30],
    "no token": ["lock", "release", NO_SUCH_ID],
    "break without reason": ["lock", "break", NO_SUCH_ID],
    "break with empty reason": ["lock", "break", NO_SUCH_ID, "--reason", ""],
    "list of unknown mode": ["lock", "list", "--mode", "x"],
    "list of none": ["lock", "list", "--limit", "0"],
    "url of unknown kind": ["lock", "list", "--url", "redis://localhost"],
    "url of no kind": ["lock", "list", "--url", "nonsense"],
    "run without resource": ["lock", "run", "--", "true"],
    "run without command": ["lock", "run", DB],
    "run with empty rest": ["lock", "run", DB, "--"],
    "run without lease": ["lock", "run", "--lease", "0", DB, "--", "true"],
    "run with negative wait": ["lock", "run", "--wait", "-1", DB, "--", "true"],
    "run with grace beyond its lease": ["lock", "run", "--lease", "10", "--grace", "9", DB, "--", "true"],
    "run with negative grace": ["lock", "run", "--grace", "-1", DB, "--", "true"],
    "run names a resource twice": ["lock", "run", f"{DB}=read", DB, "--", "true"],
    "run with an impossible code": ["lock", "run", "--conflict-exit-code", "300", DB, "--", "true"],
}


@pytest.mark.parametrize("words", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_2_says_why_and_writes_nothing(headgate: Headgate, words: list[str]) -> None:
    done = headgate(*words)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err
    assert "Traceback" not in done.err
    with closing(sqlite3.connect(headgate.folder / "headgate.sqlite")) as store:
        assert store.execute("select count(*) from hg_history").fetchone() == (0,)


@pytest.mark.parametrize("name", ["empty resource", "no token", "run without command", "url of no kind"])
def test_bad_input_is_reported_in_json(headgate: Headgate, name: str) -> None:
    done = headgate("--json", *BAD_INPUT[name])
    assert done.code == 2
    assert done.error["error"] in ("bad-value", "wrong-usage")
    assert done.error["detail"]


def test_a_lock_id_of_another_store_says_so(headgate: Headgate) -> None:
    headgate.acquire(DB)
    assert "another store" in headgate("lock", "show", NO_SUCH_ID).err


def test_the_longest_resource_is_allowed(headgate: Headgate) -> None:
    assert headgate.acquire("é" * 2048)["resource"] == "é" * 2048


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["lok", "list"], "lock"),
        (["lock", "aquire", DB], "acquire"),
        (["lock", "list", "--resorce", DB], "--resource"),
        (["stauts"], "status"),
    ],
)
def test_a_typo_in_an_argument_is_answered_with_the_nearest_word(
    headgate: Headgate, words: list[str], suggestion: str
) -> None:
    done = headgate(*words)
    assert done.code == 2
    assert "Did you mean" in done.err
    assert suggestion in done.err


def test_no_arguments_show_the_help(headgate: Headgate) -> None:
    done = headgate()
    assert done.code == 2
    assert "headgate lock run" in done.err


def test_a_closed_pipe_ends_the_command_quietly(headgate: Headgate) -> None:
    headgate.acquire(DB)
    reading, writing = os.pipe()
    os.close(reading)
    for words in (["lock", "list"], ["history", "--json"], ["--help"]):
        done = subprocess.run(
            [PROGRAM, *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            env=headgate.environment(),
            cwd=headgate.folder,
            check=False,
        )
        assert (done.returncode, done.stderr) == (141, b"")
    os.close(writing)


def test_a_grant_that_could_not_be_printed_is_released(headgate: Headgate) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [PROGRAM, "lock", "acquire", DB],
            stdout=full,
            stderr=subprocess.PIPE,
            env=headgate.environment(),
            cwd=headgate.folder,
            check=False,
        )
    assert done.returncode != 0
    assert headgate.locks(DB)["items"] == []
