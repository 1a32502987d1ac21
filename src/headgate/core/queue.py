"""The queue's nouns: batches, ingest jobs, holds; and the one function that picks the row of a move."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from headgate.core.errors import BadValue, QueueRefused, TransitionRefused
from headgate.core.machine import Also, By, Machine, Transition
from headgate.core.redaction import redact, redact_all

#: The hold of the whole queue.
ALL = "*"
DEFAULT_PRIORITY = 5
HIGHEST_NUMBER = 99
#: So much later is a job that is large, or whose size is not known.
LARGE_STEP = 5
MESSAGE_LENGTH = 1000
#: What the history tells of besides the tables' events: of holds, of ingest jobs, of mended faults.
HOLD_EVENTS = ("hold", "clear")
JOB_EVENTS = ("set-priority",)
REPAIR_EVENT = "repair"
#: Keys of a job's configuration that the store writes when the job is made. Nobody changes them: handlers act on them.
FIXED_KEYS = (
    "batch_id", "profile_name", "submitter", "payload_url", "payload_type", "response_type", "submission_mode",
    "working_dir",
)  # fmt: skip
#: Digits in an id, on every store.
_ID = re.compile("(bid|jid)[0-9]{10}")
#: The event of an item whose owner died.
REAP_EVENT = "reap"
#: How many workers may die on an item in one state, where neither settings nor profile say otherwise.
DEFAULT_MAX_CRASHES = 3
#: The key of a job's configuration that says so; the profile's value, at the time that the job was made.
MAX_CRASHES = "max_crashes"
#: States as sentences have them, where the word itself does not fit.
_DOING = {"notify": "notifying"}


class Folder(StrEnum):
    """Where a batch keeps the reference to one of its jobs."""

    PROCESSING = "batch-processing"
    FAILED = "batch-failed"
    COMPLETED = "batch-completed"
    #: What a person deleted, until it is cleaned up (spelling mrt-zk alone).
    DELETED = "batch-deleted"


#: The folder of each state of a job; every other state's is PROCESSING.
FOLDERS: Mapping[str, Folder] = {
    "failed": Folder.FAILED,
    "completed": Folder.COMPLETED,
    "cleaned": Folder.COMPLETED,
    "deleted": Folder.DELETED,
}


def folder_of(state: str) -> Folder:
    """Where the batch keeps a job that is in this state."""
    return FOLDERS.get(state, Folder.PROCESSING)


@dataclass(frozen=True, slots=True)
class Submission:
    """What a depositor hands in."""

    #: The ingest profile, which names the collection.
    profile: str
    #: Who hands it in.
    submitter: str
    #: Where the payload is.
    payload_url: str
    #: file, container, object-manifest, or a batch manifest of one of them.
    type: str = "object-manifest"
    #: add: a new object, or a new version of one. update: a change of one.
    mode: str = "add"
    #: Everything else that was said: erc_who, erc_what, erc_when, erc_where, digests, ids, …
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: The caller's id of this request: a repeat gives the same batch.
    request_id: str = ""

    @property
    def origin(self) -> str:
        """Two stores count their batches and jobs alike; this tells them apart, wherever their names meet."""
        return hashlib.sha256(self.request_id.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Identifiers:
    """What a stored object is called."""

    #: Its ARK; empty: none yet.
    primary: str = ""
    #: What the depositor calls it.
    local: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewJob:
    """One object of a batch, before it has an id."""

    payload_url: str
    #: file, container or object_manifest.
    payload_type: str = "object_manifest"
    identifiers: Identifiers = Identifiers()
    priority: int = DEFAULT_PRIORITY
    #: Everything else of its configuration.
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What a batch's status-report holds: always the full lists."""

    failed: tuple[str, ...]
    successful: tuple[str, ...]
    #: When it was written; None: it is about to be.
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs a batch has in each folder."""

    processing: int = 0
    failed: int = 0
    completed: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as the store had it at that moment."""

    id: str
    state: str
    submission: Submission
    #: Why it is in this state.
    message: str
    #: Since when it is in this state.
    since: datetime
    jobs: Counts = Counts()
    #: How many jobs were ever made of its payload.
    made: int = 0
    report: Report | None = None
    #: Who has taken it; empty: nobody.
    worker: str = ""
    #: Of the newest taking.
    token: int = 0
    #: Seconds that the taking lives without being renewed, as it was asked for.
    lease: float | None = None
    #: The principal that has taken it; empty: nobody.
    principal: str = ""
    #: How many of its workers died in this state; of a held one: in the state before.
    crashes: int = 0
    #: The state in which its workers died until it was held; empty: it was not held for that.
    former: str = ""

    @property
    def profile(self) -> str:
        """The ingest profile."""
        return self.submission.profile


