"""status, history, settings and migrate."""

import json
import re
from pathlib import Path

import pytest

from headgate import connect
from tests.cli.commands import Headgate
from tests.contract.ledger_steps import one_job

DB = "mysql://db1/core"


def test_status_is_the_short_form_and_the_rich_one_adds_to_it(headgate: Headgate) -> None:
    for client in ("alice", "bob"):
        headgate.acquire(DB, "--mode", "shared", client=client)
    short = headgate("status", "--json").json
    assert short == {
        "opsQueue": [],
        "lockCount": 1,
        "locks": [{"id": DB, "type": "SHARED", "count": 2}],
        "failures": [],
    }
    rich = headgate("status", "--json", "--rich").json
    assert {name: rich[name] for name in short} == short
    assert {holder["client"] for holder in rich["holders"]} == {"alice", "bob"}
    assert rich["waiting"] == []
    assert re.search(r"^locked resources +1$", headgate("status").out, re.MULTILINE)


def test_status_names_what_runs_and_what_failed_with_the_next_command(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        ledger = one_job(gate, max_attempts=1)
        ledger.publish("raw", ["1", "2", *map(str, range(3, 11))])
        ledger.claim("clean", "1", worker="node7")
        ledger.claim("clean", "2", worker="node8", lease=0.001)
        for number in range(3, 11):
            ledger.fail(ledger.claim("clean", str(number)), f"exit code {number}")
    shown = headgate("status").out
    assert re.search(r"^chunks running +1\nclaims expired +1$", shown, re.MULTILINE)
    assert "running (1), lease expired (1):\n" in shown
    assert re.search(r"  clean 1  by node7, [^,;:]* ago\n      headgate job explain clean 1\n", shown)
    assert re.search(
        r"  clean 2  by node8, [^,;:]* ago; the lease has expired: the worker died\n      headgate job reap\n", shown
    )
    assert "failed (8), newest first:\n" in shown
    assert re.search(r"  clean 10  [^,;:]* ago: exit code 10\n      headgate job explain clean 10\n", shown)
    assert "clean 5 " not in shown
    assert "  and 3 more\n" in shown


def test_history_is_newest_first_and_can_be_filtered_and_paged(headgate: Headgate) -> None:
    for number in range(3):
        lock = headgate.acquire(f"r{number}")
        headgate("lock", "release", lock["id"], "--token", str(lock["token"]))

    def events(*words: str) -> list[tuple[str, str]]:
        found = headgate("history", "--json", *words).json["items"]
        return [(entry["event"], entry["resource"]) for entry in found]

    assert events()[0] == ("release", "r2")
    assert events("--resource", "r0") == [("release", "r0"), ("grant", "r0")]
    assert len(events("--event", "grant")) == 3
    assert len(events("--since", "1h")) == 6
    assert events("--since", "2999-01-01T00:00:00Z") == []
    assert events("--client", "nobody") == []
    page = headgate("history", "--limit", "4", "--json").json
    assert len(page["items"]) == 4
    assert events("--after", page["next"]) == [("release", "r0"), ("grant", "r0")]
    assert headgate("history", "--event", "nonsense").code == 2
    wrong = headgate("history", "--since", "yesterday-ish")
    assert (wrong.code, "write 2h or 7d (ago), or 2026-11-15T04:50" in wrong.err) == (2, True)


def test_an_empty_history_says_so(headgate: Headgate) -> None:
    assert headgate("history").out.startswith("no matching events")


def test_settings_show_their_origin_and_mask_passwords(headgate: Headgate, tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text('client = "from-file"\nurl = "sqlite:///weaker.db"\n')
    secret = "postgresql://me:hush@db1/x"
    done = headgate("settings", "--json", HEADGATE_COORDINATION_URL=secret)
    found = {each["name"]: each for each in done.json["items"]}
    assert (found["client"]["value"], found["client"]["origin"]) == ("from-file", str(tmp_path / "headgate.toml"))
    assert found["url"]["origin"] == "HEADGATE_URL"
    assert found["lock_delay"]["origin"] == "default"
    assert "hush" not in done.out
    assert "--url" in headgate("settings", "--url", "sqlite:///flag.db").out
    assert "hush" not in headgate("--url", secret, "settings").out


@pytest.mark.parametrize("content", ['clinet = "x"', "client = [1]", "client ="])
def test_a_wrong_settings_file_is_named(headgate: Headgate, tmp_path: Path, content: str) -> None:
    (tmp_path / "headgate.toml").write_text(content)
    done = headgate("lock", "list")
    assert done.code == 2
    assert "headgate.toml" in done.err


def test_migrate_reports_its_steps(headgate: Headgate) -> None:
    dry = headgate("migrate", "--dry-run", "--json")
    assert dry.code == 0, dry.err
    assert dry.json["dry_run"] is True
    assert dry.json["done"]
    done = headgate("migrate", "--url", headgate.url)
    assert done.code == 0, done.err
    assert done.out.strip()


def test_logs_are_json_lines_on_stderr_when_asked_for(headgate: Headgate) -> None:
    done = headgate("-v", "lock", "acquire", DB, "--json")
    (line,) = [json.loads(line) for line in done.err.splitlines()]
    assert (line["event"], line["resource"]) == ("lock.granted", DB)
    assert headgate("lock", "acquire", "another", "-v", "--json").err.startswith("{")


def test_quiet_prints_only_errors(headgate: Headgate) -> None:
    assert headgate("--quiet", "lock", "acquire", DB).err == ""
    assert "cannot acquire" in headgate("-q", "lock", "acquire", DB).err
