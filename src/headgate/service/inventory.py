"""The inventory: what is stored, by which names; what batches started with; what others are to be told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from headgate.chance import fraction
from headgate.core.errors import UnknownName
from headgate.core.faults import UNDELIVERED, Fault
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
from headgate.core.names import check_name, check_reason, check_resource
from headgate.core.plurals import plural
from headgate.core.queue import check_item_id
from headgate.core.redaction import redact
from headgate.service.checks import check_limit
from headgate.service.identity import actor
from headgate.service.identity import owner as caller
from headgate.stores.inventory_port import InventoryStore
from headgate.telemetry import event

#: A message is tried again after so many seconds, at first and at most; the pause doubles each time.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 3600.0
#: Pauses differ by so much either way.
JITTER = 0.2
#: Tries after which a message is given up: with the pauses above, about two days.
MOST_TRIES = 56
#: A message that is still tried counts as a fault from so many tries on: a mail server may be restarted.
TRIES_OF_A_FAULT = 3
#: Messages that did not arrive, of which the doctor lists so many.
MOST_FAULTS = 100


class Inventory:
    """Stored objects, and the outbox beside them."""

    def __init__(self, store: InventoryStore) -> None:
        self._store = store

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
        named = {name: value and check_resource(value) for name, value in given.items() if value is not None}
        return self._store.objects(ObjectFilter(**named, limit=None if limit is None else check_limit(limit)))

    def versions(self, ark: str) -> Sequence[ObjectVersion]:
        """Every version of an object, oldest first. UnknownName when there is none."""
        return self._store.versions(check_resource(ark))

    def files(self, ark: str, version: int, *, start: int = 0, limit: int | None = None) -> Sequence[InventoryFile]:
        """The files of a version, from position `start` on, at most `limit`. UnknownName: there is no such version."""
        found = self._store.files(check_resource(ark), version, start, limit)
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

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        """What a batch starts with, unless it has started: then, what it started with. `anew`: replace that."""
        check_item_id(intake.batch)
        return self._store.keep_intake(intake, anew=anew)

    def intake(self, batch: str) -> Intake | None:
        """What a batch started with; None when it has not."""
        return self._store.intake(check_item_id(batch))

    def set_problem(self, batch: str, problem: str) -> None:
        """Why a batch's payload gave no jobs, or why it could not start."""
        self._store.set_problem(check_item_id(batch), redact(problem))

    def forget(self, item: str) -> None:
        """A batch or job left the queue: remove what it started with and its delivered messages."""
        self._store.forget(check_item_id(item))

    # ---------------------------------------------------------------- outbox

    def post(self, message: Message) -> bool:
        """Put a message into the outbox. False: it is there, and the first one counts."""
        return self._store.post(message)

    def message(self, message_id: str) -> Message | None:
        """A message by its id."""
        return self._store.message(check_name("message", message_id))

    def messages(
        self,
        item: str | None = None,
        *,
        failed: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Message]:
        """Messages by id, without their bodies: all, those about an item, or those that did not arrive so far.

        Page on with `after` the last id.
        """
        which = MessageFilter(
            item=None if item is None else check_item_id(item),
            failed=bool(failed),
            after=None if after is None else check_name("message", after),
            limit=None if limit is None else check_limit(limit),
        )
        return self._store.messages(which)

    def due(self, limit: int = 100) -> Sequence[Message]:
        """Messages that the messenger sends and whose time has come."""
        return self._store.due(check_limit(limit))

    def settle(self, message: str, state: Delivery, problem: str = "", recipients: Sequence[Recipient] = ()) -> None:
        """Record that a message was delivered, or given up."""
        self._store.settle(message, state, redact(problem), recipients)

    def delay(self, message: str, problem: str, seconds: float, recipients: Sequence[Recipient] = ()) -> None:
        """Record that a message could not be delivered, and retry it after so many seconds."""
        self._store.delay(message, redact(problem), seconds, recipients)

    def delivered(self, message: Message, recipients: Sequence[Recipient] = ()) -> None:
        """It arrived, at all its recipients."""
        self.settle(message.id, Delivery.DELIVERED, "", recipients)
        event("message.delivered", message=message.id, item=message.item)

    def undelivered(
        self,
        message: Message,
        why: str,
        *,
        for_good: bool = False,
        recipients: Sequence[Recipient] | None = None,
        retry_after: float | None = None,
    ) -> None:
        """It did not arrive: the messenger tries again after a growing pause, or it is given up and stays listed.

        `recipients`: what is known of each now; None: as before. `retry_after`: seconds that the other side asked for.
        """
        why, known = redact(why), message.recipients if recipients is None else recipients
        given_up = for_good or message.tries + 1 >= MOST_TRIES
        event("message.undelivered", logging.WARNING, message=message.id, item=message.item, why=why, for_good=given_up)
        if given_up:
            self.settle(message.id, Delivery.GIVEN_UP, why, known)
            return
        self.delay(message.id, why, pause_after(message.tries, retry_after), known)

    def resend(self, message_id: str) -> Message:
        """Send a message again, under the same id: at once, then as often as a new one. UnknownName otherwise."""
        found = self._store.resend(check_name("message", message_id))
        event("message.resent", message=found.id, item=found.item)
        return found

    def discard(self, message_id: str, *, reason: str) -> Message:
        """Give a message up and remove it from the outbox. UnknownName when there is none."""
        why = check_reason(reason)
        found = self._store.discard(check_name("message", message_id), why)
        event("message.discarded", logging.WARNING, message=found.id, item=found.item, reason=why)
        return found

    # ---------------------------------------------------------------- the doctor

    def faults(self) -> list[Fault]:
        """Messages that did not arrive: given up, or tried several times."""
        found = self.messages(failed=True, limit=MOST_FAULTS)
        return [_fault(each) for each in found if each.state is Delivery.GIVEN_UP or each.tries >= TRIES_OF_A_FAULT]

    def repair(self, fault: Fault) -> bool:
        """Send the message of a fault again. False: it has arrived, or is gone."""
        found = self.message(fault.item)
        if found is None or not found.failed:
            return False
        self.resend(fault.item)
        return True


def pause_after(tries: int, asked: float | None = None, chance: Callable[[], float] = fraction) -> float:
    """Seconds until a message that failed once more is tried again: uneven, so that many are not tried at once."""
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(tries, 30), LONGEST_PAUSE_SECONDS)
    pause *= 1 + JITTER * (2 * chance() - 1)
    return pause if asked is None else max(pause, min(asked, LONGEST_PAUSE_SECONDS))


def _fault(message: Message) -> Fault:
    tried = plural(message.tries, "try")
    what = f"the {message.kind} about {message.item} was not delivered after {tried}: {message.problem}"
    return Fault(UNDELIVERED, message.id, what, "send it again, as `headgate messages resend` does")
