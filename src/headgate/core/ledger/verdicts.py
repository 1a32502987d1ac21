"""Whether a job may claim a chunk, and why: the answer to a claim, condition by condition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headgate.core.ledger.model import ERROR, Row


class Answer(StrEnum):
    """The values of the claim table's cells; a later one blocks more."""

    FIRST = "first"
    YES = "yes"
    #: Yes, as long as the retry policy allows it.
    RETRY = "retry"
    NO = "no"


#: The condition that counts interruptions; it never blocks by itself.
INTERRUPTIONS = "interruptions"
#: Advice for a chunk that has used up its attempts.
RESUBMIT_IT = "resubmit it to reset the counts"
_WEIGHT = {answer: weight for weight, answer in enumerate(Answer)}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a claim, whether it is met, and the row that decides it."""

    #: Which: "paused", "input", "output", "table", "retry", "interruptions", "reader", "lock", "owner".
    name: str
    #: Its answer.
    answer: Answer
    #: One sentence, for display.
    text: str
    #: The row that decided, if one did.
    row: Row | None = None

    @property
    def ok(self) -> bool:
        """Whether it does not block the claim."""
        return self.answer is not Answer.NO

    @property
    def used_up(self) -> bool:
        """Whether the chunk has used up its attempts and needs to be resubmitted."""
        return self.answer is Answer.NO and self.text.endswith(RESUBMIT_IT)

    @property
    def failed(self) -> bool:
        """Whether the row behind it failed, or its worker died. Interruptions are not failures."""
        return self.name != INTERRUPTIONS and self.row is not None and (self.row.status == ERROR or self.row.expired)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a job may claim a chunk, and why."""

    job: str  #: Name of the job.
    dataid: str  #: Data id of the chunk.
    #: Every condition, each with its own answer.
    conditions: tuple[Condition, ...]

    @property
    def answer(self) -> Answer:
        """The answer of the most blocking condition."""
        return max((each.answer for each in self.conditions), key=_WEIGHT.__getitem__, default=Answer.YES)

    @property
    def granted(self) -> bool:
        """Whether nothing blocks the claim."""
        return self.answer is not Answer.NO

    @property
    def first(self) -> bool:
        """Whether it runs before all chunks that were not resubmitted."""
        return self.granted and any(each.answer is Answer.FIRST for each in self.conditions)

    @property
    def blockers(self) -> tuple[Condition, ...]:
        """The conditions that block the claim."""
        return tuple(each for each in self.conditions if not each.ok)

    def sentence(self) -> str:
        """Return the answer for people, with each reason on its own line."""
        if self.granted:
            why = "interrupted" if any(each.name == INTERRUPTIONS for each in self.conditions) else "resubmitted"
            return f"{self.job} may claim {self.dataid}" + (f" (first: it was {why})" if self.first else "")
        return "\n".join([f"{self.job} may not claim {self.dataid}:", *(f"  {each.text}" for each in self.blockers)])


@dataclass(frozen=True, slots=True)
class Plan:
    """The chunks that a job would claim, and those that it cannot."""

    #: Chunks that would run next, in order.
    next: tuple[Verdict, ...]
    #: Known chunks that cannot run now, and why.
    blocked: tuple[Verdict, ...]
