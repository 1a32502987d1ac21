"""Whether a job may claim a chunk. One function decides by the claim table, and explains the decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headgate.core.ledger.mappings.model import MapKind
from headgate.core.ledger.model import (
    DONE,
    ERROR,
    EXTERNAL,
    HOLD,
    READY,
    RESUBMIT,
    RUNNING,
    Job,
    Kind,
    Row,
    chunk_resource,
)
from headgate.core.ledger.rules import ABSENT, ALIVE, EXPIRED, OTHER, ChunkFacts, state_of
from headgate.core.ledger.snapshot import END_OF_TIME, Candidate, ChunkSnapshot
from headgate.core.ledger.verdicts import INTERRUPTIONS, RESUBMIT_IT, Answer, Condition, Verdict
from headgate.core.locks.model import Mode
from headgate.core.values.durations import in_words

#: The longest delay before a retry.
LONGEST_DELAY = 30 * 86_400.0


def input_state(row: Row | None, *, due: bool = False) -> str:
    """The column of the claim table for an INPUT row. `due`: it is DONE, but counts as absent."""
    if row is None or due:
        return ABSENT
    if row.status == RUNNING:
        return ALIVE if row.alive else EXPIRED
    return row.status if row.status in (DONE, ERROR) else OTHER


def output_state(row: Row | None) -> str:
    """The row of the table for an OUTPUT row."""
    if row is None:
        return ABSENT
    if row.status == RUNNING:
        return ALIVE if row.alive else EXPIRED
    return row.status if row.status in (READY, ERROR, RESUBMIT) else OTHER


def may_claim(chunk: ChunkSnapshot) -> Verdict:
    """Decide: each condition with its verdict. The displayed conditions are those that decided."""
    conditions = [
        *_pause(chunk),
        *(_input(chunk, name) for name in chunk.job.inputs),
        *_ownership(chunk),
        *_table(chunk),
        *_retry(chunk),
        *_interruptions(chunk),
        *_readers(chunk),
        *_locks(chunk),
    ]
    return Verdict(chunk.job.name, chunk.dataid, tuple(conditions))


def own_answer(chunk: ChunkSnapshot) -> Answer:
    """The verdict of the job's own rows: whether the chunk may be claimable once its inputs are READY."""
    conditions = [*_ownership(chunk), *_table(chunk), *_retry(chunk, delay=False)]
    return Verdict(chunk.job.name, chunk.dataid, tuple(conditions)).answer


def missing_inputs(chunk: ChunkSnapshot) -> int:
    """The inputs that are not READY, as bits by position. Reference data is left out because it does not depend on the
    data id, and the number of ids that a claim may read is a setting of the claiming process, which refuses a larger
    number itself.
    """
    exceeding = {name for name, source in chunk.sources.items() if source.exceeds}
    return sum(
        1 << place
        for place, name in enumerate(chunk.job.inputs)
        if chunk.job.map_of(name).creates and name not in exceeding and not _input(chunk, name).ok
    )


def nearness(chunk: ChunkSnapshot) -> float:
    """The READY share of the data ids that it needs, for the input with the lowest share; 1 if none has a mapping."""
    return min((source.share for source in chunk.sources.values() if source.map.creates), default=1.0)


def missing_references(chunk: ChunkSnapshot) -> bool:
    """Whether inputs that all data ids of the job share are incomplete."""
    return any(not source.map.creates and not source.complete for source in chunk.sources.values())


def _pause(chunk: ChunkSnapshot) -> Iterable[Condition]:
    if chunk.job.paused:
        yield Condition("paused", Answer.NO, f"the job is paused: {chunk.job.paused}")


def _input(chunk: ChunkSnapshot, dataset: str) -> Condition:
    source = chunk.sources.get(dataset)
    if source is None or source.map.kind is MapKind.SAME:
        return _source(chunk.dataid, dataset, chunk.made(dataset) if source is None else source.rows)
    others = (row for row in source.rows if row.status != READY)
    return Condition("input", Answer.YES if source.complete else Answer.NO, source.sentence(), next(others, None))


def _source(dataid: str, dataset: str, rows: Sequence[Row]) -> Condition:
    if not rows:
        return Condition(
            "input",
            Answer.NO,
            (f"input {dataset}/{dataid} is missing: no job has produced it and nobody has published it"),
        )
    worst = next((row for row in rows if row.status != READY), rows[0])
    answer = Answer.YES if worst.status == READY else Answer.NO
    return Condition("input", answer, f"input {worst.sentence()}", worst)