@dataclass(frozen=True, slots=True)
class IngestJob:
    """An ingest job as the store had it at that moment: one object on its way into the repository."""

    id: str
    #: Its batch's id.
    batch: str
    state: str
    #: The last step that it ended well; None: none that it could be resumed after.
    last_successful: str | None
    retry_count: int
    #: 0 to 99, the smallest first.
    priority: int
    #: Bytes; 0: not known.
    space_needed: int
    identifiers: Identifiers
    #: batch_id, profile_name, submitter, payload_url, payload_type, submission_mode, working_dir, …
    configuration: Mapping[str, Any]
    #: Why it is in this state.
    message: str
    #: Since when it is in this state.
    since: datetime
    #: Who has taken it; empty: nobody.
    worker: str = ""
    #: Of the newest taking.
    token: int = 0
    #: Seconds that the taking lives without being renewed, as it was asked for.
    lease: float | None = None
    #: The principal that has taken it; empty: nobody.
    principal: str = ""
    #: How many of its workers died in this state; of a held one: in the state before.
    crashes: int = 0
    #: The state in which its workers died until it was held; empty: it was not held for that.
    former: str = ""

    @property
    def profile(self) -> str:
        """The ingest profile."""
        return str(self.configuration.get("profile_name", ""))

    @property
    def place(self) -> Place:
        """Its place in the order of its state."""
        return Place(self.priority, self.id)


Item = Batch | IngestJob
Readable = TypeVar("Readable", Batch, IngestJob, Item)


class Place(NamedTuple):
    """A job's place in the order of its state: lowest priority number first, then the oldest."""

    priority: int
    id: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What an owner shows to prove that an item is its own."""

    id: str
    token: int
    #: The state in which it was taken: the write expects to find it there.
    state: str
    worker: str = ""
    #: Seconds that the taking lives without being renewed.
    lease: float = 60.0


@dataclass(frozen=True, slots=True)
class Changes:
    """What an owner changes together with a move, or by itself. None: as it was."""

    priority: int | None = None
    space_needed: int | None = None
    identifiers: Identifiers | None = None
    #: Keys that are added to the job's configuration, or replaced in it.
    configuration: Mapping[str, Any] | None = None
    #: Of a batch that is being reported.
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A collection, or the whole queue, that shall wait."""

    #: The profile, or ALL.
    profile: str
    reason: str
    who: str
    since: datetime | None = None
    #: The profile's file that sets it; empty: it was set with `headgate ingest hold`, and is kept in the store.
    file: str = ""

    @property
    def in_words(self) -> str:
        """Who holds the collection, why, and how to end that."""
        who = f", set by {self.who}" if self.who else ""
        why = f": {self.reason}" if self.reason else ""
        end = f"Remove `hold` from {self.file}" if self.file else "Clear the hold first"
        return f"collection {self.profile} is on hold{who}{why}. {end}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the conditions of the tables look at."""

    #: Of the job that moves.
    last_successful: str | None = None
    #: The state of the job's batch.
    batch_state: str = ""
    #: The hold of the item's collection.
    hold: Hold | None = None
    #: Of the batch that moves.
    jobs: Counts = Counts()
    made: int = 0
    #: A job of the batch that somebody has taken.
    taken_job: str = ""
    #: Of the item whose owner died: how many died before it, and how many may (0: any number).
    crashes: int = 0
    max_crashes: int = 0
    #: Of the held item: the state in which its workers died.
    former: str = ""


def _dies_too_often(facts: Facts) -> bool:
    return 0 < facts.max_crashes <= facts.crashes + 1


#: Every `when` and `needs` of the queue's tables.
CONDITIONS: Mapping[str, Callable[[Facts], bool]] = {
    "its collection is not held": lambda facts: facts.hold is None,
    "none of its jobs is taken": lambda facts: not facts.taken_job,
    "none of its jobs is in processing": lambda facts: facts.jobs.processing == 0,
    "no job failed": lambda facts: facts.jobs.failed == 0 and facts.made > 0,
    "a job failed, or it has no jobs": lambda facts: facts.jobs.failed > 0 or facts.made == 0,
    "its batch is processing or failed": lambda facts: facts.batch_state in ("processing", "failed"),
    "fewer than max_crashes workers crashed on it": lambda facts: not _dies_too_often(facts),
    "max_crashes workers crashed on it": _dies_too_often,
    "it was held in pending": lambda facts: facts.former in ("", "pending"),
    **{
        f"its workers crashed in {state}": (lambda facts, state=state: facts.former == state)  # type: ignore[misc]
        for state in (
            "estimating",
            "provisioning",
            "downloading",
            "processing",
            "storing",
            "recording",
            "notify",
            "reporting",
            "update-reporting",
        )
    },
    **{
        f"the last successful step was {step}": (lambda facts, step=step: facts.last_successful == step)  # type: ignore[misc]
        for step in ("provisioning", "downloading", "processing", "storing", "recording")
    },
}


def refuse_others(machine: Machine, state: str, event: str, by: By) -> None:
    """TransitionRefused when no row lets this caller fire the event in that state."""
    if all(row.by is not by for row in machine.find(state, event)):
        own = dict.fromkeys(row.event for row in machine.rows if row.source == state and row.by is by)
        raise TransitionRefused(machine.name, state, event, tuple(own))


