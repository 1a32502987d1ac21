"""What is sent about the queue and the inventory."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from headgate.http.schemas import ActedLightly, Body, By, Lease, Tokened, TokenNumber, Wait, WorkerWaiting

# ---------------------------------------------------------------- the queue


class SubmissionAsked(Body):
    """What a depositor hands in. Nothing is fetched or looked into now."""

    profile: str = Field(examples=["demo_content"])
    submitter: str = Field(examples=["ann"])
    payload_url: str = Field(examples=["https://example.org/payload.checkm"])
    type: str = "object-manifest"
    mode: str = "add"
    metadata: dict[str, Any] = Field({}, examples=[{"erc_who": "Ann", "erc_what": "A book"}])


class DaemonSignedOn(Body):
    """A daemon says that it lives, and which steps it works on."""

    worker: str = Field(examples=["archive-2 pid 4711 #a1b2c3"])
    steps: list[str] = Field(max_length=100, examples=[["job-downloading", "job-processing"]])
    lease: Lease = 60


class BatchTaking(WorkerWaiting):
    """A consumer asks for a batch."""

    after: str | None = Field(None, description="Only batches after this one.")


class PlaceGiven(Body):
    """A place in the order of a state."""

    priority: int = Field(ge=0, le=99)
    id: str = Field(examples=["jid0000000007"])


class JobTaking(WorkerWaiting):
    """A consumer asks for an ingest job."""

    after: PlaceGiven | None = Field(None, description="Only jobs after this position.")


class Taken(Tokened):
    """What an owner shows to prove that an item is its own."""

    state: str = Field(description="The state in which it was taken.", examples=["pending"])
    worker: str = ""


class ItemRenewal(Taken):
    """The consumer lives."""

    lease: Lease = 60


class GivenBack(Taken):
    """Not done, and nobody's."""

    message: str = ""


class ItemChanges(BaseModel):
    """What an owner writes down."""

    priority: int | None = None
    space_needed: int | None = None
    identifiers: dict[str, Any] | None = Field(None, examples=[{"primary": "ark:/99999/fk4", "local": ["x1"]}])
    configuration: dict[str, Any] | None = None


class ItemChanged(Taken, ItemChanges):
    """What an owner writes down while the item stays its own."""


class ReportWritten(Body):
    """A batch's status-report."""

    failed: list[str]
    successful: list[str]


class Fired(Body, ItemChanges):
    """An event: the owner's, with token and state; a person's, with a reason; or a daemon's."""

    token: TokenNumber | None = None
    state: str | None = Field(None, description="The state in which it was taken; for its owner.")
    worker: str = ""
    message: str = ""
    report: ReportWritten | None = None
    reason: str = Field("", description="For an operator's event.")
    by: By = None
    daemon: bool = Field(False, description="Fired by a daemon of the queue, not by an operator.")


class JobsMade(Taken):
    """Jobs of a batch, from a position on."""

    position: int = Field(ge=0)
    jobs: list[dict[str, Any]]


class PrioritySet(ActedLightly):
    """Another place in the order."""

    priority: int = Field(description="0 is first, 99 is last.")


class FaultGiven(Body):
    """A fault, as `/queue/faults` or `/store/faults` reported it."""

    kind: str
    item: str
    what: str
    repair: str = ""
    by: By = None


# ---------------------------------------------------------------- the inventory


class Verification(Body):
    """An object whose every byte is to be read."""

    ark: str = Field(examples=["ark:/99999/fk4"])
    wait: Wait = 0


class Verified(BaseModel):
    """What a verification found."""

    bytes: int = Field(description="Number of files that were read.")
    problems: list[dict[str, str]] = Field(description="Files that differ from what was stored; empty if none does.")


class Uploaded(BaseModel):
    """A file that was handed in."""

    payload_url: str = Field(description="URL to submit as the payload of a batch.")
    bytes: int
