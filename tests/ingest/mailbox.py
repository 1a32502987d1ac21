"""A mail server on loopback that keeps what it receives, and refuses on request."""

from __future__ import annotations

import socket
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP


class Box:
    """Takes mails, and refuses on request."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.recipients: dict[str, str] = {}
        self.data = "250 OK"
        #: Close the connection without an answer after receiving a mail.
        self.hangs_up = False

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        answer = self.recipients.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        if self.hangs_up:
            server.transport.abort()
        self.mails.append(envelope)
        return self.data


class Loopback(Controller):
    """On a free port."""

    def __init__(self, box: Box, **options: Any) -> None:
        self.server_options = options
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        super().__init__(box, hostname="127.0.0.1", port=port)

    def factory(self) -> SMTP:
        return SMTP(self.handler, **self.server_options)
