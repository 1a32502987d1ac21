"""Mails: delivered whole, encrypted or not at all, and the answers of servers are distinguished."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import BadValue, ServiceRefused, ServiceUnavailable
from headgate.ingest.mail_server import MailServer
from headgate.ingest.notices.mail import Refusal, send
from tests.ingest.mailbox import Box, Loopback
from tests.ingest.origin import server_context

Start = Callable[..., MailServer]


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def start(box: Box) -> Iterator[Start]:
    with ExitStack() as running:

        def start(security: str = "none", **options: Any) -> MailServer:
            controller = Loopback(box, **options)
            controller.start()
            running.callback(controller.stop)
            return MailServer("127.0.0.1", controller.port, security, timeout=5.0)  # type: ignore[arg-type]

        yield start


def mail(*recipients: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "Ingest: OK -- Submission Processed"
    message["From"] = "headgate@example.org"
    message["To"] = ", ".join(recipients or ["ann@example.org"])
    message["Message-ID"] = "<bid0000000001.report@headgate>"
    message.set_content("Grüße\n")
    message.add_attachment(b"{}", maintype="application", subtype="json", filename="completed.json")
    return message


def test_a_mail_arrives_whole(start: Start, box: Box) -> None:
    assert send(start(), mail("ann@example.org", "ben@example.org")) == {}
    (envelope,) = box.mails
    assert envelope.rcpt_tos == ["ann@example.org", "ben@example.org"]
    assert b"Message-ID: <bid0000000001.report@headgate>" in envelope.content
    assert b"completed.json" in envelope.content


def test_refused_recipients_are_named(start: Start, box: Box) -> None:
    box.recipients = {"ben@example.org": "550 no such person"}
    refused = send(start(), mail("ann@example.org", "ben@example.org"))
    assert refused == {"ben@example.org": Refusal(for_good=True, why="550 no such person")}
    assert len(box.mails) == 1


def test_a_mail_can_be_sent_to_some_of_its_recipients(start: Start, box: Box) -> None:
    assert send(start(), mail("ann@example.org", "ben@example.org"), ["ben@example.org"]) == {}
    assert [each.rcpt_tos for each in box.mails] == [["ben@example.org"]]


def test_a_server_that_disconnects_after_some_recipients_has_accepted_none(start: Start, box: Box) -> None:
    box.recipients = {"ben@example.org": "421 later"}
    refused = send(start(), mail("ann@example.org", "ben@example.org", "cat@example.org"))
    assert {address: refusal.for_good for address, refusal in refused.items()} == {
        "ann@example.org": False, "ben@example.org": False, "cat@example.org": False,
    }  # fmt: skip
    assert box.mails == []


@pytest.mark.parametrize(("answer", "error"), [("550 never", ServiceRefused), ("451 later", ServiceUnavailable)])
def test_temporary_and_permanent_failures_are_distinguished(
    start: Start, box: Box, answer: str, error: type[Exception]
) -> None:
    box.recipients = {"ann@example.org": answer}
    assert send(start(), mail()) == {"ann@example.org": Refusal(for_good=error is ServiceRefused, why=answer)}
    box.recipients, box.data = {}, answer
    with pytest.raises(error, match=answer[4:]):
        send(start(), mail())


def test_a_server_that_is_down_is_a_temporary_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ServiceUnavailable, match="timed out"):
            send(MailServer("127.0.0.1", port, "none", timeout=0.2), mail())
    with pytest.raises(ServiceUnavailable):
        send(MailServer("127.0.0.1", port, "none", timeout=5), mail())


def test_starttls_is_used_and_its_certificate_checked(start: Start, box: Box, certificate: Path) -> None:
    server = start("starttls", tls_context=server_context(certificate), require_starttls=True)
    with pytest.raises(ServiceUnavailable, match="certificate"):
        send(server, mail())
    assert box.mails == []
    trusting = MailServer(server.host, server.port, "starttls", authorities=str(certificate))
    assert send(trusting, mail()) == {}
    assert len(box.mails) == 1


def test_without_starttls_nothing_is_sent_unencrypted(start: Start, box: Box) -> None:
    with pytest.raises(ServiceUnavailable, match="STARTTLS"):
        send(start("starttls"), mail())
    assert box.mails == []


def test_a_password_is_not_sent_unencrypted_nor_shown(start: Start) -> None:
    server = MailServer("127.0.0.1", start().port, "none", "ann", "secret")
    with pytest.raises(BadValue, match="unencrypted"):
        send(server, mail())
    assert "secret" not in repr(server)


def test_a_mail_without_an_id_is_refused(start: Start) -> None:
    message = mail()
    del message["Message-ID"]
    with pytest.raises(BadValue, match="Message-ID"):
        send(start(), message)


def test_a_password_that_a_login_cannot_send_is_reported(start: Start, certificate: Path) -> None:
    port = start("starttls", tls_context=server_context(certificate)).port
    server = MailServer("127.0.0.1", port, "starttls", "ann", "pässwörd", authorities=str(certificate))
    with pytest.raises(BadValue, match="login cannot send") as told:
        send(server, mail())
    assert "pässwörd" not in str(told.value)
