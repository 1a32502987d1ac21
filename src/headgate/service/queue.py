"""The queue: what may be asked of it."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

from headgate.core.errors import BadValue
from headgate.core.history import Entry
from headgate.core.machine import By, Machine
from headgate.core.names import check_name, check_note, check_reason, check_request_id, check_resource
from headgate.core.queue import (
    ALL,
    Batch,
    Changes,
    Fault,
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
    work_states,
)
from headgate.service.checks import check_limit, check_positive_lease, check_span, check_token, printable
from headgate.service.clock import steady
from headgate.service.identity import actor, asker_for, new_request_id, owner
from headgate.service.renewal import ItemHold
from headgate.stores.base import BatchFilter, JobFilter, QueueHistoryFilter, QueueStore
from headgate.telemetry import event

#: Short enough that a dead consumer is noticed, long enough for a slow store.
DEFAULT_LEASE = 60.0
#: Jobs that are made in one transaction.
CREATE_PORTION = 250
#: Largest document of a submission or of a job's configuration, in bytes: a node of a tree holds no more.
LARGEST_DOCUMENT = 500_000
#: What a payload may be.
TYPES = (
    "file", "container", "object-manifest",
    "batch-manifest", "container-batch-manifest", "single-file-batch-manifest",
)  # fmt: skip
PAYLOAD_TYPES = ("file", "container", "object_manifest")
MODES = ("add", "update")
DUBLIN_CORE = (
    "contributor", "coverage", "creator", "date", "description", "format", "identifier", "language", "publisher",
    "relation", "rights", "source", "subject", "title", "type",
)  # fmt: skip
#: What may be said of a submission besides.
METADATA = (
    "erc_who", "erc_what", "erc_when", "erc_where", "primary_id", "local_id", "digest_type", "digest_value", "size",
    "filename", "note", "notification", "notification_format", "response_type", "resource_type", "batch_id",
    *(f"dc_{word}" for word in DUBLIN_CORE),
)  # fmt: skip


class Queue:
    """Batches and ingest jobs on their way through the states."""

    def __init__(self, store: QueueStore, work_folder: str) -> None:
        self._store = store
        self._work_folder = work_folder

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
        after: Batch | str | None = None,
        request_id: str | None = None,
    ) -> Batch | None:
        """The oldest batch in that state that nobody works on, taken; None when there is none.

        `after`: only batches behind that one.
        """
        state = check_state(self._store.batch_table, state)
        behind = after.id if isinstance(after, Batch) else after
        return self._store.take_batch(state, asker_for(worker, lease, request_id), behind and check_item_id(behind))

    def acquire_job(
        self,
        state: str,
        *,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        after: Place | IngestJob | None = None,
        request_id: str | None = None,
    ) -> IngestJob | None:
        """The first job in that state that nobody works on, taken; None when there is none.

        `after`: only jobs behind that one, so that a round can look at every job once.
        """
        state = check_state(self._store.job_table, state)
        place = after.place if isinstance(after, IngestJob) else after
        return self._store.take_job(state, asker_for(worker, lease, request_id), place)

    def renew(self, item: Item | Taken, *, lease: float | None = None) -> float:
        """The consumer lives: its lease begins anew. Gives its seconds; ItemLost when it has run out."""
        taken = check_taken(item)
        return self._store.renew(taken, check_positive_lease(taken.lease if lease is None else lease))

    @contextmanager
    def kept(self, item: Item, sent: float | None = None) -> Iterator[ItemHold]:
        """Keep an item alive while a block works on it. Report its outcome before the block ends, or after it.

        `sent`: when it was asked for, on the monotonic clock; without it, the lease is thought to begin now.
        """
        hold = ItemHold(self.renew, item, steady() if sent is None else sent)
        hold.start()
        try:
            yield hold
        finally:
            hold.stop()

    def give_back(self, item: Item | Taken, message: str = "") -> None:
        """Not done, and nobody's: somebody takes it again in the same state."""
        self._store.give_back(check_taken(item), printable(message))

    def create_jobs(self, batch: Batch | Taken, rows: Iterable[NewJob | Mapping[str, Any]]) -> int:
        """Make the jobs of a batch that was taken as pending: all rows, also after a try that was cut off.

        Give the same rows in the same order; those that were made already are passed over. Gives how many there are.
        """
        taken = check_taken(batch)
        made = self._store.batch(taken.id).made
        jobs = (check_new_job(row) for row in rows)
        for _ in islice(jobs, made):
            pass
        while portion := list(islice(jobs, CREATE_PORTION)):
            made = self._store.create_jobs(taken, made, portion, self._work_folder)
        event("batch.jobs", batch=taken.id, made=made)
        return made

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
        states = [(self._store.batch_table, state) for state in batch_states]
        states += [(self._store.job_table, state) for state in job_states]
        self._store.await_work(states, seconds)

    # ---------------------------------------------------------------- operators

    def resume(self, job: str, *, reason: str = "", by: str | None = None) -> Item:
        """A failed job goes on from the step after its last good one, counted as a retry."""
        return self._act(job, "resume", reason, by)

    def release(self, item: str, *, reason: str = "", by: str | None = None) -> Item:
        """A held batch or job is pending again. Refused while its collection is held."""
        return self._act(item, "release", reason, by)

    def delete(self, item: str, *, reason: str, by: str | None = None) -> Item:
        """A failed or held batch or job is given up, and leaves no trace but its history. Gives what it was."""
        return self._act(item, "delete", check_reason(reason), by)

    def update_report(self, batch: str, *, reason: str = "", by: str | None = None) -> Item:
        """A failed batch is reported once more: what changed since."""
        return self._act(batch, "update-report", reason, by)

    def set_priority(self, job: str, priority: int, *, reason: str = "", by: str | None = None) -> IngestJob:
        """Another place in the order: 0 is first, 99 last."""
        return self._store.set_priority(
            check_item_id(job), check_priority(priority), check_note("reason", reason), actor(by)
        )

    def set_hold(self, profile: str = ALL, *, reason: str, by: str | None = None) -> Hold:
        """A collection waits: its pending batches and jobs go to held. ALL: nobody gets anything new to do."""
        hold = Hold(check_name("profile", profile), check_reason(reason), actor(by))
        event("queue.hold", logging.WARNING, profile=hold.profile, reason=hold.reason, who=hold.who)
        return self._store.set_hold(hold)

    def clear_hold(self, profile: str = ALL, *, by: str | None = None) -> bool:
        """The hold is gone; what is held stays so until it is released. False: there was none."""
        return self._store.clear_hold(check_name("profile", profile), actor(by))

    def holds(self) -> Sequence[Hold]:
        """All holds: who, why, since."""
        return self._store.holds()

    def hold_of(self, profile: str) -> Hold | None:
        """The hold of a collection, if there is one."""
        return next((hold for hold in self._store.holds() if hold.profile == profile), None)

    # ---------------------------------------------------------------- daemons

    def report_finished(self, limit: int = 100) -> list[str]:
        """Batches whose last job has ended go on to reporting. Gives their ids."""
        return self._act_on_all(self._store.reportable(limit), "report", "its last job has completed or failed")

    def clean(self, seconds: float, limit: int = 100) -> list[str]:
        """What completed so long ago is cleaned up: jobs, then batches. Gives their ids."""
        age = check_span("retention", seconds)
        jobs = self._store.cleanable(self._store.job_table, age, limit)
        cleaned = self._act_on_all(jobs, "clean", "it completed")
        batches = self._store.cleanable(self._store.batch_table, age, limit)
        return cleaned + self._act_on_all(batches, "clean", "it was kept long enough")

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

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many batches and ingest jobs are in each state."""
        return self._store.counts()

    def faults(self) -> Sequence[Fault]:
        """What should not be: explained, each with what a repair would do. Changes nothing."""
        return self._store.faults()

    def repair(self, fault: Fault, *, by: str | None = None) -> bool:
        """Mend a fault as it says, if it is still there. False: it is not, or a person must look."""
        mended = self._store.repair(fault, actor(by))
        event("queue.repair", logging.WARNING, kind=fault.kind, item=fault.item, mended=mended)
        return mended

    def history(self, which: QueueHistoryFilter) -> Sequence[Entry]:
        """What happened to batches, ingest jobs and holds, newest first."""
        return self._store.history(which)

    def _act(self, item: str, event_name: str, reason: str, by: str | None) -> Item:
        who, why = actor(by), check_note("reason", reason)
        acted = self._store.act(check_item_id(item), event_name, By.OPERATOR, why, who)
        event(f"queue.{event_name}", item=item, state=acted.state, reason=why, who=who)
        return acted

    def _act_on_all(self, items: Sequence[str], event_name: str, why: str) -> list[str]:
        """Another daemon may have been first: that is as good."""
        from headgate.core.errors import Refused, UnknownName

        done = []
        for item in items:
            try:
                self._store.act(item, event_name, By.DAEMON, why, owner())
            except (Refused, UnknownName):
                continue
            event(f"queue.{event_name}", item=item)
            done.append(item)
        return done


def check_taken(item: object) -> Taken:
    """What an owner shows: an item that it took, or its id, token and state."""
    if isinstance(item, Batch | IngestJob):
        item = Taken(item.id, item.token, item.state, item.worker, item.lease or DEFAULT_LEASE)
    if not isinstance(item, Taken):
        raise BadValue("item", item, "is no batch or ingest job that was acquired")
    check_token(item.token)
    return replace(item, id=check_item_id(item.id), lease=check_positive_lease(item.lease))


def check_state(machine: Machine, value: object) -> str:
    """A state in which an item can be taken."""
    return check_word("state", value, work_states(machine))


def check_word(what: str, value: object, words: Sequence[str]) -> str:
    """One of some words; the nearest is named when it is none."""
    if isinstance(value, str) and value in words:
        return value
    near = difflib.get_close_matches(str(value), words, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise BadValue(what, value, f"is none of {', '.join(words)}{hint}")


def check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a submission besides: known names, each with a text, a number or a list of texts."""
    for name, value in metadata.items():
        check_word("metadata", name, METADATA)
        texts = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in texts):
            raise BadValue(f"metadata {name}", value, "is no text, number or list of texts")
    return check_document("metadata", metadata)


