"""Notices of incidents: a receiver that checks signatures, a mail server, outages, a killed messenger."""

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate import Delivery, Gate
from headgate.daemon_wiring import daemon_rounds
from headgate.stores.sql.database.sql_text import Statement
from tests.ingest import origin as acts
from tests.ingest.mailbox import Box, Loopback
from tests.ingest.origin import Handler, Origin

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW_DUE = Statement("No pause any more.", "update hg_outbox set next_try = 0")
MESSENGER = [sys.executable, "-m", "headgate", "daemon", "messenger", "--once"]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK", SECRET)
    return f"sqlite:///{tmp_path}/headgate.db"


@pytest.fixture
def box() -> Iterator[tuple[Box, int]]:
    found = Box()
    server = Loopback(found)
    server.start()
    yield found, server.port
    server.stop()


def opened(url: str, notices: dict[str, Any], **settings: str) -> Gate:
    return headgate.connect(url, notices=json.dumps(notices), notice_window="0", **settings)


def webhook(origin: Origin) -> dict[str, Any]:
    return {"ops": {"url": origin.url("/hook"), "secret": "env:HOOK"}}


def fail_for_good(gate: Gate, *dataids: str, job: str = "clean") -> None:
    ledger = gate.ledger
    ledger.define_dataset("raw")
    ledger.define_dataset(f"{job}ed")
    ledger.define_job(job, inputs=["raw"], outputs=[f"{job}ed"], max_attempts=1)
    ledger.publish("raw", dataids)
    for _ in dataids:
        claim = ledger.find_next(job)
        assert claim
        ledger.fail(claim, "disk full")


def send(gate: Gate) -> None:
    """One round of the messenger, with all pauses skipped."""
    database: Any = gate.store.inventory
    database._database.write(lambda tx: tx.run(NOW_DUE))
    (rounds,) = daemon_rounds(gate, ["messenger"], 1.0)
    rounds.act()


def check_signature(seen: acts.Seen) -> None:
    """As Standard Webhooks define it, computed without our code."""
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f"{seen.headers['webhook-id']}.{seen.headers['webhook-timestamp']}.".encode() + seen.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert seen.headers["webhook-signature"] == f"v1,{expected}"


def test_an_outage_and_the_recovery_are_one_signed_message_each(url: str, origin: Origin) -> None:
    origin.add("/hook", b"")
    gate = opened(url, webhook(origin))
    fail_for_good(gate, *map(str, range(1, 13)))
    send(gate)
    send(gate)
    (seen,) = origin.asked("/hook")
    check_signature(seen)
    body = json.loads(seen.body)
    assert (body["type"], body["data"]["job"], body["data"]["count"]) == ("incident.opened", "clean", 12)
    assert [each["subject"] for each in body["data"]["incidents"]] == list(map(str, range(1, 11)))
    gate.ledger.change_selected("clean", "resubmit", reason="larger disk", status=["ERROR"])
    assert len(list(gate.ledger.work("clean"))) == 12
    send(gate)
    closed = json.loads(origin.asked("/hook")[1].body)
    assert (closed["type"], closed["data"]["count"]) == ("incident.closed", 12)
    assert origin.asked("/hook")[1].headers["webhook-id"] != seen.headers["webhook-id"]
    gate.close()


def test_a_receiver_that_is_down_gets_the_notice_later_under_the_same_id(url: str, origin: Origin) -> None:
    origin.add("/hook", b"", acts.reset, acts.status(429, Retry_After="1800"), acts.status(503))
    gate = opened(url, webhook(origin))
    fail_for_good(gate, "1")
    send(gate)
    send(gate)
    (message,) = gate.inventory.messages(failed=True)
    assert (message.tries, "429" in message.problem) == (2, True)
    assert message.next_try is not None
    assert message.since is not None
    assert (message.next_try - message.since).total_seconds() > 1700, "it said when to come again"
    send(gate)
    send(gate)
    seen = origin.asked("/hook")
    assert len({each.headers["webhook-id"] for each in seen}) == 1
    assert gate.inventory.messages()[0].state is Delivery.DELIVERED
    gate.close()


def test_a_receiver_that_is_gone_leaves_a_dead_letter(url: str, origin: Origin) -> None:
    origin.always["/hook"] = acts.status(410)
    gate = opened(url, webhook(origin))
    fail_for_good(gate, "1")
    send(gate)
    send(gate)
    assert len(origin.seen) == 1
    (message,) = gate.inventory.messages(failed=True)
    assert message.state is Delivery.GIVEN_UP
    assert SECRET not in message.problem
    gate.inventory.resend(message.id)
    send(gate)
    assert len(origin.seen) == 2
    gate.close()


