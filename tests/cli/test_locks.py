"""The commands for locks work as described, and report in words and in JSON."""

import re
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from headgate import connect
from tests.cli.commands import Headgate
from tests.waiting import until

DB = "mysql://db1/core"
LOCK_KEYS = {
    "id", "resource", "client", "mode", "token", "since", "lease", "expires_in", "expires_at", "count", "owner", "note",
    "principal",
}  # fmt: skip


def test_acquire_prints_the_grant_and_how_to_release_it(headgate: Headgate) -> None:
    done = headgate("lock", "acquire", DB, "--client", "alice")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first == f"granted  exclusive  {DB}"
    _, lock_id, _, token = second.split()
    assert done.err == f"release it with: headgate lock release {lock_id} --token {token}\n"
    assert headgate("lock", "release", lock_id, "--token", token).out == f"released  {lock_id}\n"


def test_a_granted_lock_in_json(headgate: Headgate) -> None:
    lock = headgate.acquire(DB, "--mode", "READ", "--lease", "10m", "--note", "nightly")
    assert set(lock) == LOCK_KEYS
    assert (lock["resource"], lock["client"], lock["mode"], lock["note"]) == (DB, "alice", "shared", "nightly")
    assert (lock["lease"], lock["count"], lock["token"]) == (600, 1, 1)
    since, ends = (datetime.fromisoformat(lock[name]) for name in ("since", "expires_at"))
    assert lock["since"].endswith("Z")
    assert abs(ends - since - timedelta(minutes=10)) < timedelta(seconds=5)


def test_the_advice_names_the_store_that_a_flag_named_but_never_a_password(headgate: Headgate) -> None:
    url = f"sqlite:///{headgate.folder / 'other.sqlite'}"
    assert f"headgate --url {url} lock release" in headgate("lock", "acquire", DB, "--url", url).err
    refused = headgate("lock", "acquire", DB, "--url", url)
    assert f"headgate --url {url} lock list --resource {DB}" in refused.err
    unreachable = headgate("--url", "postgresql://me:hush@127.0.0.1:1/x", "lock", "acquire", DB)
    assert unreachable.code == 69
    assert "hush" not in unreachable.out + unreachable.err


def test_the_client_is_the_flag_else_the_setting_else_the_user(headgate: Headgate) -> None:
    def client(*words: str, **environment: str) -> object:
        return headgate("lock", "acquire", DB, "--mode=shared", "--json", *words, **environment).json["client"]

    assert client("--client", "flag", HEADGATE_CLIENT="variable") == "flag"
    assert client(HEADGATE_CLIENT="variable") == "variable"
    assert "@" in str(client())


def test_the_same_request_returns_the_same_grant(headgate: Headgate) -> None:
    first = headgate.acquire(DB, "--request-id", "r1")
    again = headgate.acquire(DB, "--request-id", "r1")
    assert (first["id"], first["token"]) == (again["id"], again["token"])


def test_reentrant_counts_holds(headgate: Headgate) -> None:
    headgate.acquire(DB, "--reentrant")
    assert headgate.acquire(DB, "--reentrant")["count"] == 2


def test_renew_check_upgrade_downgrade(headgate: Headgate) -> None:
    lock = headgate.acquire(DB, "--mode", "shared", "--lease", "60")

    def ask(verb: str, token: int, *words: str) -> dict[str, object]:
        done = headgate("lock", verb, lock["id"], "--token", str(token), "--json", *words)
        assert done.code == 0, done.err
        assert set(done.json) == LOCK_KEYS
        return dict(done.json)

    assert ask("check", lock["token"])["mode"] == "shared"
    assert ask("renew", lock["token"], "--lease", "2h")["lease"] == 7200
    upgraded = ask("upgrade", lock["token"])
    assert upgraded["mode"] == "exclusive"
    token = upgraded["token"]
    assert isinstance(token, int)
    assert token > lock["token"]
    assert ask("downgrade", token)["mode"] == "shared"
    assert headgate("lock", "check", lock["id"], "--token", str(token)).out.startswith("held  shared")


def test_an_empty_list_says_so(headgate: Headgate) -> None:
    assert headgate("lock", "list").out == "no locks\n"
    assert headgate("lock", "list", "--json").json == {"items": [], "next": None, "waiting": []}


def test_list_filters_and_pages(headgate: Headgate) -> None:
    ids = sorted(headgate.acquire(f"r{number}", client=f"c{number % 2}")["id"] for number in range(5))

    def listed(*words: str) -> list[str]:
        return [lock["id"] for lock in headgate("lock", "list", "--json", *words).json["items"]]

    assert listed() == ids
    page = headgate("lock", "list", "--limit", "2", "--json").json
    assert ([lock["id"] for lock in page["items"]], page["next"]) == (ids[:2], ids[1])
    assert listed("--limit", "2", "--after", page["next"]) == ids[2:4]
    assert headgate("lock", "list", "--limit", "3", "--after", ids[1], "--json").json["next"] is None
    assert len(listed("--client", "c1")) == 2
    assert listed("--mode", "shared") == []
    assert len(listed("--resource", "r3")) == 1


