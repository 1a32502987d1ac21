"""Fan-out: chunks that a job makes from one of its data ids, under data ids that its worker lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.core.errors import BadValue, ClaimRefused
from headgate.core.ledger.model import EXTERNAL, HOLD, LIST_EVENT, READY, RUNNING, UNLIST_EVENT, Job, Kind, Row
from headgate.core.ledger.rules import ABSENT
from headgate.core.values.words import suggestion

#: How the message of a part ends that the last success left out.
_LEFT_OUT = "which no longer lists it"
#: Data ids by dataset, as a worker lists them.
Listed = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk that was made by fan-out."""

    #: Its row; absent: it has none yet.
    row: Row
    #: Whether the latest success listed it.
    listed: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """Its dataset and data id."""
        return self.row.dataset, self.row.dataid


def part_row(part: Part | None) -> Row | None:
    """The row of a part; None: the part does not exist."""
    return None if part is None else part.row


def part_status(part: Part | None) -> str:
    """The status of a part; absent: it does not exist."""
    return ABSENT if part is None else part.row.status


def part_listed(part: Part | None) -> bool:
    """Whether there is a part that the last success listed: only then jobs wait for it."""
    return part is not None and part.listed


def is_left_out(row: Row) -> bool:
    """Whether a row is that of a part which the last success left out."""
    return row.status == HOLD and row.message.endswith(_LEFT_OUT)


@dataclass(frozen=True, slots=True)
class TakenPart:
    """A chunk that must not be listed: it belongs to another job, or was made from another data id."""

    #: Its row.
    row: Row
    #: The data id that it was made from; empty: it was not made by fan-out.
    source: str


@dataclass(frozen=True, slots=True)
class PartChange:
    """A part is added (there was none before), changed, or removed (there is none after)."""

    before: Part | None
    after: Part | None

    @property
    def key(self) -> tuple[str, str]:
        """The dataset and data id of the part."""
        part = self.after or self.before
        assert part is not None  # noqa: S101 - there is one of them
        return part.key

    @property
    def event(self) -> str:
        """The event recorded in the history; empty: none."""
        was, now = self.before, self.after
        if now is None or now.row.status not in (READY, HOLD):
            return ""
        if now.listed:
            return LIST_EVENT if now.row.status == READY else ""
        return UNLIST_EVENT if was is not None and was.listed else ""


def turned(parts: Iterable[Part], status: str, token: int, message: str) -> Iterator[Part]:
    """The parts of a chunk, which have the same status as the chunk itself. Parts that are no longer listed stay as
    they are; absent: all parts are removed.
    """
    for part in parts:
        if not part.listed or (part.row.status == status != RUNNING):
            yield part if status != ABSENT else replace(part, row=replace(part.row, status=ABSENT))
        else:
            yield replace(part, row=replace(
                part.row, status=status, former=part.row.status if status == HOLD else "", token=token, lease=None,
                expires_in=None, message=message,
            ))  # fmt: skip


def check_listed(job: Job, dataid: str, listed: Listed | None, taken: Sequence[TakenPart]) -> Listed:
    """Check what a success lists: BadValue unless exactly the datasets that the job fans out to are named; ClaimRefused
    for data ids that belong to another job, or were made from another data id.
    """
    given = listed or {}
    strange = next((name for name in given if name not in job.fan_out), None)
    if strange is not None:
        hint = suggestion(strange, job.fan_out) if job.fan_out else "it has no fan_out"
        raise BadValue("outputs", strange, f"is not a dataset that job {job.name!r} fans out to; {hint}")
    lacking = next((name for name in job.fan_out if name not in given), None)
    if lacking is not None:
        told = f"is missing: list the data ids that job {job.name!r} made of it, or none"
        raise BadValue("outputs", lacking, f"{told}; a script does so with: --ids-from {lacking}=FILE")
    for each in taken:
        what = f"{each.row.dataset}/{each.row.dataid}"
        made = f"made by {each.row.job}" if each.row.job != EXTERNAL else "published"
        how = f"{made} from {each.source}" if each.source else made
        raise ClaimRefused(
            job.name, dataid, f"{what} was {how}; {job.name} cannot make it from {dataid}. Nothing was reported"
        )  # fmt: skip
    return given


def listing(parts: Sequence[Part], listed: Listed, job: str, source: str, token: int) -> Iterator[Part]:
    """The parts after a success: listed ones are READY, and those that are no longer listed are on hold."""
    wanted = {(dataset, dataid) for dataset, dataids in listed.items() for dataid in dataids}
    known = {part.key for part in parts}
    for part in parts:
        if part.key in wanted:
            row = replace(part.row, status=READY, former="", token=token, message=f"made from {source}")
            yield Part(replace(row, lease=None, expires_in=None))
        elif part.listed:
            row = replace(part.row, status=HOLD, former="", message=f"made from {source}, {_LEFT_OUT}")
            yield Part(replace(row, lease=None, expires_in=None), listed=False)
        else:
            yield part
    for dataset, dataid in sorted(wanted - known):
        yield Part(Row(dataset, dataid, job, Kind.OUTPUT, READY, token=token, message=f"made from {source}"))


def part_changes(before: Sequence[Part], after: Sequence[Part]) -> Iterator[PartChange]:
    """What differs."""
    was = {part.key: part for part in before}
    for part in after:
        old = was.get(part.key)
        if part.row.status == ABSENT:
            yield PartChange(old, None)
        elif part != old:
            yield PartChange(old, part)
