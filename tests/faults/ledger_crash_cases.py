"""Operations on the ledger that are interrupted at every step between claim and report, each with its own pipeline."""

from collections.abc import Callable
from typing import Any

from headgate import Claim, Gate
from headgate.stores.sql.database.sql_text import Statement
from tests.contract.ledger_steps import database, expire
from tests.faults.chain_worker import JOBS, define
from tests.faults.crash_cases import Case, Ready, State

#: Longer than any test: nothing expires.
LEASE = 600.0
READ_PLACES = Statement(
    "What may be claimable.", "select job_id, place, missing from hg_candidate where dataid = :dataid order by job_id"
)
ACTOR: dict[str, Any] = {"worker": "actor", "lease": LEASE}


def _prefix(dataid: str) -> str:
    """The data id names the case, whose pipeline this is: `cut:success:to server:3` is about `success`."""
    return dataid.split(":")[1] + " "


def _pipeline(gate: Gate, dataid: str) -> str:
    """Define the case's pipeline. Returns its prefix."""
    prefix = _prefix(dataid)
    if prefix + "join" not in {job.name for job in gate.ledger.jobs()}:
        define(gate, prefix)
    return prefix


def _published(gate: Gate, dataid: str) -> str:
    """Publish a new chunk of raw data. Returns the prefix of its pipeline."""
    prefix = _pipeline(gate, dataid)
    gate.ledger.publish(prefix + "raw", dataid)
    return prefix


def _claimed(gate: Gate, dataid: str, job: str = "tidy") -> Claim:
    """The chunk is claimed by that job; all chunks before it are made."""
    prefix = _published(gate, dataid)
    for before in list(JOBS)[: list(JOBS).index(job)]:
        gate.ledger.success(gate.ledger.claim(prefix + before, dataid, **ACTOR))
    return gate.ledger.claim(prefix + job, dataid, **ACTOR)


def _publish(gate: Gate, dataid: str) -> Ready:
    dataset = _pipeline(gate, dataid) + "raw"
    return Ready({"kind": "publish", "dataset": dataset, "dataids": [dataid, dataid + " too"], "by": "actor"})


def _find_next(gate: Gate, dataid: str) -> Ready:
    return Ready({"kind": "find_next", "job": _published(gate, dataid) + "tidy", "request_id": dataid, **ACTOR})


def _find_next_quickly(gate: Gate, dataid: str) -> Ready:
    return Ready({"kind": "find_next", "job": _published(gate, dataid) + "tidy", **ACTOR})


def _find_next_after_a_death(gate: Gate, dataid: str) -> Ready:
    """The chunk's worker died: the next worker reaps its claim, and gets the chunk."""
    claim = _claimed(gate, dataid)
    expire(gate, dataid)
    return Ready({"kind": "find_next", "job": claim.job, "request_id": dataid + " again", **ACTOR})


def _claim(gate: Gate, dataid: str) -> Ready:
    job = _published(gate, dataid) + "tidy"
    return Ready({"kind": "claim", "job": job, "dataid": dataid, "request_id": dataid, **ACTOR})


def _report(kind: str, job: str = "tidy", **more: Any) -> Callable[[Gate, str], Ready]:
    def prepare(gate: Gate, dataid: str) -> Ready:
        claim = _claimed(gate, dataid, job)
        return Ready({"kind": kind, "claim": claim.job, "dataid": dataid, "token": claim.token, **more})

    return prepare


def _reap(gate: Gate, dataid: str) -> Ready:
    _claimed(gate, dataid)
    expire(gate, dataid)
    return Ready({"kind": "reap"})


def _resubmit_downstream(gate: Gate, dataid: str) -> Ready:
    claim = _claimed(gate, dataid, "join")
    gate.ledger.success(claim)
    job = claim.job.replace("join", "tidy")
    return Ready({"kind": "resubmit", "job": job, "dataid": dataid, "reason": "wrong", "downstream": True})


def ledger_state(gate: Gate, dataid: str) -> State:
    """The state of a chunk in every dataset: rows, history, and what each job may do. Tokens by their order."""
    ledger, prefix = gate.ledger, _prefix(dataid)
    rows = ledger.status(dataid=dataid)
    ranks = {token: rank for rank, token in enumerate(sorted({row.token for row in rows}))}
    seen = [
        (row.dataset, row.job, row.kind.value, row.status, row.former, row.attempt, row.failures, row.crashes,
         row.interruptions, ranks[row.token], row.worker, row.lease, row.forced, row.message)
        for row in rows
    ]  # fmt: skip
    told = [(entry.event, entry.job, entry.before, entry.after) for entry in gate.history(dataid=dataid, limit=1000)]
    may = [(job, ledger.explain(prefix + job, dataid).granted) for job in JOBS]
    places = database(gate).read(lambda tx: tx.all(READ_PLACES, dataid=dataid))
    return tuple(_without(dataid, each) for each in (tuple(seen), tuple(told), tuple(may), tuple(places)))


def _without(dataid: str, state: State) -> State:
    return tuple(str(each).replace(dataid, "…") for each in state)


LEDGER_CASES = {
    case.name: case
    for case in (
        Case("publish", _publish, state=ledger_state),
        Case("find next", _find_next, state=ledger_state),
        Case("find next quickly", _find_next_quickly, state=ledger_state, repeatable=False),
        Case("find next after a death", _find_next_after_a_death, state=ledger_state),
        Case("claim", _claim, state=ledger_state),
        Case("heartbeat", _report("heartbeat", lease=2 * LEASE), state=ledger_state),
        Case("success", _report("success", "enrich"), state=ledger_state),
        Case("fail", _report("fail", message="boom"), state=ledger_state),
        Case("interrupt", _report("interrupt", message="SIGTERM"), state=ledger_state),
        Case("reap", _reap, state=ledger_state),
        Case("resubmit downstream", _resubmit_downstream, state=ledger_state, repeatable=False),
    )
}