def _ownership(chunk: ChunkSnapshot) -> Iterable[Condition]:
    for dataset in chunk.job.outputs:
        for row in chunk.made(dataset):
            if row.job != chunk.job.name:
                yield Condition("owner", Answer.NO, f"the output belongs to another job: {row.sentence()}", row)


def _table(chunk: ChunkSnapshot) -> Iterable[Condition]:
    cells = list(_cells(chunk))
    yield from cells
    facts = ChunkFacts(chunk.job, chunk.speaker, due=chunk.is_due(chunk.speaker))
    if all(each.ok for each in cells) and not chunk.rules.may_be_claimed(_claimed_state(chunk), facts):
        yield Condition("table", Answer.NO, f"a chunk that is {chunk.status} cannot be claimed", chunk.speaker)


def _claimed_state(chunk: ChunkSnapshot) -> str:
    """The state that a claim starts from: an expired claim is reaped first."""
    row = chunk.speaker
    if row is None:
        return ABSENT
    if not row.expired:
        return state_of(row.status, row.kind)
    return ERROR if chunk.rules.find(RUNNING, "reap", ChunkFacts(chunk.job, row)) else RUNNING


def _cells(chunk: ChunkSnapshot) -> Iterable[Condition]:
    outputs = [chunk.own(Kind.OUTPUT, name) for name in chunk.job.outputs] or [None]
    inputs = {name: chunk.own(Kind.INPUT, name) for name in chunk.job.inputs} or {"": None}
    if not any((*outputs, *inputs.values())):
        yield Condition("table", chunk.rules.cell(ABSENT, ABSENT), "it was never claimed")
        return
    for output in outputs:
        for name, given in inputs.items():
            answer = chunk.rules.cell(output_state(output), input_state(given, due=chunk.is_due(given)))
            blocking = output if output_state(output) not in (ABSENT, RESUBMIT) or given is None else given
            said = [row.sentence() + _again(chunk, row) for row in (output, _unrepeated(given, output)) if row]
            text = "; ".join(said) or f"{name}/{chunk.dataid} was never claimed"
            yield Condition("table", answer, text, blocking or output)


def _unrepeated(given: Row | None, output: Row | None) -> Row | None:
    """The INPUT row without a message that the OUTPUT row shows already."""
    return replace(given, message="") if given and output and given.message == output.message else given


def _again(chunk: ChunkSnapshot, row: Row) -> str:
    """When a DONE row counts as absent."""
    left = chunk.due_in(row)
    if left is None:
        return ""
    every = f"every {in_words(chunk.job.recur)} (recur)"
    return f"; it is done again {every}, and due in {in_words(left)}" if left else f"; it is done again {every}: now"


def _interruptions(chunk: ChunkSnapshot) -> Iterable[Condition]:
    """The number of interruptions; once they are used up the chunk is on HOLD, which blocks it."""
    row = chunk.speaker
    if row is not None and row.interruptions and row.status in (RESUBMIT, RUNNING, HOLD):
        most = chunk.job.max_interruptions
        limit = f"it is held after {most}" if most else "there is no limit"
        yield Condition(INTERRUPTIONS, Answer.YES, f"it was interrupted {_times(row.interruptions)}; {limit}", row)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _retry(chunk: ChunkSnapshot, *, delay: bool = True) -> Iterable[Condition]:
    """The retry policy, for chunks that failed or whose worker died."""
    for row in chunk.counted():
        if row is not None and row.status in (ERROR, RUNNING) and not row.alive:
            yield from _retry_of(chunk.job, row, delay=delay)
        elif delay and row is not None and row.status == RESUBMIT and row.retry_in is not None and row.retry_in > 0:
            text = f"it is redone in {in_words(row.retry_in)}, with what arrives until then"
            yield Condition("retry", Answer.NO, text, row)


