"""The port of the inventory: what a store of it must do. Every method may raise StoreUnavailable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headgate.core.inventory import (
    Delivery,
    Intake,
    InventoryFile,
    Kind,
    Message,
    ObjectFilter,
    ObjectVersion,
    Recording,
    StoredObject,
)


class InventoryStore(Protocol):
    """What is stored, by which names; what batches started with; what others are to be told."""

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
        """Who owns an object, and its newest version; None when no version of it is recorded."""

    def recorded(self, job: str) -> tuple[str, int] | None:
        """The object and version that an ingest job has recorded."""

    def objects(self, which: ObjectFilter) -> Sequence[StoredObject]:
        """Objects, by ARK."""

    def versions(self, ark: str) -> Sequence[ObjectVersion]:
        """Every version of an object, oldest first. UnknownName when there is none."""

    def files(self, ark: str, version: int) -> Sequence[InventoryFile]:
        """The files of a version."""

    def remove(self, ark: str, dataids: Sequence[str], reason: str, who: str) -> bool:
        """Strike an object out with its versions, files and names, and its chunks out of the ledger: one step.

        `dataids`: what the ledger calls its versions. False when there is no such object.
        """

    def keep_intake(self, intake: Intake) -> Intake:
        """What a batch starts with; gives what it started with when it was kept before."""

    def intake(self, batch: str) -> Intake | None:
        """What a batch started with; None when it has not."""

    def set_problem(self, batch: str, problem: str) -> None:
        """Why a batch's payload gave no jobs."""

    def forget(self, item: str) -> None:
        """An item is cleaned up: its intake goes, and what was told of it; what still waits stays."""

    def post(self, message: Message) -> bool:
        """Put a message into the outbox; False when one of that id was put there before."""

    def message(self, message_id: str) -> Message | None:
        """A message by its id."""

    def messages(self, item: str) -> Sequence[Message]:
        """Every message that tells of a batch or ingest job."""

    def due(self, kinds: Sequence[Kind], limit: int) -> Sequence[Message]:
        """Messages that wait, and whose time has come."""

    def settle(self, message_id: str, state: Delivery, problem: str = "") -> None:
        """A message that waited was delivered, or given up."""

    def delay(self, message_id: str, problem: str, seconds: float) -> None:
        """A message could not be delivered: it is tried again after that long."""

    def close(self) -> None:
        """Let go of connections."""
