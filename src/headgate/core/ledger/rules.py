"""The tables that decide about chunks, as one value: stores take it as a parameter, and tests change cells of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headgate.core.ledger.model import DONE, ERROR, HOLD, PENDING, READY, RESUBMIT, RUNNING, Job, Kind, OnFailure, Row
from headgate.core.ledger.verdicts import Answer
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.core.tables.states import CHUNK

_NO, _YES, _RETRY, _FIRST = Answer.NO, Answer.YES, Answer.RETRY, Answer.FIRST
ABSENT, ALIVE, EXPIRED, OTHER = "absent", "RUNNING, alive", "RUNNING, expired", "other"
INPUT_STATES = (ABSENT, ALIVE, EXPIRED, DONE, ERROR, OTHER)

#: May a job claim a chunk? The job's OUTPUT row against its INPUT row, in the order of INPUT_STATES.
CLAIM_TABLE: Mapping[str, tuple[Answer, ...]] = {
    #          absent   alive  expired  DONE    ERROR   other
    ABSENT:   (_YES,    _NO,   _YES,    _NO,    _YES,   _NO),
    ALIVE:    (_NO,     _NO,   _NO,     _NO,    _NO,    _NO),
    EXPIRED:  (_RETRY,  _NO,   _RETRY,  _NO,    _RETRY, _NO),
    READY:    (_NO,     _NO,   _NO,     _NO,    _NO,    _NO),
    ERROR:    (_RETRY,  _NO,   _RETRY,  _NO,    _RETRY, _NO),
    RESUBMIT: (_FIRST,  _NO,   _FIRST,  _FIRST, _FIRST, _FIRST),
    OTHER:    (_NO,     _NO,   _NO,     _NO,    _NO,    _NO),
}  # fmt: skip
#: A job without outputs has these statuses on its INPUT rows instead.
_INPUT_WORDS = {READY: DONE, RESUBMIT: ABSENT}
#: Events that reset the interruption count of a chunk.
COUNTS_BEGIN = ("success", "resubmit", "forget")
_STATES = frozenset(CHUNK.states)


def state_of(status: str, kind: Kind = Kind.OUTPUT) -> str:
    """The table's state for a status; an unknown status is `other`."""
    if status == DONE and kind is Kind.INPUT:
        return READY
    return status if status in _STATES else OTHER


def word_of(state: str, kind: Kind, former: str = "") -> str:
    """The status of rows of this kind in a state; `former`: the unknown word that `other` stands for."""
    if state == OTHER:
        return former
    return _INPUT_WORDS.get(state, state) if kind is Kind.INPUT else state


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """The facts that choose between several rows of one event."""

    job: Job
    #: The row that speaks for the chunk, before the event.
    row: Row | None = None
    #: The status that an operator sets.
    word: str = ""
    #: False: it is redone because it was made from a chunk that is redone.
    named: bool = True
    #: True: inputs that arrive late make it again; False: they are noted.
    redo: bool = False
    #: Whether it is DONE, but counts as absent because that was longer ago than `recur`.
    due: bool = False

    @property
    def former(self) -> str:
        """Its state before it was held or forced; absent: there was no row."""
        if self.row is None or not self.row.former:
            return ABSENT
        return state_of(self.row.former, self.row.kind)

    def is_last_failure(self) -> bool:
        """Whether one more failure reaches the job's limit."""
        return self.row is not None and 0 < self.job.max_attempts <= self.row.failures + 1

    def is_last_crash(self) -> bool:
        """Whether one more crash reaches the job's limit."""
        return self.row is not None and 0 < self.job.max_crashes <= self.row.crashes + 1

    def is_last_interruption(self) -> bool:
        """Whether one more interruption reaches the job's limit."""
        return self.row is not None and 0 < self.job.max_interruptions <= self.row.interruptions + 1


