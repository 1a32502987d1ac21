"""The queue: what may be asked of it."""

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
from headgate.core.filters import BatchFilter, JobFilter
from headgate.core.ledger import Asker
from headgate.core.machine import By, Machine
from headgate.core.names import check_name, check_note, check_reason, check_request_id, check_resource
from headgate.core.pipeline import check_count
from headgate.core.queue import (
    ALL,
    MAX_CRASHES,
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
    is_batch,
    work_states,
)
from headgate.core.words import check_word
from headgate.service.checks import check_limit, check_positive_lease, check_seconds, check_span, printable
from headgate.service.clock import steady
from headgate.service.identity import actor, asker_for, new_request_id
from headgate.service.looking import Looking
from headgate.service.presence import Presence
from headgate.service.queue_checks import (
    DEFAULT_LEASE,
    MODES,
    TYPES,
    KnownProfiles,
    check_changes,
    check_in_use,
    check_metadata,
    check_new_job,
    check_state,
    check_taken,
    names_in_use,
    taken_of,
)
from headgate.service.renewal import AskedItems, ItemHold
from headgate.stores.base import Listening
from headgate.stores.queue_port import QueueStore
from headgate.telemetry import event

T = TypeVar("T")
Found = TypeVar("Found", Batch, IngestJob)

#: Jobs that are made in one transaction.
CREATE_PORTION = 250


