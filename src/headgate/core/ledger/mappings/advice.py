"""Mappings that are probably a mistake, although they are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import permutations

from headgate.core.ledger.mappings.model import NEED_ALL, InputMap, MapKind
from headgate.core.ledger.mappings.stamps import stamp_format
from headgate.core.ledger.model import Job

#: A time that every format can write.
_SOME_TIME = datetime(2026, 11, 18, 12)  # noqa: DTZ001 - calendars have no zone
#: Kinds whose `need = "all"` waits for an operator, unless the calendar determines the data ids.
_OPEN = (MapKind.PERIOD, MapKind.SPLIT)


def map_warnings(jobs: Sequence[Job], there: Mapping[str, Sequence[str]]) -> list[str]:
    """The probable mistakes. `there`: some existing data ids of the datasets."""
    made = {name: _example(job) for job in jobs for name in job.outputs}
    return [
        f"job {job.name} {line}"
        for job in jobs
        if job.mapped
        for line in (*_unreadable(job, there, made), *_apart(job), *_open(job), *_uncreated(job))
    ]


def _example(job: Job) -> str:
    """A data id of the form that a job creates; empty: its mappings do not determine it."""
    return next(filter(None, (_made_by(job.map_of(name)) for name in job.creators)), "")


def _made_by(found: InputMap) -> str:
    form = found.job_format if found.kind is MapKind.PERIOD else found.format if found.kind is MapKind.WINDOW else None
    return stamp_format(form).write(_SOME_TIME) if form else ""


def _unreadable(job: Job, there: Mapping[str, Sequence[str]], made: Mapping[str, str]) -> Iterator[str]:
    """Inputs whose data ids have a different form than their mapping says."""
    for name, found in job.maps.items():
        known = there.get(name) or [each for each in (made.get(name, ""),) if each]
        if found.format and known and not any(map(found.targets, known)):
            yield f"reads {name} as {found.format}, but {name} has no such data ids; it has, for example, {known[0]}"


def _apart(job: Job) -> Iterator[str]:
    """Inputs that create data ids that another input cannot have."""
    for name, other in permutations(job.creators, 2):
        example = _made_by(job.map_of(name))
        why = job.map_of(other).fault(example) if example else ""
        if why:
            yield f"makes data ids such as {example} of {name}, and {other} never has one in common: {why}"
            return


def _open(job: Job) -> Iterator[str]:
    for name, found in job.maps.items():
        if found.kind in _OPEN and found.unit is None and found.need == NEED_ALL:
            yield (
                f"cannot know when all of {name} are there; say so of each data id with: "
                f"headgate job close {job.name} DATAID, or set need"
            )


def _uncreated(job: Job) -> Iterator[str]:
    if not job.creators:
        yield f"reads nothing that creates data ids; name one: headgate job run {job.name} --dataid DATAID -- COMMAND"
