"""`headgate daemon` as a real process: it frees what dead processes held, and survives outages."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from headgate import Gate, connect
from tests.cli.commands import Headgate
from tests.fresh import fresh
from tests.servers import PrivateServer
from tests.shared_servers import Servers
from tests.waiting import until

LEASE = 0.3


def events(stream: IO[bytes]) -> Any:
    """The log lines of the daemon."""
    return (json.loads(line) for line in stream)


def await_event(process: "subprocess.Popen[bytes]", name: str, daemon: str) -> dict[str, Any]:
    assert process.stderr is not None
    found: dict[str, Any] = next(
        told for told in events(process.stderr) if (told["event"], told.get("daemon")) == (name, daemon)
    )
    return found


def leave_a_mess(gate: Gate) -> None:
    """A lock and a claim whose processes died."""
    gate.ledger.define_dataset("raw")
    gate.ledger.define_dataset("tidy")
    gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    gate.ledger.publish("raw", "1")
    gate.locks.acquire("dead", "mysql://db1/core", "write", lease=LEASE)
    assert gate.ledger.find_next("clean", worker="dead", lease=LEASE)


def told(gate: Gate) -> list[str]:
    """The events with which the history reports their ends."""
    locks = [entry.event for entry in gate.history(event="expire")]
    return locks + [entry.event for entry in gate.history(job="clean", event="reap")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_locks_and_items_of_dead_workers_are_freed(headgate: Headgate, number: signal.Signals) -> None:
    with connect(headgate.url) as gate:
        leave_a_mess(gate)
        process = headgate.start("daemon", "reaper", "--interval", "0.1")
        until(lambda: told(gate) == ["expire", "reap"], "both to end")
        (row,) = gate.ledger.status("tidy")
        assert (row.status, row.crashes, row.message) == ("ERROR", 1, "lease expired: dead died")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, b"")
        assert told(gate) == ["expire", "reap"]
    lines = [json.loads(line) for line in err.splitlines()]
    assert {(each["daemon"], each["done"]) for each in lines if each["event"] == "daemon.round"} == {
        ("reaper of locks", 1), ("reaper of claims", 1),
    }  # fmt: skip
    last_words = {each["daemon"]: each["event"] for each in lines if "daemon" in each}
    assert list(last_words.values()) == ["daemon.stopped"] * 5
    assert "sign-on" in last_words


def test_an_idle_daemon_stops_at_once(headgate: Headgate) -> None:
    process = headgate.start("daemon", "--interval", "1h")
    await_event(process, "daemon.started", "reaper of claims")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_daemon_survives_an_outage_of_the_store(
    private_server: Callable[[str], PrivateServer], kind: str, tmp_path: Path
) -> None:
    server = private_server(kind)
    command = Headgate(fresh(server.url), tmp_path)
    with connect(command.url) as gate:
        leave_a_mess(gate)
    process = command.start("daemon", "reaper", "--interval", "0.2")
    try:
        await_event(process, "daemon.round", "reaper of claims")
        server.kill()
        failed = await_event(process, "daemon.failed", "reaper of claims")
        assert failed["level"] == "warning"
        server.start()
        await_event(process, "daemon.recovered", "reaper of claims")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        command.end_all()


def test_once_does_one_round_and_reports_it(headgate: Headgate) -> None:
    with connect(headgate.url) as gate:
        leave_a_mess(gate)
        until(lambda: not gate.locks.list(), "the leases to end")
        done = headgate("daemon", "reaper", "--once", "--json")
        assert (done.code, done.json) == (
            0,
            {
                "reaper of locks": 1, "reaper of claims": 1, "reaper of the queue": 0, "reaper of idempotency keys": 0
            },
        )  # fmt: skip
        assert headgate("daemon", "reaper", "--once").out.splitlines()[:2] == [
            "reaper of locks: 0 ended", "reaper of claims: 0 ended",
        ]  # fmt: skip


@pytest.mark.parametrize("words", [["repaer"], ["--interval", "0"], ["--interval", "soon"]])
def test_wrong_usage(headgate: Headgate, words: list[str]) -> None:
    assert headgate("daemon", *words).code == 2


def test_a_missing_store_is_reported_at_once(headgate: Headgate) -> None:
    assert headgate("daemon", "reaper", "--once", HEADGATE_URL="postgresql://127.0.0.1:1/nowhere").code == 69


def test_history_moves_only_if_there_is_a_database(headgate: Headgate, servers: Servers) -> None:
    """It reports this once, instead of running empty rounds."""
    zookeeper = servers.fresh("zookeeper")
    nothing = (
        "history: there is no history to copy from ZooKeeper to a database, and `history_keep` and `log_keep_for` are "
        "forever\n"
    )
    done = headgate("daemon", "history", "--once", HEADGATE_LOG_KEEP_FOR="forever")
    assert (done.code, done.out) == (0, nothing)
    done = headgate("daemon", "history", "--once", HEADGATE_URL=zookeeper)
    assert (done.code, done.out) == (0, nothing)
    done = headgate("daemon", "history", "--once", HEADGATE_COORDINATION_URL=zookeeper)
    assert (done.code, done.out) == (0, "history: 0 moved\nlogs to be removed: 0 removed\n")
    done = headgate("daemon", "history", "--once", HEADGATE_COORDINATION_URL=zookeeper, HEADGATE_HISTORY_AGE="old")
    assert done.code == 2
    assert "history_age 'old' is not a duration" in done.err
    servers.drop("zookeeper", zookeeper)
    process = headgate.start("daemon", "--interval", "1h", more={"HEADGATE_LOG_KEEP_FOR": "forever"})
    await_event(process, "daemon.idle", "history")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
