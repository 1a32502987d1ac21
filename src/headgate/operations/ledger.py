"""Datasets, jobs, and operators' actions on chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from headgate.core.errors import BadValue, ClaimRefused, HoldersUnconfirmed, Refused, UnknownName
from headgate.core.ledger.census import Span, Tally
from headgate.core.ledger.fan import MOST_FANNED, MOST_LINKS, ChunkLink, FanIn
from headgate.core.ledger.mappings.model import LATE_DELAY, NEED_ALL
from headgate.core.ledger.model import (
    ERROR,
    FORGET_EVENT,
    READY,
    RESUBMIT_EVENT,
    Change,
    Claim,
    Dataset,
    Defined,
    Job,
    Port,
    Recurrence,
    Row,
    failure_cursor,
)
from headgate.core.ledger.progress import LOOKED_AT, JobProgress
from headgate.core.ledger.selection import BulkResult
from headgate.core.ledger.verdicts import Condition, Verdict
from headgate.core.logs import Log
from headgate.operations.arguments import (
    MOST,
    USUAL,
    After,
    By,
    Caller,
    Count,
    DryRun,
    Lease,
    Limit,
    OptionalReason,
    Reason,
    RequestId,
    Steal,
    Wait,
    Worker,
)
from headgate.operations.declaring import About, AsTuple, Declarations, Idempotency, Limited, Named, Page

declared = Declarations("ledger")
KEY = Idempotency.KEY
#: The caller's keys are not available here: secrets stay sealed, and are not shared with jobs.
SEALED, UNSHARED = {"key": ""}, {"share": False}
#: Scopes that are limited to jobs and datasets.
JOB = Limited("chunk:claim", "job", hidden="job")
DATASET = Limited("data:publish", "name")
#: The maximum and the default number of data ids that are counted per dataset.
MOST_LOOKED_AT, MOST_TALLIED = 50_000, 5000

Uri = Annotated[str, About(example="postgresql://warehouse/raw")]
OrderWord = Annotated[str, About("Order of its data ids: natural or text.")]
SecretJobs = Annotated[list[str] | None, About("Jobs that may read its secrets; null: any.")]
Expect = Annotated[
    dict[str, str | int | float | list[str]] | None,
    About(
        "Which data ids it should have, and when: the keys every, cron or ids, at, zone, grace, from, format and "
        "id_offset of a pipeline file; null: no expectation.",
        example={"every": "day", "at": "06:00", "zone": "Europe/Berlin", "grace": "2h", "from": "2026-01-01"},
    ),
]
Inputs = Annotated[Sequence[str], About(example=["orders_raw"])]
Outputs = Annotated[Sequence[str], About(example=["orders_clean"])]
FanOut = Annotated[
    Sequence[str],
    About(
        "Datasets for which one chunk yields several data ids, which the report of success lists.", example=["parts"]
    ),
]
MaxAttempts = Annotated[int, About("Failures after which a chunk is not retried; 0: no limit.")]
MaxCrashes = Annotated[int, About("Crashes of workers after which a chunk is held; 0: no limit.")]
MaxInterruptions = Annotated[int, About("Interruptions after which a chunk is held; 0: no limit.")]
RetryDelay = Annotated[float, About("Seconds before a failed chunk is retried.")]
Recur = Annotated[float, About("Seconds after which a DONE chunk is processed again, only without outputs; 0: never.")]
OnFailureWord = Annotated[str, About("rerun or hold.")]
StopExitWord = Annotated[
    str,
    About("interrupt: a worker that was asked to stop reports an interruption; trust: its exit code counts."),
]
MapKindWord = Annotated[
    str,
    About("Which data ids one data id of the job reads: same, period, window, all, list or split.", example="period"),
]
PeriodWord = Annotated[
    str | None, About("period: what one data id of the job represents: day, week, month, quarter, year.")
]
UnitWord = Annotated[str | None, About("period, window: what one data id of the input represents; null: no calendar.")]
InputFormat = Annotated[str | None, About("period, window, split: format of the input's data ids.")]
JobFormat = Annotated[str | None, About("period, split: format of the job's data ids.")]
ZoneName = Annotated[str | None, About("period of hours: the time zone in which a day begins (default: UTC).")]
CountBefore = Annotated[int | None, About("window: how many preceding data ids are read.")]
CountAfter = Annotated[int | None, About("window: how many following data ids are read.")]
ListedIds = Annotated[list[str] | None, About("list: the data ids that every data id of the job reads.")]
NeedWord = Annotated[str | int, About("How many of them must be READY: all, any, or a number.")]
OnLateWord = Annotated[str, About("note: late inputs are noted; redo: the chunk is made again.")]
LateDelay = Annotated[
    float | str, About("Seconds that a redo waits for more late inputs, or a text such as 10m; at most 30 days.")
]
Act = Annotated[str, About("resubmit, hold, unhold or forget.", example=RESUBMIT_EVENT, forced=FORGET_EVENT)]
Dataids = Annotated[list[str], About("Data ids.", min_length=1, max_length=5000)]
Downstream = Annotated[bool, About("Include everything produced from them.")]


@dataclass(frozen=True)
class DatasetDefinition:
    """Definition of a dataset. Secrets are sealed by the caller; see /datasets/{name}/custody."""

    uri: Uri = ""
    order: OrderWord = "natural"
    settings: dict[str, str] | None = None
    secret_jobs: SecretJobs = None
    expect: Expect = None


@dataclass(frozen=True)
class MapDefinition:
    """Which data ids of an input one data id of the job reads. Null: the field does not apply to the kind, or has its
    default.
    """

    kind: MapKindWord
    period: PeriodWord = None
    unit: UnitWord = None
    format: InputFormat = None
    job_format: JobFormat = None
    zone: ZoneName = None
    before: CountBefore = None
    after: CountAfter = None
    ids: ListedIds = None
    need: NeedWord = NEED_ALL
    on_late: OnLateWord = "note"
    late_delay: LateDelay = LATE_DELAY


Maps = Annotated[
    dict[str, MapDefinition] | None,
    About("By input: its mapping; an input without one is read with the same data id."),
]


@dataclass(frozen=True)
class JobDefinition:
    """Definition of a job."""

    inputs: Inputs = ()
    outputs: Outputs = ()
    environment: dict[str, str] | None = None
    max_attempts: MaxAttempts = 3
    max_crashes: MaxCrashes = 3
    max_interruptions: MaxInterruptions = 10
    retry_delay: RetryDelay = 0
    on_failure: OnFailureWord = "rerun"
    stop_exit: StopExitWord = "interrupt"
    recur: Recur = 0
    maps: Maps = None
    fan_out: FanOut = ()


@dataclass(frozen=True, slots=True)
class JobFound:
    """A job and its datasets."""

    job: Job
    datasets: Sequence[Dataset]


@dataclass(frozen=True, slots=True)
class Planned:
    """A chunk that a job would claim, or one that is blocked."""

    job: str
    dataid: str
    #: True: it can be claimed now. False: a condition blocks it.
    granted: bool
    #: True: it was resubmitted, and runs before the others.
    first: bool
    conditions: tuple[Condition, ...]


# ---------------------------------------------------------------- definitions


@declared.get("/datasets", "read", answer="By name.", whole=True, cursor="name")
def datasets(after: After = None, limit: Limit = USUAL) -> Page[Dataset]:
    """List datasets, with the names of their secrets."""


@declared.get("/datasets/{name}", "read", answer="The definition.", errors=(UnknownName,))
def dataset(name: str) -> Dataset:
    """Return one dataset, with the names of its secrets."""


@declared.put("/datasets/{name}", "define", answer="The new definition.", errors=(HoldersUnconfirmed, BadValue))
def define_dataset(
    name: str, uri: Uri = "", order: OrderWord = "natural", settings: dict[str, str] | None = None,
    secret_jobs: SecretJobs = None, expect: Expect = None,
) -> Defined:  # fmt: skip
    """Define a dataset. Repeating the same definition changes nothing."""


@declared.put("/pipeline", "define", answer="It is defined now.", errors=(HoldersUnconfirmed, BadValue), fixed=UNSHARED)
def define(
    datasets: dict[str, DatasetDefinition] | None = None, jobs: dict[str, JobDefinition] | None = None
) -> Defined:
    """Define datasets and jobs in one transaction: all of them, or none when one is refused."""


@declared.get("/jobs", "read", answer="By name.", whole=True, cursor="name")
def jobs(after: After = None, limit: Limit = USUAL) -> Page[Job]:
    """List jobs."""


@declared.get("/jobs/{job}", "read", "chunk:claim", limit=JOB, answer="The definition.", errors=(UnknownName,))
def job(job: str) -> AsTuple[JobFound]:
    """Return one job, and its datasets with the names of their secrets."""


@declared.put(
    "/jobs/{job}", "define", answer="The new definition.", errors=(HoldersUnconfirmed, BadValue), fixed=UNSHARED
)
def define_job(
    job: str, inputs: Inputs = (), outputs: Outputs = (), environment: dict[str, str] | None = None,
    max_attempts: MaxAttempts = 3, max_crashes: MaxCrashes = 3, max_interruptions: MaxInterruptions = 10,
    retry_delay: RetryDelay = 0, on_failure: OnFailureWord = "rerun", stop_exit: StopExitWord = "interrupt",
    recur: Recur = 0, maps: Maps = None, fan_out: FanOut = (),
) -> Defined:  # fmt: skip
    """Define a job. Repeating the same definition changes nothing. Keys and secrets are not part of it."""


@declared.get(
    "/jobs/{job}/connections", "read", "chunk:claim", limit=JOB, answer="Inputs and outputs.", errors=(UnknownName,)
)
def connections(job: str) -> dict[str, dict[str, Port]]:
    """Return how to connect to a job's inputs and outputs. Secrets are masked, or sealed for the job's key."""


# ---------------------------------------------------------------- data


@declared.post(
    "/datasets/{name}/chunks/{dataid}/publish", "data:publish", repeat=KEY, limit=DATASET,
    call="ledger.publish", answer="1 if it was new, else 0.", errors=(UnknownName, Refused),
)  # fmt: skip
def publish(name: str, dataid: str, by: Caller = None) -> Count:
    """Publish data produced elsewhere: the chunk becomes READY. Repeating it is safe."""


@declared.post(
    "/datasets/{name}/publish", "data:publish", repeat=KEY, limit=DATASET, call="ledger.publish",
    answer="How many were new.", errors=(UnknownName, Refused),
)  # fmt: skip
def publish_all(name: str, dataids: Dataids, by: By = None) -> Count:
    """Publish many data ids in one transaction."""


@declared.get("/chunks", "read", "chunk:claim", limit=JOB, answer="By dataset, in its order.", errors=(BadValue,))
def chunks(
    dataset: str | None = None, job: str | None = None, dataid: str | None = None, kind: str | None = None,
    status: str | None = None, after: After = None, limit: Limit = USUAL,
) -> Page[Row]:  # fmt: skip
    """List rows of chunks: one per job that reads or writes them. The rows of a data id are never split across two
    pages.
    """


@declared.get("/failures", "read", answer="Newest first.", cursor=failure_cursor)
def failures(after: After = None, limit: Limit = USUAL) -> Page[Row]:
    """List chunks in ERROR."""


@declared.get("/chunks/standing", "read", answer="By job and status.")
def standing() -> Page[Tally]:
    """Count the chunks of each job that are running, failed, held or to be resubmitted; each chunk counts once."""


@declared.get("/chunks/tallies", "read", answer="By dataset, job and status.")
def tallies(most: Annotated[int, About(ge=1, le=MOST_LOOKED_AT)] = MOST_TALLIED) -> Page[Tally]:
    """Count chunks by status. At most `most` are counted per dataset; `more` is true if there are more."""


@declared.get("/chunks/spans", "read", answer="In the order of the dataset.", errors=(UnknownName, BadValue))
def spans(
    dataset: str,
    beside: Annotated[list[str] | None, About("Other datasets in which the same chunks are counted.")] = None,
    start: Annotated[str | None, About("First data id.")] = None,
    last: Annotated[str | None, About("Last data id.")] = None,
    size: Annotated[int, About("Data ids per span.", ge=1, le=MOST)] = 1,
    after: After = None,
    limit: Limit = USUAL,
) -> Page[Span]:
    """List spans of consecutive data ids, with counts by status."""


# ---------------------------------------------------------------- questions


@declared.get(
    "/jobs/{job}/chunks/{dataid}/explain", "read", "chunk:claim", limit=JOB, errors=(UnknownName,),
    answer="The verdict with each condition.",
)  # fmt: skip
def explain(job: str, dataid: str) -> Verdict:
    """Explain whether the job can claim the chunk: each condition with its answer and the row behind it."""


@declared.get(
    "/jobs/{job}/chunks/{dataid}/logs", "read", "chunk:claim", limit=JOB, answer="Newest attempt first.",
    errors=(UnknownName,),
)  # fmt: skip
def logs(
    job: str, dataid: str, attempt: Annotated[int | None, About("Only of attempts with this number.", ge=1)] = None,
    stream: Annotated[str | None, About("Only stdout or stderr.")] = None, limit: Limit = 10,
) -> Page[Log]:  # fmt: skip
    """List the stored logs of a chunk: for each attempt the end of stdout and stderr, without secrets. There are no
    further pages.
    """


@declared.get("/jobs/{job}/plan", "read", "chunk:claim", limit=JOB, answer="In order.", errors=(UnknownName,))
def plan(job: str, limit: Limit = 20) -> Page[Planned]:
    """List the next chunks that the job would claim, in order, then chunks that are blocked, with the reasons: at most
    `limit` of each. There are no further pages.
    """


@declared.post(
    "/jobs/{job}/fan-in", "read", "chunk:claim", repeat=Idempotency.SAFE, limit=JOB, errors=(UnknownName, BadValue),
    answer="By data id and input.",
)  # fmt: skip
def fan_in(
    job: str,
    dataids: Annotated[list[str], About("Data ids of the job.", min_length=1, max_length=MOST_FANNED)],
    most: Annotated[int, About("Largest number of links of one data id and input.", ge=1, le=MOST)] = MOST_LINKS,
) -> Annotated[list[FanIn], Named("inputs")]:
    """Return the upstream data that data ids of the job need, by input: how much of it is READY, and links to it."""


@declared.get(
    "/datasets/{dataset}/chunks/{dataid}/readers", "read", errors=(UnknownName,), answer="By job and data id."
)
def readers(
    dataset: str, dataid: str,
    most: Annotated[int, About("Largest number of chunks of one job.", ge=1, le=MOST)] = MOST_LINKS,
) -> Annotated[list[ChunkLink], Named("readers")]:  # fmt: skip
    """List the chunks that read this one or were made from it."""


@declared.get(
    "/jobs/{job}/left", "read", "chunk:claim", limit=JOB, errors=(UnknownName,), answer="Counted up to a limit."
)
def left(job: str) -> Count:
    """Count the chunks that wait for the job."""


@declared.get("/recurrences", "read", answer="By job.", whole=True, cursor="job")
def recurrences(after: After = None, limit: Limit = USUAL) -> Page[Recurrence]:
    """List the recurring jobs (`recur`), each with the time when its oldest chunk was processed."""


@declared.post(
    "/jobs/{job}/progress", "read", "chunk:claim", repeat=Idempotency.SAFE, limit=JOB, errors=(UnknownName,),
    answer="The current progress.",
)  # fmt: skip
def progress(
    job: str,
    dataids: Annotated[
        list[str], About("Only these; empty: every chunk that the job may claim.", max_length=LOOKED_AT)
    ] = [],  # noqa: B006 - nothing changes it
    left: Annotated[int | None, About("The last known number of unfinished chunks.", ge=0)] = None,
    wait: Wait = 0,
) -> JobProgress:
    """Return the progress of a job, or of some of its chunks. With `wait`, wait up to that many seconds until they are
    done or have failed permanently; with `left`, also until the number of unfinished chunks changes.
    """


# ---------------------------------------------------------------- support


@declared.post(
    "/jobs/{job}/chunks/{dataid}/force", "admin:force", repeat=Idempotency.REQUEST,
    answer="Claimed, with a new token.", errors=(ClaimRefused, UnknownName), fixed=SEALED,
)  # fmt: skip
def force(
    job: str, dataid: str, reason: Reason, worker: Worker = None, lease: Lease = 60, steal: Steal = False,
    request_id: RequestId = None,
) -> Claim:  # fmt: skip
    """Claim a given chunk regardless of the rules."""


CHANGED = "What changed, or would change."
CHUNK_ERRORS = (ClaimRefused, UnknownName)


@declared.post("/jobs/{job}/chunks/{dataid}/resubmit", "operate", repeat=KEY, answer=CHANGED, errors=CHUNK_ERRORS)
def resubmit(
    job: str, dataid: str, reason: Reason, by: By = None, downstream: Downstream = False, steal: Steal = False,
    dry_run: DryRun = False,
) -> Page[Change]:  # fmt: skip
    """Resubmit a chunk: it is redone first. With `downstream`, also everything produced from it."""


@declared.post(
    "/jobs/{job}/resubmit", "operate", repeat=KEY, answer=CHANGED, errors=CHUNK_ERRORS, call="ledger.resubmit",
    renamed={"dataids": "dataid"},
)  # fmt: skip
def resubmit_all(
    job: str, dataids: Dataids, reason: Reason, by: By = None, downstream: Downstream = False, steal: Steal = False,
    dry_run: DryRun = False,
) -> Page[Change]:  # fmt: skip
    """Resubmit several chunks in one transaction."""


@declared.post(
    "/jobs/{job}/selected", "operate", repeat=KEY, call="ledger.change_part", errors=(BadValue, UnknownName),
    answer="What this part of the selection changed, or would change; `next` leads to the following part.",
)  # fmt: skip
def change_selected(
    job: str, act: Act, reason: Reason,
    dataids: Annotated[
        Sequence[str], About("Data ids, ranges and patterns; none: any.", max_length=5000, example=["2026-10-*"])
    ] = (),
    status: Annotated[Sequence[str], About("Statuses; none: any.", max_length=100, example=[ERROR])] = (),
    exact: Annotated[bool, About("Take data ids literally.")] = False, downstream: Downstream = False,
    steal: Steal = False, dry_run: DryRun = False,
    after: Annotated[str, About("The `next` of the previous part.", max_length=255)] = "", by: By = None,
) -> BulkResult:  # fmt: skip
    """Resubmit, hold, unhold or forget up to 2,000 chunks that match, in one transaction. Chunks that are refused
    because a worker has claimed them are unchanged, and are listed. `forget` and `steal` need admin:force.
    """


@declared.post("/jobs/{job}/chunks/{dataid}/hold", "operate", repeat=KEY, answer=CHANGED, errors=CHUNK_ERRORS)
def hold(job: str, dataid: str, reason: Reason, by: By = None) -> Page[Change]:
    """Hold a chunk: no job may produce or read it until it is released."""


@declared.post("/jobs/{job}/chunks/{dataid}/unhold", "operate", repeat=KEY, answer=CHANGED, errors=CHUNK_ERRORS)
def unhold(job: str, dataid: str, reason: OptionalReason = "", by: By = None) -> Page[Change]:
    """Release a held chunk: its former status is restored."""


@declared.post(
    "/jobs/{job}/chunks/{dataid}/close", "operate", repeat=KEY, errors=(UnknownName, BadValue, Refused),
    answer="Whether this was a change.",
)  # fmt: skip
def close(
    job: str, dataid: str, reason: OptionalReason = "",
    reopen: Annotated[bool, About("Reopen it: more may arrive.")] = False, by: By = None,
) -> Annotated[bool, Named("changed")]:  # fmt: skip
    """Close a data id of a job whose mapped inputs have no calendar: nothing else will arrive for it."""


@declared.post("/jobs/{job}/chunks/{dataid}/forget", "admin:force", repeat=KEY, answer=CHANGED, errors=CHUNK_ERRORS)
def forget(job: str, dataid: str, reason: Reason, by: By = None, steal: Steal = False) -> Page[Change]:
    """Remove the job's rows of a chunk. Rows of upstream jobs are kept."""


