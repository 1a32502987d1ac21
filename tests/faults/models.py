"""Models of a lock and of a chunk, one operation after another, with which recorded histories are compared.

Both include tokens: a grant's token is greater than that of every grant before it. Both include leases: a grant that is
not renewed *may* have ended once its lease, counted from its request, has passed. Where leases are judged strictly
(`strict`), a renewal must be refused once the lease, counted from the last answer, has passed for certain.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from tests.faults.history import FAIL, INFO, Op
from tests.faults.linearizable import End

SHARED, EXCLUSIVE = "shared", "exclusive"
#: Clocks and scheduling: a lease has certainly expired this long after its end.
CERTAIN_SECONDS = 1.0


class Grant(NamedTuple):
    """A lock or claim that is held."""

    #: Its token, or, if the answer is unknown, the operation.
    ref: Hashable
    mode: str
    #: When its lease may have ended, and when it has certainly ended.
    earliest: float
    latest: float


def lease_of(op: Op) -> tuple[float, float]:
    """When the lease that an operation began may have ended, and when it certainly has."""
    lease = op.value["lease"]
    until = op.value.get("until")
    earliest = op.invoked + lease if until is None else max(until, op.invoked + lease)
    return earliest, math.inf if until is not None else op.ended + lease + CERTAIN_SECONDS


def ref_of(op: Op) -> Hashable:
    """The name of a grant: its token (and job), or, if that is unknown, its caller and time."""
    if op.f == "expire":
        return cast("Hashable", op.value["ref"])
    return (op.value.get("job"), op.value["token"]) if "token" in op.value else (op.process, op.invoked)


def expiries(ops: Sequence[Op], begins: Sequence[str]) -> list[Op]:
    """For each lease that began: that it may expire."""
    found = []
    for op in ops:
        if op.f in begins and op.outcome != FAIL:
            earliest, _ = lease_of(op)
            value = {"ref": ref_of(op), "earliest": earliest, "job": op.value.get("job")}
            value |= {"twin": op.value["twin"]} if "twin" in op.value else {}
            found.append(Op("store", "expire", op.key, value, earliest, math.inf, INFO))
    return found


# ------------------------------------------------------------------ locks


class Held(NamedTuple):
    """The state of a resource."""

    newest: int
    grants: frozenset[Grant]


@dataclass(slots=True)
class RwLock:
    """A shared and exclusive lock with tokens and leases."""

    strict: bool = True
    #: Keys on which a client queued: a waiting writer keeps readers out, too. Elsewhere a refusal needs a holder.
    _queued: set[str] = field(default_factory=set)

    def ops(self, ops: Sequence[Op]) -> list[Op]:
        self._queued |= {op.key for op in ops if op.f == "acquire" and op.value.get("wait")}
        kept = {ref_of(op): op.value["until"] for op in ops if "until" in op.value}
        asked = [
            replace(op, value=op.value | {"until": kept[ref_of(op)]})
            if op.f == "acquire" and ref_of(op) in kept
            else op
            for op in ops
            if op.outcome != INFO or op.f in ("acquire", "release") or (op.f == "renew" and self.strict)
        ]
        asked = [_with_twin(op) if op.f == "acquire" and op.outcome == INFO else op for op in asked]
        return [*asked, *expiries(asked, ("acquire", "renew"))]

    def start(self) -> Held:
        return Held(0, frozenset())

    def ref(self, op: Op) -> Hashable:
        return ref_of(op)

    def ends(self, op: Op) -> End | None:
        over = op.f == "expire" or (op.f == "release" and op.outcome != FAIL)
        return End(ref_of(op), ("expire", "release", "renew")) if over else None

    def twin(self, op: Op) -> Hashable | None:
        """Grants whose answer was lost: they keep others out, and may expire after their lease or never.

        An earlier request may expire earlier; which one was granted cannot be known from outside.
        """
        return (op.f, op.value["twin"]) if "twin" in op.value else None

    def step(self, state: Hashable, op: Op) -> Held | None:
        held = cast("Held", state)
        if op.f == "acquire":
            return self._acquire(held, op)
        ref = ref_of(op)
        found = next((each for each in held.grants if each.ref == ref), None)
        if op.f == "expire":
            return _without(held, found) if found and found.earliest == op.value["earliest"] else None
        if op.outcome == FAIL:
            return held if found is None else None
        return self._touch(held, found, op) if found else None

    def _acquire(self, held: Held, op: Op) -> Held | None:
        in_the_way = [each for each in held.grants if not each.mode == SHARED == op.value["mode"]]
        if op.outcome == FAIL:
            return held if in_the_way or op.key in self._queued else None
        token = op.value.get("token")
        if in_the_way or (token is not None and token <= held.newest):
            return None
        grant = Grant(ref_of(op), op.value["mode"], *lease_of(op))
        return Held(held.newest if token is None else token, held.grants | {grant})

    def _touch(self, held: Held, found: Grant, op: Op) -> Held | None:
        if op.f == "release":
            return _without(held, found)
        if self.strict and op.invoked > found.latest:
            return None
        if op.f == "renew":
            earliest, latest = lease_of(op)
            return Held(held.newest, held.grants - {found} | {found._replace(earliest=earliest, latest=latest)})
        return held


def _with_twin(op: Op) -> Op:
    return replace(op, value=op.value | {"twin": (op.value["mode"], op.value["lease"])})


def _without(held: Held, grant: Grant) -> Held:
    return Held(held.newest, held.grants - {grant})


# ------------------------------------------------------------------ chunks

OPEN, RUNNING, EXPIRED, READY = "open", "running", "expired", "ready"
#: What a reader may see of a chunk in each state.
SHOWN = {OPEN: ("", "ERROR", "RESUBMIT"), RUNNING: ("RUNNING",), EXPIRED: ("RUNNING", "ERROR"), READY: ("READY",)}


class Chunk(NamedTuple):
    """One job's row of one data id."""

    status: str = OPEN
    token: int = 0
    earliest: float = math.inf
    latest: float = math.inf


