"""Batches, ingest jobs and holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from headgate.core.errors import BadValue, ItemLost, NotOwner, QueueRefused, UnknownName
from headgate.core.faults import Fault
from headgate.core.queue.model import PENDING, Batch, Folder, Hold, IngestJob, Taken
from headgate.core.queue.summary import CollectionSummary
from headgate.operations.arguments import (
    USUAL,
    After,
    By,
    Count,
    Lease,
    Limit,
    OptionalReason,
    Reason,
    Repaired,
    RequestId,
    Token,
    Wait,
    Worker,
)
from headgate.operations.declaring import About, Declarations, Idempotency, Limited, Named, Page

declared = Declarations("queue")
KEY, PROVEN = Idempotency.KEY, Idempotency.PROVEN
TAKEN, NO_WORK, LEASE = "Taken, with a new token.", "Nothing to take.", "Lease length in seconds."
CHANGED, FIRED = "Changed, and still taken.", "The item after the event."
ACTORS = ("queue:work", "operate", "admin:force")
LOST = (ItemLost, NotOwner, UnknownName)
#: The proof of an owner, in the path and the body.
TAKEN_ITEM: Mapping[str, type] = {"item": Taken}
FIRING = (ItemLost, NotOwner, QueueRefused, UnknownName)
State = Annotated[str, About("State of the items.", place="query", example=PENDING)]
KnownState = Annotated[str | None, About("The state that is known.", example=PENDING)]
TakenState = Annotated[str, About("The state in which it was taken.", example=PENDING)]
OnlyTaken = Annotated[bool, About("Only items that a consumer has taken.")]
Identifiers = Annotated[dict[str, Any] | None, About(example={"primary": "ark:/99999/fk4", "local": ["x1"]})]
Seconds = Annotated[float, Named("lease")]


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the order of a state."""

    priority: Annotated[int, About(ge=0, le=99)]
    id: Annotated[str, About(example="jid0000000007")]


@dataclass(frozen=True, slots=True)
class StatusReport:
    """A batch's status-report."""

    failed: list[str]
    successful: list[str]


# ---------------------------------------------------------------- batches


@declared.post(
    "/batches", "queue:submit", repeat=Idempotency.REQUEST, limit=Limited("queue:submit", "profile"), status=201,
    answer="Pending.", errors=(BadValue,),
)  # fmt: skip
def submit(
    profile: Annotated[str, About(example="demo_content")],
    submitter: Annotated[str, About(example="ann")],
    payload_url: Annotated[str, About(example="https://example.org/payload.checkm")],
    type: str = "object-manifest",  # noqa: A002 - the depositor's word for it
    mode: str = "add",
    metadata: Annotated[dict[str, Any] | None, About(example={"erc_who": "Ann", "erc_what": "A book"})] = None,
    request_id: RequestId = None,
) -> Batch:
    """Submit a payload: a new batch. Nothing is fetched or parsed now.

    `alarms` lists what blocks it: a profile with errors, or no consumer that could take it.
    """


@declared.get("/batches", "read", answer="By id.")
def batches(
    state: str | None = None, profile: str | None = None, submitter: str | None = None, taken: OnlyTaken = False,
    after: After = None, limit: Limit = USUAL,
) -> Page[Batch]:  # fmt: skip
    """List batches."""


@declared.post("/batches/next", "queue:work", repeat=Idempotency.REQUEST, answer=TAKEN, nothing=NO_WORK)
def acquire_batch(
    state: State, worker: Worker = None, lease: Lease = 60, wait: Wait = 0,
    after: Annotated[str | None, About("Only batches after this one.")] = None, request_id: RequestId = None,
) -> Batch | None:  # fmt: skip
    """Take the oldest free batch in a state. With `wait`, wait up to that many seconds for one."""


@declared.get("/batches/{bid}", "read", answer="The batch.", errors=(UnknownName,))
def batch(bid: str, state: KnownState = None, wait: Wait = 0) -> Batch:
    """Return one batch. With `wait`, wait up to that many seconds until it has ended or is held; with `state` too,
    until it is in another state.
    """


@declared.get(
    "/batches/{bid}/jobs", "read", answer="Ids of jobs, sorted.", whole=True, cursor="", errors=(UnknownName,)
)
def job_ids(bid: str, folder: Folder = Folder.PROCESSING, after: After = None, limit: Limit = USUAL) -> Page[str]:
    """List the ids of a batch's jobs that are processing, failed or completed."""


