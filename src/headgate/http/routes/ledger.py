"""The ledger over HTTP: datasets, jobs, and what a person does to chunks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from headgate.core.census import Span, Tally
from headgate.core.claims import Verdict
from headgate.core.errors import UnknownName
from headgate.core.ledger import Change, Claim, Dataset, Job, Port, Row, failure_cursor
from headgate.core.wire import plain
from headgate.gate import Gate
from headgate.http import direct
from headgate.http.auth import Caller, Forcer, Operator, Reader, TheGate, TheService, needs
from headgate.http.repeats import GRANTS, LIST, RESULT, under
from headgate.http.schemas import (
    MOST,
    Acted,
    ActedLightly,
    After,
    Count,
    Dataids,
    DatasetAsked,
    Defined,
    Forced,
    Forgotten,
    JobAsked,
    JobFound,
    Key,
    Limit,
    ManyResubmitted,
    Page,
    PipelineAsked,
    Planned,
    RequestId,
    Resubmission,
    StatusSet,
    answer,
    documented,
    listing,
    page,
    page_after,
)
from headgate.service import census
from headgate.service.census import MOST_LOOKED_AT, MOST_TALLIED

router = direct.router("ledger")
Definer = Annotated[Caller, needs("define")]
Publisher = Annotated[Caller, needs("data:publish")]
JobReader = Annotated[Caller, needs("read", "chunk:claim")]
ChunkReader = Annotated[Caller, needs("read", "chunk:claim")]
CHANGES = documented(200, Page[Change], "What changed, or would change.")


# ---------------------------------------------------------------- definitions


@router.get("/datasets", responses=documented(200, Page[Dataset], "By name."))
def datasets(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List datasets, with the names of their secrets."""
    found = sorted(gate.ledger.datasets(), key=lambda each: each.name)
    return page_after(found, after, limit, lambda each: each.name, lambda each: plain(each.to_document()))


@router.get("/datasets/{name}", responses=documented(200, Dataset, "The definition."))
def dataset(gate: TheGate, _who: Reader, name: str) -> Response:
    """Return one dataset, with the names of its secrets."""
    found = next((each for each in gate.ledger.datasets() if each.name == name), None)
    if found is None:
        raise UnknownName("dataset", name)
    return answer(found.to_document())


@router.put("/datasets/{name}", responses=documented(200, Defined, "The new definition."))
def define_dataset(gate: TheGate, _who: Definer, name: str, asked: DatasetAsked) -> Response:
    """Define a dataset. Repeating the same definition changes nothing."""
    return answer(gate.ledger.define_dataset(name, **asked.model_dump()))


@router.put("/pipeline", responses=documented(200, Defined, "It is so now."))
def define_pipeline(gate: TheGate, service: TheService, _who: Definer, asked: PipelineAsked) -> Response:
    """Define datasets and jobs in one transaction: all of them, or none when one is refused."""
    bodies = asked.model_dump()
    defined = gate.ledger.define(bodies["datasets"], bodies["jobs"], share=False)
    service.ring(("job",))
    return answer(defined)


