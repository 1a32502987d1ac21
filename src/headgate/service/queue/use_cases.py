"""The queue: the use cases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from headgate.core.daemons import step_of
from headgate.core.errors import QueueRefused, Refused, UnknownName
from headgate.core.faults import Fault
from headgate.core.ledger.model import Asker
from headgate.core.ledger.pipeline import check_count
from headgate.core.queue.model import (
    ALL,
    CLEAN_EVENT,
    DELETE_EVENT,
    FAIL_EVENT,
    FINISH_EVENT,
    HOLD_EVENT,
    MAX_CRASHES,
    RELEASE_EVENT,
    REPORT_EVENT,
    RESUME_EVENT,
    UPDATE_REPORT_EVENT,
    Batch,
    Folder,
    Hold,
    Identifiers,
    IngestJob,
    Item,
    NewJob,
    Place,
    Report,
    Submission,
    Taken,
    check_item_id,
    check_priority,
    has_row,
    is_batch,
)
from headgate.core.tables.machine import By, Machine
from headgate.core.values.names import check_name, check_note, check_reason, check_request_id, check_resource
from headgate.core.values.words import check_word
from headgate.service.access.identity import actor, asker_for, new_request_id
from headgate.service.checks import check_limit, check_positive_lease, check_seconds, check_span, printable
from headgate.service.leases.clock import steady
from headgate.service.leases.looking import Looking
from headgate.service.leases.renewal import AskedItems, ItemHold
from headgate.service.queue.checks import (
    DEFAULT_LEASE,
    MODES,
    TYPES,
    KnownProfiles,
    check_changes,
    check_metadata,
    check_new_job,
    check_state,
    check_taken,
    taken_of,
)
from headgate.service.queue.presence import Presence
from headgate.service.queue.questions import QueueReader
from headgate.stores.ports.news import Listening
from headgate.stores.ports.queue import QueueStore
from headgate.telemetry import event

T = TypeVar("T")
Found = TypeVar("Found", Batch, IngestJob)

#: Number of jobs that are created in one transaction.
CREATE_PORTION = 250
#: Number of batches whose profiles are compared with an unknown name.
MOST_NAMED = 1000


class Queue(QueueReader):
    """Batches and ingest jobs, and the states that they go through; `gate.queue`. An *item* is one of either.

    :param batch: Id of the batch.
    :param job: Id of the ingest job.
    :param item: Id of the batch or ingest job.
    :param profile: Name of the ingest profile, which is also that of the collection.
    :param submitter: Name of the depositor.
    :param state: A state of the table.
    :param worker: Name of the worker (default: this process).
    :param lease: Lease length in seconds (default: 60).
    :param wait: Seconds to wait for an item (default: 0).
    :param request_id: Id of this request; a repeat with the same id returns the same item (default: a new id).
    :param outlives: On ZooKeeper, keep the lease when the session of this process ends.
    :param message: Reason, shown with the item.
    :param priority: 0 to 99, lowest first.
    :param space_needed: Bytes that the job needs in the work folder.
    :param identifiers: ARK and local ids of the object.
    :param configuration: Keys to add to the configuration of the job, or to replace in it.
    :param report: The report of a batch.
    :param event_name: An event of the table, such as `done` or `fail`.
    :param reason: Reason, recorded in the history.
    :param by: Name of the operator or process (default: this process).
    :param taken: Only items that a consumer has taken.
    :param noun: `batch` or `ingest job`.
    :param after: Last id of the previous page.
    :param limit: Largest number of results.
    :param fault: One of those that `faults` returned.
    """

    def __init__(self, store: QueueStore, work_folder: str, profiles: KnownProfiles | None = None) -> None:
        """`profiles`: those of the process that keeps the store; None: there are none."""
        self._store = store
        self._work_folder = work_folder
        self._begin(profiles, Presence(store, notes=profiles is not None))

    def _begin(self, profiles: KnownProfiles | None, presence: Presence) -> None:
        self._profiles = profiles
        #: Which consumers process which steps; a service notes them automatically.
        self.presence = presence
        self._asked = AskedItems()

    # ---------------------------------------------------------------- depositors

    def submit(
        self,
        profile: str,
        submitter: str,
        payload_url: str,
        *,
        type: str = "object-manifest",  # noqa: A002 - the depositor's word for it
        mode: str = "add",
        request_id: str | None = None,
        **metadata: Any,
    ) -> Batch:
        """Submit a payload, and return its new batch, which is pending. The payload is fetched later.

        :param payload_url: Location of the payload.
        :param type: Type of the payload (default: `object-manifest`).
        :param mode: `add`: a new object or version; `update`: a change of an object.
        :param metadata: Additional data, such as `erc_who` or `local_id`.
        """
        submission = Submission(
            check_name("profile", profile),
            check_name("submitter", submitter),
            check_resource(payload_url),
            check_word("type", type, TYPES),
            check_word("mode", mode, MODES),
            check_metadata(metadata),
            new_request_id() if request_id is None else check_request_id(request_id),
        )
        batch = self._store.submit(submission, submission.submitter)
        event("batch.submit", batch=batch.id, profile=batch.profile, submitter=submission.submitter)
        return batch

    # ---------------------------------------------------------------- consumers

    def acquire_batch(
        self, state: str, *, worker: str | None = None, lease: float = DEFAULT_LEASE, wait: float = 0,
        after: Batch | str | None = None, request_id: str | None = None, outlives: bool = False,
    ) -> Batch | None:  # fmt: skip
        """Take the oldest free batch in a state; None if there is none.

        :param after: Only batches after this one.
        """
        state = check_state(self._store.batch_table, state)
        behind = after.id if isinstance(after, Batch) else after
        asker = asker_for(worker, lease, request_id, outlives=outlives)
        behind = None if behind is None else check_item_id(behind)
        return self._within(
            wait, self._store.batch_table, state, asker, lambda: self._store.take_batch(state, asker, behind)
        )

    def acquire_job(
        self, state: str, *, worker: str | None = None, lease: float = DEFAULT_LEASE, wait: float = 0,
        after: Place | IngestJob | None = None, request_id: str | None = None, outlives: bool = False,
    ) -> IngestJob | None:  # fmt: skip
        """Take the first free ingest job in a state, by priority and id; None if there is none.

        :param after: Only jobs after this one, so that a round sees each job once.
        """
        state = check_state(self._store.job_table, state)
        place = after.place if isinstance(after, IngestJob) else after
        asker = asker_for(worker, lease, request_id, outlives=outlives)
        return self._within(
            wait, self._store.job_table, state, asker, lambda: self._store.take_job(state, asker, place)
        )

    def _within(
        self, wait: float, table: Machine, state: str, asker: Asker, take: Callable[[], Found | None]
    ) -> Found | None:
        def look() -> Found | None:
            began = steady()
            found = take()
            if found is None:
                self.presence.asked(asker.worker, step_of(table.name, state))
                return None
            self._asked.note(found, began)
            return self._with_hold(found, table)

        seconds = check_span("wait", wait)
        return Looking(look, partial(self._listen, [(table, state)])).within(seconds) if seconds else look()

    def _with_hold(self, found: Found, table: Machine) -> Found:
        """This informs outside owners of holds, which our own consumers check before they begin."""
        if not has_row(table, found.state, HOLD_EVENT):
            return replace(found, hold="") if found.hold else found
        # The store's answer already contains a hold of its own; another query only adds its text.
        hold = self.hold_of(found.profile) if found.hold else self._held_by_profile(found.profile)
        return replace(found, hold=hold.in_words if hold else "") if hold or found.hold else found

    def _listen(self, places: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> Listening:
        return self._store.listen(places, wake)

    def renew(self, item: Item | Taken, *, lease: float | None = None) -> float:
        """Renew the lease of an item that this process has taken. Returns its length. Raises ItemLost if it has
        expired.

        :param item: The item as it was taken.
        :param lease: Lease length in seconds (default: as before).
        """
        taken, began = check_taken(item), steady()
        seconds = self._store.renew(taken, check_positive_lease(taken.lease if lease is None else lease))
        self._asked.renewed(taken, began)
        return seconds

    @contextmanager
    def kept(self, item: Item, sent: float | None = None) -> Iterator[ItemHold]:
        """Renew the lease of an item while a block works on it. Report the outcome within the block or after it.

        :param item: The item as it was taken.
        :param sent: Time of the request that took it, on the monotonic clock (default: as this process recorded it,
            else now).
        """
        began = self._asked.began(item)
        hold = ItemHold(self.renew, item, began if sent is None else sent)
        hold.start()
        try:
            yield hold
        finally:
            hold.stop()

    def give_back(self, item: Item | Taken, message: str = "") -> None:
        """Release an item without an outcome: it stays in its state, and any consumer may take it.

        :param item: The item as it was taken.
        """
        self._store.give_back(check_taken(item), printable(message))

    def create_jobs(
        self, batch: Batch | Taken, rows: Iterable[NewJob | Mapping[str, Any]], *, max_crashes: int | None = None
    ) -> int:
        """Create the ingest jobs of a pending batch, and return how many there are now.

        To continue after an interruption, pass the same rows in the same order: existing jobs are skipped.

        :param batch: The batch as it was taken.
        :param rows: One NewJob, or its fields, for each ingest job.
        :param max_crashes: Crashes of workers after which a job is held, as the batch's profile says; a service reads
            its own copy of the profile.
        """
        taken = taken_of(batch)
        made = self.batch(taken.id).made
        left = islice(rows, made, None)
        while portion := list(islice(left, CREATE_PORTION)):
            made = self.create_portion(taken, made, portion, max_crashes)
        event("batch.jobs", batch=taken.id, made=made)
        return made

    def create_portion(
        self, batch: Batch | Taken, position: int, rows: Sequence[NewJob | Mapping[str, Any]],
        max_crashes: int | None = None,
    ) -> int:  # fmt: skip
        """Create the jobs from a position on, in one transaction."""
        jobs = [check_new_job(row) for row in rows]
        if max_crashes is not None:
            most = {MAX_CRASHES: check_count(MAX_CRASHES, max_crashes)}
            jobs = [replace(job, settings={**job.settings, **most}) for job in jobs]
        return self._store.create_jobs(check_taken(batch), position, jobs, self._work_folder)

    def fire(
        self, item: Item | Taken, event_name: str, message: str = "", *, priority: int | None = None,
        space_needed: int | None = None, identifiers: Identifiers | Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None, report: Report | None = None,
    ) -> Item:  # fmt: skip
        """Report an outcome: the item changes its state as the table says and is free again. Returns the item.

        All changes happen in the same write. Repeating the report changes nothing. Raises ItemLost if the item is not
        yours.

        :param item: The item as it was taken.
        """
        taken = check_taken(item)
        if report is None and event_name == FINISH_EVENT and is_batch(taken.id):
            report = self._report_of(taken.id)
        changes = check_changes(priority, space_needed, identifiers, configuration, report)
        moved = self._store.fire(taken, check_name("event", event_name), printable(message), changes)
        level = logging.WARNING if event_name == FAIL_EVENT else logging.INFO
        event(f"queue.{event_name}", level, item=taken.id, before=taken.state, after=moved.state, why=message)
        return moved

    def _report_of(self, batch: str) -> Report | None:
        """The status report for an owner that gives none; None: there is no such batch."""
        try:
            failed, completed = (self._store.job_ids(batch, each) for each in (Folder.FAILED, Folder.COMPLETED))
        except UnknownName:
            return None
        return Report(tuple(failed), tuple(completed))

    def change(
        self, item: Item | Taken, *, priority: int | None = None, space_needed: int | None = None,
        identifiers: Identifiers | Mapping[str, Any] | None = None, configuration: Mapping[str, Any] | None = None,
    ) -> Item:  # fmt: skip
        """Record changes at once, while the item stays taken and in its state. Returns the item.

        :param item: The item as it was taken.
        """
        return self._store.change(
            check_taken(item), check_changes(priority, space_needed, identifiers, configuration, None)
        )

    def await_work(self, batch_states: Sequence[str], job_states: Sequence[str], seconds: float) -> None:
        """Wait until an item may be free in one of these states, or until the time is over.

        :param batch_states: States of batches.
        :param job_states: States of ingest jobs.
        :param seconds: Seconds to wait.
        """
        self._store.await_work(self._places(batch_states, job_states), seconds)

    def looking(
        self, look: Callable[[], T | None], batch_states: Sequence[str], job_states: Sequence[str]
    ) -> Looking[T]:
        """Check in steps until there is a result; woken when an item enters one of these states."""
        return Looking(look, partial(self._listen, self._places(batch_states, job_states)))

    def _places(self, batch_states: Sequence[str], job_states: Sequence[str]) -> list[tuple[Machine, str]]:
        states = [(self._store.batch_table, check_state(self._store.batch_table, state)) for state in batch_states]
        return states + [(self._store.job_table, check_state(self._store.job_table, state)) for state in job_states]

    # ---------------------------------------------------------------- operators

    def act(self, item: str, event_name: str, *, reason: str = "", by: str | None = None, daemon: bool = False) -> Item:
        """Fire an event of an operator or a daemon, as the table says. Returns the item.

        :param daemon: The event belongs to a daemon of the queue, not to an operator.
        """
        who, why, name = actor(by), check_note("reason", reason), check_name("event", event_name)
        if name == RELEASE_EVENT:
            self._check_release(check_item_id(item))
        acted = self._store.act(check_item_id(item), name, By.DAEMON if daemon else By.OPERATOR, why, who)
        event(f"queue.{event_name}", item=item, state=acted.state, reason=why, who=who)
        return acted

    def resume(self, job: str, *, reason: str = "", by: str | None = None) -> Item:
        """Resume a failed ingest job after its last successful step. Counts as a retry."""
        return self.act(job, RESUME_EVENT, reason=reason, by=by)

    def release(self, item: str, *, reason: str = "", by: str | None = None) -> Item:
        """Release a held batch or ingest job: it is pending again. Refused while its collection is held."""
        return self.act(item, RELEASE_EVENT, reason=reason, by=by)

    def delete(self, item: str, *, reason: str, by: str | None = None) -> Item:
        """Delete a failed or held batch or ingest job; only its history stays. Returns it as it was."""
        return self.act(item, DELETE_EVENT, reason=check_reason(reason), by=by)

    def update_report(self, batch: str, *, reason: str = "", by: str | None = None) -> Item:
        """Report a failed batch again, with what has changed since the last report."""
        return self.act(batch, UPDATE_REPORT_EVENT, reason=reason, by=by)

    def _check_release(self, item: str) -> None:
        """Refuse a release into a collection that its profile holds: the item would be held again at once."""
        held = {hold.profile: hold for hold in self._profiles.holds()} if self._profiles else {}
        if not held:
            return
        found = self._store.batch(item) if is_batch(item) else self._store.job(item)
        if found.profile in held and not found.former:
            raise QueueRefused(item, RELEASE_EVENT, held[found.profile].in_words)

    def set_priority(self, job: str, priority: int, *, reason: str = "", by: str | None = None) -> IngestJob:
        """Change the priority of an ingest job: 0 is first, 99 is last."""
        return self._store.set_priority(
            check_item_id(job), check_priority(priority), check_note("reason", reason), actor(by)
        )

    def set_hold(self, profile: str = ALL, *, reason: str, by: str | None = None) -> Hold:
        """Hold a collection: its pending batches and ingest jobs become held. ALL: no item is taken any more.

        Raises UnknownName, with the nearest name, if this process has profiles and neither a profile nor a batch has
        that name.
        """
        hold = Hold(check_name("profile", profile), check_reason(reason), actor(by))
        if profile != ALL:
            self.check_profile(profile)
        event("queue.hold", logging.WARNING, profile=hold.profile, reason=hold.reason, who=hold.who)
        return self._store.set_hold(hold)

    def check_profile(self, profile: str) -> None:
        """Raise UnknownName, with the nearest name, if this process has profiles and nothing has that name."""
        profiles = self._profiles
        if profiles is None or not profiles.exists or profile in profiles.names():
            return
        if not self.batches(profile=profile, limit=1) and not self.jobs(profile=profile, limit=1):
            hint = profiles.hint(profile, self._in_use())
            raise UnknownName("profile", profile, hint[:1].upper() + hint[1:])

    def collections(self) -> Sequence[str]:
        """List the collections that can be held: those of profiles and those of batches in the queue."""
        return sorted({*(self._profiles.names() if self._profiles else ()), *self._in_use()})

    def _in_use(self) -> list[str]:
        """List the profiles of the first batches in the queue."""
        return sorted({batch.profile for batch in self.batches(limit=MOST_NAMED)})

    def clear_hold(self, profile: str = ALL, *, by: str | None = None) -> bool:
        """Remove a hold. Held items stay held until they are released. Returns False if there was no hold.

        Refused if only the profile holds the collection: change its file.
        """
        cleared = self._store.clear_hold(check_name("profile", profile), actor(by))
        if not cleared and (standing := self._held_by_profile(profile)):
            raise Refused(standing.in_words)
        return cleared

    def holds(self) -> Sequence[Hold]:
        """List holds by profile, with who set each, why and when; an operator's before that of the profile."""
        found = [*self._store.holds(), *(self._profiles.holds() if self._profiles else ())]
        return sorted(found, key=lambda hold: hold.profile)

    def hold_of(self, profile: str) -> Hold | None:
        """Return the hold of a collection, an operator's before that of its profile; None if there is none."""
        found = next((hold for hold in self._store.holds() if hold.profile == profile), None)
        return found or self._held_by_profile(profile)

    def _held_by_profile(self, profile: str) -> Hold | None:
        """Return the hold that a profile sets, if it sets one."""
        holds = self._profiles.holds() if self._profiles and profile != ALL else ()
        return next((hold for hold in holds if hold.profile == profile), None)

    # ---------------------------------------------------------------- daemons

    def report_finished(self, limit: int = 100) -> list[str]:
        """Send batches whose last job has ended to reporting. Returns their ids."""
        return self._act_on_all(self.reportable(limit), REPORT_EVENT, "its last job has completed or failed")

    def reportable(self, limit: int = 100) -> Sequence[str]:
        """List the ids of batches whose last job has ended."""
        return self._store.reportable(check_limit(limit))

    def cleanable(self, noun: str, seconds: float, limit: int = 100) -> Sequence[str]:
        """List the ids of items that completed at least that long ago.

        :param seconds: Seconds since they completed, at least.
        """
        tables = {table.name: table for table in self.tables()}
        table = tables[check_word("noun", noun, tuple(tables))]
        return self._store.cleanable(table, check_seconds("seconds", seconds), check_limit(limit))

    def clean(self, seconds: float, limit: int = 100) -> list[str]:
        """Clean up completed ingest jobs, and batches that completed at least that long ago. Returns their ids.

        :param seconds: Seconds since a batch completed, at least.
        """
        age = check_span("retention", seconds)
        batch, job = (table.name for table in self.tables())
        cleaned = self._act_on_all(self.cleanable(job, 0, limit), CLEAN_EVENT, "it completed")
        return cleaned + self._act_on_all(self.cleanable(batch, age, limit), CLEAN_EVENT, "its retention time is over")

    def reap(self, limit: int = 1000) -> int:
        """Free items whose lease has expired, and return their number. Consumers also do this.

        :param limit: Largest number of items to free.
        """
        count = self._store.expire(check_limit(limit))
        if count:
            event("queue.reaped", logging.WARNING, count=count)
        return count

    # ---------------------------------------------------------------- repairs

    def repair(self, fault: Fault, *, by: str | None = None) -> bool:
        """Repair a fault, if it still exists. Returns False if it does not, or if an operator has to repair it."""
        repaired = self._store.repair(fault, actor(by))
        if repaired:
            event("queue.repair", logging.WARNING, kind=fault.kind, item=fault.item)
        return repaired

    def _act_on_all(self, items: Sequence[str], event_name: str, why: str) -> list[str]:
        """Fire an event for each item; skip items that another daemon handled first."""
        done = []
        for item in items:
            try:
                self.act(item, event_name, reason=why, daemon=True)
            except (Refused, UnknownName):
                continue
            done.append(item)
        return done
