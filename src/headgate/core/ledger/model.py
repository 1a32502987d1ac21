"""The ledger's nouns: datasets, jobs, the rows of their chunks, and claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headgate.core.ledger.mappings.model import SAME, InputMap
from headgate.core.ledger.ordering import Order
from headgate.core.values.durations import in_words
from headgate.core.values.redaction import MASKED

#: The job name of data that is made elsewhere.
EXTERNAL = "external"
RUNNING, READY, ERROR, RESUBMIT, HOLD, PENDING, DONE = (
    "RUNNING", "READY", "ERROR", "RESUBMIT", "HOLD", "PENDING", "DONE",
)  # fmt: skip
#: Events of the table that the program names, for a report, a command or a count.
CLAIM_EVENT, SUCCESS_EVENT, FAIL_EVENT, INTERRUPT_EVENT, REAP_EVENT = "claim", "success", "fail", "interrupt", "reap"
PUBLISH_EVENT, FORCE_EVENT, RESUBMIT_EVENT, FORGET_EVENT = "publish", "force", "resubmit", "forget"
HOLD_EVENT, UNHOLD_EVENT = "hold", "unhold"
CLOSE_EVENT, REOPEN_EVENT = "close", "reopen"
#: For a chunk made by fan-out: whether the newest attempt lists it.
LIST_EVENT, UNLIST_EVENT = "list", "unlist"
#: For a job: its definition changed in another file.
COMMANDS_EVENT = "commands"
#: For a data id of a job with mapped inputs: whether more upstream ids may arrive for it.
OPEN, CLOSED = "open", "closed"
#: Running or finished: nobody has to act.
SETTLED = (READY, DONE, RUNNING)
MESSAGE_LENGTH = 1000
#: Default number of data ids that one claim may read by mappings.
DEFAULT_MAX_INPUT_IDS = 10_000
#: The kind of a dataset that a job fans out to, besides input and output.
FAN_OUT = "FANOUT"
#: Number of data ids that one success may list.
MOST_PARTS = 10_000
#: The limit exists because missing inputs are stored as bits of one number.
MOST_INPUTS = 60


class Kind(StrEnum):
    """Whether a row's job reads the chunk or makes it."""

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"


class OnFailure(StrEnum):
    """The effect of a reported failure on a chunk."""

    RERUN = "rerun"
    HOLD = "hold"


class StopExit(StrEnum):
    """How a command counts that ended after its worker was asked to stop."""

    #: The command was interrupted, whatever its exit code.
    INTERRUPT = "interrupt"
    #: Its exit code: 0 is success, any other a failure.
    TRUST = "trust"


def chunk_resource(dataset: str, dataid: str) -> str:
    """The resource of locks on a chunk."""
    return f"data:{dataset}/{dataid}"


