"""Arguments and results that several operations share."""

from __future__ import annotations

from typing import Annotated

from headgate.operations.declaring import About, Named

#: The maximum and the default length of a page.
MOST, USUAL = 1000, 100
#: The longest time that a caller may wait in one request.
LONGEST_WAIT = 3600.0

Limit = Annotated[int, About("Largest number of results.", ge=1, le=MOST)]
After = Annotated[str | None, About("The `next` of the previous page.", min_length=1)]
Wait = Annotated[float, About("Seconds to wait.", ge=0, le=LONGEST_WAIT)]
Lease = Annotated[float, About("Lease length in seconds.", gt=0)]
Token = Annotated[int, About("Token of the grant.", ge=1, lt=2**63)]
Reason = Annotated[str, About("Reason, recorded in the history.", min_length=1, example="the disk is full", kept=True)]
OptionalReason = Annotated[str, About("Reason, recorded in the history.", kept=True)]
By = Annotated[
    str | None, About("Name of the acting person or process, if the token does not determine it.", caller="by")
]
Worker = Annotated[str | None, About("Name of the worker (default: the calling process).", caller="worker")]
#: The caller's name, which the service adds.
Caller = Annotated[str | None, About(place="caller", caller="by")]
RequestId = Annotated[str | None, About("The caller's id of this request.", place="header", caller="request")]

Steal = Annotated[bool, About("Even if a worker is running it (needs admin:force).", forced=True)]
DryRun = Annotated[bool, About("Only report what would change.")]

Count = Annotated[int, Named("count")]
Repaired = Annotated[bool, Named("repaired")]
