"""Sealed secrets and proofs of keys over HTTP. What opens them never comes here: callers seal and open themselves."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Body, Path, Query, Response
from pydantic import BaseModel, Field

from headgate.core.credentials import Custody, CustodyChange, MasterWrap
from headgate.core.errors import BadValue
from headgate.core.wire import parse
from headgate.http import direct
from headgate.http.auth import Admin, Caller, TheGate, needs
from headgate.http.repeats import under
from headgate.http.schemas import Count, Limit, Page, answer, documented, listing, nothing

router = direct.router("secrets")
SecretReader = Annotated[Caller, needs("cred:read", "define")]
Definer = Annotated[Caller, needs("define")]
Document = Annotated[Any, Body()]
#: Numbers of master keys, and the form of what proves one: 32 bytes.
MOST_MASTERS = 999_999_999
CHECK = re.compile("[A-Za-z0-9_-]{43}")


class MasterKnown(BaseModel):
    """A master key of the store."""

    number: int
    check: str = Field(description="Check value, from which the key cannot be computed.")


@router.get("/datasets/{name}/custody", responses=documented(200, Custody, "Sealed copies and check values of keys."))
def dataset_custody(gate: TheGate, _who: Definer, name: str) -> Response:
    """Return everything stored about the secrets of a dataset, for sealing them again."""
    return answer(gate.ledger.custody.dataset_custody(name))


@router.get("/jobs/{job}/custody", responses=documented(200, Custody, "Sealed copies and check values of keys."))
def job_custody(gate: TheGate, who: SecretReader, job: str) -> Response:
    """Return everything stored about a job's keys and secrets, for proving a key and opening secrets with it."""
    if not who.reach.has("define"):
        who.must_see("job", "cred:read", job)
        who.must_reach("cred:read", job)
    return answer(gate.ledger.custody.job_custody(job))


@router.post(
    "/custody", under("changed"), responses=documented(200, dict[str, bool], "Whether it still matched `known`.")
)
def change_custody(gate: TheGate, _who: Definer, document: Document) -> Response:
    """Change keys and sealed secrets, if everything still matches `known`; otherwise nothing changes.

    `holders` of the change lists the jobs that gain access to secrets through it, as DATASET/JOB, each confirmed by
    an admin. If one is missing or superfluous, the change is refused and the answer lists the missing `holders`.
    """
    known, change = _parsed(Custody, document, "known"), _parsed(CustodyChange, document, "change")
    return answer({"changed": gate.ledger.custody.change_custody(known, change)})


@router.get("/master-wraps", responses=documented(200, Page[MasterWrap], "Copies and escrows."))
def master_wraps(gate: TheGate, _who: Admin, before: Annotated[int, Query(ge=1)], limit: Limit = 100) -> Response:
    """List what is wrapped with a master key older than the given one: the first `limit`. Ask again after rewrapping
    these.
    """
    return listing(gate.ledger.custody.master_wraps(before, limit))


@router.post("/master-wraps", under("count"), responses=documented(200, Count, "How many still matched."))
def rewrap(gate: TheGate, _who: Admin, document: Document) -> Response:
    """Rewrap from one master key to another: `pairs` of the known state and the new state."""
    pairs = _parsed(list[tuple[MasterWrap, MasterWrap]], document, "pairs")
    return answer({"count": gate.ledger.custody.rewrap(pairs)})


@router.put("/master-wraps/least", status_code=204)
def refuse_masters(gate: TheGate, _who: Admin, before: Annotated[int, Query(ge=1)]) -> Response:
    """Stop accepting copies under master keys older than the given one. This cannot be undone."""
    gate.ledger.custody.refuse_masters(before)
    return nothing()


@router.get("/master-keys", responses=documented(200, Page[MasterKnown], "By number."))
def masters(gate: TheGate, _who: Definer) -> Response:
    """List the master keys of this store, each with its check value. Keys cannot be computed from check values."""
    found = sorted(gate.ledger.custody.masters().items())
    return listing({"number": number, "check": check} for number, check in found)


@router.put("/master-keys/{number}", responses=documented(200, dict[str, str], "The stored check value."))
def know_master(
    gate: TheGate, _who: Definer, number: Annotated[int, Path(ge=1, le=MOST_MASTERS)], document: Document
) -> Response:
    """Store the check value of a master key. An existing one is kept."""
    check = document.get("check") if isinstance(document, dict) else None
    if not isinstance(check, str) or not CHECK.fullmatch(check):
        raise BadValue("check", "in the body", "is not the check value of a master key")
    return answer({"check": gate.ledger.custody.know_master(number, check)})


@router.delete("/master-keys", responses=documented(200, Count, "How many wraps were dropped."))
def forget_masters(gate: TheGate, _who: Admin) -> Response:
    """Drop everything wrapped with a master key, because the ring is lost. Copies that job keys open are kept."""
    return answer({"count": gate.ledger.custody.forget_masters()})


def _parsed(shape: Any, document: Any, name: str) -> Any:
    """A part of the body, in the shape that the answers have."""
    try:
        return parse(shape, document[name])
    except (TypeError, KeyError, ValueError, AttributeError, StopIteration):
        raise BadValue(name, "in the body", "is missing, or does not have the format of the responses") from None
