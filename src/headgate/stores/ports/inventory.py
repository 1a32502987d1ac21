"""The port of the inventory: what a store of it must do. Every method may raise StoreUnavailable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

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
from headgate.core.logs import Log, LogText


class InventoryStore(Protocol):
    """Stored objects and their names, the profiles that batches started with, and messages to send."""

    #: The name of this store in error messages: its URL without a password.
    name: str

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Which of an owner's local ids are known, with the ARK of each."""

    def claim_local_ids(self, owner: str, ids: Sequence[str], ark: str) -> str:
        """Assign an owner's local ids to the given object; returns the ARK that they belong to, which is another's if
        it was first.

        ObjectRefused when they belong to different objects.
        """

    def record(self, recording: Recording, messages: Sequence[Message], who: str) -> bool:
        """Record one version with its files, names and messages, and publish it in the ledger, in one step.

        False when this job has already recorded this version. ObjectRefused when it contradicts what is recorded.
        """

    def owner_and_version(self, ark: str) -> tuple[str, int] | None:
        """The owner and the newest version of an object; None when no version of it is recorded."""

    def recorded(self, job: str) -> tuple[str, int] | None:
        """The object and version that an ingest job has recorded."""

    def objects(self, which: ObjectFilter) -> Sequence[StoredObject]:
        """Objects, by ARK."""

    def versions(self, ark: str) -> Sequence[ObjectVersion]:
        """Every version of an object, oldest first. UnknownName when there is none."""

    def files(self, ark: str, version: int, start: int = 0, limit: int | None = None) -> Sequence[InventoryFile]:
        """The files of a version, in the order of its manifest, from position `start` on, at most `limit`."""

    def keep_log(self, job: str, token: int, attempt: int, step: str, texts: Sequence[LogText], *, ended: bool) -> None:
        """Store the end of the log of one step of an ingest job, on behalf of the consumer with that token."""

    def logs(self, job: str, limit: int) -> Sequence[Log]:
        """The stored logs of an ingest job, newest step first."""

    def remove(self, ark: str, dataids: Sequence[str], reason: str, who: str) -> bool:
        """Remove an object with its versions, files and names, and its chunks from the ledger, in one step.

        `dataids`: the data ids of its versions in the ledger. False when there is no such object.
        """

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        """Store what a batch starts with; returns the values stored before, if any. `anew`: replace that."""

    def intake(self, batch: str) -> Intake | None:
        """The values that a batch started with; None when it has not started."""

    def set_problem(self, batch: str, problem: str) -> None:
        """Record why a batch's payload yielded no jobs; for a batch that never started, this is all that is stored."""

    def forget(self, item: str) -> None:
        """An item was removed: remove its intake and its delivered messages; undelivered ones stay."""

    def post(self, message: Message) -> bool:
        """Put a message into the outbox; False when one with that id was already there."""

    def message(self, message_id: str) -> Message | None:
        """The message with that id."""

    def messages(self, which: MessageFilter) -> Sequence[Message]:
        """Messages by id, without their bodies."""

    def due(self, limit: int) -> Sequence[Message]:
        """Messages that the messenger has to send and that are due, the longest due first."""

    def settle(self, message_id: str, state: Delivery, problem: str = "", recipients: Sequence[Recipient] = ()) -> None:
        """Record that a message was delivered, or that a waiting message was given up. A delivered message stays
        delivered.
        """

    def delay(self, message_id: str, problem: str, seconds: float, recipients: Sequence[Recipient] = ()) -> None:
        """Record that a waiting message could not be delivered: the messenger retries after that time."""

    def resend(self, message_id: str) -> Message:
        """Make the messenger send a message now, as if it had not been tried. UnknownName when there is none.

        Recipients that have already received it get it again only if all have.
        """

    def discard(self, message_id: str, reason: str) -> Message:
        """Remove a message from the outbox; returns it without its body. UnknownName when there is none."""
