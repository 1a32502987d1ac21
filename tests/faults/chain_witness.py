"""The witness of the chain: the claims and reports of each worker, checked without querying the store.

To the witness a claim is a set of locks: exclusive ones on the chunks that it makes, shared ones on those that it
reads. So everything that `Witness` checks for locks is checked for claims. Beyond that:

* **input not ready**: when a chunk is claimed, each of its inputs is made: its maker had *begun* to report success
  before the claim was answered, and was not refused. (That the maker no longer works on it is checked as overlap.)
* **two successes**: of all claims on a chunk at most one gets its success accepted.
* **stale report accepted**: no report is accepted that was begun after another worker had claimed the chunk.
* **error**: a worker saw an error other than ClaimLost and StoreUnavailable. A ClaimLost without a reason is an
  **unexplained loss**.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.faults.chain_worker import MADE_BY, MAPPED_BY
from tests.faults.processes import Message
from tests.faults.witness import EXCLUSIVE, SHARED, DeadHold, Span, Witness

Chunk = tuple[str, str]
ALL_BY = MADE_BY | MAPPED_BY


@dataclass(slots=True)
class Try:
    """One claim, and its outcome."""

    worker: str
    token: int
    began: float
    #: The chunks that it reads: dataset and data id.
    inputs: list[tuple[str, str]]
    #: When its report was begun; infinite: never.
    reporting: float = math.inf
    success: bool = False
    #: None: unknown, since the worker was killed.
    accepted: bool | None = None

    @property
    def may_be_done(self) -> bool:
        return self.success and self.accepted is not False


@dataclass(slots=True)
class ChainCounts:
    """What happened, for the report."""

    claims: int = 0
    successes: int = 0
    failures: int = 0
    #: Reports of success that were refused because another worker's had been accepted; and all other refusals.
    duplicates_refused: int = 0
    stale_refused: int = 0


@dataclass(slots=True)
class ChainWitness(Witness):
    """Everything that was recorded."""

    chain: ChainCounts = field(default_factory=ChainCounts)
    #: The claims on each chunk, by job and data id, in the order of their arrival.
    tries: dict[Chunk, list[Try]] = field(default_factory=lambda: defaultdict(list))

    # ------------------------------------------------------------------ recording

    def _hear_claimed(self, worker: str, message: Message) -> None:
        read = [tuple(each) for each in message.get("reads", [(name, message["dataid"]) for name in message["inputs"]])]
        made = [(name, message["dataid"]) for name in message["outputs"]]
        for chunk, mode in (dict.fromkeys(made, EXCLUSIVE) | dict.fromkeys(read, SHARED)).items():
            resource = chunk_resource(*chunk)
            lock_id = f"{message['job']} {message['token']}"
            self._hear_enter(worker, message | {"resource": resource, "mode": mode, "lock_id": lock_id, "fresh": True})
        self._tries(message).append(Try(worker, message["token"], message["began"], read))
        self.chain.claims += 1

    def _hear_renewed(self, worker: str, message: Message) -> None:
        for span in self.held_by(worker):
            span.until = max(span.until, message["until"])

    def _hear_reporting(self, worker: str, message: Message) -> None:
        self._hear_renewed(worker, message)
        for span in self.held_by(worker):
            span.ended = message["at"]
        tried = self._try(message)
        tried.reporting, tried.success = message["at"], message["success"]

    def _hear_reported(self, worker: str, message: Message) -> None:
        tried = self._try(message)
        tried.accepted = not message["lost"]
        if tried.accepted:
            self.chain.successes += tried.success
            self.chain.failures += not tried.success
        else:
            self._note_refusal(worker, message)
        for key in [key for key in self._current if key[0] == worker]:
            del self._current[key]

    def _hear_away(self, _worker: str, _message: Message) -> None:
        """A repeated report."""
        self.counts.unanswered += 1

    def _hear_unanswered(self, worker: str, message: Message) -> None:
        """The outcome is unknown, and the worker no longer relies on the claim."""
        Witness._hear_unanswered(self, worker, message)
        for span in self.held_by(worker):
            span.ended = message["at"]
        for key in [key for key in self._current if key[0] == worker]:
            del self._current[key]

    def _hear_done(self, _worker: str, _message: Message) -> None:
        pass

    def _note_refusal(self, worker: str, message: Message) -> None:
        done = any(each.success and each.accepted for each in self._tries(message))
        self.chain.duplicates_refused += done
        self.chain.stale_refused += not done
        output = next(dataset for dataset, job in ALL_BY.items() if job == message["job"])
        resource = chunk_resource(output, message["dataid"])
        by = "store" if message["at"] < message["until"] else "clock"
        self._hear_lost(worker, message | {"resource": resource, "why": message["lost"], "by": by})

    # ------------------------------------------------------------------ judging

    def verdict(self) -> list[str]:
        found = Witness.verdict(self)
        for chunk, tries in self.tries.items():
            found += [*self._unready_inputs(chunk), *two_successes(chunk, tries), *stale_reports(chunk, tries)]
        return found

    def figures(self) -> dict[str, int]:
        names = ("claims", "successes", "failures", "duplicates_refused", "stale_refused")
        return {name: getattr(self.chain, name) for name in names} | {
            "starved": self.counts.starved,
            "unanswered": self.counts.unanswered,
        }

    def tally(self) -> dict[str, int]:
        kinds = [text.partition(":")[0] for text in self.verdict()]
        named = {
            "unready_inputs": "input not ready",
            "double_successes": "two successes",
            "stale_reports": "stale report accepted",
        }
        return Witness.tally(self) | {name: kinds.count(kind) for name, kind in named.items()}

    def recoveries(self) -> list[tuple[DeadHold, float]]:
        """For each worker that was killed before its report: seconds until its chunk was claimed by another.

        Infinite: never.
        """
        lost = [dead for dead in self.dead if dead.span.mode == EXCLUSIVE and not self._had_begun_to_report(dead.span)]
        return [(dead, self._next_claim(dead)) for dead in lost]

    def _next_claim(self, dead: DeadHold) -> float:
        later = (span.began for span in self._entered[dead.span.resource] if span.began > dead.killed)
        return min(later, default=math.inf) - dead.killed

    def _had_begun_to_report(self, span: Span) -> bool:
        job = span.lock_id.partition(" ")[0]
        tries = self.tries[job, span.resource.rpartition("/")[2]]
        return next(each for each in tries if each.token == span.token).reporting < math.inf

    def _unready_inputs(self, chunk: Chunk) -> Iterator[str]:
        for tried in self.tries[chunk]:
            for name, dataid in tried.inputs:
                made = self.tries.get((MADE_BY[name], dataid), []) if name in MADE_BY else None
                if made is not None and not any(each.may_be_done and each.reporting < tried.began for each in made):
                    yield f"input not ready: {name} of {chunk} when {tried.worker} was given it ({tried.token}): {made}"

    def _tries(self, message: Message) -> list[Try]:
        return self.tries[message["job"], message["dataid"]]

    def _try(self, message: Message) -> Try:
        return next(each for each in self._tries(message) if each.token == message["token"])


def chunk_resource(dataset: str, dataid: str) -> str:
    return f"data:{dataset}/{dataid}"


def two_successes(chunk: Chunk, tries: list[Try]) -> Iterator[str]:
    accepted = [each for each in tries if each.success and each.accepted]
    if len(accepted) > 1:
        yield f"two successes: {chunk}: {accepted}"


def stale_reports(chunk: Chunk, tries: list[Try]) -> Iterator[str]:
    """By times alone, never by tokens."""
    for one in tries:
        later = (each for each in tries if one.began < each.began < one.reporting)
        if one.accepted and (other := next(later, None)):
            yield f"stale report accepted: {chunk}: {one}, though it had been given to {other}"