def test_a_list_in_a_pipe_has_plain_columns(headgate: Headgate) -> None:
    lock = headgate.acquire(DB, "--lease", "3m")
    heading, row = headgate("lock", "list").out.splitlines()
    assert heading.split() == ["STATE", "RESOURCE", "CLIENT", "SINCE", "LEASE", "TOKEN", "ID"]
    assert heading.index("ID") == row.index(lock["id"])
    assert "s ago" in row
    assert re.search(r"ends in (3 min|2 min \d+ s)", row)  # The machine may be busy.
    assert "\x1b" not in row


def test_the_list_shows_who_waits(headgate: Headgate) -> None:
    headgate.acquire(DB, "--mode", "shared")
    waiter = headgate.start("lock", "acquire", DB, "--client", "bob", "--wait", "60")
    until(lambda: headgate.locks(DB)["waiting"], "bob to wait")
    (waiting,) = headgate.locks(DB)["waiting"]
    assert (waiting["client"], waiting["mode"], waiting["resource"]) == ("bob", "exclusive", DB)
    row = headgate("lock", "list").out.splitlines()[-1]
    assert row.startswith("waits")
    assert "for exclusive" in row
    assert headgate("lock", "list", "--client", "carol", "--json").json["waiting"] == []
    assert ["waiting", "for", "locks", "1"] in [line.split() for line in headgate("status").out.splitlines()]
    waiter.send_signal(signal.SIGTERM)
    assert waiter.wait(10) == 128 + signal.SIGTERM
    assert headgate.locks(DB)["waiting"] == []


def test_a_command_interrupted_while_it_waits_leaves_the_queue(headgate: Headgate) -> None:
    headgate.acquire(DB)
    waiter = headgate.start("lock", "acquire", DB, "--wait", "60")
    until(lambda: headgate.locks(DB)["waiting"], "somebody to wait")
    waiter.send_signal(signal.SIGINT)
    assert waiter.wait(10) == 130
    assert waiter.communicate() == (b"", b"")
    assert headgate.locks(DB)["waiting"] == []


def test_a_waiting_writer_gets_its_turn(headgate: Headgate) -> None:
    lock = headgate.acquire(DB)
    waiter = headgate.start("lock", "acquire", DB, "--client", "bob", "--wait", "1m")
    until(lambda: headgate.locks(DB)["waiting"], "bob to wait")
    headgate("lock", "release", lock["id"], "--token", str(lock["token"]))
    out, _ = waiter.communicate(timeout=20)
    assert out.startswith(b"granted  exclusive")


def test_show_prints_everything(headgate: Headgate) -> None:
    lock = headgate.acquire(DB, "--note", "moving data")
    shown = headgate("lock", "show", lock["id"])
    assert "moving data" in shown.out
    assert lock["since"] in shown.out
    assert headgate("lock", "show", lock["id"], "--json").json["id"] == lock["id"]


def test_break_makes_the_token_stale_and_keeps_the_reason(headgate: Headgate) -> None:
    lock = headgate.acquire(DB)
    broken = headgate("lock", "break", lock["id"], "--reason", "host is gone", "--json")
    assert (broken.json["id"], broken.json["reason"]) == (lock["id"], "host is gone")
    check = headgate("lock", "check", lock["id"], "--token", str(lock["token"]))
    assert check.code == 76
    assert "host is gone" in check.err
    (entry,) = headgate("history", "--event", "break", "--json").json["items"]
    assert entry["reason"].endswith("host is gone")


def test_chains_of_waiters_are_shown_to_their_end(headgate: Headgate) -> None:
    """c waits for b, which holds s:two and waits for a, which holds s:one: a is the relevant one."""
    with connect(headgate.url) as gate:
        gate.locks.acquire("a", "s:one", "exclusive")
        gate.locks.acquire("b", "s:two", "exclusive")
        with ThreadPoolExecutor(2) as pool:
            waits = [
                pool.submit(gate.locks.acquire, client, resource, "exclusive", wait=60)
                for client, resource in (("b", "s:one"), ("c", "s:two"))
            ]
            until(lambda: len(gate.locks.waiters()) == 2, "both wait")
            plain = headgate("lock", "waiters")
            chain = headgate("lock", "waiters", "--blocked-by", "a")
            only_b = headgate("lock", "waiters", "--blocked-by", "c")
            document = headgate("lock", "waiters", "--client", "c", "--blocked-by", "--json").json["items"]
            for held in gate.locks.list():
                if held.client == "a":
                    gate.locks.release(held)
            first = waits[0].result()
            gate.locks.release(first)
            for held in gate.locks.list():
                if held.client == "b":
                    gate.locks.release(held)
            assert waits[1].result().client == "c"
    assert sorted(line.split()[1] for line in plain.out.splitlines()[1:]) == ["b", "c"]
    lines = chain.out.splitlines()
    behind_c = next(index for index, line in enumerate(lines) if line.startswith("c waits for exclusive on s:two"))
    assert "blocked by: s:two: b" in lines[behind_c + 1]
    assert lines[behind_c + 2].strip().startswith("b waits for exclusive on s:one")
    assert "blocked by: s:one: a" in lines[behind_c + 3]
    assert only_b.out.strip() == "no waiters"
    assert [(each["client"], each["roots"]) for each in document] == [("c", ["a"])]