@declared.post(
    "/jobs/{job}/chunks/{dataid}/status", "admin:force", repeat=KEY, answer="What changed.",
    errors=CHUNK_ERRORS,
)  # fmt: skip
def set_status(
    job: str, dataid: str, reason: Reason, dataset: str, status: Annotated[str, About(example=READY)],
    kind: Annotated[str, About("INPUT or OUTPUT.")] = "OUTPUT", by: By = None,
) -> Change:  # fmt: skip
    """Set the status of one row (for operators). An unknown status is kept, and blocks."""


@declared.post("/jobs/{job}/pause", "operate", repeat=KEY, answer="Paused.", errors=(UnknownName,))
def pause(job: str, reason: Reason, by: By = None) -> Job:
    """Pause a job: it gets no more chunks, and running claims finish normally."""


@declared.post(
    "/jobs/{job}/commands", "chunk:claim", repeat=KEY, limit=JOB, answer="Whether it is a different file.",
    errors=(UnknownName, BadValue),
)  # fmt: skip
def note_commands(
    job: str, digest: Annotated[str, About("SHA-256 of the file, in hexadecimal.", max_length=64, example="0" * 64)],
    by: By = None,
) -> Annotated[bool, Named("changed")]:  # fmt: skip
    """Record which pipeline file defines the job's commands. Commands themselves are never sent."""


@declared.post(
    "/jobs/{job}/unpause", "operate", repeat=KEY, answer="The job gets chunks again.",
    errors=(UnknownName,),
)  # fmt: skip
def unpause(job: str, reason: OptionalReason = "", by: By = None) -> Job:
    """End the pause of a job: it gets chunks again."""
