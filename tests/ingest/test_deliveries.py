"""Mail servers and callback targets that refuse: no message is lost, and each recipient is retried as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import EmailMessage

import pytest

import headgate
from headgate.core.inventory import Delivery, Intake, Message, MessageKind
from headgate.core.queue.model import IngestJob
from headgate.core.queue.model import Report as StatusReport
from headgate.gate import Gate
from headgate.ingest.notices.messages import announce, callback_id, send_due
from headgate.service.inventory import FIRST_PAUSE_SECONDS, JITTER, LONGEST_PAUSE_SECONDS, MOST_TRIES, pause_after
from tests.cli.commands import Headgate
from tests.contract.queue_steps import advance, as_job, batch_in, taken_batch
from tests.figures import Report
from tests.ingest import origin as acts
from tests.ingest.origin import Act, Handler
from tests.ingest.site import HOOK, Site, ended, only_job, running
from tests.waiting import until

ANN, BEN = "ann@example.org", "ben@example.org"
REPORT = "bid0000000001.report-1"
MESSAGE_ID = f"<{REPORT}@headgate>"


@pytest.fixture
def gate(there: Site) -> Iterator[Gate]:
    """A gate with a mail to Ann and Ben in its outbox."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "Report", "headgate@example.org", f"{ANN}, {BEN}"
    mail["Message-ID"] = MESSAGE_ID
    mail.set_content("Grüße\n")
    with there.gate() as found:
        body = mail.as_bytes().decode(errors="surrogateescape")
        found.inventory.post(Message(REPORT, MessageKind.MAIL, "bid0000000001", body))
        yield found


def try_now(gate: Gate) -> Message:
    """Let the messenger try it now, whatever its schedule. Returns the outcome."""
    found = gate.inventory.message(REPORT)
    assert found is not None
    if found.state is Delivery.WAITING and found.tries:
        gate.inventory.delay(REPORT, found.problem, 0, found.recipients)
    send_due(gate.ingest)
    found = gate.inventory.message(REPORT)
    assert found is not None
    return found


def arrived(there: Site) -> list[tuple[str, ...]]:
    """The recipients of each received mail; all have the same id."""
    assert {str(each["Message-ID"]) for each in there.mails()} <= {MESSAGE_ID}
    return [tuple(each.rcpt_tos) for each in there.box.mails]


def test_a_mail_server_that_is_down_is_retried(there: Site, gate: Gate) -> None:
    port, there.mail_port = there.mail_port, 1
    with there.gate() as away:
        found = try_now(away)
    assert (found.state, found.tries) == (Delivery.WAITING, 1)
    assert "Connection refused" in found.problem
    there.mail_port = port
    assert try_now(gate).state is Delivery.DELIVERED
    assert arrived(there) == [(ANN, BEN)]


@pytest.mark.parametrize("answer", ["421 closing", "450 greylisted", "452 mailbox full"])
def test_a_recipient_that_is_refused_for_now_is_retried_and_the_other_is_not(
    there: Site, gate: Gate, answer: str, report: Report
) -> None:
    there.box.recipients = {BEN: answer}
    found = try_now(gate)
    assert found.state is Delivery.WAITING
    assert f"{BEN}: {answer}" in found.problem
    there.box.recipients = {}
    assert try_now(gate).state is Delivery.DELIVERED
    # With 421 the server has closed the connection and accepted nothing.
    assert arrived(there) == ([(ANN, BEN)] if answer.startswith("421") else [(ANN,), (BEN,)])
    report(store="sqlite", faults=1, hit=1, violations=0)


def test_a_recipient_that_is_refused_for_good_stays_listed_and_is_not_asked_again(
    there: Site, gate: Gate, report: Report
) -> None:
    there.box.recipients = {BEN: "550 no such person"}
    found = try_now(gate)
    assert found.state is Delivery.GIVEN_UP
    assert [(each.address, each.state, each.problem) for each in found.recipients] == [
        (ANN, Delivery.DELIVERED, ""), (BEN, Delivery.GIVEN_UP, "550 no such person"),
    ]  # fmt: skip
    assert try_now(gate) == found, "nobody tries it"
    (fault,) = gate.faults()
    assert (fault.kind, fault.item) == ("undelivered", REPORT)
    assert "550 no such person" in fault.what
    there.box.recipients = {}
    gate.inventory.resend(REPORT)
    assert try_now(gate).state is Delivery.DELIVERED
    assert arrived(there) == [(ANN,), (BEN,)]
    assert gate.faults() == []
    report(store="sqlite", faults=1, hit=1, violations=0)


