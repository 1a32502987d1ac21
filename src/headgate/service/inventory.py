"""The inventory: what is stored, by which names; what batches started with; what others are to be told."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headgate.core.errors import UnknownName
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
from headgate.core.names import check_name, check_note, check_reason, check_resource
from headgate.core.queue import check_item_id
from headgate.service.checks import check_limit
from headgate.service.identity import actor
from headgate.service.identity import owner as caller
from headgate.stores.inventory_port import InventoryStore
from headgate.telemetry import event

#: A message is tried again after so many seconds, at first and at most; the pause doubles each time.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 3600.0
#: Tries after which a message is given up: with the pauses above, about two days.
MOST_TRIES = 56


class Inventory:
    """Stored objects, and the outbox beside them."""

    def __init__(self, store: InventoryStore) -> None:
        self._store = store

    @property
    def store(self) -> InventoryStore:
        """The port behind it, for who speaks for callers elsewhere."""
        return self._store

    # ---------------------------------------------------------------- names

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Which of an owner's local ids are known, and the ARK of each."""
        return self._store.known_local_ids(check_resource(owner), [check_resource(each) for each in ids])

    def claim_local_ids(self, owner: str, ids: Sequence[str], ark: str) -> str:
        """The ARK that an owner's local ids are of from now on: the given one, unless another job was first."""
        ids = [check_resource(each) for each in ids]
        return self._store.claim_local_ids(check_resource(owner), ids, check_resource(ark)) if ids else ark

    # ---------------------------------------------------------------- objects

    def record(self, recording: Recording, messages: Sequence[Message] = (), *, by: str | None = None) -> bool:
        """Write a stored version down, and publish it in the ledger. False: it was already. Repeat it freely.

        `by`: who does so; this process unless said otherwise.
        """
        check_item_id(recording.job)
        check_name("collection", recording.collection)
        new = self._store.record(recording, messages, caller() if by is None else by)
        event("object.recorded", ark=recording.ark, version=recording.version, job=recording.job, new=new)
        return new

    def owner_and_version(self, ark: str) -> tuple[str, int] | None:
        """Who owns an object, and its newest version; None when no version of it is recorded."""
        return self._store.owner_and_version(check_resource(ark))

    def recorded(self, job: str) -> tuple[str, int] | None:
        """The object and version that an ingest job has recorded."""
        return self._store.recorded(check_item_id(job))

    def objects(
        self,
        *,
        owner: str | None = None,
        collection: str | None = None,
        local: str | None = None,
        ark: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[StoredObject]:
        """Objects, by ARK; page on with `after` the last one."""
        given = {"owner": owner, "collection": collection, "local": local, "ark": ark, "after": after}
        named = {name: check_note(name, value) for name, value in given.items() if value is not None}
        return self._store.objects(ObjectFilter(**named, limit=None if limit is None else check_limit(limit)))

    def versions(self, ark: str) -> Sequence[ObjectVersion]:
        """Every version of an object, oldest first. UnknownName when there is none."""
        return self._store.versions(check_resource(ark))

    def files(self, ark: str, version: int) -> Sequence[InventoryFile]:
        """The files of a version. UnknownName when there is no such version."""
        found = self._store.files(check_resource(ark), version)
        if not found and version not in [each.number for each in self.versions(ark)]:
            raise UnknownName("version", f"{ark} v{version}")
        return found

    def remove(self, ark: str, dataids: Sequence[str], *, reason: str, by: str | None = None) -> bool:
        """Strike out an object whose bytes are gone, and its chunks in the ledger. False: it was not there."""
        names = [check_name("dataid", each) for each in dataids]
        removed = self._store.remove(check_resource(ark), names, check_reason(reason), actor(by))
        if removed:
            event("object.removed", logging.WARNING, ark=ark, reason=reason)
        return removed

    # ---------------------------------------------------------------- intakes

    def keep_intake(self, intake: Intake) -> Intake:
        """What a batch starts with, unless it has started: then, what it started with."""
        check_item_id(intake.batch)
        return self._store.keep_intake(intake)

    def intake(self, batch: str) -> Intake | None:
        """What a batch started with; None when it has not."""
        return self._store.intake(check_item_id(batch))

    def set_problem(self, batch: str, problem: str) -> None:
        """Why a batch's payload gave no jobs."""
        self._store.set_problem(check_item_id(batch), problem)

    def forget(self, item: str) -> None:
        """A batch or job left the queue: what it started with goes, and what was told of it."""
        self._store.forget(check_item_id(item))

    # ---------------------------------------------------------------- outbox

    def post(self, message: Message) -> bool:
        """Put a message into the outbox. False: it is there, and the first one counts."""
        return self._store.post(message)

    def message(self, message_id: str) -> Message | None:
        """A message by its id."""
        return self._store.message(check_name("message", message_id))

    def messages(self, item: str) -> Sequence[Message]:
        """Every message that tells of a batch or ingest job."""
        return self._store.messages(check_item_id(item))

    def due(self, kinds: Sequence[Kind], limit: int = 100) -> Sequence[Message]:
        """Messages of these kinds that wait, and whose time has come."""
        return self._store.due(kinds, check_limit(limit))

    def delivered(self, message: Message) -> None:
        """It arrived."""
        self._store.settle(message.id, Delivery.DELIVERED)
        event("message.delivered", message=message.id, item=message.item)

    def undelivered(self, message: Message, why: str, *, for_good: bool = False) -> None:
        """It did not arrive: it is tried again after a growing pause, or given up."""
        given_up = for_good or message.tries + 1 >= MOST_TRIES
        event("message.undelivered", logging.WARNING, message=message.id, item=message.item, why=why, for_good=given_up)
        if given_up:
            self._store.settle(message.id, Delivery.GIVEN_UP, why)
            return
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(message.tries, 30), LONGEST_PAUSE_SECONDS)
        self._store.delay(message.id, why, pause)