@dataclass(slots=True)
class ClaimLedger:
    """One data id on its way through the jobs of a chain."""

    #: For each job, the jobs that make its inputs.
    needs: dict[str, tuple[str, ...]]
    strict: bool = True
    #: True: the answer to a claim was lost, and its chunk is unknown; so any chunk may be RUNNING for a while.
    unanswered: bool = False

    def ops(self, ops: Sequence[Op]) -> list[Op]:
        asked = [op for op in ops if op.outcome != INFO or op.f in ("success", "fail", "heartbeat")]
        return [*asked, *expiries(asked, ("claim", "heartbeat"))]

    def start(self) -> tuple[Chunk, ...]:
        return tuple(Chunk() for _ in self.needs)

    def ref(self, op: Op) -> Hashable:
        return ref_of(op)

    def ends(self, op: Op) -> End | None:
        if op.f == "expire":  # It may still be reported.
            return End(ref_of(op), ("expire", "heartbeat"))
        over = op.f in ("success", "fail") and op.outcome != FAIL
        return End(ref_of(op), ("expire", "heartbeat", "success", "fail")) if over else None

    def twin(self, _op: Op) -> Hashable | None:
        return None

    def step(self, state: Hashable, op: Op) -> tuple[Chunk, ...] | None:
        rows = dict(zip(self.needs, cast("tuple[Chunk, ...]", state), strict=True))
        job = op.value["job"]
        after = self._after(rows, rows[job], op)
        return None if after is None else tuple((rows | {job: after}).values())

    def _after(self, rows: dict[str, Chunk], row: Chunk, op: Op) -> Chunk | None:
        match op.f:
            case "claim":
                return self._claim(rows, row, op)
            case "expire":
                same = (
                    row.status == RUNNING
                    and row.earliest == op.value["earliest"]
                    and op.value["ref"] == (op.value["job"], row.token)
                )
                return row._replace(status=EXPIRED) if same else None
            case "status":
                doubtful = self.unanswered and row.status in (OPEN, EXPIRED) and op.value["status"] != READY
                return row if doubtful or op.value["status"] in SHOWN[row.status] else None
            case "heartbeat":
                return self._heartbeat(row, op)
            case _:
                return self._report(row, op)

    def _claim(self, rows: dict[str, Chunk], row: Chunk, op: Op) -> Chunk | None:
        ready = all(rows[need].status == READY for need in self.needs[op.value["job"]])
        may = ready and row.status in (OPEN, EXPIRED)
        if op.outcome == FAIL:
            return None if may and row.status == OPEN and not self.unanswered else row
        token: int = op.value["token"]
        return Chunk(RUNNING, token, *lease_of(op)) if may and token > row.token else None

    def _heartbeat(self, row: Chunk, op: Op) -> Chunk | None:
        mine = row.status == RUNNING and row.token == op.value["token"]
        if op.outcome == FAIL:
            return None if mine and op.ended < row.earliest else row
        if not mine or (self.strict and op.invoked > row.latest):
            return None
        earliest, latest = lease_of(op)
        return row._replace(earliest=earliest, latest=latest)

    def _report(self, row: Chunk, op: Op) -> Chunk | None:
        """`success` or `fail`. An expired claim may still be reported if no other worker has the chunk."""
        mine = row.token == op.value["token"]
        open_ = mine and row.status in (RUNNING, EXPIRED)
        if op.outcome == FAIL:
            return None if mine and row.status == RUNNING and op.ended < row.earliest else row
        if open_:
            return row._replace(status=READY if op.f == "success" else OPEN)
        return row if op.f == "success" and mine and row.status == READY else None


def chain_model(jobs: dict[str, Any], made_by: dict[str, str], **options: bool) -> ClaimLedger:
    """The model of a chain, from its definition."""
    needs = {job: tuple(made_by[name] for name in inputs if name in made_by) for job, inputs in jobs.items()}
    return ClaimLedger(needs, **options)