def test_one_recipient_is_refused_for_good_and_one_for_now(there: Site, gate: Gate) -> None:
    there.box.recipients = {ANN: "450 later", BEN: "550 never"}
    assert try_now(gate).state is Delivery.WAITING
    there.box.recipients = {}
    found = try_now(gate)
    assert (found.state, arrived(there)) == (Delivery.GIVEN_UP, [(ANN,)])


@pytest.mark.parametrize(("answer", "state"), [("554 spam", Delivery.GIVEN_UP), ("451 later", Delivery.WAITING)])
def test_a_mail_that_is_refused_as_a_whole_is_given_up(there: Site, gate: Gate, answer: str, state: Delivery) -> None:
    there.box.data = answer
    found = try_now(gate)
    assert (found.state, found.recipients) == (state, ())
    assert answer in found.problem
    there.box.data = "250 OK"
    gate.inventory.resend(REPORT)
    assert try_now(gate).state is Delivery.DELIVERED


def test_a_server_that_hangs_up_before_its_answer_gets_the_mail_again_under_the_same_id(
    there: Site, gate: Gate
) -> None:
    there.box.hangs_up = True
    assert try_now(gate).state is Delivery.WAITING
    there.box.hangs_up = False
    assert try_now(gate).state is Delivery.DELIVERED
    assert arrived(there) == [(ANN, BEN)] * 2


def test_without_a_mail_server_the_mail_waits_and_says_so(there: Site, gate: Gate) -> None:
    settings = {**there.settings, "mail_server": ""}
    with headgate.connect(there.url, **settings) as without:
        found = try_now(without)
    assert found.state is Delivery.WAITING
    assert "mail_server" in found.problem


def test_an_unavailable_server_is_tried_once_in_a_round(there: Site, gate: Gate) -> None:
    there.box.data = "451 later"
    found = gate.inventory.message(REPORT)
    assert found is not None
    for number in range(2, 5):
        gate.inventory.post(Message(f"bid0000000001.report-{number}", MessageKind.MAIL, "bid0000000001", found.body))
    assert send_due(gate.ingest) == 4
    assert len(there.box.mails) == 1
    assert [each.tries for each in gate.inventory.messages()] == [1] * 4


def test_pauses_grow_vary_and_are_limited() -> None:
    middle = [pause_after(tries, None, lambda: 0.5) for tries in range(MOST_TRIES)]
    assert middle[:3] == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
    assert middle[-1] == LONGEST_PAUSE_SECONDS
    assert 1.5 < sum(middle) / 86_400 < 2.5
    ends = [pause_after(0, None, lambda: 0.0), pause_after(0, None, lambda: 1.0)]
    assert ends == [FIRST_PAUSE_SECONDS * (1 - JITTER), FIRST_PAUSE_SECONDS * (1 + JITTER)]
    assert pause_after(0, 120.0) == 120.0
    assert pause_after(0, 1e9) == LONGEST_PAUSE_SECONDS


# ---------------------------------------------------------------- callbacks


def hook_answers(there: Site, *answers: Act) -> None:
    there.origin.add(HOOK, b"", *answers)


def completed(there: Site, gate: Gate) -> IngestJob:
    url = there.origin.add("/page.txt", b"a page")
    return only_job(gate, ended(gate, gate.queue.submit("demo", "ann", url, type="file")))


@pytest.mark.parametrize("code", [500, 503])
def test_a_callback_that_may_fail_is_sent_later_under_the_same_id(there: Site, code: int) -> None:
    there.profile(callback_failure="warn", limits__tries=1, notification=[])
    hook_answers(there, acts.status(code))
    with there.gate() as gate, running(gate):
        job = completed(there, gate)
        assert job.state == "completed"
        assert "the messenger retries it" in job.message
        name = callback_id(gate.ingest, job)
        (found,) = gate.inventory.messages(failed=True)
        assert (found.id, found.state, found.sender) == (name, Delivery.WAITING, "messenger")
        gate.inventory.resend(name)
        until(lambda: not gate.inventory.messages(failed=True) and len(there.callbacks()) == 2, "it arrives")
    assert {each["id"] for each in there.callbacks()} == {name}


