"""Sealed secrets and check values of keys. Keys never reach the service: callers seal and open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from headgate.core.access.credentials import Custody, CustodyChange, MasterWrap
from headgate.core.errors import BadValue, HoldersUnconfirmed, UnknownName
from headgate.operations.arguments import USUAL, Count, Limit
from headgate.operations.declaring import About, Declarations, Idempotency, Limited, Named, Page

declared = Declarations("secrets", "ledger.custody")
#: Numbers of master keys.
MOST_MASTERS = 999_999_999
Number = Annotated[int, About("Number of a master key.", ge=1, le=MOST_MASTERS)]
Before = Annotated[int, About("Number of the master key.", ge=1, place="query")]
WrapPairs = list[tuple[MasterWrap, MasterWrap]]
#: 32 bytes.
Check = Annotated[str, About("Check value of a master key.", pattern="^[A-Za-z0-9_-]{43}$")]


@dataclass(frozen=True, slots=True)
class MasterKnown:
    """A master key of the store."""

    number: int
    #: Check value, from which the key cannot be computed.
    check: str


SEALED = "Sealed copies and check values of keys."


@declared.get("/datasets/{name}/custody", "define", answer=SEALED, errors=(UnknownName,))
def dataset_custody(name: str) -> Custody:
    """Return everything stored about the secrets of a dataset, for sealing them again."""


@declared.get(
    "/jobs/{job}/custody", "cred:read", "define", limit=Limited("cred:read", "job", hidden="job"), answer=SEALED,
    errors=(UnknownName,),
)  # fmt: skip
def job_custody(job: str) -> Custody:
    """Return everything stored about a job's keys and secrets, for proving a key and opening secrets with it."""


@declared.post(
    "/custody", "define", repeat=Idempotency.KEY, answer="Whether it still matched `known`.",
    errors=(HoldersUnconfirmed, BadValue),
)  # fmt: skip
def change_custody(
    known: Annotated[dict[str, Any], About("As `custody` of a dataset or job returned it.", parsed=Custody)],
    change: Annotated[dict[str, Any], About("What changes, in the same form.", parsed=CustodyChange)],
) -> Annotated[bool, Named("changed")]:
    """Change keys and sealed secrets, if everything still matches `known`; otherwise nothing changes.

    `holders` of the change lists the jobs that gain access to secrets through it, as DATASET/JOB, each confirmed by
    an admin. If one is missing or superfluous, the change is refused and the answer lists the missing `holders`.
    """


@declared.get("/master-wraps", "admin", answer="Copies and escrows.")
def master_wraps(before: Before, limit: Limit = USUAL) -> Page[MasterWrap]:
    """List what is wrapped with a master key older than the given one: the first `limit`. Repeat the request after
    rewrapping these.
    """


@declared.post("/master-wraps", "admin", repeat=Idempotency.KEY, answer="How many still matched.", errors=(BadValue,))
def rewrap(
    pairs: Annotated[list[Any], About("Pairs of the known state and the new state.", parsed=WrapPairs)],
) -> Count:
    """Rewrap from one master key to another: `pairs` of the known state and the new state."""


@declared.put("/master-wraps/least", "admin")
def refuse_masters(before: Before) -> None:
    """Stop accepting copies under master keys older than the given one. This cannot be undone."""


@declared.get("/master-keys", "define", answer="By number.")
def masters() -> Page[MasterKnown]:
    """List the master keys of this store, each with its check value. Keys cannot be computed from check values."""


@declared.put("/master-keys/{number}", "define", answer="The stored check value.", errors=(BadValue,))
def know_master(number: Number, check: Check) -> Annotated[str, Named("check")]:
    """Store the check value of a master key. An existing one is kept."""


@declared.delete("/master-keys", "admin", answer="How many wraps were dropped.")
def forget_masters() -> Count:
    """Drop everything wrapped with a master key, because the ring is lost. Copies that job keys open are kept."""
