"""An independent witness outside the store: which holder reported which lock, from when to when, and what was written.

Every holder reports to the witness over its own channel: `enter` (it has just been granted a lock), `claim` (until when
it may rely on the lock), `write`, `leave` (it is about to release) and `lost` (it was notified). The witness never
queries the store. It runs in the process that kills and stops the holders, so it knows which ones are alive. All times
are CLOCK_BOOTTIME, which all processes of the machine share.

**Live holder.** A lock with a lease promises exclusion up to the holder's own deadline (`Hold.deadline`: when the last
good renewal was *sent*, plus the lease), and not beyond. So a process is a live holder of a lock from the moment that
its acquire returned until the first of: it said `leave` (stamped before it asks for the release); it was notified that
the lock is lost; its own deadline, by the newest claim that it made; its death. A process that is killed, or
stopped past its lease, is hence no live holder after its deadline, whatever it believes when it wakes up. No slack
is added anywhere: the product's deadline has to be right for itself.

What is checked, over everything that was seen (`verdict`):

* **overlap**: on one resource, no writer is a live holder at the same time as any other.
* **token order**: a token is greater than every token that had been returned before its request was made; and no
  two grants have the same. (Upgrading is a new grant. Downgrading keeps the token.)
* **stale write**: the register of a resource accepts a write only with the greatest token that it has seen, and a
  reader's mark only with one that is not older than the greatest writer's. Whether an accepted write was stale is
  judged by times alone, and never by tokens or by what the register said: it was, if somebody else had meanwhile
  been a live holder, in a mode that does not agree, since a later moment than the one who wrote. (By the register's
  own rule this could not be seen: it would call the newcomer with the wrong token late.) Somebody who was granted
  earlier, or never was a live holder, and only says so late, because it was stopped, makes nobody stale.
* **unexplained loss**: no holder is notified of a loss while its own deadline is still ahead, unless
  it was stopped meanwhile. A holder that was never stopped and yet saw its own deadline pass was starved by the
  machine: these are counted (`starved`), and the test says how many may be.
* **error**: a worker saw an error other than LockRefused, LockLost and StoreUnavailable. How often the store did not
  answer in time is counted (`unanswered`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise

from tests.faults.processes import Message

SHARED, EXCLUSIVE = "shared", "exclusive"


@dataclass(slots=True)
class Span:
    """One holder's time in one mode on one resource."""

    worker: str
    resource: str
    mode: str
    token: int
    lock_id: str
    #: When it was requested, and when the answer arrived.
    asked: float
    began: float
    #: The holder's own deadline, by its newest claim.
    until: float
    #: False: the same grant continues in another mode.
    fresh: bool = True
    #: When it left, was notified of its loss, or died.
    ended: float = math.inf

    @property
    def end(self) -> float:
        """When it was no longer a live holder."""
        return min(self.ended, self.until)

    @property
    def was_live(self) -> bool:
        """False: its own deadline had passed before it could begin."""
        return self.until > self.began

    @property
    def open(self) -> bool:
        return self.ended == math.inf

    def agrees_with(self, other: "Span") -> bool:
        return self.mode == SHARED == other.mode

    def __str__(self) -> str:
        return (
            f"{self.worker} {self.mode} on {self.resource} token {self.token} [{self.began:.4f}, {self.end:.4f}]"
            f" (left {self.ended:.4f}, deadline {self.until:.4f})"
        )


@dataclass(slots=True)
class Register:
    """The behaviour of a resource that compares tokens: it refuses tokens older than the newest it has seen."""

    fenced: bool = True
    newest: int = 0
    newest_writer: int = 0

    def accepts(self, mode: str, token: int) -> bool:
        if self.fenced and token < (self.newest_writer if mode == SHARED else self.newest):
            return False
        self.newest = max(self.newest, token)
        if mode == EXCLUSIVE:
            self.newest_writer = max(self.newest_writer, token)
        return True


@dataclass(frozen=True, slots=True)
class DeadHold:
    """A lock whose live holder was killed."""

    span: Span
    killed: float


