"""Sending a mail by SMTP."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import getaddresses

from headgate.core.errors import BadValue, ServiceRefused, ServiceUnavailable
from headgate.ingest.mail_server import MailServer

#: Errors by which a server refuses the client rather than a mail.
NOT_LET_IN = (smtplib.SMTPConnectError, smtplib.SMTPHeloError, smtplib.SMTPAuthenticationError)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A recipient that the server refused."""

    #: The refusal is permanent.
    for_good: bool
    #: The server's answer.
    why: str


def send(server: MailServer, message: EmailMessage, recipients: Sequence[str] = ()) -> dict[str, Refusal]:
    """Send a mail to these recipients (default: all that it names). Returns the recipients that the server refused.

    ServiceUnavailable when the server cannot be reached, rejects the login, or is busy; ServiceRefused when it refuses
    the mail itself permanently.
    """
    if server.user and server.security == "none":
        raise BadValue("mail server", server.host, "would receive the password unencrypted")
    if not message["Message-ID"]:
        raise BadValue("mail", message["Subject"], "has no Message-ID, so a repeat could not be recognised")
    wanted = list(recipients) or recipients_of(message)
    name = f"mail server {server.host}:{server.port}"
    with _translated(name), _connected(server) as connection:
        if server.user:
            connection.login(server.user, server.password)
        try:
            refused = connection.send_message(message, to_addrs=wanted)
        except smtplib.SMTPRecipientsRefused as error:
            # With 421 the server disconnected before all of them were sent.
            refused = dict.fromkeys(wanted, (421, b"the server hung up")) | error.recipients
    return {each: Refusal(500 <= code < 600, f"{code} {_text(said)}") for each, (code, said) in refused.items()}


def recipients_of(message: EmailMessage) -> list[str]:
    """The addresses that a mail names, each once."""
    fields = [str(each) for name in ("To", "Cc", "Bcc") for each in message.get_all(name, [])]
    return list(dict.fromkeys(address for _, address in getaddresses(fields) if address))


@contextmanager
def _connected(server: MailServer) -> Iterator[smtplib.SMTP]:
    if server.security == "tls":
        context = _context(server)
        connection: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=server.timeout, context=context)
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=server.timeout)
    with connection:
        if server.security == "starttls":
            connection.starttls(context=_context(server))
        yield connection


def _context(server: MailServer) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if server.authorities:
        context.load_verify_locations(server.authorities)
    return context


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except (smtplib.SMTPNotSupportedError, *NOT_LET_IN) as error:
        # The mail itself was not refused: the server, or the settings, may be repaired.
        raise ServiceUnavailable(name, _said(error)) from error
    except smtplib.SMTPResponseException as error:
        if 500 <= error.smtp_code < 600:
            raise ServiceRefused(name, _said(error)) from error
        raise ServiceUnavailable(name, _said(error)) from error
    except UnicodeError as error:
        raise BadValue(name, "user or password", "has a character that its login cannot send") from error
    except (smtplib.SMTPException, OSError) as error:
        raise ServiceUnavailable(name, str(error)) from error


def _said(error: smtplib.SMTPException) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"it answers {error.smtp_code} {_text(error.smtp_error)}"
    return str(error)


def _text(reply: bytes | str) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else reply