def parse_chunk_resource(resource: str) -> tuple[str, str] | None:
    """Dataset and data id of a chunk's resource; None for any other resource."""
    scheme, colon, rest = resource.partition(":")
    dataset, slash, dataid = rest.partition("/")
    whole = scheme == "data" and colon and dataset and slash and dataid and "/" not in dataid
    return (dataset, dataid) if whole else None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Named data that comes in chunks."""

    #: Its name.
    name: str
    #: Location of the data.
    uri: str = ""
    #: How its data ids are ordered.
    order: Order = Order.NATURAL
    #: Other data needed to reach it; visible to all readers.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Names of its secrets, each with its version; sealed values are stored separately.
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The jobs that may hold its secrets; None: every job that uses it, once an admin has confirmed it.
    secret_jobs: tuple[str, ...] | None = None
    #: Which data ids it should have, and when; empty: no expectation.
    expect: Mapping[str, Any] = field(default_factory=dict)

    def may_hold(self, job: str) -> bool:
        """Whether a job may hold its secrets."""
        return self.secret_jobs is None or job in self.secret_jobs

    def to_document(self) -> dict[str, Any]:
        """Return the dataset as JSON data; secrets are masked."""
        secrets = dict.fromkeys(self.secrets, MASKED)
        return {
            "name": self.name, "uri": self.uri, "order": str(self.order), "settings": dict(self.settings),
            "secrets": secrets, "secret_jobs": None if self.secret_jobs is None else list(self.secret_jobs),
            "expect": dict(self.expect),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """A program that is configured once and runs on one chunk at a time."""

    #: Its name.
    name: str
    #: The datasets that it reads; the first one's order decides which chunk is next.
    inputs: tuple[str, ...] = ()
    #: The datasets that it produces; no other job produces them.
    outputs: tuple[str, ...] = ()
    #: Environment variables for its commands.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Failures after which a chunk is not retried; 0: no limit.
    max_attempts: int = 3
    #: Crashes of workers after which a chunk is held; 0: no limit.
    max_crashes: int = 3
    #: Interruptions after which a chunk is held; 0: no limit.
    max_interruptions: int = 10
    #: Seconds before a failed chunk is retried; doubles with each failure.
    retry_delay: float = 0.0
    #: rerun: a failed chunk is retried; hold: it is held.
    on_failure: OnFailure = OnFailure.RERUN
    #: interrupt: a worker that was asked to stop reports an interruption; trust: the exit code of its command counts.
    stop_exit: StopExit = StopExit.INTERRUPT
    #: Why the job is paused; empty: it is not.
    paused: str = ""
    #: Seconds after which a DONE chunk is processed again; 0: never. Only for a job without outputs.
    recur: float = 0.0
    #: By input: which of its data ids one data id of the job reads; by default the same one.
    maps: Mapping[str, InputMap] = field(default_factory=dict)
    #: Datasets for which one chunk yields several data ids, listed by its worker when it reports success.
    fan_out: tuple[str, ...] = ()

    @property
    def makes(self) -> tuple[str, ...]:
        """Every dataset that it produces: `outputs` share the job's data ids, fan-out datasets have others."""
        return self.outputs + self.fan_out

    @property
    def uses(self) -> tuple[str, ...]:
        """Every dataset that it reads or produces."""
        return self.inputs + self.makes

    @property
    def mapped(self) -> bool:
        """Whether an input's data ids differ from the job's."""
        return bool(self.maps)

    def map_of(self, dataset: str) -> InputMap:
        """The mapping of an input.

        :param dataset: Name of the input.
        """
        return self.maps.get(dataset, SAME)

    @property
    def creators(self) -> tuple[str, ...]:
        """The inputs whose READY data ids create the job's data ids, which are those that all of them create."""
        return tuple(name for name in self.inputs if self.map_of(name).creates)

    @property
    def counted(self) -> Kind:
        """The kind of its rows that keep the status: OUTPUT, or INPUT for a job without outputs."""
        return Kind.OUTPUT if self.outputs else Kind.INPUT

    @property
    def first(self) -> str:
        """The dataset by whose rows its chunks are counted: its first output, or else its first input."""
        return (self.outputs or self.inputs)[0]

    def to_document(self) -> dict[str, Any]:
        """Return the job as JSON data."""
        return {
            "name": self.name, "inputs": list(self.inputs), "outputs": list(self.outputs),
            "fan_out": list(self.fan_out), "environment": dict(self.environment), "max_attempts": self.max_attempts,
            "max_crashes": self.max_crashes, "max_interruptions": self.max_interruptions,
            "retry_delay": self.retry_delay, "on_failure": str(self.on_failure), "stop_exit": str(self.stop_exit),
            "paused": self.paused, "recur": self.recur,
            "maps": {name: each.to_document() for name, each in self.maps.items()},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """The record of one job about one chunk. Locks follow from the status and are stored nowhere else."""

    dataset: str  #: Name of the dataset.
    dataid: str  #: Data id of the chunk.
    job: str  #: Name of the job.
    kind: Kind  #: INPUT or OUTPUT.
    #: RUNNING, READY, …, or any other word.
    status: str
    #: The status that unhold restores; empty: no row. For a forced claim: the status that an interruption restores.
    former: str = ""
    #: How many times it was claimed.
    attempt: int = 0
    #: Failures since the counts were last reset.
    failures: int = 0
    #: Crashes of workers since the counts were last reset.
    crashes: int = 0
    #: Token of the newest claim; tokens only grow.
    token: int = 0
    #: Name of the worker of the newest claim.
    worker: str = ""
    #: Lease length in seconds.
    lease: float | None = None
    #: Seconds until the lease expires, when the store answered; None: no lease.
    expires_in: float | None = None
    #: Whether an operator forced the claim.
    forced: bool = False
    #: Seconds until it may be retried, when the store answered; None: no delay.
    retry_in: float | None = None
    #: When the status was written, by the store's clock.
    since: datetime | None = None
    #: When the newest claim was made, by the store's clock.
    started: datetime | None = None
    #: Reason, as reported.
    message: str = ""
    #: The principal that owns the newest claim; empty: there is none, or it was made before owners were recorded.
    principal: str = ""
    #: Interruptions since the counts were last reset.
    interruptions: int = 0

    @property
    def alive(self) -> bool:
        """Whether it is RUNNING and its lease has not expired."""
        return self.status == RUNNING and (self.expires_in is None or self.expires_in > 0)

    @property
    def expired(self) -> bool:
        """Whether it is RUNNING and its lease has expired."""
        return self.status == RUNNING and not self.alive

    @staticmethod
    def lease_sentence(expires_in: float) -> str:
        """Return when the lease expires, or that the worker died."""
        if expires_in > 0:
            return f"lease expires in {in_words(expires_in)}"
        return f"lease expired {in_words(-expires_in)} ago: its worker died"

    def sentence(self) -> str:
        """Return one line for display."""
        by = f" by {self.worker}" if self.worker and self.status == RUNNING else ""
        left = "" if self.expires_in is None else f", {self.lease_sentence(self.expires_in)}"
        note = f": {self.message}" if self.message else ""
        return f"{self.kind} {self.dataset}/{self.dataid} of {self.job} is {self.status}{by}{left}{note}"


@dataclass(frozen=True, slots=True)
class Port:
    """One dataset of a claim, with the data that the worker needs to reach it."""

    #: The dataset.
    dataset: str
    #: The chunk.
    dataid: str
    #: Location of the data.
    uri: str
    #: Other data needed to reach it.
    settings: Mapping[str, str]
    #: Secrets, opened with the job's key or masked.
    secrets: Mapping[str, str] = field(repr=False)
    #: When masked: sealed copies that `headgate keys open` opens with the job's key.
    sealed: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: For a mapped input: the data ids that this claim reads, in order. For a dataset that the job fans out to: the ids
    #: that its last attempt listed. None: `dataid` alone.
    dataids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Asker:
    """The client that requests a claim."""

    #: Name of the worker.
    worker: str
    #: Lease length in seconds.
    lease: float
    #: The caller's id of this request, by which a repeat is recognised.
    request_id: str
    #: True: the id was created for this request, so it cannot be a repeat.
    fresh: bool = False
    #: True: the claim outlives this process, because it is made for a client of the service.
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on one chunk, at the moment when the store answered."""

    #: The job.
    job: str
    #: The chunk.
    dataid: str
    #: How many times the chunk was claimed, this one included.
    attempt: int
    #: Grows with every claim on the chunk; every report includes it.
    token: int
    #: Name of the worker.
    worker: str
    #: Lease length in seconds.
    lease: float
    #: Seconds until the lease expires, when the store answered.
    expires_in: float
    #: Its inputs, by dataset.
    inputs: Mapping[str, Port]
    #: Its outputs, by dataset.
    outputs: Mapping[str, Port]
    #: The job's variables.
    environment: Mapping[str, str]
    #: Whether an operator forced it.
    forced: bool = False
    #: How its command counts if the worker is asked to stop before the command ends.
    stop_exit: StopExit = StopExit.INTERRUPT

    def secrets(self) -> list[str]:
        """Return the values of its secrets."""
        ports = (*self.inputs.values(), *self.outputs.values())
        return [secret for port in ports for secret in port.secrets.values()]

    def to_document(self) -> dict[str, Any]:
        """Return everything that a script needs, including the secrets of this claim."""
        return {
            "dataid": self.dataid, "job": self.job, "attempt": self.attempt, "token": self.token,
            "worker": self.worker, "lease": self.lease, "forced": self.forced, "stop_exit": str(self.stop_exit),
            "inputs": {name: _port_document(port) for name, port in self.inputs.items()},
            "outputs": {name: _port_document(port) for name, port in self.outputs.items()},
            "environment": dict(self.environment),
        }  # fmt: skip

    def to_json(self) -> str:
        """Return the same as one line of JSON."""
        return json.dumps(self.to_document(), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Defined:
    """The result of a definition."""

    #: The changes, one line each; empty: none.
    changes: tuple[str, ...]
    #: Warnings about likely mistakes.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A job that processes its chunks repeatedly."""

    job: str  #: Name of the job.
    recur: float  #: Seconds after which a DONE chunk is processed again.
    #: When the chunk was processed that has waited longest; null: none is DONE.
    oldest: datetime | None

    def age(self, at: datetime) -> float:
        """Return how many seconds ago that was; 0: none is DONE.

        :param at: The time now.
        """
        return 0.0 if self.oldest is None else max((at - self.oldest).total_seconds(), 0.0)


def failure_cursor(row: Row) -> str:
    """Where the list of failures continues after this row."""
    since = "" if row.since is None else row.since.isoformat()
    return f"{since}/{row.dataset}/{row.job}/{row.dataid}"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row, made or previewed."""

    job: str  #: Name of the job.
    dataset: str  #: Name of the dataset.
    dataid: str  #: Data id of the chunk.
    kind: Kind  #: INPUT or OUTPUT.
    #: The status before; "absent" for no row.
    before: str
    #: The status after; "absent" for no row.
    after: str


def _port_document(port: Port) -> dict[str, Any]:
    return {
        "dataset": port.dataset, "dataid": port.dataid, "uri": port.uri, "settings": dict(port.settings),
        "secrets": dict(port.secrets), **({"sealed": dict(port.sealed)} if port.sealed else {}),
        **({} if port.dataids is None else {"dataids": list(port.dataids)}),
    }  # fmt: skip