@dataclass(slots=True)
class Counts:
    """What happened, for the report."""

    grants: int = 0
    refusals: int = 0
    unanswered: int = 0
    writes: int = 0
    late_refused: int = 0
    losses: int = 0
    starved: int = 0
    upgrades: int = 0
    downgrades: int = 0
    pairs: int = 0


@dataclass(slots=True)
class Witness:
    """Everything that was recorded."""

    fenced: bool = True
    spans: list[Span] = field(default_factory=list)
    dead: list[DeadHold] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    #: What each worker waits for, by its last report.
    waiting: dict[str, list[str]] = field(default_factory=dict)
    #: When and how long workers were stopped.
    stops: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    violations: list[str] = field(default_factory=list)
    _registers: dict[str, Register] = field(default_factory=dict)
    _current: dict[tuple[str, str], Span] = field(default_factory=dict)
    #: Spans in the order in which their enter arrived, by resource.
    _entered: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))

    # ------------------------------------------------------------------ recording

    def hear(self, worker: str, message: Message) -> Message | None:
        """Record a worker's message. Returns the answer, where the worker waits for one."""
        handler = getattr(self, "_hear_" + message["kind"])
        answer: Message | None = handler(worker, message)
        return answer

    def killed(self, worker: str, at: float) -> list[DeadHold]:
        """The worker is dead, and all of its messages were read. Returns the locks that it left behind."""
        left = [span for span in self.held_by(worker) if span.until > at]
        for span in self.held_by(worker):
            span.ended = at
        found = [DeadHold(span, at) for span in left]
        self.dead += found
        return found

    def stopped(self, worker: str, since: float) -> None:
        self.stops[worker].append((since, math.inf))

    def resumed(self, worker: str, at: float) -> None:
        since, _ = self.stops[worker].pop()
        self.stops[worker].append((since, at))

    def held_by(self, worker: str) -> list[Span]:
        return [span for (who, _), span in self._current.items() if who == worker and span.open]

    def live_holders(self, now: float) -> set[str]:
        return {who for (who, _), span in self._current.items() if span.open and span.until > now}

    def _hear_want(self, worker: str, message: Message) -> None:
        if message["waits"]:
            self.waiting[worker] = message["resources"]

    def _hear_refused(self, worker: str, _message: Message) -> None:
        self.waiting.pop(worker, None)
        self.counts.refusals += 1

    def _hear_unanswered(self, worker: str, _message: Message) -> None:
        """The store did not answer in time; the outcome is unknown, and the worker no longer relies on it."""
        self.waiting.pop(worker, None)
        self.counts.unanswered += 1

    def _hear_enter(self, worker: str, message: Message) -> Message:
        self.waiting.pop(worker, None)
        until = math.inf if message["until"] is None else message["until"]
        names = ("resource", "mode", "token", "lock_id", "asked", "began", "fresh")
        span = Span(worker=worker, until=until, **{name: message[name] for name in names})
        self.spans.append(span)
        self._current[worker, span.resource] = span
        self._entered[span.resource].append(span)
        self.counts.grants += span.fresh
        accepted = self._register(span.resource).accepts(span.mode, span.token)
        self.counts.late_refused += not accepted
        return {"accepted": accepted}

    def _hear_claim(self, worker: str, message: Message) -> None:
        span = self._current[worker, message["resource"]]
        span.until = max(span.until, math.inf if message["until"] is None else message["until"])

    def _hear_write(self, worker: str, message: Message) -> Message:
        self._hear_claim(worker, message)
        span = self._current[worker, message["resource"]]
        accepted = self._register(span.resource).accepts(EXCLUSIVE, message["token"])
        self.counts.writes += accepted
        self.counts.late_refused += not accepted
        if accepted and (other := self._who_came_after(span)):
            self.violations.append(f"stale write accepted: {span}, though {other} had entered")
        return {"accepted": accepted}

    def _hear_leave(self, worker: str, message: Message) -> None:
        self._hear_claim(worker, message)
        self._current[worker, message["resource"]].ended = message["at"]

    def _hear_lost(self, worker: str, message: Message) -> None:
        self._hear_claim(worker, message)
        span = self._current[worker, message["resource"]]
        span.ended = min(span.ended, message["at"])
        self.counts.losses += 1
        if self._was_stopped(worker, span.asked, message["at"]):
            return
        self.counts.starved += message["by"] == "clock"
        if message["by"] == "store" and message["at"] < span.until:
            self.violations.append(
                f"unexplained loss: at {message['at']:.4f}, before its deadline, {span}: {message['why']}"
            )

    def _hear_done(self, _worker: str, message: Message) -> None:
        self.counts.upgrades += message["upgrades"]
        self.counts.downgrades += message["downgrades"]
        self.counts.pairs += message["pairs"]

    def _hear_crash(self, worker: str, message: Message) -> None:
        self.violations.append(f"error: {worker}: {message['text']}")

    # ------------------------------------------------------------------ judging

    def verdict(self) -> list[str]:
        """All violations; empty, if there are none."""
        found = list(self.violations)
        for resource in sorted(self._entered):
            spans = self._entered[resource]
            found += [f"overlap: {one} AND {other}" for one, other in overlaps(spans)]
            found += list(token_faults(spans))
        return found

    def figures(self) -> dict[str, int]:
        """What happened, for the report."""
        return asdict(self.counts)

    def tally(self) -> dict[str, int]:
        """The number of violations of each kind."""
        kinds = [text.partition(":")[0] for text in self.verdict()]
        named = {
            "overlaps": "overlap",
            "stale_writes": "stale write accepted",
            "unexplained_losses": "unexplained loss",
        }
        counts = {name: kinds.count(kind) for name, kind in named.items()}
        return counts | {
            "token_faults": sum(kind.startswith("token") for kind in kinds),
            "errors": kinds.count("error"),
        }

    def next_grant(self, dead: DeadHold) -> float | None:
        """Seconds from the kill until another client was granted the resource that the dead one had blocked."""
        later = [
            span.began
            for span in self._entered[dead.span.resource]
            if span.began > dead.killed and span.fresh and not span.agrees_with(dead.span)
        ]
        return min(later) - dead.killed if later else None

    def _register(self, resource: str) -> Register:
        return self._registers.setdefault(resource, Register(self.fenced))

    def _who_came_after(self, span: Span) -> Span | None:
        entered = self._entered[span.resource]
        place = next(number for number, each in enumerate(entered) if each is span)
        later = (each for each in entered[place + 1 :] if each.began > span.began and each.was_live)
        return next((each for each in later if each.lock_id != span.lock_id and not each.agrees_with(span)), None)

    def _was_stopped(self, worker: str, since: float, until: float) -> bool:
        return any(begin < until and end > since for begin, end in self.stops[worker])


def overlaps(spans: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Pairs of live holders of one resource with conflicting modes."""
    live: list[Span] = []
    for span in sorted(spans, key=lambda each: each.began):
        live = [other for other in live if other.end > span.began]
        yield from ((other, span) for other in live if span.end > span.began and not span.agrees_with(other))
        live.append(span)


def token_faults(spans: Iterable[Span]) -> Iterator[str]:
    """Grants of one resource whose token was not greater than all tokens granted before their request."""
    fresh = [span for span in spans if span.fresh]
    by_token = sorted(fresh, key=lambda each: each.token)
    for one, other in pairwise(by_token):
        if one.token == other.token:
            yield f"token given twice: {one} AND {other}"
    earlier = sorted(fresh, key=lambda each: each.began)
    newest, place = 0, 0
    for span in sorted(fresh, key=lambda each: each.asked):
        while place < len(earlier) and earlier[place].began < span.asked:
            newest = max(newest, earlier[place].token)
            place += 1
        if span.token <= newest:
            yield f"token went back: {span} though {newest} had been given before it was asked for"
