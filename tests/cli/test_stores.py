"""The same command line on each of the four stores."""

import sys

from tests.cli.commands import Headgate
from tests.waiting import until

DB = "mysql://db1/core"


def test_the_commands_of_a_lock_on_each_store(on_store: Headgate) -> None:
    assert on_store("lock", "list").out == "no locks\n"
    lock = on_store.acquire(DB, "--mode", "shared")
    assert on_store("lock", "check", lock["id"], "--token", str(lock["token"])).code == 0
    refused = on_store("lock", "acquire", DB, "--client", "bob", "--json")
    assert (refused.code, refused.error["blockers"][0]["client"]) == (75, "alice")
    assert on_store("lock", "upgrade", lock["id"], "--token", str(lock["token"])).code == 0
    assert on_store("lock", "check", lock["id"], "--token", str(lock["token"])).code == 76
    (held,) = on_store.locks(DB)["items"]
    assert (held["mode"], held["client"], held["lease"]) == ("exclusive", "alice", None)
    assert on_store("lock", "break", lock["id"], "--reason", "tidying").code == 0
    assert on_store("lock", "show", lock["id"]).code == 2
    assert on_store("lock", "show", "zzzz-aaaaaaaaaaaaaaaa-bbbbbbbbbbbb").code == 2
    events = [entry["event"] for entry in on_store("history", "--json").json["items"]]
    assert events[:2] == ["break", "upgrade"]
    assert on_store("status", "--json").json["lockCount"] == 0


def test_a_leased_lock_outlives_the_command_that_took_it(on_store: Headgate) -> None:
    lock = on_store.acquire(DB, "--lease", "20")
    words = (lock["id"], "--token", str(lock["token"]))
    assert on_store("lock", "check", *words).code == 0
    renewed = on_store("lock", "renew", *words, "--json")
    assert renewed.code == 0, renewed.err
    assert on_store("lock", "check", *words).code == 0
    assert on_store("lock", "acquire", DB, "--client", "bob").code == 75
    assert on_store("lock", "release", *words).code == 0


def test_a_leased_lock_that_nobody_renews_ends_by_itself(on_store: Headgate) -> None:
    on_store.acquire(DB, "--lease", "2")
    assert on_store("lock", "acquire", DB, "--client", "bob", "--wait", "30").code == 0


def test_a_command_under_a_lock(on_store: Headgate) -> None:
    script = f'{sys.executable} -m headgate lock check "$HEADGATE_LOCK_ID" --token "$HEADGATE_TOKEN" && exit 5'
    done = on_store("lock", "run", DB, "--", "sh", "-c", script)
    assert done.code == 5, done.err
    assert done.out.startswith("held  exclusive")
    assert on_store.locks(DB)["items"] == []


def test_a_broken_lock_ends_the_command(on_store: Headgate) -> None:
    # Long enough not to be lost on a busy machine before it is broken.
    runner = on_store.start("lock", "run", "--lease", "10", DB, "--", "sleep", "60")
    until(lambda: on_store.locks(DB)["items"], "the lock to be held")
    (lock,) = on_store.locks(DB)["items"]
    assert on_store("lock", "break", lock["id"], "--reason", "we need it").code == 0
    _, err = runner.communicate(timeout=30)
    assert runner.returncode == 76
    assert b"we need it; the command was stopped" in err


def test_after_sigkill_the_lock_goes_to_the_next_waiter(on_store: Headgate) -> None:
    runner = on_store.start("lock", "run", "--lease", "2", DB, "--", "sleep", "60")
    until(lambda: on_store.locks(DB)["items"], "the lock to be held")
    runner.kill()
    assert on_store("lock", "acquire", DB, "--wait", "30").code == 0