@declared.post(
    "/batches/{bid}/jobs", "queue:work", repeat=Idempotency.SAFE, errors=FIRING, packed={"batch": Taken},
    answer="How many jobs it has now.",
)  # fmt: skip
def create_jobs(
    bid: str, token: Token, state: TakenState, position: Annotated[int, About(ge=0)], jobs: list[dict[str, Any]],
    worker: str = "",
) -> Count:  # fmt: skip
    """Create jobs of a batch that was taken as pending, starting at a position; existing ones are skipped.

    The profile that the batch started with sets their `max_crashes`.
    """


# ---------------------------------------------------------------- ingest jobs


@declared.get("/ingest-jobs", "read", answer="By id.")
def jobs(
    state: str | None = None, batch: str | None = None, profile: str | None = None, taken: OnlyTaken = False,
    after: After = None, limit: Limit = USUAL,
) -> Page[IngestJob]:  # fmt: skip
    """List ingest jobs."""


@declared.post("/ingest-jobs/next", "queue:work", repeat=Idempotency.REQUEST, answer=TAKEN, nothing=NO_WORK)
def acquire_job(
    state: State, worker: Worker = None, lease: Lease = 60, wait: Wait = 0,
    after: Annotated[Position | None, About("Only jobs after this position.")] = None, request_id: RequestId = None,
) -> IngestJob | None:  # fmt: skip
    """Take the first free ingest job in a state. With `wait`, wait up to that many seconds for one."""


@declared.get("/ingest-jobs/{jid}", "read", answer="The ingest job.", errors=(UnknownName,))
def job(jid: str, state: KnownState = None, wait: Wait = 0) -> IngestJob:
    """Return one ingest job. With `wait`, wait up to that many seconds until it has ended or is held; with `state` too,
    until it is in another state.
    """


@declared.put(
    "/ingest-jobs/{jid}/priority", "operate", answer="The ingest job with its new priority.",
    errors=(QueueRefused, UnknownName),
)  # fmt: skip
def set_priority(
    jid: str, priority: Annotated[int, About("0 is first, 99 is last.")], reason: OptionalReason = "", by: By = None
) -> IngestJob:
    """Change the priority: 0 is first, 99 last."""


# ---------------------------------------------------------------- holds


@declared.get("/holds", "read", answer="By profile.", whole=True, cursor="profile")
def holds(after: After = None, limit: Limit = USUAL) -> Page[Hold]:
    """List holds with who set them, why and since when."""


@declared.put("/holds/{profile}", "operate", answer="The hold in force.", errors=(UnknownName,))
def set_hold(profile: str, reason: Reason, by: By = None) -> Hold:
    """Put a collection on hold; `*`: no new work is taken from the whole queue. An existing hold keeps its reason."""


@declared.delete("/holds/{profile}", "operate", answer="Whether there was a hold.")
def clear_hold(profile: str, by: By = None) -> Annotated[bool, Named("cleared")]:
    """Clear a hold; held items stay held until they are released."""


# ---------------------------------------------------------------- daemons


@declared.get("/queue/counts", "read", answer="By noun and state.")
def counts() -> dict[str, dict[str, int]]:
    """Count batches and ingest jobs by state."""


@declared.get("/queue/reportable", "queue:work", answer="Ids of batches.")
def reportable(limit: Limit = USUAL) -> Page[str]:
    """List batches whose last job has finished: the first `limit`. Repeat it when these are reported."""


@declared.get("/queue/cleanable", "queue:work", answer="Ids.", errors=(BadValue,))
def cleanable(
    noun: Annotated[str, About("batch or ingest job.")],
    seconds: Annotated[float, About("Seconds since it completed.", ge=0, le=1e10)],
    limit: Limit = USUAL,
) -> Page[str]:
    """List items that completed at least that long ago: the first `limit`. Repeat it when these are cleaned."""


@declared.get("/queue/work", "queue:work", answer="There may be work, or the time is over.")
def await_work(
    batch: Annotated[list[str] | None, About("States of batches.")] = None,
    job: Annotated[list[str] | None, About("States of ingest jobs.")] = None,
    wait: Annotated[float, About("Seconds to wait.", ge=0, le=60)] = 0,
) -> None:
    """Return when there may be an item to take in one of these states, or after `wait` seconds."""


@declared.get("/ingest-jobs/{jid}/explanation", "read", answer="A sentence for each reason.", errors=(UnknownName,))
def explain(jid: str) -> Page[str]:
    """Explain why no consumer processes an ingest job; empty if it can be taken now."""


@declared.get("/queue/summary", "read", answer="By collection and batch.", whole=True, cursor="profile batch")
def summary(after: After = None, limit: Limit = USUAL) -> Page[CollectionSummary]:
    """List the batches of each collection with their jobs and bytes."""