@router.get("/jobs", responses=documented(200, Page[Job], "By name."))
def jobs(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List jobs."""
    found = sorted(gate.ledger.jobs(), key=lambda each: each.name)
    return page_after(found, after, limit, lambda each: each.name)


@router.get("/jobs/{job}", responses=documented(200, JobFound, "The definition."))
def job(gate: TheGate, who: JobReader, job: str) -> Response:
    """Return one job, and its datasets with the names of their secrets."""
    who.must_see("job", "chunk:claim", job)
    found, sets = gate.ledger.job(job)
    return answer({"job": found, "datasets": [each.to_document() for each in sets]})


@router.put("/jobs/{job}", responses=documented(200, Defined, "The new definition."))
def define_job(gate: TheGate, service: TheService, _who: Definer, job: str, asked: JobAsked) -> Response:
    """Define a job. Repeating the same definition changes nothing. Keys and secrets are not part of it."""
    defined = gate.ledger.define_job(job, share=False, **asked.model_dump())
    service.ring(("job",))
    return answer(defined)


@router.get("/jobs/{job}/connections", responses=documented(200, dict[str, dict[str, Port]], "Inputs and outputs."))
def connections(gate: TheGate, who: JobReader, job: str) -> Response:
    """Return how to connect to a job's inputs and outputs. Secrets are masked, or sealed for the job's key."""
    who.must_see("job", "chunk:claim", job)
    found = gate.ledger.connections(job, key="")
    return answer(found if who.reach.covers("cred:read", job) else {k: _masked(v) for k, v in found.items()})


# ---------------------------------------------------------------- data


@router.post(
    "/datasets/{name}/chunks/{dataid}/publish",
    under("count"),
    responses=documented(200, Count, ("1 if it was new, else 0.")),
)
def publish(gate: TheGate, service: TheService, who: Publisher, name: str, dataid: str) -> Response:
    """Publish data produced elsewhere: the chunk becomes READY. Repeating it is safe."""
    return _publish(gate, service, who, name, [dataid], None)


@router.post("/datasets/{name}/publish", under("count"), responses=documented(200, Count, "How many were new."))
def publish_all(gate: TheGate, service: TheService, who: Publisher, name: str, given: Dataids) -> Response:
    """Publish many data ids in one transaction."""
    return _publish(gate, service, who, name, given.dataids, given.by)


@router.get("/chunks", responses=documented(200, Page[Row], "By dataset, in its order."))
def chunks(
    gate: TheGate,
    who: ChunkReader,
    dataset: str | None = None,
    job: str | None = None,
    dataid: str | None = None,
    kind: str | None = None,
    status: str | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List rows of chunks: one per job that reads or writes them. The rows of a data id are never split across two
    pages.
    """
    if not who.reach.has("read"):
        who.must_see("job", "chunk:claim", job or "")
    which = {"job": job, "dataid": dataid, "kind": kind, "status": status}
    return listing(*census.rows_page(gate.ledger, dataset, after, limit, which))


@router.get("/failures", responses=documented(200, Page[Row], "Newest first."))
def failures(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List chunks in ERROR."""
    return page(gate.ledger.failures(limit + 1, after), limit, failure_cursor)


@router.get("/chunks/standing", responses=documented(200, Page[Tally], "By job and status."))
def standing(gate: TheGate, _who: Reader) -> Response:
    """How many chunks of each job run, failed, are held or wait to be resubmitted; each chunk once."""
    return listing(gate.ledger.standing())


@router.get("/chunks/tallies", responses=documented(200, Page[Tally], "By dataset, job and status."))
def tallies(
    gate: TheGate, _who: Reader, most: Annotated[int, Query(ge=1, le=MOST_LOOKED_AT)] = MOST_TALLIED
) -> Response:
    """Count chunks by status. At most `most` are counted per dataset; `more` is true if there are more."""
    return listing(census.tallies(gate.ledger, most))


@router.get("/chunks/spans", responses=documented(200, Page[Span], "In the order of the dataset."))
def spans(
    gate: TheGate,
    _who: Reader,
    dataset: str,
    beside: Annotated[
        list[str] | None, Query(description="Other datasets in which the same chunks are counted.")
    ] = None,
    start: Annotated[str | None, Query(description="First data id.")] = None,
    last: Annotated[str | None, Query(description="Last data id.")] = None,
    size: Annotated[int, Query(ge=1, le=MOST, description="Data ids per span.")] = 1,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List spans of consecutive data ids, with counts by status."""
    found, more = census.spans_page(
        gate.ledger, dataset, beside or (), start=after or start, last=last, size=size, limit=limit
    )
    return listing(found, more)


# ---------------------------------------------------------------- questions


@router.get(
    "/jobs/{job}/chunks/{dataid}/explain", responses=documented(200, Verdict, ("The verdict with each condition."))
)
def explain(gate: TheGate, who: ChunkReader, job: str, dataid: str) -> Response:
    """Explain whether the job can claim the chunk: each condition with its answer and the row behind it."""
    who.must_see("job", "chunk:claim", job)
    return answer(gate.ledger.explain(job, dataid))


@router.get("/jobs/{job}/plan", responses=documented(200, Page[Planned], "In order."))
def plan(gate: TheGate, who: ChunkReader, job: str, limit: Limit = 20) -> Response:
    """List the next chunks that the job would claim, in order, then chunks that are blocked, with the reasons: at most
    `limit` of each. There are no further pages.
    """
    who.must_see("job", "chunk:claim", job)
    found = gate.ledger.plan(job, limit)
    return listing((*found.next, *found.blocked), None, _planned)


@router.get("/jobs/{job}/left", responses=documented(200, Count, "Counted up to a limit."))
def left(gate: TheGate, who: ChunkReader, job: str) -> Response:
    """Count the chunks that wait for the job."""
    who.must_see("job", "chunk:claim", job)
    return answer({"count": gate.ledger.left(job)})


# ---------------------------------------------------------------- support


@router.post(
    "/jobs/{job}/chunks/{dataid}/force", GRANTS, responses=documented(200, Claim, "Claimed, with a new token.")
)
def force(
    gate: TheGate, who: Forcer, job: str, dataid: str, asked: Forced, key: Key = None, again: RequestId = None
) -> Response:
    """Claim a given chunk regardless of the rules."""
    claim = gate.ledger.force(
        job, dataid, reason=asked.reason, steal=asked.steal, key="", worker=asked.worker or who.by(), lease=asked.lease,
        request_id=who.request_id(key, again),
    )  # fmt: skip
    return answer(claim_document(claim, who))


@router.post("/jobs/{job}/chunks/{dataid}/resubmit", LIST, responses=CHANGES)
def resubmit(gate: TheGate, service: TheService, who: Operator, job: str, dataid: str, asked: Resubmission) -> Response:
    """Resubmit a chunk: it is redone first. With `downstream`, also everything produced from it."""
    return _resubmit(gate, service, who, job, [dataid], asked)


@router.post("/jobs/{job}/resubmit", LIST, responses=CHANGES)
def resubmit_all(gate: TheGate, service: TheService, who: Operator, job: str, asked: ManyResubmitted) -> Response:
    """Resubmit several chunks in one transaction."""
    return _resubmit(gate, service, who, job, asked.dataids, asked)


@router.post("/jobs/{job}/chunks/{dataid}/hold", LIST, responses=CHANGES)
def hold(gate: TheGate, who: Operator, job: str, dataid: str, act: Acted) -> Response:
    """Hold a chunk: no job may produce or read it until it is released."""
    return listing(gate.ledger.hold(job, dataid, reason=act.reason, by=who.by(act.by)))


@router.post("/jobs/{job}/chunks/{dataid}/unhold", LIST, responses=CHANGES)
def unhold(gate: TheGate, service: TheService, who: Operator, job: str, dataid: str, act: ActedLightly) -> Response:
    """Release a held chunk: its former status is restored."""
    changes = gate.ledger.unhold(job, dataid, reason=act.reason, by=who.by(act.by))
    service.ring(("job",))
    return listing(changes)


@router.post("/jobs/{job}/chunks/{dataid}/forget", LIST, responses=CHANGES)
def forget(gate: TheGate, service: TheService, who: Forcer, job: str, dataid: str, act: Forgotten) -> Response:
    """Remove the job's rows of a chunk. Rows of upstream jobs are kept."""
    changes = gate.ledger.forget(job, dataid, reason=act.reason, steal=act.steal, by=who.by(act.by))
    service.ring(("job",))
    return listing(changes)


@router.post("/jobs/{job}/chunks/{dataid}/status", RESULT, responses=documented(200, Change, "What changed."))
def set_status(gate: TheGate, service: TheService, who: Forcer, job: str, dataid: str, act: StatusSet) -> Response:
    """Set the status of one row (for operators). An unknown status is kept, and blocks."""
    change = gate.ledger.set_status(
        act.dataset, dataid, job, act.kind, act.status, reason=act.reason, by=who.by(act.by)
    )
    service.ring(("job",))
    return answer(change)


@router.post("/jobs/{job}/pause", RESULT, responses=documented(200, Job, "Paused."))
def pause(gate: TheGate, who: Operator, job: str, act: Acted) -> Response:
    """Pause a job: it gets no more chunks, and running claims finish normally."""
    return answer(gate.ledger.pause(job, reason=act.reason, by=who.by(act.by)))


@router.post("/jobs/{job}/unpause", RESULT, responses=documented(200, Job, "The job gets chunks again."))
def unpause(gate: TheGate, service: TheService, who: Operator, job: str, act: ActedLightly) -> Response:
    """End the pause of a job: it gets chunks again."""
    found = gate.ledger.unpause(job, by=who.by(act.by))
    service.ring(("job",))
    return answer(found)


def claim_document(claim: Claim, who: Caller) -> dict[str, Any]:
    """A claim for its worker: secrets masked, and sealed for the job's key where the token may see that."""
    document = {**claim.to_document(), "expires_in": claim.expires_in}
    if not who.reach.covers("cred:read", claim.job):
        for port in (*document["inputs"].values(), *document["outputs"].values()):
            port.pop("sealed", None)
    return document


def _planned(verdict: Verdict) -> dict[str, Any]:
    return {**plain(verdict), "granted": verdict.granted, "first": verdict.first}


def _publish(gate: Gate, service: Any, who: Caller, name: str, dataids: list[str], by: str | None) -> Response:
    who.must_reach("data:publish", name)
    count = gate.ledger.publish(name, dataids, by=who.by(by))
    service.ring(("job",))
    return answer({"count": count})


def _resubmit(gate: Gate, service: Any, who: Caller, job: str, dataids: list[str], asked: Resubmission) -> Response:
    if asked.steal and not who.reach.has("admin:force"):
        who.must_reach("admin:force", "a running worker's chunk")
    changes = gate.ledger.resubmit(
        job, dataids, reason=asked.reason, downstream=asked.downstream, steal=asked.steal, dry_run=asked.dry_run,
        by=who.by(asked.by),
    )  # fmt: skip
    service.ring(("job",))
    return listing(changes)


def _masked(ports: dict[str, Port]) -> dict[str, Any]:
    from dataclasses import replace

    return {name: replace(port, sealed={}) for name, port in ports.items()}