class Queue:
    """Batches and ingest jobs on their way through the states."""

    def __init__(self, store: QueueStore, work_folder: str, profiles: KnownProfiles | None = None) -> None:
        """`profiles`: those of the process that keeps the store; None: nobody has any."""
        self._store = store
        self._work_folder = work_folder
        self._begin(profiles, Presence(store, notes=profiles is not None))

    def _begin(self, profiles: KnownProfiles | None, presence: Presence) -> None:
        self._profiles = profiles
        #: Who works on which steps; a service notes consumers by itself.
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
        """Hand in a payload: a new batch, pending. Nothing is fetched or looked into now."""
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
        self,
        state: str,
        *,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        wait: float = 0,
        after: Batch | str | None = None,
        request_id: str | None = None,
        outlives: bool = False,
    ) -> Batch | None:
        """The oldest batch in that state that nobody works on, taken; None when there is none within `wait` seconds.

        `after`: only batches behind that one. `outlives`: on ZooKeeper too, its lease does not end with this process.
        """
        state = check_state(self._store.batch_table, state)
        behind = after.id if isinstance(after, Batch) else after
        asker = asker_for(worker, lease, request_id, outlives=outlives)
        behind = None if behind is None else check_item_id(behind)
        return self._within(
            wait, self._store.batch_table, state, asker, lambda: self._store.take_batch(state, asker, behind)
        )

    def acquire_job(
        self,
        state: str,
        *,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        wait: float = 0,
        after: Place | IngestJob | None = None,
        request_id: str | None = None,
        outlives: bool = False,
    ) -> IngestJob | None:
        """The first job in that state that nobody works on, taken; None when there is none within `wait` seconds.

        `after`: only jobs behind that one, so that a round can look at every job once. `outlives`: on ZooKeeper too,
        its lease does not end with this process.
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
            else:
                self._asked.note(found, began)
            return found

        return Looking(look, partial(self._listen, [(table, state)])).within(check_span("wait", wait))

    def _listen(self, places: Sequence[tuple[Machine, str]], wake: Callable[[], None]) -> Listening:
        return self._store.listen(places, wake)

    def renew(self, item: Item | Taken, *, lease: float | None = None) -> float:
        """The consumer lives: its lease begins anew. Gives its seconds; ItemLost when it has run out."""
        taken, began = check_taken(item), steady()
        seconds = self._store.renew(taken, check_positive_lease(taken.lease if lease is None else lease))
        self._asked.renewed(taken, began)
        return seconds

    @contextmanager
    def kept(self, item: Item, sent: float | None = None) -> Iterator[ItemHold]:
        """Keep an item alive while a block works on it. Report its outcome before the block ends, or after it.

        `sent`: when it was asked for, on the monotonic clock. Without it, its lease is counted from before the question
        that granted it, if it was asked here, else from now.
        """
        began = self._asked.began(item)
        hold = ItemHold(self.renew, item, began if sent is None else sent)
        hold.start()
        try:
            yield hold
        finally:
            hold.stop()

    def give_back(self, item: Item | Taken, message: str = "") -> None:
        """Not done, and nobody's: somebody takes it again in the same state."""
        self._store.give_back(check_taken(item), printable(message))

    def create_jobs(
        self, batch: Batch | Taken, rows: Iterable[NewJob | Mapping[str, Any]], *, max_crashes: int | None = None
    ) -> int:
        """Make the jobs of a batch that was taken as pending: all rows, also after a try that was cut off.

        Give the same rows in the same order; those that were made already are passed over. Gives how many there are.
        `max_crashes`: as the batch's profile says; a service asks its own copy of the profile.
        """
        taken = taken_of(batch)
        made = self.batch(taken.id).made
        left = islice(rows, made, None)
        while portion := list(islice(left, CREATE_PORTION)):
            made = self.create_portion(taken, made, portion, max_crashes)
        event("batch.jobs", batch=taken.id, made=made)
        return made

    def create_portion(
        self,
        batch: Batch | Taken,
        position: int,
        rows: Sequence[NewJob | Mapping[str, Any]],
        max_crashes: int | None = None,
    ) -> int:
        """The same for the rows from a position on, in one transaction."""
        jobs = [check_new_job(row) for row in rows]
        if max_crashes is not None:
            most = {MAX_CRASHES: check_count(MAX_CRASHES, max_crashes)}
            jobs = [replace(job, settings={**job.settings, **most}) for job in jobs]
        return self._store.create_jobs(check_taken(batch), position, jobs, self._work_folder)

    def fire(
        self,
        item: Item | Taken,
        event_name: str,
        message: str = "",
        *,
        priority: int | None = None,
        space_needed: int | None = None,
        identifiers: Identifiers | Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None,
        report: Report | None = None,
    ) -> Item:
        """The consumer's outcome: the item moves as the table says, and is nobody's. ItemLost when it is not yours.

        The changes happen in the same write. Firing the same again does no harm.
        """
        taken = check_taken(item)
        changes = check_changes(priority, space_needed, identifiers, configuration, report)
        moved = self._store.fire(taken, check_name("event", event_name), printable(message), changes)
        level = logging.WARNING if event_name == "fail" else logging.INFO
        event(f"queue.{event_name}", level, item=taken.id, before=taken.state, after=moved.state, why=message)
        return moved

    def change(
        self,
        item: Item | Taken,
        *,
        priority: int | None = None,
        space_needed: int | None = None,
        identifiers: Identifiers | Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None,
    ) -> Item:
        """Write something down at once, while the item stays yours and where it is: an ARK, before all else."""
        return self._store.change(
            check_taken(item), check_changes(priority, space_needed, identifiers, configuration, None)
        )

    def await_work(self, batch_states: Sequence[str], job_states: Sequence[str], seconds: float) -> None:
        """Sleep until there may be something to take in one of these states, or for that long."""
        self._store.await_work(self._places(batch_states, job_states), seconds)

    def looking(
        self, look: Callable[[], T | None], batch_states: Sequence[str], job_states: Sequence[str]
    ) -> Looking[T]:
        """Look, in steps, until something is found; woken when an item comes into one of these states."""
        return Looking(look, partial(self._listen, self._places(batch_states, job_states)))

    def listen(self, item: str, wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when an item of the same kind has moved."""
        table = self.tables()[0 if is_batch(item) else 1]
        return self._listen([(table, state) for state in table.states], wake)

    def _places(self, batch_states: Sequence[str], job_states: Sequence[str]) -> list[tuple[Machine, str]]:
        states = [(self._store.batch_table, check_state(self._store.batch_table, state)) for state in batch_states]
        return states + [(self._store.job_table, check_state(self._store.job_table, state)) for state in job_states]

    # ---------------------------------------------------------------- operators

    def act(self, item: str, event_name: str, *, reason: str = "", by: str | None = None, daemon: bool = False) -> Item:
        """An event that a person fires, or a daemon of the queue, as the table says."""
        who, why, name = actor(by), check_note("reason", reason), check_name("event", event_name)
        if name == "release":
            self._check_release(check_item_id(item))
        acted = self._store.act(check_item_id(item), name, By.DAEMON if daemon else By.OPERATOR, why, who)
        event(f"queue.{event_name}", item=item, state=acted.state, reason=why, who=who)
        return acted

    def resume(self, job: str, *, reason: str = "", by: str | None = None) -> Item:
        """A failed job goes on from the step after its last good one, counted as a retry."""
        return self.act(job, "resume", reason=reason, by=by)

    def release(self, item: str, *, reason: str = "", by: str | None = None) -> Item:
        """A held batch or job is pending again. Refused while its collection is held."""
        return self.act(item, "release", reason=reason, by=by)

    def delete(self, item: str, *, reason: str, by: str | None = None) -> Item:
        """A failed or held batch or job is given up, and leaves no trace but its history. Gives what it was."""
        return self.act(item, "delete", reason=check_reason(reason), by=by)

    def update_report(self, batch: str, *, reason: str = "", by: str | None = None) -> Item:
        """A failed batch is reported once more: what changed since."""
        return self.act(batch, "update-report", reason=reason, by=by)

    def _check_release(self, item: str) -> None:
        """Refuse a release into a collection that its profile holds: the item would be held again at once."""
        held = {hold.profile: hold for hold in self._profiles.holds()} if self._profiles else {}
        if not held:
            return
        found = self._store.batch(item) if is_batch(item) else self._store.job(item)
        if found.profile in held and not found.former:
            raise QueueRefused(item, "release", held[found.profile].in_words)

    def set_priority(self, job: str, priority: int, *, reason: str = "", by: str | None = None) -> IngestJob:
        """Another place in the order: 0 is first, 99 last."""
        return self._store.set_priority(
            check_item_id(job), check_priority(priority), check_note("reason", reason), actor(by)
        )

    def set_hold(self, profile: str = ALL, *, reason: str, by: str | None = None) -> Hold:
        """A collection waits: its pending batches and jobs go to held. ALL: nobody gets anything new to do.

        UnknownName, with the nearest, when this process has profiles and neither one of them nor a batch in the queue
        has that name.
        """
        hold = Hold(check_name("profile", profile), check_reason(reason), actor(by))
        if profile != ALL:
            self.check_profile(profile)
        event("queue.hold", logging.WARNING, profile=hold.profile, reason=hold.reason, who=hold.who)
        return self._store.set_hold(hold)

    def check_profile(self, profile: str) -> None:
        """UnknownName, with the nearest, when this process has profiles and nothing has that name."""
        if self._profiles is not None and self._profiles.exists:
            check_in_use(self, profile, self._profiles)

    def collections(self) -> Sequence[str]:
        """Names of collections that may be held: of the profiles, and of batches in the queue."""
        return names_in_use(self, self._profiles)

    def clear_hold(self, profile: str = ALL, *, by: str | None = None) -> bool:
        """The hold is gone; what is held stays so until it is released. False: there was none.

        Refused when the collection is held by its profile alone: only its file can be changed.
        """
        cleared = self._store.clear_hold(check_name("profile", profile), actor(by))
        if not cleared and (standing := self._held_by_profile(profile)):
            raise Refused(standing.in_words)
        return cleared

    def holds(self) -> Sequence[Hold]:
        """All holds, by profile: who, why, since. Those that a profile sets come after those that people set."""
        found = [*self._store.holds(), *(self._profiles.holds() if self._profiles else ())]
        return sorted(found, key=lambda hold: hold.profile)

    def hold_of(self, profile: str) -> Hold | None:
        """The hold of a collection, if there is one: the one that a person set before that of its profile."""
        found = next((hold for hold in self._store.holds() if hold.profile == profile), None)
        return found or self._held_by_profile(profile)

    def _held_by_profile(self, profile: str) -> Hold | None:
        """The hold that a profile sets, if it does."""
        holds = self._profiles.holds() if self._profiles and profile != ALL else ()
        return next((hold for hold in holds if hold.profile == profile), None)

    # ---------------------------------------------------------------- daemons

    def report_finished(self, limit: int = 100) -> list[str]:
        """Batches whose last job has ended go on to reporting. Gives their ids."""
        return self._act_on_all(self.reportable(limit), "report", "its last job has completed or failed")

    def reportable(self, limit: int = 100) -> Sequence[str]:
        """Return the ids of batches whose last job has ended."""
        return self._store.reportable(check_limit(limit))

    def cleanable(self, noun: str, seconds: float, limit: int = 100) -> Sequence[str]:
        """Return the ids of items of a noun that completed at least so many seconds ago."""
        tables = {table.name: table for table in self.tables()}
        table = tables[check_word("noun", noun, tuple(tables))]
        return self._store.cleanable(table, check_seconds("seconds", seconds), check_limit(limit))

    def clean(self, seconds: float, limit: int = 100) -> list[str]:
        """Clean up jobs that completed, and batches that completed at least so many seconds ago. Returns their ids."""
        age = check_span("retention", seconds)
        batch, job = (table.name for table in self.tables())
        cleaned = self._act_on_all(self.cleanable(job, 0, limit), "clean", "it completed")
        return cleaned + self._act_on_all(self.cleanable(batch, age, limit), "clean", "its retention time is over")

    def reap(self, limit: int = 1000) -> int:
        """Free what dead consumers have taken. Whoever looks for work does so anyway."""
        count = self._store.expire(check_limit(limit))
        if count:
            event("queue.reaped", logging.WARNING, count=count)
        return count

    # ---------------------------------------------------------------- questions

    def tables(self) -> tuple[Machine, Machine]:
        """The tables in force: of batches and of ingest jobs."""
        return self._store.batch_table, self._store.job_table

    def batch(self, batch: str) -> Batch:
        """A batch. UnknownName when there is none."""
        return self._store.batch(check_item_id(batch))

    def job(self, job: str) -> IngestJob:
        """An ingest job. UnknownName when there is none."""
        return self._store.job(check_item_id(job))

    def batches(
        self,
        state: str | None = None,
        *,
        profile: str | None = None,
        submitter: str | None = None,
        taken: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Batch]:
        """Batches, by id; page on with `after` the last id."""
        which = BatchFilter(
            state=None if state is None else check_word("state", state, self._store.batch_table.states),
            profile=None if profile is None else check_name("profile", profile),
            submitter=None if submitter is None else check_name("submitter", submitter),
            taken=taken,
            after=None if after is None else check_item_id(after),
            limit=None if limit is None else check_limit(limit),
        )
        return self._store.batches(which)

    def jobs(
        self,
        state: str | None = None,
        *,
        batch: str | None = None,
        profile: str | None = None,
        taken: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[IngestJob]:
        """Ingest jobs, by id; page on with `after` the last id."""
        which = JobFilter(
            state=None if state is None else check_word("state", state, self._store.job_table.states),
            batch=None if batch is None else check_item_id(batch),
            profile=None if profile is None else check_name("profile", profile),
            taken=taken,
            after=None if after is None else check_item_id(after),
            limit=None if limit is None else check_limit(limit),
        )
        return self._store.jobs(which)

    def job_ids(self, batch: str, folder: Folder) -> Sequence[str]:
        """The jobs of a batch that are processing, failed or completed, by id."""
        return self._store.job_ids(check_item_id(batch), Folder(folder))

    def first_free(self, noun: str, state: str) -> Item | None:
        """The item in that state that would be taken next; None: there is none."""
        tables = {table.name: table for table in self.tables()}
        machine = tables[check_word("noun", noun, tuple(tables))]
        return self._store.first_free(machine, check_word("state", state, work_states(machine)))

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many batches and ingest jobs are in each state."""
        return self._store.counts()

    def faults(self) -> Sequence[Fault]:
        """What should not be: explained, each with what a repair would do. Changes nothing."""
        return self._store.faults()

    def repair(self, fault: Fault, *, by: str | None = None) -> bool:
        """Repair a fault as it says, if it is still there. False: it is not, or an operator must look."""
        repaired = self._store.repair(fault, actor(by))
        if repaired:
            event("queue.repair", logging.WARNING, kind=fault.kind, item=fault.item)
        return repaired

    def _act_on_all(self, items: Sequence[str], event_name: str, why: str) -> list[str]:
        """Another daemon may have been first: that is as good."""
        done = []
        for item in items:
            try:
                self.act(item, event_name, reason=why, daemon=True)
            except (Refused, UnknownName):
                continue
            done.append(item)
        return done