@declared.get("/queue/metrics", "read", answer="By the names of Merritt's admin tool.")
def metrics() -> dict[str, int | float]:
    """Count jobs, batches and gigabytes in process."""


@declared.get("/queue/foreign", "read", answer="By place and status.")
def foreign() -> dict[str, dict[str, int]]:
    """Count what other programs keep beside the queue."""


@declared.get("/queue/faults", "read", answer="Each fault with its repair.")
def faults() -> Page[Fault]:
    """Find damage to batches and ingest jobs. Changes nothing."""


@declared.post("/queue/repair", "operate", repeat=KEY, answer="Whether it was repaired.", packed={"fault": Fault})
def repair(kind: str, item: str, what: str, repair: str = "", by: By = None) -> Repaired:
    """Repair a fault that `/queue/faults` reported, if it still exists."""


# ---------------------------------------------------------------- actions of owners and operators


@declared.post(
    "/batches/{bid}/renew", "queue:work", repeat=PROVEN, errors=LOST, answer=LEASE, call="queue.renew",
    packed=TAKEN_ITEM,
)  # fmt: skip
def renew_batch(bid: str, token: Token, state: TakenState, worker: str = "", lease: Lease = 60) -> Seconds:
    """Renew the lease of a taken batch. 409 if it has expired."""


@declared.post(
    "/batches/{bid}/give-back", "queue:work", repeat=KEY, errors=LOST, call="queue.give_back", packed=TAKEN_ITEM
)
def give_back_batch(bid: str, token: Token, state: TakenState, worker: str = "", message: str = "") -> None:
    """Release a taken batch without an outcome: another consumer takes it again in the same state."""


@declared.patch("/batches/{bid}", "queue:work", errors=LOST, answer=CHANGED, call="queue.change", packed=TAKEN_ITEM)
def change_batch(
    bid: str, token: Token, state: TakenState, worker: str = "", priority: int | None = None,
    space_needed: int | None = None, identifiers: Identifiers = None, configuration: dict[str, Any] | None = None,
) -> Batch:  # fmt: skip
    """Update a batch at once, while its owner keeps it in the same state."""


@declared.post("/batches/{bid}/{event}", *ACTORS, repeat=KEY, errors=FIRING, answer=FIRED)
def fire_batch(
    bid: str,
    event: str,
    token: Annotated[int | None, About("Token of the grant; for its owner.", ge=1, lt=2**63)] = None,
    state: Annotated[str | None, About("The state in which it was taken; for its owner.")] = None,
    worker: str = "",
    message: str = "",
    report: StatusReport | None = None,
    priority: int | None = None,
    space_needed: int | None = None,
    identifiers: Identifiers = None,
    configuration: dict[str, Any] | None = None,
    reason: Annotated[str, About("For an operator's event.")] = "",
    by: By = None,
    daemon: Annotated[bool, About("Fired by a daemon of the queue, not by an operator.")] = False,
) -> Batch:
    """Fire an event of the state table. With `token` and `state`: the outcome reported by its owner. Without: an
    operator's action (resume, release, delete, update-report), or with `daemon` that of a daemon.
    """


@declared.post(
    "/ingest-jobs/{jid}/renew", "queue:work", repeat=PROVEN, errors=LOST, answer=LEASE, like=renew_batch,
    call="queue.renew", packed=TAKEN_ITEM,
)  # fmt: skip
def renew_job(jid: str) -> Seconds:
    """Renew the lease of a taken ingest job. 409 if it has expired."""


@declared.post(
    "/ingest-jobs/{jid}/give-back", "queue:work", repeat=KEY, errors=LOST, like=give_back_batch,
    call="queue.give_back", packed=TAKEN_ITEM,
)  # fmt: skip
def give_back_job(jid: str) -> None:
    """Release a taken ingest job without an outcome: another consumer takes it again in the same state."""


@declared.patch(
    "/ingest-jobs/{jid}", "queue:work", errors=LOST, answer=CHANGED, like=change_batch, call="queue.change",
    packed=TAKEN_ITEM,
)  # fmt: skip
def change_job(jid: str) -> IngestJob:
    """Update an ingest job at once, while its owner keeps it in the same state."""


@declared.post("/ingest-jobs/{jid}/{event}", *ACTORS, repeat=KEY, errors=FIRING, answer=FIRED, like=fire_batch)
def fire_job(jid: str, event: str) -> IngestJob:
    """Fire an event of the state table. With `token` and `state`: the outcome reported by its owner. Without: an
    operator's action (resume, release, delete, update-report), or with `daemon` that of a daemon.
    """
