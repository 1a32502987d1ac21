"""The mail server that a setting names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from headgate.core.errors import BadValue

Security = Literal["starttls", "tls", "none"]
#: Schemes of the setting, each with its security and default port.
SCHEMES: dict[str, tuple[Security, int]] = {
    "smtp": ("starttls", 587),
    "smtps": ("tls", 465),
    "smtp+plain": ("none", 25),
}


@dataclass(frozen=True, slots=True)
class MailServer:
    """How mails leave."""

    host: str
    port: int = 587
    #: starttls: encrypted before anything is sent, or refused. tls: encrypted from the start. none: for loopback.
    security: Security = "starttls"
    user: str = ""
    password: str = ""
    timeout: float = 30.0
    #: A file with trusted certificates in addition to the system's; empty: only the system's.
    authorities: str = ""

    def __repr__(self) -> str:
        """Without the password."""
        return f"MailServer({self.host}:{self.port}, {self.security})"


def mail_server(url: str, password: str) -> MailServer | None:
    """The mail server that a setting names; None: none."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadValue("mail_server", url, f"cannot be read: {error}") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise BadValue("mail_server", url, "is not one of smtp://host, smtps://host and smtp+plain://host")
    security, usual = SCHEMES[parts.scheme]
    return MailServer(parts.hostname, port or usual, security, unquote(parts.username or ""), password)
