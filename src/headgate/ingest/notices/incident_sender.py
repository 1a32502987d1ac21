"""Sending notices of incidents: signed webhooks, mail, and JSON for Slack and similar services.

The settings contain the addresses and secrets: a message only names its recipient there.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from headgate.core.errors import BadValue
from headgate.core.inventory import Message, MessageKind
from headgate.core.notices import REFERENCES, NoticeRoute, parse_routes
from headgate.core.values.redaction import remember
from headgate.ingest.context import service_rules
from headgate.ingest.mail_server import mail_server
from headgate.ingest.notices import callback, outbox
from headgate.ingest.profiles.profile import read_secret
from headgate.ingest.profiles.values import mail_address
from headgate.ingest.sources.fetch import Fetcher
from headgate.service.inventory import Inventory
from headgate.settings import Settings

#: Maximum number of characters in the subject of a mail.
LONGEST_SUBJECT = 120


class NoticeSender:
    """Sends notices according to the settings of this process."""

    def __init__(self, settings: Settings, inventory: Inventory) -> None:
        self._routes = {each.name: each for each in parse_routes(settings["notices"])}
        self._inventory = inventory
        self._server = mail_server(settings["mail_server"], settings["mail_password"])
        self._from, self._reply_to = settings["mail_from"], settings["mail_reply_to"]

    def send(self, message: Message) -> None:
        """Send one notice, and record the outcome."""
        route = self._routes.get(message.to)
        if route is None or route.channel is not message.kind:
            raise BadValue("notice", message.to, "has no recipient of that name and kind in the settings (notices)")
        if message.kind is MessageKind.NOTICE:
            self._mail(message, route)
            return
        url, secret = _resolved(route.to[0]), _resolved(route.secret)
        sending = callback.Callback(url, message.id, message.body.encode(), secret)
        with Fetcher(service_rules(url)) as fetcher:  # Notices are rare, so no connection is kept open.
            callback.deliver(fetcher, sending, outbox.ONE_TRY)
        self._inventory.delivered(message)

    def _mail(self, message: Message, route: NoticeRoute) -> None:
        if self._server is None:
            raise BadValue("setting", "mail_server", "is not set, so no mail can be sent")
        mail = notice_mail(message, self._from, route.to, self._reply_to)
        outbox.deliver_mail(self._inventory, self._server, message, mail, route.to)


def _resolved(reference: str) -> str:
    """A value, or the value that a reference names. It is masked in all texts from then on."""
    if not reference.startswith(REFERENCES):
        return reference
    found = read_secret(reference, os.environ)
    remember([found])
    return found


def notice_mail(message: Message, sender: str, to: tuple[str, ...], reply_to: str = "") -> EmailMessage:
    """The mail of a notice: always exactly the same bytes."""
    body = json.loads(message.body)
    text = str(body["text"])
    mail = EmailMessage(policy=SMTP)
    address = Address(addr_spec=mail_address(sender))
    mail["From"] = address
    mail["To"] = [Address(addr_spec=mail_address(each)) for each in to]
    if reply_to:
        mail["Reply-To"] = Address(addr_spec=mail_address(reply_to))
    mail["Subject"] = f"Headgate: {text.splitlines()[0]}"[:LONGEST_SUBJECT]
    mail["Date"] = format_datetime(datetime.fromisoformat(body["timestamp"]))
    mail["Message-ID"] = f"<{message.id}@{address.domain}>"
    mail["Auto-Submitted"] = "auto-generated"  # Prevents automatic replies (RFC 3834).
    mail.set_content(f"{text}\n\nList them with: headgate incident list\n")
    return mail