def check_document(what: str, document: object) -> dict[str, Any]:
    """A JSON object of a size that every store can keep."""
    if not isinstance(document, Mapping) or not all(isinstance(key, str) for key in document):
        raise BadValue(what, document, "is no mapping of names to values")
    try:
        size = len(json.dumps(dict(document), allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise BadValue(what, document, f"cannot be written as JSON: {error}") from None
    if size > LARGEST_DOCUMENT:
        raise BadValue(what, document, f"has {size:,} bytes; {LARGEST_DOCUMENT:,} are allowed")
    return dict(document)


def check_identifiers(value: object) -> Identifiers:
    """A primary id and local ids: Identifiers, or a mapping with `primary` and `local`."""
    if isinstance(value, Mapping) and set(value) <= {"primary", "local"}:
        local = value.get("local", ())
        value = Identifiers(value.get("primary", ""), (local,) if isinstance(local, str) else tuple(local))
    if not isinstance(value, Identifiers):
        raise BadValue("identifiers", value, "are not given as {'primary': …, 'local': [ … ]}")
    for each in (value.primary, *value.local):
        if each != "":
            check_resource(each)
    return value


def check_new_job(row: NewJob | Mapping[str, Any]) -> NewJob:
    """One object of a batch, given as a NewJob or as a mapping with its fields."""
    if isinstance(row, Mapping):
        fields = ("payload_url", "payload_type", "identifiers", "priority", "settings")
        for name in row:
            check_word("row", name, fields)
        given = {"payload_url": "", **row}
        given["identifiers"] = check_identifiers(given.get("identifiers", {}))
        row = NewJob(**given)
    if not isinstance(row, NewJob):
        raise BadValue("row", row, "is no job to be: give a payload_url, and what else is known")
    check_resource(row.payload_url)
    check_word("payload_type", row.payload_type, PAYLOAD_TYPES)
    check_priority(row.priority)
    return replace(
        row, identifiers=check_identifiers(row.identifiers), settings=check_document("settings", row.settings)
    )


def check_changes(
    priority: object, space_needed: object, identifiers: object, configuration: object, report: object
) -> Changes:
    """What an owner writes down."""
    if space_needed is not None and (
        isinstance(space_needed, bool) or not isinstance(space_needed, int) or not 0 <= space_needed < 2**63
    ):
        raise BadValue("space_needed", space_needed, "is not a number of bytes; 0 means not known")
    if report is not None and not isinstance(report, Report):
        raise BadValue("report", report, "is no Report")
    return Changes(
        priority=None if priority is None else check_priority(priority),
        space_needed=space_needed,
        identifiers=None if identifiers is None else check_identifiers(identifiers),
        configuration=None if configuration is None else check_document("configuration", configuration),
        report=report,
    )