def choose(machine: Machine, item: str, state: str, event: str, facts: Facts) -> Transition:
    """The row of an event in a state, given the facts. TransitionRefused without a row, QueueRefused by a condition."""
    rows = machine.find(state, event)
    fitting = [row for row in rows if not row.when or CONDITIONS[row.when](facts)]
    if not fitting:
        raise QueueRefused(item, event, _no_target(facts))
    row = fitting[0]
    if row.needs and not CONDITIONS[row.needs](facts):
        raise QueueRefused(item, event, _unmet(row.needs, facts))
    return row


def why(row: Transition, message: str) -> str:
    """What a status says: the reason that was given, else what the move means."""
    return redact(message)[:MESSAGE_LENGTH] or row.meaning


def moved_by(row: Transition, item: Item, message: str, at: datetime) -> Item:
    """The item after a row of its table, by itself: nobody's, for that reason, since that time."""
    died = Also.COUNT_CRASH in row.also
    moved = replace(
        item,
        state=row.target,
        message=why(row, message),
        since=item.since if row.target == row.source else at,
        worker="",
        lease=None,
        principal="",
        crashes=item.crashes + 1 if died else 0,
        former=row.source if died and row.target != row.source else "",
    )
    if isinstance(moved, Batch):
        return moved
    return replace(
        moved,
        last_successful=row.source if Also.MARK_STEP in row.also else moved.last_successful,
        retry_count=moved.retry_count + (Also.COUNT_RETRY in row.also),
    )


def reap_facts(item: Item, default: int) -> Facts:
    """What decides whether an item whose owner died may be tried again. `default`: where its profile said nothing."""
    said = item.configuration.get(MAX_CRASHES) if isinstance(item, IngestJob) else None
    is_number = isinstance(said, int) and not isinstance(said, bool) and said >= 0
    return Facts(crashes=item.crashes, max_crashes=said if is_number and said is not None else default)


def reap_message(row: Transition, item: Item, worker: str) -> str:
    """Why an item is where it is after its owner died."""
    crashes, step = item.crashes + 1, _DOING.get(item.state, item.state)
    times = "once" if crashes == 1 else f"{crashes} times"
    if row.target == row.source:
        return f"its worker crashed {times} while {step}: {worker}"
    return (
        f"its worker crashed {times} while {step}; check its payload and the log of {worker}, then release or delete it"
    )


def changed_by(changes: Changes, item: Item, at: datetime) -> Item:
    """The item with what its owner writes down."""
    if isinstance(item, Batch):
        report = changes.report
        return item if report is None else replace(item, report=replace(report, at=report.at or at))
    return replace(
        item,
        priority=item.priority if changes.priority is None else changes.priority,
        space_needed=item.space_needed if changes.space_needed is None else changes.space_needed,
        identifiers=changes.identifiers or item.identifiers,
        configuration={**item.configuration, **(changes.configuration or {})},
    )


def forward_event(machine: Machine, state: str) -> str:
    """The event by which the owner of an item says that its step went well."""
    return next(row.event for row in machine.rows if row.source == state and row.event in ("accept", "start", "finish"))


def can_fail(machine: Machine, state: str) -> bool:
    """Whether a failure in this state has a row; without one, the item stays where it is."""
    return any(row.source == state and row.event == "fail" for row in machine.rows)


def work_states(machine: Machine) -> tuple[str, ...]:
    """The states in which an item may be taken."""
    owned = (row.source for row in machine.rows if row.by is By.OWNER and row.source != machine.start)
    return tuple(dict.fromkeys(owned))


def for_readers(item: Readable) -> Readable:
    """The item without the secrets of its payload's address, which only its owner needs."""
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
    """0 to 99. Anything else is refused: nothing is bent to fit."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST_NUMBER:
        return value
    raise BadValue("priority", value, f"is not a whole number from 0 (first) to {HIGHEST_NUMBER} (last)")


def later_priority(priority: int) -> int:
    """Where a large job, or one of unknown size, stands: behind the others, within what there is."""
    return min(priority + LARGE_STEP, HIGHEST_NUMBER)


def job_configuration(batch: Batch, job_id: str, new: NewJob, work_folder: str) -> dict[str, Any]:
    """A job's configuration, by the keys of the Merritt queue. The fixed keys come last: no setting replaces one."""
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


def _no_target(facts: Facts) -> str:
    if facts.last_successful is None:
        return "it failed before its first step finished; submit it again"
    return f"there is no step after {facts.last_successful}"


def _unmet(needs: str, facts: Facts) -> str:
    if needs == "its collection is not held" and facts.hold is not None:
        return facts.hold.in_words
    if needs == "none of its jobs is taken":
        return f"{facts.taken_job} is being processed; try again when it has finished"
    if needs == "none of its jobs is in processing":
        return f"{facts.jobs.processing} of its jobs have not finished"
    if needs == "its batch is processing or failed":
        return f"its batch is {facts.batch_state}; try again when its report has been sent"
    return f"this condition is not met: {needs}"
