"""The inventory of a service: the port over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.client.connection import Connection
from headgate.core.errors import BadValue
from headgate.core.inventory import (
    Delivery,
    Intake,
    InventoryFile,
    Message,
    MessageFilter,
    ObjectFilter,
    ObjectVersion,
    Recipient,
    Recording,
    StoredObject,
)
from headgate.core.wire import parse, plain
from headgate.stores.deadlines import INVENTORY_CALLS, answered_in_time

#: Local ids that are asked for in one request.
PORTION = 100


@answered_in_time(INVENTORY_CALLS)
class ServiceInventory:
    """Stored objects, and the outbox beside them, behind a service."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._connection = connection
        self.options = connection.options

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(ids), PORTION):
            found |= self._connection.get(
                "inventory", "local-ids", owner=owner, local=list(ids[start : start + PORTION])
            )
        return found

    def claim_local_ids(self, owner: str, ids: Sequence[str], ark: str) -> str:
        body = {"owner": owner, "ids": list(ids), "ark": ark}
        return str(self._connection.send("POST", "inventory", "local-ids", body=body)["ark"])

    def record(self, recording: Recording, messages: Sequence[Message], who: str) -> bool:
        if messages:
            raise BadValue("messages", messages[0].id, "is written by the service itself, from the profile")
        body = {"recording": plain(recording), "by": who}
        return bool(self._connection.once("inventory", "recordings", body=body)["new"])

    def owner_and_version(self, ark: str) -> tuple[str, int] | None:
        found = self._connection.get("objects", "owner", ark=ark)
        return None if found is None else (str(found["owner"]), int(found["version"]))

    def recorded(self, job: str) -> tuple[str, int] | None:
        found = self._connection.get("inventory", "recordings", job=job)
        return None if found is None else (str(found["ark"]), int(found["version"]))

    def objects(self, which: ObjectFilter) -> Sequence[StoredObject]:
        return [parse(StoredObject, each) for each in self._connection.pages("objects", **plain(which))]

    def versions(self, ark: str) -> Sequence[ObjectVersion]:
        return [parse(ObjectVersion, each) for each in self._connection.pages("objects", "versions", ark=ark)]

    def files(self, ark: str, version: int, start: int = 0, limit: int | None = None) -> Sequence[InventoryFile]:
        found = self._connection.pages("objects", "files", limit=limit, ark=ark, version=version, after=start)
        return [parse(InventoryFile, each) for each in found]

    def remove(self, ark: str, dataids: Sequence[str], reason: str, who: str) -> bool:
        body = {"ark": ark, "dataids": list(dataids), "reason": reason, "by": who}
        return bool(self._connection.once("inventory", "removals", body=body)["removed"])

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        del anew
        raise BadValue("intake", intake.batch, "is kept by the service itself when the batch is taken")

    def intake(self, batch: str) -> Intake | None:
        found = self._connection.get("inventory", "intakes", batch)
        return None if found is None else parse(Intake, found)

    def set_problem(self, batch: str, problem: str) -> None:
        self._connection.send("PUT", "inventory", "intakes", batch, "problem", body={"problem": problem})

    def forget(self, item: str) -> None:
        self._connection.send("DELETE", "inventory", "items", item)

    def post(self, message: Message) -> bool:
        raise BadValue("message", message.id, "is written by the service itself, from the profile")

    def message(self, message_id: str) -> Message | None:
        found = self._connection.get("messages", message_id)
        return None if found is None else parse(Message, found)

    def messages(self, which: MessageFilter) -> Sequence[Message]:
        query: dict[str, Any] = {
            "item": which.item,
            "failed": which.failed or None,
            "after": which.after,
            "limit": which.limit,
        }
        return _messages(self._connection.pages("messages", **query))

    def due(self, limit: int) -> Sequence[Message]:
        return _messages(self._connection.pages("messages", "due", limit=limit))

    def settle(self, message_id: str, state: Delivery, problem: str = "", recipients: Sequence[Recipient] = ()) -> None:
        body = {"state": state.value, "problem": problem, "recipients": plain(recipients)}
        self._connection.send("POST", "messages", message_id, "settle", body=body)

    def delay(self, message_id: str, problem: str, seconds: float, recipients: Sequence[Recipient] = ()) -> None:
        body = {"problem": problem, "seconds": seconds, "recipients": plain(recipients)}
        self._connection.once("messages", message_id, "delay", body=body)

    def resend(self, message_id: str) -> Message:
        found: Message = parse(Message, self._connection.once("messages", message_id, "resend"))
        return found

    def discard(self, message_id: str, reason: str) -> Message:
        body = {"reason": reason}
        found = self._connection.once("messages", message_id, "discard", body=body)
        discarded: Message = parse(Message, found)
        return discarded


def _messages(documents: Any) -> list[Message]:
    return [parse(Message, each) for each in documents]
