"""Claims of chunks: requests and reports of workers."""

from __future__ import annotations

from typing import Annotated

from headgate.core.errors import ClaimLost, ClaimRefused, NotOwner, UnknownName
from headgate.core.ledger.model import MOST_PARTS, Claim
from headgate.core.logs import LogStream, LogText
from headgate.operations.arguments import By, Lease, RequestId, Token, Wait, Worker
from headgate.operations.declaring import About, Declarations, Idempotency, Named
from headgate.operations.ledger import JOB, SEALED

declared = Declarations("claims", "ledger")
CLAIMED = "Claimed, with a new token."
LOST = (ClaimLost, NotOwner, UnknownName)
ListedOutputs = Annotated[
    dict[str, Annotated[list[str], About(max_length=MOST_PARTS)]] | None,
    About("The data ids that were made, by fan-out dataset of the job.", example={"parts": ["a", "b"]}),
]
Texts = Annotated[list[LogText], About("The end of each stream.", min_length=1, max_length=len(LogStream))]


@declared.post(
    "/jobs/{job}/next", "chunk:claim", repeat=Idempotency.REQUEST, limit=JOB, answer=CLAIMED,
    nothing="Nothing to claim.", errors=(UnknownName,),
)  # fmt: skip
def find_next(
    job: str, worker: Worker = None, lease: Lease = 60, wait: Wait = 0, request_id: RequestId = None
) -> Claim | None:
    """Claim the next chunk of a job. With `wait`, wait up to that many seconds for one."""


@declared.post(
    "/jobs/{job}/chunks/{dataid}/claim", "chunk:claim", repeat=Idempotency.REQUEST, limit=JOB, answer=CLAIMED,
    errors=(ClaimRefused, UnknownName), fixed=SEALED,
)  # fmt: skip
def claim(job: str, dataid: str, worker: Worker = None, lease: Lease = 60, request_id: RequestId = None) -> Claim:
    """Claim a given chunk. 409 lists every reason if it cannot be claimed."""


@declared.post(
    "/jobs/{job}/chunks/{dataid}/success", "chunk:claim", repeat=Idempotency.PROVEN, limit=JOB,
    errors=(*LOST, ClaimRefused), quick=True,
)  # fmt: skip
def success(job: str, dataid: str, token: Token, outputs: ListedOutputs = None, by: By = None) -> None:
    """Report that the chunk succeeded. Repeating the report is safe; 409, without any change, if the claim is not
    yours, or if `outputs` has a data id that was made from another one.
    """


@declared.post(
    "/jobs/{job}/chunks/{dataid}/fail", "chunk:claim", repeat=Idempotency.PROVEN, limit=JOB, errors=LOST,
    quick=True,
)  # fmt: skip
def fail(job: str, dataid: str, token: Token, message: str = "", by: By = None) -> None:
    """Report that the chunk failed, with the reason. 409, without any change, if the claim is not yours."""


@declared.post(
    "/jobs/{job}/chunks/{dataid}/interrupt", "chunk:claim", repeat=Idempotency.PROVEN, limit=JOB, errors=LOST,
    quick=True,
)  # fmt: skip
def interrupt(
    job: str, dataid: str, token: Token, message: Annotated[str, About(example="interrupted by SIGTERM")] = "",
    by: By = None,
) -> None:  # fmt: skip
    """Report that the worker was asked to stop before the chunk was done: no attempt and no failure is counted.

    The chunk can be claimed again at once, or is held after `max_interruptions`. Reporting it twice changes nothing.
    409 when the claim is not yours.
    """


@declared.post(
    "/jobs/{job}/chunks/{dataid}/logs", "chunk:claim", repeat=Idempotency.PROVEN, limit=JOB, errors=LOST,
)  # fmt: skip
def keep_log(
    job: str, dataid: str, token: Token, texts: Texts,
    ended: Annotated[bool, About("The log is complete: the outcome is reported next.")] = False,
) -> None:  # fmt: skip
    """Store the end of the output of an attempt; a text replaces the one before. The service's own setting `log_keep`
    limits the length. 409 when the claim is not yours.
    """


@declared.post(
    "/jobs/{job}/chunks/{dataid}/heartbeat", "chunk:claim", repeat=Idempotency.PROVEN, limit=JOB, errors=LOST,
    quick=True, answer="Lease length in seconds.",
)  # fmt: skip
def heartbeat(job: str, dataid: str, token: Token, lease: Lease = 60) -> Annotated[float, Named("lease")]:
    """Renew the lease of a claim. 409 if it has expired."""
