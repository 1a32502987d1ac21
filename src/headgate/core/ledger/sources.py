"""The upstream rows of a mapped input for one data id of its job, what a claim reads of them, and what has changed
since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from headgate.core.errors import BadValue, Refused
from headgate.core.ledger.mappings.model import NEED_ALL, InputMap
from headgate.core.ledger.mappings.sources import Listed
from headgate.core.ledger.model import DONE, READY, Job, Row
from headgate.core.values.plurals import plural

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Number of data ids that a sentence names.
MOST_NAMED = 5
#: What is said of a data id of which nobody knows whether it is complete, before the command that says so.
CLOSED_WITH = "more may arrive until it is closed with: "
#: How the message of a chunk begins that was made without a late input.
LATE_BEGINS = "late: "


@dataclass(frozen=True, slots=True)
class Reading:
    """An upstream data id that a claim reads, or that changed after the claim."""

    dataset: str
    dataid: str
    #: Its version: the token of the claim that made it, or for data made elsewhere the microsecond of its publication.
    version: int
    #: True: it is newer than the version that was read, and that was noted.
    newer: bool = False


def version_of(row: Row) -> int:
    """The version of a READY row."""
    if row.token > 0 or row.since is None:
        return row.token
    return (row.since - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class SourceSet:
    """The upstream data of one mapped input for one data id of its job."""

    #: The input.
    dataset: str
    #: The rule that names the needed data ids.
    map: InputMap
    #: The job's data id.
    dataid: str
    #: The needed data ids, in order: those of the calendar or list, or those that are known.
    needed: tuple[str, ...]
    #: The OUTPUT rows of these data ids.
    rows: tuple[Row, ...] = ()
    #: Why it is incomplete, regardless of the rows; empty: it is not.
    waits: str = ""
    #: Whether `needed` lists what the dataset is expected to have: other data ids are read too if they exist.
    expected: bool = False
    #: Whether it exceeds the limit of one claim. In that case not all rows are loaded, and `waits` says so.
    exceeds: bool = False

    @property
    def ready(self) -> tuple[Row, ...]:
        """The rows of data ids that are READY."""
        others = {row.dataid for row in self.rows if row.status != READY}
        return tuple(row for row in self.rows if row.dataid not in others)

    @property
    def missing(self) -> tuple[str, ...]:
        """Needed data ids that are not READY."""
        there = {row.dataid for row in self.ready}
        return tuple(dataid for dataid in self.needed if dataid not in there)

    @property
    def complete(self) -> bool:
        """Whether the available data is enough for a claim."""
        if self.expected and self.map.need == NEED_ALL:
            return not self.waits and not self.missing
        ready = {row.dataid for row in self.ready}
        return not self.waits and is_enough(self.map, self.dataid, len(self.needed), ready)

    @property
    def creates(self) -> bool:
        """Whether the job's data id exists because of data that is READY here."""
        return does_create(self.map, self.dataid, (row.dataid for row in self.ready))

    def readings(self) -> tuple[Reading, ...]:
        """The sources that a claim reads now."""
        return tuple(Reading(self.dataset, row.dataid, version_of(row)) for row in self.ready)

    @property
    def share(self) -> float:
        """The READY share of what it needs, from 0 to 1."""
        there = len(self.needed) - len(self.missing)
        return min(there / max(self.map.least(len(self.needed)), 1), 1.0)

    def sentence(self) -> str:
        """Return what is available and what is missing, in one line."""
        if self.exceeds:
            return f"input {self.dataset}: {self.waits}"
        parts = [self._counted()] if self.needed else [] if self.waits else ["it has no data ids yet"]
        missing = self.missing
        if missing:
            parts.append(f"{'without' if self.complete else 'missing'} {self._named(missing)}")
        return f"input {self.dataset}: {'; '.join([*parts, self.waits] if self.waits else parts)}"

    def _counted(self) -> str:
        """Example: 28 of 31 days are READY."""
        count, least = len(self.needed), self.map.least(len(self.needed))
        noun = str(self.map.unit or "data id")
        text = f"{count - len(self.missing)} of {plural(count, noun)} {'is' if count == 1 else 'are'} READY"
        if self.map.need == NEED_ALL:
            return text
        itself = [each for each in self.map.required(self.dataid) if each in self.missing]
        return f"{text}, at least {least} needed{f', among them {itself[0]}' if itself else ''}"

    def _named(self, dataids: Sequence[str]) -> str:
        """Example: 2026-10-04 (ERROR), 2026-10-09 and 3 more."""
        statuses = {row.dataid: f" ({row.status})" for row in self.rows if row.status != READY}
        names = [f"{each}{statuses.get(each, '')}" for each in dataids[:MOST_NAMED]]
        more = f" and {len(dataids) - MOST_NAMED:,} more" if len(dataids) > MOST_NAMED else ""
        return f"{', '.join(names)}{more}"


