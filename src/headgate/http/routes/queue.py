"""The queue over HTTP: batches, ingest jobs, holds."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Path as InPath
from fastapi import Query, Request, Response

from headgate.core.errors import BadProfiles, BadValue
from headgate.core.faults import Fault
from headgate.core.names import check_reason
from headgate.core.queue import (
    ALL,
    MAX_CRASHES,
    Batch,
    Folder,
    Hold,
    IngestJob,
    Item,
    Place,
    Report,
    Taken,
    check_item_id,
    for_readers,
    is_batch,
)
from headgate.core.wire import plain
from headgate.gate import Gate
from headgate.http import direct
from headgate.http.auth import Caller, Operator, Reader, TheGate, TheService, needs
from headgate.http.queue_schemas import (
    BatchTaking,
    FaultGiven,
    Fired,
    GivenBack,
    ItemChanged,
    ItemRenewal,
    JobsMade,
    JobTaking,
    PrioritySet,
    SubmissionAsked,
)
from headgate.http.repeats import FINDS, GRANTS, HARMLESS, NOTHING, RESULT, under
from headgate.http.routes.daemons import alarm_data
from headgate.http.schemas import (
    Acted,
    After,
    Count,
    Key,
    Limit,
    Page,
    RequestId,
    answer,
    documented,
    listing,
    nothing,
    page,
    page_after,
)
from headgate.http.service import Service
from headgate.http.waiting import asked_to_wait
from headgate.service.clock import steady
from headgate.telemetry import event

router = direct.router("queue")
Submitter = Annotated[Caller, needs("queue:submit")]
Consumer = Annotated[Caller, needs("queue:work")]
Actor = Annotated[Caller, needs("queue:work", "operate", "admin:force")]
State = Annotated[str, Query(description="State of the items.", examples=["pending"])]
#: A person's events that take more than an operator's scope.
FORCED = ("delete",)
#: So many items of a state are looked at.
LOOK = 100
NO_WORK = "Nothing to take."


@router.post("/batches", GRANTS, status_code=201, responses=documented(201, Batch, "Pending."))
def submit(
    gate: TheGate, service: TheService, who: Submitter, asked: SubmissionAsked, key: Key = None, again: RequestId = None
) -> Response:
    """Submit a payload: a new batch. Nothing is fetched or parsed now.

    `alarms` lists what blocks it: a profile with errors, or no consumer that could take it.
    """
    who.must_reach("queue:submit", asked.profile)
    given = asked.model_dump(exclude={"metadata"})
    _refuse_names(asked.metadata, given)
    _refuse_others_file(gate, who, asked.payload_url)
    batch = gate.queue.submit(**given, request_id=who.request_id(key, again), **asked.metadata)
    service.ring(("batch", batch.state))
    alarms = [alarm_data(alarm) for alarm in gate.alarms_of(batch)]
    return answer({**who.shown(_seen(who, batch)), "alarms": alarms}, 201)


@router.get("/batches", responses=documented(200, Page[Batch], "By id."))
def batches(
    gate: TheGate,
    who: Reader,
    state: str | None = None,
    profile: str | None = None,
    submitter: str | None = None,
    taken: bool = False,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List batches."""
    found = gate.queue.batches(state, profile=profile, submitter=submitter, taken=taken, after=after, limit=limit + 1)
    return page(found, limit, lambda each: each.id, lambda each: plain(_seen(who, each)))


@router.post("/batches/next", FINDS, responses=documented(200, Batch, "Taken, with a new token.", nothing=NO_WORK))
async def next_batch(
    request: Request, service: TheService, who: Consumer, state: State, asked: BatchTaking, key: Key = None,
    again: RequestId = None,
) -> Response:  # fmt: skip
    """Take the oldest free batch in a state. With `wait`, wait up to that many seconds for one."""
    worker, request_id = asked.worker or who.by(), who.request_id(key, again)

    def look() -> Batch | None:
        queue = service.gate.queue
        found = queue.acquire_batch(
            state, worker=worker, lease=asked.lease, after=asked.after, request_id=request_id, outlives=True
        )
        if found is not None and found.state == "pending":
            _keep_profile(service.gate, found)
        return found

    place = ("batch", state, asked.after or "")
    return await _found(request, service, place, look, asked.wait, again=request_id is not None)


@router.get("/batches/{bid}", responses=documented(200, Batch, "The batch."))
def batch(gate: TheGate, who: Reader, bid: str) -> Response:
    """Return one batch."""
    return answer(_seen(who, gate.queue.batch(bid)))