def _retry_of(job: Job, row: Row, *, delay: bool) -> Iterable[Condition]:
    crashes = row.crashes + row.expired
    if 0 < job.max_attempts <= row.failures:
        tried = f"it used up its attempts ({row.failures} of {job.max_attempts} failed)"
        yield Condition("retry", Answer.NO, f"{tried}; {RESUBMIT_IT}", row)
    if 0 < job.max_crashes <= crashes:
        died = f"its workers crashed {crashes} times (limit: {job.max_crashes})"
        yield Condition("retry", Answer.NO, f"{died}; {RESUBMIT_IT}", row)
    if delay and row.expired and (pause := crash_delay(job, row)):
        yield Condition("retry", Answer.NO, f"it may be retried {in_words(pause)} after its dead claim is reaped", row)
    if delay and row.retry_in is not None and row.retry_in > 0:
        yield Condition("retry", Answer.NO, f"it can be retried in {in_words(row.retry_in)}", row)


def _readers(chunk: ChunkSnapshot) -> Iterable[Condition]:
    for row in (*chunk.rows, *chunk.readers):
        reads = row.kind is Kind.INPUT and row.dataset in chunk.job.makes and row.job != chunk.job.name
        if reads and row.alive:
            yield Condition("reader", Answer.NO, f"another job is reading it: {row.sentence()}", row)


def _locks(chunk: ChunkSnapshot) -> Iterable[Condition]:
    modes = claim_modes(chunk)
    for lock in chunk.locks:
        wanted = modes.get(lock.resource)
        if wanted and not chunk.lock_rules.compatible[wanted, lock.mode]:
            text = f"{lock.client} holds {lock.resource} {lock.mode} since {lock.since:%Y-%m-%d %H:%M:%S} UTC"
            yield Condition("lock", Answer.NO, f"{text} [lock {lock.id}]")


def claim_mode(kind: Kind) -> Mode:
    """The lock that a running row acts as: exclusive for outputs, shared for inputs."""
    return Mode.EXCLUSIVE if kind is Kind.OUTPUT else Mode.SHARED


def claim_modes(chunk: ChunkSnapshot) -> dict[str, Mode]:
    """The locks that a claim acts as."""
    job, dataid = chunk.job, chunk.dataid
    read = [(name, dataid) for name in job.inputs if name not in chunk.sources]
    read += [(name, row.dataid) for name, source in chunk.sources.items() for row in source.ready]
    modes = {chunk_resource(*each): claim_mode(Kind.INPUT) for each in read}
    modes |= {chunk_resource(*part.key): claim_mode(Kind.OUTPUT) for part in chunk.parts if part.listed}
    return modes | {chunk_resource(name, dataid): claim_mode(Kind.OUTPUT) for name in job.outputs}


# ---------------------------------------------------------------- retries


def retry_delay(job: Job, tries: int) -> float:
    """Seconds before a retry: doubled with each one, up to a month."""
    return min(job.retry_delay * 2.0 ** min(tries - 1, 60), LONGEST_DELAY)


def crash_delay(job: Job, row: Row) -> float:
    """Seconds before a retry, once the dead claim of this row has been reaped; none if that holds it."""
    return 0.0 if ChunkFacts(job, row).is_last_crash() else retry_delay(job, row.failures + row.crashes + 1)


# ---------------------------------------------------------------- the list that find_next reads


def _is_known(chunk: ChunkSnapshot, missing: int) -> bool:
    """Whether an input has the data id, or creates it for the job."""
    if chunk.job.mapped:
        return any(source.creates or source.exceeds for source in chunk.sources.values())
    return missing != (1 << len(chunk.job.inputs)) - 1


def find_candidate(chunk: ChunkSnapshot) -> Candidate | None:
    """The chunk's position in the list of chunks that may be claimable; None: it is not listed."""
    if chunk.job.name == EXTERNAL:  # No job claims data that is made elsewhere.
        return None
    counted, missing = chunk.counted(), missing_inputs(chunk)
    left = max((due for row in counted if (due := chunk.due_in(row)) is not None), default=None)
    absent = chunk.status == ABSENT or left is not None
    then = chunk if left is None else replace(chunk, at=END_OF_TIME)
    if (absent and not _is_known(chunk, missing)) or own_answer(then) is Answer.NO:
        return None
    first = any(row is not None and row.status == RESUBMIT for row in counted)
    delay = max([left or 0.0, *(row.retry_in or 0.0 for row in chunk.owned())])
    return Candidate(0 if first else 1, missing, delay, None if left is None else chunk.job.recur - left)
