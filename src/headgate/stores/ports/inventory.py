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

    #: What errors call this store: its URL without a password.
    name: str

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Which of an owner's local ids are known, and the ARK of each."""

    def claim_local_ids(self, owner: str, ids: Sequence[str], ark: str) -> str:
        """Make an owner's local ids the given object's; gives the ARK that they are of: another's, if it was first.

        ObjectRefused when they are of different objects.
        """

    def record(self, recording: Recording, messages: Sequence[Message], who: str) -> bool:
        """Write one version down with its files, names and messages, and publish it in the ledger: one step.

        False when this job has recorded this very version before. ObjectRefused when what is known contradicts.
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
        """The files of a version, in the order of its manifest; from position `start` on, at most `limit`."""

    def keep_log(self, job: str, token: int, attempt: int, step: str, texts: Sequence[LogText], *, ended: bool) -> None:
        """Keep the end of what was written in one step of an ingest job, by the consumer of that token."""

    def logs(self, job: str, limit: int) -> Sequence[Log]:
        """The kept logs of an ingest job, newest step first."""

    def remove(self, ark: str, dataids: Sequence[str], reason: str, who: str) -> bool:
        """Strike an object out with its versions, files and names, and its chunks out of the ledger: one step.

        `dataids`: what the ledger calls its versions. False when there is no such object.
        """

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        """What a batch starts with; gives what it started with when it was kept before. `anew`: replace that."""

    def intake(self, batch: str) -> Intake | None:
        """What a batch started with; None when it has not."""

    def set_problem(self, batch: str, problem: str) -> None:
        """Why a batch's payload gave no jobs; of a batch that never started, all that is kept."""

    def forget(self, item: str) -> None:
        """An item is gone: its intake and its delivered messages go; what was not delivered stays."""

    def post(self, message: Message) -> bool:
        """Put a message into the outbox; False when one of that id was put there before."""

    def message(self, message_id: str) -> Message | None:
        """A message by its id."""

    def messages(self, which: MessageFilter) -> Sequence[Message]:
        """Messages by id, without their bodies."""

    def due(self, limit: int) -> Sequence[Message]:
        """Messages that the messenger sends and whose time has come, the longest due first."""

    def settle(self, message_id: str, state: Delivery, problem: str = "", recipients: Sequence[Recipient] = ()) -> None:
        """A message was delivered, or a message that waited was given up. What was delivered stays so."""

    def delay(self, message_id: str, problem: str, seconds: float, recipients: Sequence[Recipient] = ()) -> None:
        """A message that waits could not be delivered: the messenger tries again after that long."""

    def resend(self, message_id: str) -> Message:
        """Let the messenger send a message now, as if it had not been tried. UnknownName when there is none.

        Recipients that have it get it again only if all have it.
        """

    def discard(self, message_id: str, reason: str) -> Message:
        """Remove a message from the outbox; returns it without its body. UnknownName when there is none."""