@router.get("/batches/{bid}/jobs", responses=documented(200, Page[str], "Ids of jobs, sorted."))
def job_ids(
    gate: TheGate,
    _who: Reader,
    bid: str,
    folder: Folder = Folder.PROCESSING,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List the ids of a batch's jobs that are processing, failed or completed."""
    return page_after(sorted(gate.queue.job_ids(bid, folder)), after, limit, str)


@router.post("/batches/{bid}/jobs", HARMLESS, responses=documented(200, Count, "How many jobs it has now."))
def create_jobs(gate: TheGate, service: TheService, _who: Consumer, bid: str, asked: JobsMade) -> Response:
    """Create jobs of a batch that was taken as pending, starting at a position; existing ones are skipped.

    The profile that the batch started with sets their `max_crashes`.
    """
    taken = Taken(bid, asked.token, asked.state, asked.worker)
    kept = gate.inventory.intake(check_item_id(bid)) if gate.keeps_inventory else None
    most = kept.profile.get(MAX_CRASHES) if kept else None
    count = gate.queue.create_portion(taken, asked.position, asked.jobs, most)
    service.ring(("job", "pending"))
    return answer({"count": count})


@router.get("/ingest-jobs", responses=documented(200, Page[IngestJob], "By id."))
def ingest_jobs(
    gate: TheGate,
    who: Reader,
    state: str | None = None,
    batch: str | None = None,
    profile: str | None = None,
    taken: bool = False,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List ingest jobs."""
    found = gate.queue.jobs(state, batch=batch, profile=profile, taken=taken, after=after, limit=limit + 1)
    return page(found, limit, lambda each: each.id, lambda each: plain(_seen(who, each)))


@router.post(
    "/ingest-jobs/next", FINDS, responses=documented(200, IngestJob, "Taken, with a new token.", nothing=NO_WORK)
)
async def next_job(
    request: Request, service: TheService, who: Consumer, state: State, asked: JobTaking, key: Key = None,
    again: RequestId = None,
) -> Response:  # fmt: skip
    """Take the first free ingest job in a state. With `wait`, wait up to that many seconds for
    one.
    """
    after = None if asked.after is None else Place(asked.after.priority, check_item_id(asked.after.id))
    worker, request_id = asked.worker or who.by(), who.request_id(key, again)

    def look() -> IngestJob | None:
        queue = service.gate.queue
        return queue.acquire_job(
            state, worker=worker, lease=asked.lease, after=after, request_id=request_id, outlives=True
        )

    place = ("job", state, str(after or ""))
    return await _found(request, service, place, look, asked.wait, again=request_id is not None)


@router.get("/ingest-jobs/{jid}", responses=documented(200, IngestJob, "The ingest job."))
def ingest_job(gate: TheGate, who: Reader, jid: str) -> Response:
    """Return one ingest job."""
    return answer(_seen(who, gate.queue.job(jid)))


@router.put(
    "/ingest-jobs/{jid}/priority", responses=documented(200, IngestJob, ("The ingest job with its new priority."))
)
def set_priority(gate: TheGate, who: Operator, jid: str, act: PrioritySet) -> Response:
    """Change the priority: 0 is first, 99 last."""
    return answer(_seen(who, gate.queue.set_priority(jid, act.priority, reason=act.reason, by=who.by(act.by))))


# ---------------------------------------------------------------- holds


@router.get("/holds", responses=documented(200, Page[Hold], "By profile."))
def holds(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List holds with who set them, why and since when."""
    found = sorted(gate.queue.holds(), key=lambda each: each.profile)
    return page_after(found, after, limit, lambda each: each.profile)


@router.put("/holds/{profile}", responses=documented(200, Hold, "The hold in force."))
def set_hold(gate: TheGate, who: Operator, profile: str, act: Acted) -> Response:
    """Put a collection on hold; `*`: the whole queue gives out no new work. An existing hold keeps its reason."""
    return answer(gate.queue.set_hold(profile, reason=act.reason, by=who.by(act.by)))


@router.delete("/holds/{profile}", responses=documented(200, dict[str, bool], "Whether there was a hold."))
def clear_hold(gate: TheGate, service: TheService, who: Operator, profile: str, by: str | None = None) -> Response:
    """Clear a hold; held items stay held until they are released."""
    cleared = gate.queue.clear_hold(profile, by=who.by(by))
    service.ring(("batch",), ("job",))
    return answer({"cleared": cleared})


# ---------------------------------------------------------------- daemons


@router.get("/queue/counts", responses=documented(200, dict[str, dict[str, int]], "By noun and state."))
def counts(gate: TheGate, _who: Reader) -> Response:
    """Count batches and ingest jobs by state."""
    return answer(gate.queue.counts())


@router.get("/queue/reportable", responses=documented(200, Page[str], "Ids of batches."))
def reportable(gate: TheGate, _who: Consumer, limit: Limit = 100) -> Response:
    """List batches whose last job has finished: the first `limit`. Ask again when these are reported."""
    return listing(gate.queue.reportable(limit))


@router.get("/queue/cleanable", responses=documented(200, Page[str], "Ids."))
def cleanable(
    gate: TheGate,
    _who: Consumer,
    noun: Annotated[str, Query(description="batch or ingest job.")],
    seconds: Annotated[float, Query(ge=0, le=1e10, allow_inf_nan=False, description="Seconds since it completed.")],
    limit: Limit = 100,
) -> Response:
    """List items that completed at least that long ago: the first `limit`. Ask again when these are cleaned."""
    return listing(gate.queue.cleanable(noun, seconds, limit))


@router.get("/queue/work", status_code=204)
async def await_work(
    request: Request,
    service: TheService,
    _who: Consumer,
    batch: Annotated[list[str], Query(description="States of batches.")] = [],  # noqa: B006 - FastAPI copies it
    job: Annotated[list[str], Query(description="States of ingest jobs.")] = [],  # noqa: B006 - the same
    wait: Annotated[float, Query(ge=0, le=60, allow_inf_nan=False)] = 0,
) -> Response:
    """Return when there may be an item to take in one of these states, or after `wait` seconds."""
    key = ("work", *(f"batch {each}" for each in sorted(batch)), *(f"job {each}" for each in sorted(job)))

    def look() -> bool | None:
        return _is_work(service.gate, batch, job) or None

    await asked_to_wait(request, wait, service.turns.wait(key, look, steady() + wait))
    return nothing()


@router.get("/queue/faults", responses=documented(200, Page[Fault], "Each fault with its repair."))
def faults(gate: TheGate, _who: Reader) -> Response:
    """Find damage to batches and ingest jobs. Changes nothing."""
    return listing(gate.queue.faults())


@router.post("/queue/repair", under("repaired"), responses=documented(200, dict[str, bool], "Whether it was repaired."))
def repair(gate: TheGate, who: Operator, given: FaultGiven) -> Response:
    """Repair a fault that `/queue/faults` reported, if it still exists."""
    fault = Fault(given.kind, given.item, given.what, given.repair)
    return answer({"repaired": gate.queue.repair(fault, by=who.by(given.by))})


# ---------------------------------------------------------------- what an owner or a person does


def add_item_routes(noun: str, short: str, kind: Any) -> None:
    """The same acts on batches and on ingest jobs."""
    path = f"/{noun}/{{{short}}}"
    ItemId = Annotated[str, InPath(alias=short)]  # noqa: N806 - a type

    seconds = documented(200, dict[str, float], "Lease length in seconds.")

    @router.post(f"{path}/renew", under("lease"), name=f"renew {noun}", responses=seconds)
    def renew(gate: TheGate, _who: Consumer, item: ItemId, given: ItemRenewal) -> Response:
        """Renew the lease of a taken item. 409 if it has expired."""
        taken = Taken(_of(noun, item), given.token, given.state, given.worker, given.lease)
        return answer({"lease": gate.queue.renew(taken)})

    @router.post(f"{path}/give-back", NOTHING, name=f"give back {noun}", status_code=204)
    def give_back(gate: TheGate, service: TheService, _who: Consumer, item: ItemId, given: GivenBack) -> Response:
        """Release a taken item without an outcome: another consumer takes it again in the same state."""
        taken = Taken(_of(noun, item), given.token, given.state, given.worker)
        gate.queue.give_back(taken, given.message)
        service.ring(("batch",), ("job",), ("work",))
        return nothing()

    @router.patch(path, name=f"change {noun}", responses=documented(200, kind, "Changed, and still taken."))
    def change(gate: TheGate, _who: Consumer, item: ItemId, given: ItemChanged) -> Response:
        """Update an item at once, while its owner keeps it in the same state."""
        taken = Taken(_of(noun, item), given.token, given.state, given.worker)
        changes = given.model_dump(include={"priority", "space_needed", "identifiers", "configuration"})
        return answer(gate.queue.change(taken, **changes))

    @router.post(
        f"{path}/{{event}}", RESULT, name=f"fire {noun}", responses=documented(200, kind, ("The item after the event."))
    )
    def fire(gate: TheGate, service: TheService, who: Actor, item: ItemId, event: str, given: Fired) -> Response:
        """Fire an event of the state table. With `token` and `state`: the outcome reported by its owner. Without: an
        operator's action (resume, release, delete, update-report), or with `daemon` that of a daemon.
        """
        _of(noun, item)
        fired = _fire_as_owner if given.token is not None else _act
        moved = fired(gate, who, item, event, given)
        service.ring(("batch",), ("job",), ("work",))
        return answer(_seen(who, moved))


def _seen(who: Caller, item: Item) -> Item:
    """The item as a caller sees it: who may take it needs the whole address of its payload."""
    return item if who.reach.has("queue:work") else for_readers(item)


async def _found(
    request: Request, service: Service, place: tuple[str, ...], look: Callable[[], Item | None], wait: float, *,
    again: bool,
) -> Response:  # fmt: skip
    """What a look gives, at once or within so many seconds. `again`: it may have been given already."""
    turn = service.turns.wait(place, look, steady() + wait, again=again)
    found = await asked_to_wait(request, wait, turn)
    return nothing() if found is None else answer(found)


def _keep_profile(gate: Gate, batch: Batch) -> None:
    """Keep the profile that a batch starts with, whoever works on it: nobody else may say what that is."""
    if not gate.keeps_inventory:
        return
    from headgate.ingest.snapshots import start_batch

    try:
        start_batch(gate.inventory, Path(gate.settings["profiles_folder"]), batch)
    except BadProfiles as error:
        # Outside owners may need no profile. Our own steps report the mistakes.
        event("batch.no_profile", logging.WARNING, batch=batch.id, why=str(error))


def _fire_as_owner(gate: Gate, who: Caller, item: str, event: str, given: Fired) -> Item:
    who.must_reach("queue:work", item)
    taken = Taken(item, given.token or 0, given.state or "", given.worker)
    changes = given.model_dump(include={"priority", "space_needed", "identifiers", "configuration"})
    told = given.report
    report = None if told is None else Report(tuple(told.failed), tuple(told.successful))
    return gate.queue.fire(taken, event, given.message, report=report, **changes)


def _act(gate: Gate, who: Caller, item: str, event: str, given: Fired) -> Item:
    scope = "queue:work" if given.daemon else scope_of(event)
    who.must_reach(scope, item)
    reason = check_reason(given.reason) if event in FORCED else given.reason
    return gate.queue.act(item, event, reason=reason, by=who.by(given.by), daemon=given.daemon)


def scope_of(event: str) -> str:
    """What a person needs to fire an event."""
    return "admin:force" if event in FORCED else "operate"


def _is_work(gate: Gate, batch_states: list[str], job_states: list[str]) -> bool:
    """Whether there may be something to take, as far as a short look tells."""
    if gate.queue.hold_of(ALL):
        return False
    found: list[Item] = [each for state in batch_states for each in gate.queue.batches(state, limit=LOOK)]
    found += [each for state in job_states for each in gate.queue.jobs(state, limit=LOOK)]
    return any(not each.worker for each in found)


def _of(noun: str, item: str) -> str:
    if is_batch(item) != (noun == "batches"):
        raise BadValue("id", item, f"is not one of the {noun}")
    return item


def _refuse_others_file(gate: Gate, who: Caller, url: str) -> None:
    """Readers see the addresses of files that others handed in; only whoever did may have them ingested."""
    from headgate.service.work_folder import upload_owner

    owner = upload_owner(gate.work_folder, url)
    if owner in (None, who.token.id) or who.reach.has("admin:force"):
        return
    if owner not in [each.id for each in gate.tokens.list() if each.principal == who.principal]:
        raise BadValue("payload", url, f"was not uploaded by the principal {who.principal!r}; upload it again")


def _refuse_names(metadata: dict[str, Any], names: dict[str, Any]) -> None:
    for name in metadata:
        if name in names or name == "request_id":
            raise BadValue("metadata", name, "is a field next to the metadata, not in it")


add_item_routes("batches", "bid", Batch)
add_item_routes("ingest-jobs", "jid", IngestJob)
