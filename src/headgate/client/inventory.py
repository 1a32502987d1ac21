"""The inventory of a service: each operation as it is declared in `headgate.operations.inventory`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.calls.deadlines import INVENTORY_CALLS, answered_in_time
from headgate.client.sending import ServicePart, remote, send
from headgate.core.errors import BadValue
from headgate.core.inventory import Intake, InventoryFile, Message, Recording
from headgate.operations import inventory
from headgate.service.inventory import Inventory

#: Number of local ids in one request.
PORTION = 100


@answered_in_time(INVENTORY_CALLS)
@remote("inventory", inventory.declared)
class RemoteInventory(ServicePart, Inventory):
    """Stored objects and the outbox behind a service, which checks and records each operation."""

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(ids), PORTION):
            portion = ids[start : start + PORTION]
            found |= send(self.connection, inventory.known_local_ids, owner=owner, local=portion)
        return found

    def claim_local_ids(self, owner: str, ids: Sequence[str], ark: str) -> str:
        return str(send(self.connection, inventory.claim_local_ids, owner=owner, ids=ids, ark=ark)) if ids else ark

    def record(self, recording: Recording, messages: Sequence[Message] = (), *, by: str | None = None) -> bool:
        if messages:
            raise BadValue("messages", messages[0].id, "is written by the service itself, from the profile")
        return bool(send(self.connection, inventory.record, recording=recording, by=by))

    def files(self, ark: str, version: int, *, start: int = 0, limit: int | None = None) -> Sequence[InventoryFile]:
        asked = {"ark": ark, "version": version, "after": str(start), "limit": limit}
        found: Sequence[InventoryFile] = send(self.connection, inventory.files, **asked)
        return found

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        del anew
        raise BadValue("intake", intake.batch, "is stored by the service itself when the batch is taken")

    def post(self, message: Message) -> bool:
        raise BadValue("message", message.id, "is written by the service itself, from the profile")