def test_a_callback_that_is_refused_for_good_is_listed_and_can_be_sent_again_when_its_batch_is_gone(
    there: Site,
) -> None:
    there.profile(callback_failure="warn", limits__tries=1, notification=[])
    hook_answers(there, acts.status(410))
    with there.gate() as gate, running(gate):
        job = completed(there, gate)
        name = callback_id(gate.ingest, job)
        (fault,) = gate.faults()
        assert (fault.kind, fault.item) == ("undelivered", name)
        assert "410" in fault.what
        gate.queue.clean(0)
        gate.inventory.forget(job.batch)
        gate.inventory.resend(name)
        until(lambda: len(there.callbacks()) == 2, "it arrives")
    first, second = there.origin.asked(HOOK)
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == name
    assert second.headers["webhook-signature"]


def say_nothing(handler: Handler) -> None:
    handler.origin.closing.wait()


def test_a_target_that_does_not_answer_is_retried(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    there.profile(callback_failure="warn", limits__tries=1, notification=[])
    hook_answers(there, say_nothing)
    with there.gate() as gate, running(gate):
        service = gate.ingest.service
        monkeypatch.setattr(gate.ingest, "service", lambda url: service(url, 0.3))
        completed(there, gate)
        (found,) = gate.inventory.messages(failed=True)
        assert found.state is Delivery.WAITING
        gate.inventory.resend(found.id)
        until(lambda: not gate.inventory.messages(failed=True), "it arrives")


# ---------------------------------------------------------------- the command


def test_a_report_that_was_refused_is_found_and_sent_again_by_the_command(there: Site) -> None:
    there.profile(callback_url="", confirmation_mail=True)
    there.box.recipients = {ANN: "550 no such person"}
    with there.gate() as gate, running(gate):
        batch = ended(gate, gate.queue.submit("demo", "ann", there.origin.add("/a.txt", b"a"), type="file"))
        until(lambda: len(gate.inventory.messages(failed=True)) == 2, "both mails are refused")
        command = Headgate(there.url, there.folder)
        listed = command("messages", "list", "--failed", "--json").json["items"]
        names = {each["id"] for each in listed}
        assert names == {f"{batch.id}.queued", f"{batch.id}.report-1"}
        shown = command("messages", "show", f"{batch.id}.report-1").out
        assert "550 no such person" in shown
        assert "Message-ID" in shown
        doctor = command("doctor")
        assert (doctor.code, doctor.out.count("undelivered")) == (1, 2)
        there.box.recipients = {}
        command("messages", "resend", f"{batch.id}.report-1")
        command("messages", "discard", f"{batch.id}.queued", "--reason", "it is old")
        until(lambda: len(there.mails()) == 1, "it arrives")
        until(lambda: not gate.faults(), "nothing is wrong any more")
        assert command("messages", "resend", "--all-failed").out == "nothing to send again\n"
        assert command("messages", "resend").code == 2
        assert command("messages", "resend", "none").code != 0


@pytest.mark.parametrize("state", ["reporting", "update-reporting"])
def test_a_report_that_killed_its_workers_is_mailed_once_when_it_is_released(there: Site, state: str) -> None:
    there.profile("maps")
    with there.gate() as gate:
        queue, context = gate.queue, gate.ingest
        batch = batch_in(queue, "reporting", well=False)
        if state == "update-reporting":
            (job,) = queue.jobs(batch=batch.id)
            queue.fire(taken_batch(queue, "reporting"), "finish", report=StatusReport((job.id,), ()))
            advance(queue, as_job(queue.resume(job.id)), "completed")
            queue.update_report(batch.id, reason="it was repaired")
        gate.inventory.keep_intake(Intake(batch.id, context.current_profile("maps").snapshot()))
        assert announce(context, batch.id, "report")
        for _ in range(3):
            assert queue.acquire_batch(state, lease=0.03, outlives=True)
            until(lambda: queue.reap() == 1, "the reaper to notice")
        assert queue.batch(batch.id).state == "held"
        assert queue.release(batch.id, reason="the machine had no memory").state == state
        assert not announce(context, batch.id, "report")
        assert [each.id for each in gate.inventory.messages(batch.id)] == [f"{batch.id}.report-1"]
