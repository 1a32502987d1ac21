"""Profiles, uploads, the parts of ingest jobs that were fixed at their start, and the integrity of stored objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from headgate.core.errors import BadProfiles, QueueRefused, UnknownName
from headgate.core.queue.frozen import Frozen
from headgate.core.values.names import NAME_LENGTH
from headgate.operations.arguments import USUAL, After, Caller, Limit, Wait
from headgate.operations.declaring import About, Declarations, Idempotency, Page

declared = Declarations("ingest", "deposits")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file that was uploaded."""

    #: URL to submit as the payload of a batch.
    payload_url: str
    #: Size of the file.
    bytes: int


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification."""

    #: Number of bytes that were read.
    bytes: int
    #: The problems: object, path, reason, and the code of the violated OCFL rule; empty if there are none.
    problems: Sequence[dict[str, str]]


@declared.get(
    "/ingest-jobs/{jid}/frozen", "read", answer="What it keeps.", nothing="It keeps nothing.", errors=(UnknownName,)
)
def frozen(jid: str) -> Frozen | None:
    """Return the profile and manifest that were fixed at an ingest job's start, when that was, and what has changed
    since.
    """


@declared.post(
    "/ingest-jobs/{jid}/refresh", "operate", repeat=Idempotency.SAFE, answer="The job's new profile and manifest.",
    errors=(QueueRefused, UnknownName),
)  # fmt: skip
def refresh(jid: str) -> Frozen:
    """Give a failed job the current profile, which all unfinished jobs of its batch then use, and have its manifest and
    files fetched again. Resume it afterwards. 409 when it has not failed.
    """


@declared.get(
    "/profiles", "read", "queue:submit", answer="By name: the current content of their files.", errors=(BadProfiles,)
)
def profiles(after: After = None, limit: Limit = USUAL) -> Page[dict[str, Any]]:
    """List the ingest profiles. 422 lists every error in every file."""


@declared.get(
    "/profiles/{name}", "read", "queue:submit", "queue:work", answer="The current content of its file.",
    errors=(BadProfiles, UnknownName),
)  # fmt: skip
def profile(name: str) -> dict[str, Any]:
    """Return one ingest profile. 422 lists every error in its file."""


@declared.post("/uploads", "queue:submit", repeat=Idempotency.FILE, status=201, answer="Kept.")
def upload(
    name: Annotated[str, About("File name.", min_length=1, max_length=NAME_LENGTH, place="query")],
) -> Uploaded:
    """Upload a file; its URL can then be submitted as the payload of a batch. A file that no batch uses is removed
    after the retention time.

    The body is the file itself. It is written to disk as it arrives, and stored durably before the request is answered.
    """


@declared.post("/objects/verify", "operate", repeat=Idempotency.SAFE, answer="The result of the verification.")
def verify(
    ark: Annotated[str, About("ARK of the object.", example="ark:/99999/fk4")], wait: Wait = 0, by: Caller = None,
    warnings: Annotated[bool, About("Include violations of OCFL's recommendations (codes starting with W).")] = False,
) -> Verified:  # fmt: skip
    """Read every stored byte of an object, check every rule of OCFL, and compare storage and inventory. This takes as
    long as reading all of it.

    With `wait`, wait up to that many seconds while another process writes to it. Closing the connection cancels it.
    """
