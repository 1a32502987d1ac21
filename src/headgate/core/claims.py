"""May a job claim a chunk? The table, and the one function that decides and explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headgate.core.durations import in_words
from headgate.core.ledger import (
    DONE,
    ERROR,
    HOLD,
    READY,
    RESUBMIT,
    RUNNING,
    Job,
    Kind,
    OnFailure,
    Row,
    chunk_resource,
)
from headgate.core.locks import COMPATIBLE, Lock, Mode

#: The condition that counts interruptions, which blocks nothing by itself.
INTERRUPTIONS = "interruptions"
#: What to do with a chunk that used up its attempts.
RESUBMIT_IT = "resubmit it to reset the counts"
#: The longest pause before another try.
LONGEST_DELAY = 30 * 86_400.0


class Answer(StrEnum):
    """What a cell of the table says; a later one blocks more."""

    FIRST = "first"
    YES = "yes"
    #: Yes, while the retry policy allows it.
    RETRY = "retry"
    NO = "no"


_NO, _YES, _RETRY, _FIRST = Answer.NO, Answer.YES, Answer.RETRY, Answer.FIRST
ABSENT, ALIVE, EXPIRED, OTHER = "absent", "RUNNING, alive", "RUNNING, expired", "other"
INPUT_STATES = (ABSENT, ALIVE, EXPIRED, DONE, ERROR, OTHER)

#: The job's OUTPUT row against its INPUT row, in the order of INPUT_STATES.
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
_WEIGHT = {answer: weight for weight, answer in enumerate(Answer)}


@dataclass(frozen=True, slots=True)
class View:
    """All that the decision about one job and one data id looks at."""

    #: The job.
    job: Job
    #: The data id.
    dataid: str
    #: Every row of the data id in the job's inputs and outputs, whoever's it is.
    rows: tuple[Row, ...] = ()
    #: Explicit locks on those chunks.
    locks: tuple[Lock, ...] = ()

    def own(self, kind: Kind, dataset: str) -> Row | None:
        """The job's own row."""
        found = (r for r in self.rows if (r.kind, r.dataset, r.job) == (kind, dataset, self.job.name))
        return next(found, None)

    def owned(self) -> tuple[Row, ...]:
        """All rows of the job itself: outputs first."""
        rows = [self.own(Kind.OUTPUT, each) for each in self.job.outputs]
        rows += [self.own(Kind.INPUT, each) for each in self.job.inputs]
        return tuple(row for row in rows if row)

    def counted(self) -> tuple[Row | None, ...]:
        """The rows that the job's status on the chunk is kept on; None where there is none."""
        names = self.job.outputs or self.job.inputs
        return tuple(self.own(self.job.counted, name) for name in names)

    def made(self, dataset: str) -> tuple[Row, ...]:
        """The OUTPUT rows of the chunk, whoever's they are."""
        return tuple(row for row in self.rows if row.kind is Kind.OUTPUT and row.dataset == dataset)


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must hold, whether it does, and the row behind it."""

    #: Which: "paused", "input", "output", "table", "retry", "interruptions", "reader", "lock", "owner".
    name: str
    #: What it says.
    answer: Answer
    #: One sentence for people.
    text: str
    #: The row that decided, if one did.
    row: Row | None = None

    @property
    def ok(self) -> bool:
        """True unless it stands in the way."""
        return self.answer is not Answer.NO

    @property
    def used_up(self) -> bool:
        """Whether only a resubmission makes the chunk run again."""
        return self.answer is Answer.NO and self.text.endswith(RESUBMIT_IT)

    @property
    def failed(self) -> bool:
        """Whether the row behind it failed, or its worker died. The number of interruptions is no failure."""
        return self.name != INTERRUPTIONS and self.row is not None and (self.row.status == ERROR or self.row.expired)


@dataclass(frozen=True, slots=True)
class Verdict:
    """May the job claim the chunk, and why."""

    job: str
    dataid: str
    #: Every condition, each with its own answer.
    conditions: tuple[Condition, ...]

    @property
    def answer(self) -> Answer:
        """The most blocking condition decides."""
        return max((each.answer for each in self.conditions), key=_WEIGHT.__getitem__, default=Answer.YES)

    @property
    def granted(self) -> bool:
        """True when nothing is in the way."""
        return self.answer is not Answer.NO

    @property
    def first(self) -> bool:
        """True when it goes before all that are not resubmitted."""
        return self.granted and any(each.answer is Answer.FIRST for each in self.conditions)

    @property
    def blockers(self) -> tuple[Condition, ...]:
        """What is in the way."""
        return tuple(each for each in self.conditions if not each.ok)

    def sentence(self) -> str:
        """The answer for people, with each reason on a line of its own."""
        if self.granted:
            why = "interrupted" if any(each.name == INTERRUPTIONS for each in self.conditions) else "resubmitted"
            return f"{self.job} may claim {self.dataid}" + (f" (first: it was {why})" if self.first else "")
        return "\n".join([f"{self.job} may not claim {self.dataid}:", *(f"  {each.text}" for each in self.blockers)])


def input_state(row: Row | None) -> str:
    """The column of the table that an INPUT row is in."""
    if row is None:
        return ABSENT
    if row.status == RUNNING:
        return ALIVE if row.alive else EXPIRED
    return row.status if row.status in (DONE, ERROR) else OTHER


def output_state(row: Row | None) -> str:
    """The line of the table that an OUTPUT row is in."""
    if row is None:
        return ABSENT
    if row.status == RUNNING:
        return ALIVE if row.alive else EXPIRED
    return row.status if row.status in (READY, ERROR, RESUBMIT) else OTHER


def cell(output: str, given: str) -> Answer:
    """One cell of the table."""
    return CLAIM_TABLE[output][INPUT_STATES.index(given)]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job would do."""

    #: What would run next, in order.
    next: tuple[Verdict, ...]
    #: What is known of and cannot run now, and why.
    blocked: tuple[Verdict, ...]


