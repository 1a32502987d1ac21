"""The queue's nouns: batches, ingest jobs, holds; and the events and states that the program names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from headgate.core.errors import BadValue
from headgate.core.tables.machine import By, Machine
from headgate.core.values.redaction import redact, redact_all

#: The hold of the whole queue.
ALL = "*"
DEFAULT_PRIORITY = 5
HIGHEST_NUMBER = 99
#: Added to the priority number of a job that is large, or whose size is unknown.
LARGE_STEP = 5
MESSAGE_LENGTH = 1000
#: Events of the tables that the program fires automatically, or for a dedicated command.
SUBMIT_EVENT, CREATE_EVENT, HOLD_EVENT, FAIL_EVENT, FINISH_EVENT = "submit", "create", "hold", "fail", "finish"
RELEASE_EVENT, RESUME_EVENT, DELETE_EVENT, UPDATE_REPORT_EVENT = "release", "resume", "delete", "update-report"
REPORT_EVENT, CLEAN_EVENT = "report", "clean"
#: An operator takes a job from a consumer that hangs (spelling mrt-zk alone).
FORCE_FAIL_EVENT = "force-fail"
#: The event of an item whose consumer died.
REAP_EVENT = "reap"
#: Events that the history records besides those of the tables: for holds, ingest jobs and repairs.
CLEAR_EVENT, PRIORITY_EVENT, REPAIR_EVENT = "clear", "set-priority", "repair"
HOLD_EVENTS = (HOLD_EVENT, CLEAR_EVENT)
JOB_EVENTS = (PRIORITY_EVENT,)
#: States that the program names, because it counts or lists them, or a step treats them specially. The tables alone
#: define what may happen in them.
PENDING, HELD, FAILED, COMPLETED, CLEANED = "pending", "held", "failed", "completed", "cleaned"
ESTIMATING, PROVISIONING, DOWNLOADING = "estimating", "provisioning", "downloading"
PROCESSING, STORING, RECORDING, NOTIFY = "processing", "storing", "recording", "notify"
REPORTING, UPDATE_REPORTING = "reporting", "update-reporting"
#: States in which an item waits for an operator, or only for its removal.
OUTCOMES = (COMPLETED, CLEANED, FAILED, HELD, "deleted")
#: Keys of a job's configuration that the store sets when it creates the job. They never change, because handlers rely
#: on them.
FIXED_KEYS = (
    "batch_id", "profile_name", "submitter", "payload_url", "payload_type", "response_type", "submission_mode",
    "working_dir",
)  # fmt: skip
#: Digits in an id, on every store.
_ID = re.compile("(bid|jid)[0-9]{10}")
#: The key of a job's configuration that names the owner of its object, once a step has read it from the profile.
OBJECT_OWNER = "object_owner"
#: How many workers may die on an item in one state, unless settings or profile say otherwise.
DEFAULT_MAX_CRASHES = 3
#: The configuration key for this; it has the profile's value at the time when the job was created.
MAX_CRASHES = "max_crashes"


class Folder(StrEnum):
    """The folders in which a batch keeps references to its jobs."""

    PROCESSING = "batch-processing"
    FAILED = "batch-failed"
    COMPLETED = "batch-completed"
    #: Deleted by an operator, until it is cleaned up (spelling mrt-zk alone).
    DELETED = "batch-deleted"


#: The folder for each state of a job; PROCESSING for all other states.
FOLDERS: Mapping[str, Folder] = {
    FAILED: Folder.FAILED,
    COMPLETED: Folder.COMPLETED,
    CLEANED: Folder.COMPLETED,
    "deleted": Folder.DELETED,
}


#: The folders in which a batch counts its jobs, with the names of the counts.
COUNTERS: Mapping[Folder, str] = {
    Folder.PROCESSING: "processing",
    Folder.FAILED: "failed",
    Folder.COMPLETED: "completed",
}


def folder_of(state: str) -> Folder:
    """The folder of the batch for a job in this state."""
    return FOLDERS.get(state, Folder.PROCESSING)


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission by a depositor."""

    #: The ingest profile, which names the collection.
    profile: str
    #: Name of the submitter.
    submitter: str
    #: Where the payload is.
    payload_url: str
    #: file, container, object-manifest, or a batch manifest of one of them.
    type: str = "object-manifest"
    #: add: a new object or a new version; update: a change of one.
    mode: str = "add"
    #: All other fields of the submission: erc_who, erc_what, erc_when, erc_where, digests, ids, …
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: The caller's id of this request: a repeat returns the same batch.
    request_id: str = ""

    @property
    def origin(self) -> str:
        """Identifies the store where names of several stores meet, since each numbers its batches and jobs alike."""
        return hashlib.sha256(self.request_id.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Identifiers:
    """The identifiers of a stored object."""

    #: Its ARK; empty: none yet.
    primary: str = ""
    #: The depositor's names for it.
    local: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewJob:
    """One object of a batch, before it has an id."""

    payload_url: str  #: Location of its payload.
    #: file, container or object_manifest.
    payload_type: str = "object_manifest"
    identifiers: Identifiers = Identifiers()  #: ARK and local ids of the object.
    priority: int = DEFAULT_PRIORITY  #: 0 to 99, lowest first.
    #: Everything else of its configuration.
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a batch's status report: always the full lists."""

    failed: tuple[str, ...]  #: Ids of the jobs that failed.
    successful: tuple[str, ...]  #: Ids of the jobs that completed.
    #: When it was written; None: it has not been written yet.
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Number of a batch's jobs in each folder."""

    processing: int = 0  #: Jobs that are in progress.
    failed: int = 0  #: Jobs that failed.
    completed: int = 0  #: Jobs that have completed.


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch at the moment when the store answered."""

    id: str  #: Its id.
    state: str  #: A state of the table.
    submission: Submission  #: What was submitted.
    #: Why it is in this state.
    message: str
    #: When it entered this state.
    since: datetime
    jobs: JobCounts = JobCounts()  #: Number of its jobs in each folder.
    #: Number of jobs created from its payload.
    made: int = 0
    report: Report | None = None  #: Its report; None: not reported yet.
    #: The worker that has taken it; empty: none.
    worker: str = ""
    #: Token of the newest take.
    token: int = 0
    #: Requested lease length in seconds.
    lease: float | None = None
    #: The principal that has taken it; empty: none.
    principal: str = ""
    #: How many workers died on it in this state; if it is held, in the state before.
    crashes: int = 0
    #: The state in which its workers kept crashing until it was held; empty: it was not held for that reason.
    former: str = ""
    #: For an item that was just taken: why its collection is on hold, to be reported by `hold`; otherwise empty.
    hold: str = ""

    @property
    def profile(self) -> str:
        """The ingest profile."""
        return self.submission.profile


@dataclass(frozen=True, slots=True)
class IngestJob:
    """An ingest job at the moment when the store answered: one object on its way into the repository."""

    id: str  #: Its id.
    #: Its batch's id.
    batch: str
    state: str  #: A state of the table.
    #: The last step that succeeded; None: there is none to resume after.
    last_successful: str | None
    retry_count: int  #: How many times it was resumed.
    #: 0 to 99, the smallest first.
    priority: int
    #: Bytes; 0: not known.
    space_needed: int
    identifiers: Identifiers  #: ARK and local ids of the object.
    #: batch_id, profile_name, submitter, payload_url, payload_type, submission_mode, working_dir, …
    configuration: Mapping[str, Any]
    #: Why it is in this state.
    message: str
    #: When it entered this state.
    since: datetime
    #: The worker that has taken it; empty: none.
    worker: str = ""
    #: Token of the newest take.
    token: int = 0
    #: Requested lease length in seconds.
    lease: float | None = None
    #: The principal that has taken it; empty: none.
    principal: str = ""
    #: How many workers died on it in this state; if it is held, in the state before.
    crashes: int = 0
    #: The state in which its workers kept crashing until it was held; empty: it was not held for that reason.
    former: str = ""
    #: For an item that was just taken: why its collection is on hold, to be reported by `hold`; otherwise empty.
    hold: str = ""

    @property
    def profile(self) -> str:
        """The ingest profile."""
        return str(self.configuration.get("profile_name", ""))

    @property
    def place(self) -> Place:
        """Its position in the order of its state."""
        return Place(self.priority, self.id)


Item = Batch | IngestJob
Readable = TypeVar("Readable", Batch, IngestJob, Item)


class Place(NamedTuple):
    """A job's position in the order of its state: lowest priority number first, then the oldest."""

    priority: int  #: 0 to 99, lowest first.
    id: str  #: Id of the ingest job.


@dataclass(frozen=True, slots=True)
class Taken:
    """The proof of ownership that an owner presents with each change."""

    id: str  #: Id of the batch or ingest job.
    token: int  #: Token of the take.
    #: The state in which it was taken, and in which the write expects it.
    state: str
    worker: str = ""  #: Name of the worker.
    #: Lease length in seconds.
    lease: float = 60.0


@dataclass(frozen=True, slots=True)
class Changes:
    """Values that an owner changes with a transition, or separately. None: unchanged."""

    priority: int | None = None
    space_needed: int | None = None
    identifiers: Identifiers | None = None
    #: Keys that are added to the job's configuration, or replaced in it.
    configuration: Mapping[str, Any] | None = None
    #: Content of a batch's report.
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold of a collection, or of the whole queue."""

    #: The profile, or ALL.
    profile: str
    reason: str  #: The reason for the hold.
    who: str  #: Who set the hold.
    since: datetime | None = None  #: When it was set; None: not yet.
    #: The profile's file that sets it; empty: it was set with `headgate ingest hold`, and is kept in the store.
    file: str = ""

    @property
    def in_words(self) -> str:
        """Who holds the collection, why, and how to clear the hold."""
        who = f", set by {self.who}" if self.who else ""
        why = f": {self.reason}" if self.reason else ""
        end = f"Remove `hold` from {self.file}" if self.file else "Clear the hold first"
        return f"collection {self.profile} is on hold{who}{why}. {end}"


def forward_event(machine: Machine, state: str) -> str:
    """The event by which the owner of an item reports that its step succeeded."""
    own = (row.event for row in machine.rows if row.source == state and row.by is By.OWNER)
    return next(event for event in own if event not in (FAIL_EVENT, HOLD_EVENT))


def forward_states(machine: Machine, state: str) -> tuple[str, ...]:
    """The states that follow a state whose step succeeded."""
    event = forward_event(machine, state)
    return tuple(row.target for row in machine.rows if row.source == state and row.event == event)


def has_row(machine: Machine, state: str, event: str) -> bool:
    """Whether the table has a row for an event in a state."""
    return bool(machine.rows_of(state, event))


def work_states(machine: Machine) -> tuple[str, ...]:
    """The states in which an item may be taken."""
    return machine.owned


def has_ended(item: Item) -> bool:
    """Whether the item waits for an operator."""
    return item.state in OUTCOMES


def for_readers(item: Readable) -> Readable:
    """The item without the secrets in its payload URL, which only its owner needs."""
    if isinstance(item, Batch):
        said = item.submission
        kept = replace(said, payload_url=redact(said.payload_url), metadata=redact_all(said.metadata))
        return replace(item, submission=kept)
    return replace(item, configuration=redact_all(item.configuration))


def is_batch(item_id: str) -> bool:
    """Whether an id is a batch's; otherwise it is an ingest job's."""
    return item_id.startswith("bid")


def check_item_id(value: object) -> str:
    """A batch's or ingest job's id, as it is written."""
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    raise BadValue(
        "id", value, ("is neither a batch id (bid and ten digits) nor an ingest job id (jid and ten digits)")
    )


def check_priority(value: object) -> int:
    """0 to 99. Anything else is refused; values are never coerced."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST_NUMBER:
        return value
    raise BadValue("priority", value, f"is not a whole number from 0 (first) to {HIGHEST_NUMBER} (last)")


def later_priority(priority: int) -> int:
    """The priority of a job that is large or of unknown size: behind the others, within the allowed range."""
    return min(priority + LARGE_STEP, HIGHEST_NUMBER)


def job_configuration(batch: Batch, job_id: str, new: NewJob, work_folder: str) -> dict[str, Any]:
    """A job's configuration, by the keys of the Merritt queue. Fixed keys come last, so no setting replaces them."""
    return {
        **new.settings,
        "batch_id": batch.id,
        "profile_name": batch.profile,
        "submitter": batch.submission.submitter,
        "payload_url": new.payload_url,
        "payload_type": new.payload_type,
        "response_type": batch.submission.metadata.get("response_type"),
        "submission_mode": batch.submission.mode,
        "working_dir": f"{work_folder}/{batch.id}/{job_id}",
    }
