"""`headgate doctor`: problems are found, explained and repaired; exit codes show which."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from headgate import connect
from headgate.core.daemons import Daemon
from tests.cli.commands import Headgate
from tests.daemons.queues import fill

DAEMON = Daemon("a daemon", "host pid 7", ("job-pending",), 600)


def break_counts(headgate: Headgate) -> None:
    with closing(sqlite3.connect(headgate.url.removeprefix("sqlite:///"))) as database, database:
        database.execute("update hg_batch set processing = processing - 1, completed = completed + 1")


def test_without_a_fault_the_checks_are_listed(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        fill(gate, jobs=2)
        gate.queue.presence.sign_on(DAEMON)
    done = headgate("doctor")
    assert done.code == 0
    assert done.out.splitlines()[1].startswith("checked: 1 batch, 2 ingest jobs")
    assert done.out.splitlines()[-1] == "nothing is wrong"


def test_a_fault_is_explained_and_left_alone_without_repair(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        fill(gate, jobs=2)
        gate.queue.presence.sign_on(DAEMON)
    break_counts(headgate)
    found = headgate("doctor", "--json")
    assert found.code == 1
    (fault,) = found.json["faults"]
    assert fault["item"] == "bid0000000001"
    assert fault["what"]
    assert fault["repair"]
    shown = headgate("doctor")
    assert shown.code == 1
    assert f"FAULT    bid0000000001: {fault['what']}" in shown.out
    assert f"repair: {fault['repair']}" in shown.out
    assert "can be repaired: headgate doctor --repair" in shown.out
    mended = headgate("doctor", "--repair", "--json")
    assert (mended.code, mended.json["faults"], len(mended.json["repaired"])) == (0, [], 1)
    assert headgate("doctor").code == 0
    with connect(headgate.url) as gate:
        assert gate.queue.batch("bid0000000001").jobs.processing == 2


def test_api_tokens_that_end_soon_are_noted_here_and_by_status(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        token = gate.tokens.new("ann", ["read"], expires=3 * 86400.0)
    done = headgate("doctor")
    assert done.code == 0
    assert f"note     API token {token.id} of ann expires in " in done.out
    assert re.search(rf"token {token.id} +of ann expires in ", headgate("status").out)
    assert token.id not in headgate("status", HEADGATE_TOKEN_WARNING="2d").out


def test_claims_of_dead_workers_are_reported_if_no_reaper_runs(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        gate.ledger.define_dataset("raw", uri="file:///raw")
        gate.ledger.define_job("clean", inputs=["raw"], outputs=[])
        gate.ledger.publish("raw", ["1", "2", "3"])
        for _ in range(3):
            assert gate.ledger.find_next("clean", worker="w") is not None
    with closing(sqlite3.connect(headgate.url.removeprefix("sqlite:///"))) as database, database:
        database.execute("update hg_chunk set lease_until = 1 where dataid <> '3' and lease_until is not null")
    found = headgate("doctor")
    assert (found.code, found.out.count("claimed it and died (dead-worker)")) == (1, 2)
    assert re.search(r"checked: .* 3 claims", found.out)
    assert "FAULT    clean/1" in found.out
    mended = headgate("doctor", "--repair", "--json")
    assert (mended.code, mended.json["faults"], len(mended.json["repaired"])) == (0, [], 2)
    with connect(headgate.url) as gate:
        assert [row.status for row in gate.ledger.status("raw", "clean")] == ["ERROR", "ERROR", "RUNNING"]


def test_a_job_in_an_unknown_state_needs_an_operator(headgate: Headgate, tmp_path: Path) -> None:
    with connect(headgate.url) as gate:
        fill(gate)
    with closing(sqlite3.connect(headgate.url.removeprefix("sqlite:///"))) as database, database:
        database.execute("pragma ignore_check_constraints = on")
        database.execute("update hg_ingest_job set state = 'nonsense'")
    for words in (["doctor"], ["doctor", "--repair"]):
        done = headgate(*words)
        assert done.code == 1
        assert "nonsense" in done.out


def test_alarms_are_reported_by_submit_status_and_doctor(headgate: Headgate) -> None:
    payload = headgate.folder / "hello.txt"
    payload.write_text("hello")
    made = headgate("ingest", "submit", str(payload), "--profile", "demo", "--submitter", "me", "--type", "file")
    assert made.code == 0
    assert "STUCK    bid0000000001 waits for a profile that cannot be used: there is no profile demo" in made.err
    assert "no running daemon takes batches in the state pending" in made.err
    told = headgate("status").out
    assert "STUCK    bid0000000001 waits for a profile" in told
    assert "headgate ingest profiles" in told
    found = headgate("doctor", "--json")
    assert found.code == 1
    assert [alarm["kind"] for alarm in found.json["alarms"]] == ["unknown-profile", "no-consumer"]
    assert {alarm["command"] for alarm in found.json["alarms"]} == {"headgate ingest profiles"}
    with connect(headgate.url) as gate:
        gate.queue.presence.sign_on(Daemon("a daemon", "elsewhere", ("batch-pending",), 600))
    assert headgate("doctor").out.splitlines()[-1] == "nothing is wrong"