def may_claim(view: View) -> Verdict:
    """The one decision: each condition with its answer. What is shown is what decided."""
    conditions = [
        *_pause(view),
        *(_source(view, name) for name in view.job.inputs),
        *_ownership(view),
        *_table(view),
        *_retry(view),
        *_interruptions(view),
        *_readers(view),
        *_locks(view),
    ]
    return Verdict(view.job.name, view.dataid, tuple(conditions))


def own_answer(view: View) -> Answer:
    """What the job's own rows alone say: whether the chunk may be claimable once its inputs are there."""
    conditions = [*_ownership(view), *_table(view), *_retry(view, delay=False)]
    return Verdict(view.job.name, view.dataid, tuple(conditions)).answer


def missing_inputs(view: View) -> int:
    """The inputs that are not READY, as bits by position."""
    return sum(1 << place for place, name in enumerate(view.job.inputs) if not _source(view, name).ok)


def _pause(view: View) -> Iterable[Condition]:
    if view.job.paused:
        yield Condition("paused", Answer.NO, f"the job is paused: {view.job.paused}")


def _source(view: View, dataset: str) -> Condition:
    rows = view.made(dataset)
    if not rows:
        return Condition(
            "input",
            Answer.NO,
            (f"input {dataset}/{view.dataid} is missing: no job has produced it and nobody has published it"),
        )
    worst = next((row for row in rows if row.status != READY), rows[0])
    answer = Answer.YES if worst.status == READY else Answer.NO
    return Condition("input", answer, f"input {worst.sentence()}", worst)


def _ownership(view: View) -> Iterable[Condition]:
    for dataset in view.job.outputs:
        for row in view.made(dataset):
            if row.job != view.job.name:
                yield Condition("owner", Answer.NO, f"the output belongs to another job: {row.sentence()}", row)


def _table(view: View) -> Iterable[Condition]:
    outputs = [view.own(Kind.OUTPUT, name) for name in view.job.outputs] or [None]
    inputs = {name: view.own(Kind.INPUT, name) for name in view.job.inputs} or {"": None}
    if not any((*outputs, *inputs.values())):
        yield Condition("table", cell(ABSENT, ABSENT), "it was never claimed")
        return
    for output in outputs:
        for name, given in inputs.items():
            answer = cell(output_state(output), input_state(given))
            blocking = output if output_state(output) not in (ABSENT, RESUBMIT) or given is None else given
            said = [row.sentence() for row in (output, given) if row]
            text = "; ".join(said) or f"{name}/{view.dataid} was never claimed"
            yield Condition("table", answer, text, blocking or output)


def _interruptions(view: View) -> Iterable[Condition]:
    """How often its workers were asked to stop; what is used up is HOLD, and blocks by that."""
    row = worst_row([row for row in view.counted() if row is not None])
    if row is not None and row.interruptions and row.status in (RESUBMIT, RUNNING, HOLD):
        most = view.job.max_interruptions
        limit = f"it is held after {most}" if most else "there is no limit"
        yield Condition(INTERRUPTIONS, Answer.YES, f"it was interrupted {_times(row.interruptions)}; {limit}", row)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _retry(view: View, *, delay: bool = True) -> Iterable[Condition]:
    """The retry policy, for chunks that failed or whose worker died."""
    for row in view.counted():
        if row is not None and row.status in (ERROR, RUNNING) and not row.alive:
            yield from _retry_of(view.job, row, delay=delay)


