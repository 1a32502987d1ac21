"""Sending the outbox: one implementation for all messages. Senders determine content and recipients of each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.message import EmailMessage

from headgate.core.errors import Invalid, ServiceRefused, ServiceUnavailable
from headgate.core.inventory import Delivery, Message, MessageKind, Recipient
from headgate.ingest.mail_server import MailServer
from headgate.ingest.notices import mail
from headgate.ingest.retries import Retries
from headgate.service.inventory import Inventory

#: The destination of mails, which are sent separately from callbacks.
MAIL_SERVER = "mail server"
#: One attempt each time: the outbox itself retries.
ONE_TRY = Retries(tries=1)


def send_due(inventory: Inventory, send: Callable[[Message], None], kinds: Sequence[MessageKind]) -> int:
    """Send messages of these kinds that wait and are due. Returns how many were due.

    An unavailable service is tried once per round: its other messages are deferred too.
    """
    due = [message for message in inventory.due() if message.kind in kinds]
    away: dict[str, ServiceUnavailable] = {}
    for message in due:
        where = message.to.partition("?")[0] if message.to else MAIL_SERVER
        try:
            if where in away:
                raise away[where]
            send(message)
        except ServiceRefused as error:
            inventory.undelivered(message, str(error), for_good=True)
        except ServiceUnavailable as error:
            away[where] = error
            inventory.undelivered(message, str(error), retry_after=error.retry_after)
        except Invalid as error:
            inventory.undelivered(message, str(error))
    return len(due)


def deliver_mail(
    inventory: Inventory, server: MailServer, message: Message, parsed: EmailMessage, wanted: Sequence[str]
) -> None:
    """Each recipient gets it once, as far as the server reports; permanently refused ones are not retried."""
    settled = {each.address: each for each in message.recipients if each.state is not Delivery.WAITING}
    refused = mail.send(server, parsed, [each for each in wanted if each not in settled])
    recipients = [settled.get(each) or _recipient(each, refused.get(each)) for each in wanted]
    problem = "; ".join(f"{each.address}: {each.problem}" for each in recipients if each.problem)
    states = {each.state for each in recipients}
    if states <= {Delivery.DELIVERED}:
        inventory.delivered(message, recipients)
        return
    for_good = Delivery.WAITING not in states
    inventory.undelivered(message, problem, for_good=for_good, recipients=recipients)


def _recipient(address: str, refusal: mail.Refusal | None) -> Recipient:
    if refusal is None:
        return Recipient(address, Delivery.DELIVERED)
    return Recipient(address, Delivery.GIVEN_UP if refusal.for_good else Delivery.WAITING, refusal.why)
