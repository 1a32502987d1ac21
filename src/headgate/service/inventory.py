"""The inventory: stored objects and their names, the intakes of batches, and the outbox."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

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
    is_import,
)
from headgate.core.logs import Log, LogText
from headgate.core.queue.model import check_item_id
from headgate.core.values.log_text import readable
from headgate.core.values.names import check_name, check_reason, check_resource
from headgate.core.values.plurals import plural
from headgate.core.values.redaction import redact
from headgate.service.access.identity import actor
from headgate.service.access.identity import owner as caller
from headgate.service.checks import check_limit, check_token
from headgate.service.logs import fit_texts
from headgate.stores.ports.inventory import InventoryStore
from headgate.telemetry import event

#: A message is retried after this many seconds, at first and at most; the pause doubles each time.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 3600.0
#: Pauses vary by this factor.
JITTER = 0.2
#: Number of attempts after which a message is given up: with the pauses above, about two days.
MOST_TRIES = 56
#: Attempts after which an undelivered message counts as a fault: a mail server may be restarted.
TRIES_OF_A_FAULT = 3
#: Maximum number of undelivered messages that the doctor lists.
MOST_FAULTS = 100


class Inventory:
    """Stored objects, and the messages about them;  `gate.inventory`.

    :param ark: ARK of the object.
    :param owner: Owner of the object.
    :param collection: Name of the collection.
    :param local: Local id, given by the depositor.
    :param ids: Local ids, given by the depositor.
    :param job: Id of the ingest job.
    :param batch: Id of the batch.
    :param item: Id of the batch or ingest job.
    :param message_id: Id of the message.
    :param reason: Reason, recorded in the log.
    :param limit: Largest number of results.
    """

    def __init__(self, store: InventoryStore, log_keep: int = 0) -> None:
        self._store = store
        #: Number of bytes kept of the end of each output of a step; 0: none.
        self.log_keep = log_keep

    # ---------------------------------------------------------------- names

    def known_local_ids(self, owner: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Return the ARK of each of these local ids that the inventory knows."""
        return self._store.known_local_ids(check_resource(owner), [check_resource(each) for each in ids])

    def claim_local_ids(self, owner: str, ids: Sequence[str], ark: str) -> str:
        """Assign local ids of an owner to an ARK. Returns that ARK, or the one that another job assigned first."""
        ids = [check_resource(each) for each in ids]
        return self._store.claim_local_ids(check_resource(owner), ids, check_resource(ark)) if ids else ark

    # ---------------------------------------------------------------- objects

    def record(self, recording: Recording, messages: Sequence[Message] = (), *, by: str | None = None) -> bool:
        """Record a stored version, and publish it in the ledger. Returns False if it is recorded already.

        `by`: name of the acting process (default: this process).
        """
        if not is_import(recording.job):
            check_item_id(recording.job)
        check_name("collection", recording.collection)
        new = self._store.record(recording, messages, caller() if by is None else by)
        event("object.recorded", ark=recording.ark, version=recording.version, job=recording.job, new=new)
        return new

    # ---------------------------------------------------------------- logs

    def keep_log(
        self, job: str, token: int, attempt: int, step: str, texts: Sequence[LogText], *, ended: bool = False
    ) -> None:
        """Store the end of the output of one step of an ingest job; a text replaces the one before.

        :param token: Token of the consumer that has taken the job.
        :param attempt: Number of the attempt at the step.
        :param step: State of the job.
        :param texts: The end of each stream.
        :param ended: The log is complete.
        """
        safe = [replace(each, text=readable(redact(each.text))) for each in texts]
        self._keep_log(check_item_id(job), check_token(token), check_limit(attempt), step, safe, ended=ended)

    def _keep_log(
        self, job: str, token: int, attempt: int, step: str, texts: Sequence[LogText], *, ended: bool
    ) -> None:
        fitting = fit_texts(texts, self.log_keep)
        if fitting:
            self._store.keep_log(job, token, attempt, check_name("step", step), fitting, ended=ended)

    def logs(self, job: str, *, limit: int = 100) -> Sequence[Log]:
        """List the stored logs of an ingest job, newest step first: the output of its handler or command."""
        return self._store.logs(check_item_id(job), check_limit(limit))

    def owner_and_version(self, ark: str) -> tuple[str, int] | None:
        """Return the owner and the newest version of an object; None if no version is recorded."""
        return self._store.owner_and_version(check_resource(ark))

    def recorded(self, job: str) -> tuple[str, int] | None:
        """Return the object and version that an ingest job has recorded; None if it has recorded none."""
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
        """List objects by ARK.

        :param after: Last ARK of the previous page.
        """
        given = {"owner": owner, "collection": collection, "local": local, "ark": ark, "after": after}
        named = {name: value and check_resource(value) for name, value in given.items() if value is not None}
        return self._store.objects(ObjectFilter(**named, limit=None if limit is None else check_limit(limit)))

    def versions(self, ark: str) -> Sequence[ObjectVersion]:
        """List the versions of an object, oldest first. Raises UnknownName if there is none."""
        return self._store.versions(check_resource(ark))

    def files(self, ark: str, version: int, *, start: int = 0, limit: int | None = None) -> Sequence[InventoryFile]:
        """List the files of a version. Raises UnknownName if there is no such version.

        :param version: Number of the version.
        :param start: Position of the first file.
        """
        found = self._store.files(check_resource(ark), version, start, limit)
        if not found and version not in [each.number for each in self.versions(ark)]:
            raise UnknownName("version", f"{ark} v{version}")
        return found

    def remove(self, ark: str, dataids: Sequence[str] = (), *, reason: str, by: str | None = None) -> bool:
        """Remove an object whose bytes no longer exist, and its chunks in the ledger. Returns False if it does not
        exist.
        """
        names = [check_name("dataid", each) for each in dataids]
        removed = self._store.remove(check_resource(ark), names, check_reason(reason), actor(by))
        if removed:
            event("object.removed", logging.WARNING, ark=ark, reason=reason)
        return removed

    # ---------------------------------------------------------------- intakes

    def keep_intake(self, intake: Intake, *, anew: bool = False) -> Intake:
        """Record the profile and payload that a batch starts with, and return the record; an earlier one stays unless
        `anew`.
        """
        check_item_id(intake.batch)
        return self._store.keep_intake(intake, anew=anew)

    def intake(self, batch: str) -> Intake | None:
        """Return the profile and payload that a batch started with; None if it has not started."""
        return self._store.intake(check_item_id(batch))

    def set_problem(self, batch: str, problem: str) -> None:
        """Record why a payload yielded no jobs, or why its batch could not start."""
        self._store.set_problem(check_item_id(batch), redact(problem))

    def forget(self, item: str) -> None:
        """Remove the intake and the delivered messages of a batch or job that left the queue."""
        self._store.forget(check_item_id(item))

    # ---------------------------------------------------------------- outbox

    def post(self, message: Message) -> bool:
        """Put a message into the outbox. Returns False if there is a message with its id already, which stays."""
        return self._store.post(message)

    def message(self, message_id: str) -> Message | None:
        """Return a message; None if there is none."""
        return self._store.message(check_name("message", message_id))

    def messages(
        self,
        item: str | None = None,
        *,
        failed: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Message]:
        """List messages by id, without their bodies.

        :param item: Only messages about this batch or ingest job.
        :param failed: Only messages that were tried but not delivered.
        :param after: Last id of the previous page.
        """
        which = MessageFilter(
            item=None if item is None else check_item_id(item),
            failed=bool(failed),
            after=None if after is None else check_name("message", after),
            limit=None if limit is None else check_limit(limit),
        )
        return self._store.messages(which)

    def due(self, limit: int = 100) -> Sequence[Message]:
        """List messages that the messenger has to send now."""
        return self._store.due(check_limit(limit))

    def settle(self, message: str, state: Delivery, problem: str = "", recipients: Sequence[Recipient] = ()) -> None:
        """Record that a message was delivered or abandoned."""
        self._store.settle(message, state, redact(problem), recipients)

    def delay(self, message: str, problem: str, seconds: float, recipients: Sequence[Recipient] = ()) -> None:
        """Record that a message could not be delivered, and retry it after this many seconds."""
        self._store.delay(message, redact(problem), seconds, recipients)

    def delivered(self, message: Message, recipients: Sequence[Recipient] = ()) -> None:
        """Record that a message reached all its recipients."""
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
        """Record that a message could not be delivered. It is retried after a growing pause, or given up and listed.

        `recipients`: the state of each; None: as before. `retry_after`: seconds that the receiver asked for.
        """
        why, known = redact(why), message.recipients if recipients is None else recipients
        given_up = for_good or message.tries + 1 >= MOST_TRIES
        event("message.undelivered", logging.WARNING, message=message.id, item=message.item, why=why, for_good=given_up)
        if given_up:
            self.settle(message.id, Delivery.GIVEN_UP, why, known)
            return
        self.delay(message.id, why, pause_after(message.tries, retry_after), known)

    def resend(self, message_id: str) -> Message:
        """Send a message again, under the same id, and retry it like a new one. Raises UnknownName if there is none."""
        found = self._store.resend(check_name("message", message_id))
        event("message.resent", message=found.id, item=found.item)
        return found

    def discard(self, message_id: str, *, reason: str) -> Message:
        """Give a message up and remove it from the outbox. Raises UnknownName if there is none."""
        why = check_reason(reason)
        found = self._store.discard(check_name("message", message_id), why)
        event("message.discarded", logging.WARNING, message=found.id, item=found.item, reason=why)
        return found

    # ---------------------------------------------------------------- the doctor

    def faults(self) -> list[Fault]:
        """List messages that were given up or failed several times."""
        found = self.messages(failed=True, limit=MOST_FAULTS)
        return [_fault(each) for each in found if each.state is Delivery.GIVEN_UP or each.tries >= TRIES_OF_A_FAULT]

    def repair(self, fault: Fault) -> bool:
        """Send the message of a fault again. Returns False if it was delivered or removed."""
        found = self.message(fault.item)
        if found is None or not found.failed:
            return False
        self.resend(fault.item)
        return True


def pause_after(tries: int, asked: float | None = None, chance: Callable[[], float] = fraction) -> float:
    """Return the seconds until a failed message is retried; randomised, so that many are not retried at once."""
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(tries, 30), LONGEST_PAUSE_SECONDS)
    pause *= 1 + JITTER * (2 * chance() - 1)
    return pause if asked is None else max(pause, min(asked, LONGEST_PAUSE_SECONDS))


def _fault(message: Message) -> Fault:
    tried = plural(message.tries, "try")
    what = f"the {message.kind} about {message.item} was not delivered after {tried}: {message.problem}"
    return Fault(UNDELIVERED, message.id, what, "send it again, as `headgate messages resend` does")