#: The test for each `when` of the table.
WHEN: Mapping[str, Callable[[ChunkFacts], bool]] = {
    "on_failure is rerun": lambda facts: facts.job.on_failure is OnFailure.RERUN and not facts.is_last_failure(),
    "on_failure is rerun, and max_attempts is reached": lambda facts: (
        facts.job.on_failure is OnFailure.RERUN and facts.is_last_failure()
    ),
    "on_failure is hold": lambda facts: facts.job.on_failure is OnFailure.HOLD,
    "it was HOLD before the claim": lambda facts: facts.former == HOLD,
    "it was PENDING before the claim": lambda facts: facts.former == PENDING,
    "it had an unknown status before the claim": lambda facts: facts.former == OTHER,
    "fewer than max_interruptions workers were stopped on it": lambda facts: not facts.is_last_interruption(),
    "max_interruptions workers were stopped on it": ChunkFacts.is_last_interruption,
    "fewer than max_crashes workers crashed on it": lambda facts: not facts.is_last_crash(),
    "max_crashes workers crashed on it": ChunkFacts.is_last_crash,
    "it was named itself": lambda facts: facts.named,
    "it was made from a chunk that was named": lambda facts: not facts.named,
    "it was done longer ago than recur": lambda facts: facts.due,
    "on_late is note": lambda facts: not facts.redo,
    "on_late is redo": lambda facts: facts.redo,
    "there was no row before": lambda facts: facts.former == ABSENT,
    "it was READY before": lambda facts: facts.former == READY,
    "it was ERROR before": lambda facts: facts.former == ERROR,
    "it was RESUBMIT before": lambda facts: facts.former == RESUBMIT,
    "it was PENDING before": lambda facts: facts.former == PENDING,
    "it had an unknown status before": lambda facts: facts.former == OTHER,
    "the status is RUNNING": lambda facts: facts.word == RUNNING,
    "the status is known, and not RUNNING": lambda facts: (
        facts.word == DONE or state_of(facts.word) not in (OTHER, RUNNING)
    ),
    "the status is unknown": lambda facts: state_of(facts.word) == OTHER,
}


@dataclass(frozen=True, eq=False)
class ChunkRules:
    """When a chunk may be claimed, and what may happen to it."""

    #: May a job claim it, given its OUTPUT row and its INPUT row?
    table: Mapping[str, tuple[Answer, ...]] = field(default_factory=lambda: CLAIM_TABLE)
    #: The states of a chunk.
    machine: Machine = CHUNK

    def cell(self, output: str, given: str) -> Answer:
        """One cell of the claim table."""
        return self.table[output][INPUT_STATES.index(given)]

    def find(self, state: str, event: str, facts: ChunkFacts | None = None) -> Transition | None:
        """The row of an event in a state; `facts` choose between several. None: there is no such row."""
        return self.machine.choose(state, event, lambda row: facts is not None and WHEN[row.when](facts))

    def row(self, state: str, event: str, facts: ChunkFacts | None = None) -> Transition:
        """The same; TransitionRefused when there is no such row."""
        return self.find(state, event, facts) or self.machine.refuse(state, event)

    def may_be_claimed(self, state: str, facts: ChunkFacts | None = None) -> bool:
        """Whether a client may claim a chunk in this state, if the claim table and the other conditions allow it."""
        row = self.find(state, "claim", facts)
        return row is not None and row.by is By.CLIENT

    @cached_property
    def counts_interruptions(self) -> tuple[str, ...]:
        """The events that count an interruption."""
        return tuple(dict.fromkeys(row.event for row in self.machine.rows if row.also.has(Also.COUNT_INTERRUPTION)))

    @cached_property
    def fast(self) -> FastChunkRows:
        """The rows that fast paths execute."""
        claim = self._plain(ABSENT, "claim", RUNNING, By.CLIENT, Also.NEW_TOKEN | Also.COUNT_ATTEMPT)
        success = self._plain(RUNNING, "success", READY, By.WORKER, Also.CLOSE_INCIDENT)
        # Chunks with an open incident are left to the slow path. Fast paths then remove the chunk from the list of
        # find_next, so the claim table must refuse any claim on a running or finished chunk.
        ends = ((ALIVE, ALIVE), (ABSENT, ALIVE), (READY, DONE), (ABSENT, DONE))
        final = all(self.cell(output, given) is Answer.NO for output, given in ends)
        first = self.cell(ABSENT, ABSENT) is Answer.YES
        lose = self.find(RUNNING, "reap", ChunkFacts(Job("")))
        return FastChunkRows(claim if final and first else None, success if final else None, lose)

    def _plain(self, state: str, event: str, target: str, by: By, also: Also) -> Transition | None:
        row = self.find(state, event)
        built_in = (target, by, also | Also.RECORD_HISTORY)
        return row if row and (row.target, row.by, row.also) == built_in else None


@dataclass(frozen=True, slots=True)
class FastChunkRows:
    """The rows that fast paths execute: those whose guard and effects they implement; None: left to the slow path."""

    #: The first claim of a chunk.
    claim: Transition | None
    success: Transition | None
    #: A claim ends because the server changed: nothing is counted.
    lose: Transition | None


#: The standard tables.
CHUNK_RULES = ChunkRules()