def test_an_outage_that_hits_several_jobs_is_one_message(url: str, origin: Origin) -> None:
    origin.add("/hook", b"")
    gate = opened(url, webhook(origin))
    for job in ("clean", "report"):
        fail_for_good(gate, "1", "2", job=job)
    send(gate)
    (seen,) = origin.asked("/hook")
    check_signature(seen)
    data = json.loads(seen.body)["data"]
    assert (data["job"], data["jobs"], data["count"]) == (None, {"clean": 2, "report": 2}, 4)
    gate.close()


def test_mail_and_slack_notices_are_readable(url: str, origin: Origin, box: tuple[Box, int]) -> None:
    origin.add("/slack", b"ok")
    kept, port = box
    notices = {"team": {"slack": origin.url("/slack")}, "night": {"mail": ["ann@example.org", "bob@example.org"]}}
    gate = opened(url, notices, mail_server=f"smtp+plain://127.0.0.1:{port}")
    kept.recipients["bob@example.org"] = "450 later"
    fail_for_good(gate, "1", "2")
    send(gate)
    (seen,) = origin.asked("/slack")
    text = "clean: 2 incidents, in trouble\n- clean 1 failed for good: disk full\n- clean 2 failed for good: disk full"
    assert json.loads(seen.body) == {"text": text}
    assert "webhook-signature" not in seen.headers
    kept.recipients.clear()
    send(gate)
    assert [each.rcpt_tos for each in kept.mails] == [["ann@example.org"], ["bob@example.org"]]
    assert kept.mails[0].content == kept.mails[1].content, "the same to the byte"
    assert b"Subject: Headgate: clean: 2 incidents" in kept.mails[0].content
    gate.close()


def test_acknowledged_and_snoozed_incidents_are_not_sent_meanwhile(url: str, origin: Origin) -> None:
    origin.add("/hook", b"")
    gate = opened(url, webhook(origin))
    fail_for_good(gate, "1", "2")
    gate.incidents.acknowledge(1)
    gate.incidents.snooze(2, 3600)
    send(gate)
    assert origin.seen == []
    gate.incidents.snooze(2, 0)
    send(gate)
    (seen,) = origin.asked("/hook")
    assert [each["subject"] for each in json.loads(seen.body)["data"]["incidents"]] == ["2"]
    gate.close()


def test_two_services_on_one_store_send_one_notice(url: str, origin: Origin) -> None:
    origin.add("/hook", b"")
    gates = [opened(url, webhook(origin)) for _ in range(2)]
    fail_for_good(gates[0], "1")
    ready = threading.Barrier(2)

    def plan(gate: Gate) -> None:
        from headgate.service.incident_notices import IncidentNotices

        notices = IncidentNotices(gate.settings, gate.store)
        ready.wait(30)
        notices.plan()

    threads = [threading.Thread(target=plan, args=(gate,)) for gate in gates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(gates[0].inventory.messages()) == 1
    for gate in gates:
        gate.close()


def test_a_messenger_that_is_killed_after_sending_sends_again_under_the_same_id(url: str, origin: Origin) -> None:
    """A crash between the receiver's answer and its record cannot be noticed: sent at least once, with the same id."""
    origin.add("/hook", b"")
    gate = opened(url, webhook(origin))
    fail_for_good(gate, "1")
    environment = {
        **os.environ, "HEADGATE_URL": url, "HEADGATE_NOTICES": json.dumps(webhook(origin)),
        "HEADGATE_NOTICE_WINDOW": "0",
    }  # fmt: skip
    process = subprocess.Popen(MESSENGER, env=environment)

    def kill(handler: Handler) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        handler.answer(200)

    origin.always["/hook"] = kill
    assert process.wait(30) == -signal.SIGKILL
    del origin.always["/hook"]
    assert subprocess.run(MESSENGER, env=environment, check=False, timeout=60).returncode == 0
    first, second = origin.asked("/hook")
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    check_signature(second)
    assert gate.inventory.messages()[0].state is Delivery.DELIVERED
    gate.close()


def test_a_host_that_settings_do_not_name_is_never_reached(url: str, origin: Origin) -> None:
    origin.always["/hook"] = acts.redirect("http://169.254.169.254/latest")
    gate = opened(url, webhook(origin))
    fail_for_good(gate, "1")
    send(gate)
    (message,) = gate.inventory.messages(failed=True)
    assert message.state is Delivery.GIVEN_UP
    gate.close()
    link_local = opened(url, {"ops": {"url": "http://169.254.169.254/x", "secret": "env:HOOK"}})
    fail_for_good(link_local, "9", job="other")
    send(link_local)
    problems = [each.problem for each in link_local.inventory.messages(failed=True)]
    assert any("169.254" in each for each in problems)
    link_local.close()
