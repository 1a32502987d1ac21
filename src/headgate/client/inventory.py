"""The inventory of a service: each operation as it is declared in `headgate.operations.inventory`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.calls.deadlines import INVENTORY_CALLS, answered_in_time
from headgate.client.connection import Connection
from headgate.client.sending import send, sends
from headgate.core.errors import BadValue
from headgate.core.inventory import Intake, InventoryFile, Message, MessageFilter, ObjectFilter, Recording, StoredObject
from headgate.core.wire import plain
from headgate.operations import inventory

#: Local ids that are asked for in one request.
PORTION = 100


@answered_in_time(INVENTORY_CALLS)
class ServiceInventory:
    """Stored objects, and the outbox beside them, behind a service."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self.connection = connection
        self.options = connection.options

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(ids), PORTION):
            portion = ids[start : start + PORTION]
            found |= send(self.connection, inventory.known_local_ids, owner=owner, local=portion)
        return found

    claim_local_ids = sends(inventory.claim_local_ids)

    def record(self, recording: Recording, messages: Sequence[Message], who: str) -> bool:
        if messages:
            raise BadValue("messages", messages[0].id, "is written by the service itself, from the profile")
        return bool(send(self.connection, inventory.record, recording=recording, by=who))

    def owner_and_version(self, ark: str) -> tuple[str, int] | None:
        found = send(self.connection, inventory.owner_and_version, ark=ark)
        return None if found is None else (str(found["owner"]), int(found["version"]))

    def recorded(self, job: str) -> tuple[str, int] | None:
        found = send(self.connection, inventory.recorded, job=job)
        return None if found is None else (str(found["ark"]), int(found["version"]))

    def objects(self, which: ObjectFilter) -> Sequence[StoredObject]:
        found: Sequence[StoredObject] = send(self.connection, inventory.objects, **plain(which))
        return found

    versions = sends(inventory.versions)

    def files(self, ark: str, version: int, start: int = 0, limit: int | None = None) -> Sequence[InventoryFile]:
        asked = {"ark": ark, "version": version, "after": str(start), "limit": limit}
        found: Sequence[InventoryFile] = send(self.connection, inventory.files, **asked)
        return found

    def remove(self, ark: str, dataids: Sequence[str], reason: str, who: str) -> bool:
        return bool(send(self.connection, inventory.remove, ark=ark, dataids=dataids, reason=reason, by=who))

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        del anew
        raise BadValue("intake", intake.batch, "is kept by the service itself when the batch is taken")

    intake = sends(inventory.intake)
    set_problem = sends(inventory.set_problem)
    forget = sends(inventory.forget)

    def post(self, message: Message) -> bool:
        raise BadValue("message", message.id, "is written by the service itself, from the profile")

    def messages(self, which: MessageFilter) -> Sequence[Message]:
        asked = {"item": which.item, "failed": which.failed, "after": which.after, "limit": which.limit}
        found: Sequence[Message] = send(self.connection, inventory.messages, **asked)
        return found

    message = sends(inventory.message)
    due = sends(inventory.due)
    settle = sends(inventory.settle)
    delay = sends(inventory.delay)
    resend = sends(inventory.resend)
    discard = sends(inventory.discard)
