"""Sealed secrets and proofs of keys over HTTP. What opens them never comes here: callers seal and open themselves."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Body, Path, Query, Response

from headgate.core.credentials import Custody, CustodyChange, MasterWrap
from headgate.core.errors import BadValue
from headgate.core.wire import parse
from headgate.http import direct
from headgate.http.auth import Admin, Caller, TheGate, needs
from headgate.http.repeats import under
from headgate.http.schemas import Count, Limit, answer, documented, nothing

router = direct.router("secrets")
SecretReader = Annotated[Caller, needs("cred:read", "define")]
Definer = Annotated[Caller, needs("define")]
Document = Annotated[Any, Body()]
#: Numbers of master keys, and the form of what proves one: 32 bytes.
MOST_MASTERS = 999_999_999
CHECK = re.compile("[A-Za-z0-9_-]{43}")


@router.get("/datasets/{name}/custody", responses=documented(200, Custody, "Sealed copies, and proofs of keys."))
def dataset_custody(gate: TheGate, _who: Definer, name: str) -> Response:
    """Everything that is kept about the secrets of a dataset: for whoever seals them anew."""
    return answer(gate.ledger.store.dataset_custody(name))


@router.get("/jobs/{job}/custody", responses=documented(200, Custody, "Sealed copies, and proofs of keys."))
def job_custody(gate: TheGate, who: SecretReader, job: str) -> Response:
    """Everything that is kept about a job's keys and secrets: for whoever proves a key, and opens them with it."""
    if not who.reach.has("define"):
        who.must_see("job", "cred:read", job)
        who.must_reach("cred:read", job)
    return answer(gate.ledger.store.job_custody(job))


@router.post(
    "/custody", under("changed"), responses=documented(200, dict[str, bool], "Whether it was still as it was known.")
)
def change_custody(gate: TheGate, _who: Definer, document: Document) -> Response:
    """Change keys and sealed secrets, if all is still as it was `known`; otherwise nothing changes.

    `holders` of the change lists the jobs that become holders of secrets by it, as DATASET/JOB, each confirmed by an
    admin. With one missing or too many it is refused, and the answer lists the `holders` that are missing.
    """
    known, change = _parsed(Custody, document, "known"), _parsed(CustodyChange, document, "change")
    return answer({"changed": gate.ledger.store.change_custody(known, change)})


@router.get("/master-wraps", responses=documented(200, list[MasterWrap], "So many at most."))
def master_wraps(gate: TheGate, _who: Admin, before: Annotated[int, Query(ge=1)], limit: Limit = 100) -> Response:
    """What is wrapped for a master key before that one."""
    return answer(gate.ledger.store.master_wraps(before, limit))


@router.post("/master-wraps", under("count"), responses=documented(200, Count, "How many were still as known."))
def rewrap(gate: TheGate, _who: Admin, document: Document) -> Response:
    """Bring each from one master key to another: `pairs` of what is known and what shall be."""
    pairs = _parsed(list[tuple[MasterWrap, MasterWrap]], document, "pairs")
    return answer({"count": gate.ledger.store.rewrap(pairs)})


@router.put("/master-wraps/least", status_code=204)
def refuse_masters(gate: TheGate, _who: Admin, before: Annotated[int, Query(ge=1)]) -> Response:
    """Copies under a master key before that one are not opened any more. Never goes back."""
    gate.ledger.store.refuse_masters(before)
    return nothing()


@router.get("/master-keys", responses=documented(200, dict[str, str], "Each number with what proves the key."))
def masters(gate: TheGate, _who: Definer) -> Response:
    """The master keys that seal here, each by what proves it. No key can be computed from that."""
    return answer({str(number): check for number, check in gate.ledger.store.masters().items()})


@router.put("/master-keys/{number}", responses=documented(200, dict[str, str], "What is known of that number."))
def know_master(
    gate: TheGate, _who: Definer, number: Annotated[int, Path(ge=1, le=MOST_MASTERS)], document: Document
) -> Response:
    """Remember what proves a master key. One that is known already stays as it is."""
    check = document.get("check") if isinstance(document, dict) else None
    if not isinstance(check, str) or not CHECK.fullmatch(check):
        raise BadValue("check", "in the body", "is not what proves a master key")
    return answer({"check": gate.ledger.store.know_master(number, check)})


@router.delete("/master-keys", responses=documented(200, Count, "How many wraps were dropped."))
def forget_masters(gate: TheGate, _who: Admin) -> Response:
    """Drop all that is wrapped for a master key: the ring is lost. What jobs' keys open stays."""
    return answer({"count": gate.ledger.store.forget_masters()})


def _parsed(shape: Any, document: Any, name: str) -> Any:
    """A part of the body, in the shape that the answers have."""
    try:
        return parse(shape, document[name])
    except (TypeError, KeyError, ValueError, AttributeError, StopIteration):
        raise BadValue(name, "in the body", "is missing, or not in the form that the answers have it") from None
