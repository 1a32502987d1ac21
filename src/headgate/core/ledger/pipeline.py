"""Definitions of datasets and jobs: validation, warnings, and the differences from the current ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from headgate.core.errors import BadValue, UnknownName
from headgate.core.ledger.mappings.advice import map_warnings
from headgate.core.ledger.model import EXTERNAL, MOST_INPUTS, Dataset, Job, OnFailure, StopExit
from headgate.core.values.durations import LONGEST, parse_duration
from headgate.core.values.names import check_name

#: The largest count.
MOST_TRIES = 1_000_000


def check_job(job: Job) -> Job:
    """Validate a job on its own."""
    if job.name == EXTERNAL:
        raise BadValue("job", job.name, "is reserved for data produced elsewhere; choose another name")
    for what, names in (("input", job.inputs), ("output", job.outputs), ("fan_out", job.fan_out)):
        for name in names:
            check_name(what, name)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BadValue(what, twice, f"is named twice by job {job.name!r}")
    _check_apart(job)
    if not job.inputs and not job.outputs:
        lack = "has neither inputs nor outputs; name at least one"
        raise BadValue("job", job.name, f"{lack}: its status is kept there" if job.fan_out else lack)
    if len(job.inputs) > MOST_INPUTS:
        raise BadValue("inputs", len(job.inputs), f"are too many; at most {MOST_INPUTS} are allowed")
    return _check_recur(job)


def _check_recur(job: Job) -> Job:
    if job.recur and job.makes:
        why = f"of job {job.name!r} is for jobs without outputs: outputs stay READY"
        raise BadValue("recur", job.recur, why)
    return job


def _check_apart(job: Job) -> None:
    both = next((name for name in job.inputs if name in job.makes), None)
    if both is not None:
        raise BadValue("dataset", both, f"is both input and output of job {job.name!r}, which could never start")
    both = next((name for name in job.outputs if name in job.fan_out), None)
    if both is not None:
        raise BadValue("fan_out", both, f"is an output of job {job.name!r} too: its data ids are the job's, or others")


def check_count(what: str, value: object) -> int:
    """A number of times; 0: no limit."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TRIES:
        raise BadValue(what, value, f"is not a whole number from 0 (no limit) to {MOST_TRIES}")
    return value


def parse_recur(value: object) -> float:
    """Seconds after which a chunk is processed again; 0: never."""
    try:
        found = parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadValue("recur", value, str(error)) from None
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= LONGEST:
        return float(found)
    raise BadValue("recur", value, "is not a time; write 12h, 90d, or a number of seconds (0: never)")


def parse_on_failure(value: object) -> OnFailure:
    """rerun or hold."""
    if isinstance(value, str) and value.lower() in tuple(OnFailure):
        return OnFailure(value.lower())
    raise BadValue("on_failure", value, "is neither rerun nor hold")


def parse_stop_exit(value: object) -> StopExit:
    """interrupt or trust."""
    if isinstance(value, str) and value.lower() in tuple(StopExit):
        return StopExit(value.lower())
    raise BadValue("stop_exit", value, "is neither interrupt nor trust")


def check_beside(job: Job, datasets: Iterable[str], jobs: Iterable[Job]) -> None:
    """Validate a job against all others: its datasets exist, and no other job produces its outputs."""
    known = set(datasets)
    for name in job.uses:
        if name not in known:
            raise UnknownName("dataset", name, f"Define it before job {job.name!r}")
    for other in jobs:
        taken = next((name for name in job.makes if name in other.makes and other.name != job.name), None)
        if taken is not None:
            raise BadValue("output", taken, f"is already produced by job {other.name!r}; a dataset has one producer")


def warnings_for(jobs: Sequence[Job], published: Mapping[str, Sequence[str]]) -> list[str]:
    """Probable mistakes: jobs in a cycle, inputs that no job makes and nobody has published, mappings that do not fit.

    `published`: some READY data ids of each dataset that has any.
    """
    made = {name: job.name for job in jobs for name in job.makes}
    there = set(published)
    told = [
        f"job {job.name} reads {name}, which no job produces and nobody has published yet"
        for job in jobs
        for name in job.inputs
        if name not in made and name not in there
    ]
    needs = {
        job.name: sorted({made[name] for name in job.inputs if name in made and name not in there}) for job in jobs
    }
    ring = find_ring(needs)
    if ring:
        told.append("these jobs wait for each other and can never start: " + " → ".join(ring))
    return told + map_warnings(jobs, published)


def find_ring(needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Names that depend on each other in a cycle, or nothing."""
    done: set[str] = set()
    for start in sorted(needs):
        trail = _walk(start, needs, done)
        if trail:
            return trail
    return ()


def _walk(start: str, needs: Mapping[str, Sequence[str]], done: set[str]) -> tuple[str, ...]:
    """Depth first without recursion: a pipeline may be long."""
    trail, pending = [start], [iter(needs.get(start, ()))]
    while pending:
        name = next(pending[-1], None)
        if name is None:
            pending.pop()
            done.add(trail.pop())
        elif name in trail:
            return (*trail[trail.index(name) :], name)
        elif name not in done:
            trail.append(name)
            pending.append(iter(needs.get(name, ())))
    return ()


def differences(old: Dataset | Job | None, new: Dataset | Job) -> list[str]:
    """The changes of a definition, one line each."""
    noun = type(new).__name__.lower()
    if old is None:
        return [f"{noun} {new.name}: new"]
    lines = []
    for each in fields(new):
        before, after = getattr(old, each.name), getattr(new, each.name)
        if before == after or each.name == "paused":
            continue
        lines.append(f"{noun} {new.name}: {each.name} {_plain(before)} → {_plain(after)}")
    return lines


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value[name]}" for name in sorted(value)) or "nothing"
    if value is None:
        return "any"
    if isinstance(value, tuple):
        return ", ".join(value) or "nothing"
    return str(value) or "nothing"