def _retry_of(job: Job, row: Row, *, delay: bool) -> Iterable[Condition]:
    crashes = row.crashes + row.expired
    if 0 < job.max_attempts <= row.failures:
        tried = f"it used up its attempts ({row.failures} of {job.max_attempts} failed)"
        yield Condition("retry", Answer.NO, f"{tried}; {RESUBMIT_IT}", row)
    if 0 < job.max_crashes <= crashes:
        died = f"its workers crashed {crashes} times (limit: {job.max_crashes})"
        yield Condition("retry", Answer.NO, f"{died}; {RESUBMIT_IT}", row)
    if delay and row.expired and (pause := after_crash(job, row).delay):
        yield Condition("retry", Answer.NO, f"it may be retried {in_words(pause)} after its dead claim is reaped", row)
    if delay and row.retry_in is not None and row.retry_in > 0:
        yield Condition("retry", Answer.NO, f"it can be retried in {in_words(row.retry_in)}", row)


def _readers(view: View) -> Iterable[Condition]:
    for row in view.rows:
        reads = row.kind is Kind.INPUT and row.dataset in view.job.outputs and row.job != view.job.name
        if reads and row.alive:
            yield Condition("reader", Answer.NO, f"another job is reading it: {row.sentence()}", row)


def _locks(view: View) -> Iterable[Condition]:
    modes = claim_modes(view.job, view.dataid)
    for lock in view.locks:
        wanted = modes.get(lock.resource)
        if wanted and not COMPATIBLE[wanted, lock.mode]:
            text = f"{lock.client} holds {lock.resource} {lock.mode} since {lock.since:%Y-%m-%d %H:%M:%S} UTC"
            yield Condition("lock", Answer.NO, f"{text} [lock {lock.id}]")


def claim_modes(job: Job, dataid: str) -> dict[str, Mode]:
    """The locks that a claim acts as: outputs are written, inputs are read."""
    modes = {chunk_resource(name, dataid): Mode.SHARED for name in job.inputs}
    return modes | {chunk_resource(name, dataid): Mode.EXCLUSIVE for name in job.outputs}


# ---------------------------------------------------------------- what becomes of a chunk


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a report, or a death, makes of a chunk."""

    #: The status of the rows that the job's status is kept on.
    status: str
    #: What unhold brings back, when the status is HOLD.
    former: str
    #: Reported failures and deaths since the counts began.
    failures: int
    crashes: int
    #: Seconds until it may be tried again.
    delay: float
    #: Interruptions since the counts began.
    interruptions: int
    #: How many times it was claimed.
    attempt: int


def after_failure(job: Job, row: Row) -> Outcome:
    """The worker reported a failure."""
    failures = row.failures + 1
    if job.on_failure is OnFailure.HOLD:
        return Outcome(HOLD, ERROR, failures, row.crashes, 0.0, row.interruptions, row.attempt)
    delay = retry_delay(job, failures + row.crashes)
    return Outcome(ERROR, "", failures, row.crashes, delay, row.interruptions, row.attempt)


def after_crash(job: Job, row: Row) -> Outcome:
    """The worker died: a chunk that kills its workers is held rather than killing them all."""
    crashes = row.crashes + 1
    if 0 < job.max_crashes <= crashes:
        return Outcome(HOLD, ERROR, row.failures, crashes, 0.0, row.interruptions, row.attempt)
    delay = retry_delay(job, row.failures + crashes)
    return Outcome(ERROR, "", row.failures, crashes, delay, row.interruptions, row.attempt)


def after_interruption(job: Job, row: Row) -> Outcome:
    """The worker was asked to stop: the claim counts as no attempt, and a word that blocked before it comes back.

    A chunk that never ends in the time that its workers have is held rather than blocking all others. The rows of a
    job that makes nothing go.
    """
    interruptions, attempt = row.interruptions + 1, max(row.attempt - 1, 0)
    used_up = 0 < job.max_interruptions <= interruptions
    again = RESUBMIT if job.outputs else ABSENT
    status = row.former or (HOLD if used_up else again)
    # The claim may have changed what was held: when it is released, it is made again.
    former = RESUBMIT if status == HOLD and job.outputs else ""
    return Outcome(status, former, row.failures, row.crashes, 0.0, interruptions, attempt)


def interruption_message(job: Job, outcome: Outcome, message: str) -> str:
    """Why a chunk is not made, or why it is held."""
    if not 0 < job.max_interruptions <= outcome.interruptions:
        return message
    return f"{message}; held after {outcome.interruptions} interruptions (max_interruptions is {job.max_interruptions})"


def was_interrupted(row: Row) -> bool:
    """Whether the newest claim on a row may have ended by an interruption."""
    if row.status == HOLD and row.former not in (RESUBMIT, ""):
        return False
    return row.interruptions > 0 and row.status not in (RUNNING, READY, DONE, ERROR)


def retry_delay(job: Job, tries: int) -> float:
    """Seconds before another try: doubled with each, up to a month."""
    return min(job.retry_delay * 2.0 ** min(tries - 1, 60), LONGEST_DELAY)


def worst_row(rows: Sequence[Row]) -> Row | None:
    """The row that speaks for several: the one with the highest counts."""
    return max(rows, key=lambda row: (row.crashes, row.failures, row.attempt), default=None)