def is_enough(input_map: InputMap, dataid: str, needed: int, ready: Collection[str]) -> bool:
    """Whether these upstream ids satisfy the input's `need`."""
    least = max(input_map.least(needed), 1)
    return len(ready) >= least and all(each in ready for each in input_map.required(dataid))


def does_create(input_map: InputMap, dataid: str, ready: Iterable[str]) -> bool:
    """Whether these upstream ids create a data id of the job."""
    return input_map.creates and any(dataid in input_map.created(each) for each in ready)


def check_closable(job: Job, dataid: str) -> None:
    """Refused if no input waits for data ids to be closed; BadValue for an invalid data id of the job."""
    maps = [job.map_of(name) for name in job.inputs]
    fault = next((text for each in maps if (text := each.fault(dataid))), "")
    if fault:
        raise BadValue("dataid", dataid, f"is no data id of job {job.name!r}: {fault}")
    if all(each.sources(dataid).complete for each in maps):
        raise Refused(f"job {job.name} has no input of which more may arrive, so there is nothing to close")


def source_set(
    dataset: str, input_map: InputMap, job: str, dataid: str, rows: Sequence[Row], *, closed: bool, most: int,
    expected: tuple[str, ...] = (),
) -> SourceSet:  # fmt: skip
    """The state of an input: `rows` are all that its mapping names, `most` is the limit of data ids per claim, and
    `expected` lists what the input is expected to have for the data id, which then needs no closing.
    """
    wanted = input_map.sources(dataid)
    known = dict.fromkeys((*(row.dataid for row in rows), *input_map.required(dataid)))
    calendar = expected if not wanted.complete and not closed else ()
    needed = wanted.ids if isinstance(wanted, Listed) else calendar or tuple(known)
    waits = input_map.fault(dataid)
    exceeds = len(needed) > most
    if exceeds:
        waits = f"more than {most} data ids are needed, the limit of one claim (max_input_ids)"
    elif not wanted.complete and input_map.need == NEED_ALL and not closed and not calendar and not waits:
        waits = f"{CLOSED_WITH}headgate job close {job} {dataid}"
    return SourceSet(
        dataset, input_map, dataid, needed, tuple(rows), waits, expected=bool(calendar), exceeds=exceeds
    )  # fmt: skip


def changed(sources: Iterable[SourceSet], reads: Sequence[Reading]) -> Iterator[tuple[SourceSet, Reading]]:
    """Sources that changed since they were read, by input: newer, new, or (version 0) no longer READY."""
    read = {(each.dataset, each.dataid): each.version for each in reads}
    for source in sources:
        now = {each.dataid: each for each in source.readings()}
        for each in now.values():
            if read.get((source.dataset, each.dataid)) != each.version:
                yield source, each
        for dataset, dataid in read:
            if dataset == source.dataset and dataid not in now:
                yield source, Reading(dataset, dataid, 0)


def came_late(sources: Iterable[SourceSet], reads: Sequence[Reading]) -> Iterator[tuple[SourceSet, Reading]]:
    """Data ids that are READY now, but were not read in this version. Reference data never counts as late, and claims
    that read nothing by a mapping have no late data.
    """
    for source, each in changed(sources, reads) if reads else ():
        if each.version and source.map.creates:
            yield source, each


def readings(sources: Iterable[SourceSet]) -> tuple[Reading, ...]:
    """The sources of all mapped inputs that a claim reads now."""
    return tuple(each for source in sources for each in source.readings())


def with_newer(reads: Sequence[Reading], newer: Iterable[Reading]) -> tuple[Reading, ...]:
    """The sources that were read, with the newer ones noted."""
    found = {(each.dataset, each.dataid): each for each in reads}
    return tuple((found | {(each.dataset, each.dataid): replace(each, newer=True) for each in newer}).values())


def late_sentence(late: Sequence[tuple[SourceSet, Reading]]) -> str:
    """Name the late data ids, for display."""
    names = [f"{each.dataset}/{each.dataid}" for _, each in late]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{LATE_BEGINS}{', '.join(names[:MOST_NAMED])}{more} arrived or changed after it was read"


def lacks_late(row: Row) -> bool:
    """Whether a row says that its chunk is done, and that inputs came late for it."""
    return row.status in (READY, DONE) and row.message.startswith(LATE_BEGINS)
