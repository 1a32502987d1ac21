"""Sending a mail by SMTP."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Literal

from headgate.core.errors import BadValue, ServiceRefused, ServiceUnavailable

Security = Literal["starttls", "tls", "none"]


@dataclass(frozen=True, slots=True)
class MailServer:
    """How mails leave."""

    host: str
    port: int = 587
    #: starttls: plain at first, then encrypted or not at all. tls: encrypted from the beginning. none: for loopback.
    security: Security = "starttls"
    user: str = ""
    password: str = ""
    timeout: float = 30.0
    #: Certificates that are trusted beside the system's: a file; empty: the system's alone.
    authorities: str = ""

    def __repr__(self) -> str:
        """Without the password."""
        return f"MailServer({self.host}:{self.port}, {self.security})"


def send(server: MailServer, message: EmailMessage) -> dict[str, str]:
    """Hand a mail over. Gives the recipients that the server did not take, with its reasons.

    ServiceUnavailable when it may pass later; ServiceRefused when the server will never take it.
    """
    if server.user and server.security == "none":
        raise BadValue("mail server", server.host, "would be sent the password in the clear")
    if not message["Message-ID"]:
        raise BadValue("mail", message["Subject"], "has no Message-ID; a repeat could not be told from another mail")
    name = f"mail server {server.host}:{server.port}"
    with _translated(name), _connected(server) as connection:
        if server.user:
            connection.login(server.user, server.password)
        refused = connection.send_message(message)
    return {recipient: _text(reason) for recipient, (_, reason) in refused.items()}


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
    except smtplib.SMTPRecipientsRefused as error:
        said = "; ".join(f"{recipient}: {_text(text)}" for recipient, (_, text) in error.recipients.items())
        if any(code < 500 for code, _ in error.recipients.values()):
            raise ServiceUnavailable(name, f"it takes no recipient now: {said}") from error
        raise ServiceRefused(name, f"it takes no recipient: {said}") from error
    except smtplib.SMTPNotSupportedError as error:
        raise ServiceRefused(name, str(error)) from error
    except smtplib.SMTPResponseException as error:
        said = f"it answers {error.smtp_code} {_text(error.smtp_error)}"
        if 500 <= error.smtp_code < 600:
            raise ServiceRefused(name, said) from error
        raise ServiceUnavailable(name, said) from error
    except UnicodeError as error:
        raise BadValue(name, "user or password", "has a letter that its login cannot send") from error
    except (smtplib.SMTPException, OSError) as error:
        raise ServiceUnavailable(name, str(error)) from error


def _text(reply: bytes | str) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else reply
