"""Selecting chunks of a job by status, range or pattern of data ids, and the result of an operation on them.

One selection serves every operation, the command, the HTTP API and the dashboard. A store reads candidates between
`bounds` and keeps those that the selection `names`; the status is checked again once their rows are locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import cached_property
from re import compile as compiled

from headgate.core.errors import BadValue, Refused
from headgate.core.ledger.model import FORGET_EVENT, HOLD, HOLD_EVENT, RESUBMIT_EVENT, UNHOLD_EVENT, Change
from headgate.core.ledger.parsing import parse_status
from headgate.core.ledger.ranges import expand
from headgate.core.ledger.snapshot import ChunkOutcome, ChunkSnapshot
from headgate.core.values.names import check_name
from headgate.core.values.words import check_word

#: The operations on selected chunks.
ACTS = (RESUBMIT_EVENT, HOLD_EVENT, UNHOLD_EVENT, FORGET_EVENT)
#: Characters that patterns contain, and plain data ids and ranges do not.
WILD = ("*", "?", "[")
#: Number of changes and refused chunks that an answer lists; all are counted.
MOST_LISTED, MOST_REFUSED = 100, 1000


def is_pattern(word: str) -> bool:
    """Whether a word is a pattern: `2026-10-*`."""
    return any(sign in word for sign in WILD)


@dataclass(frozen=True)
class ChunkSelection:
    """Chunks of a job that have a row. Both parts must apply."""

    #: Data ids, ranges (`2026-10-01..2026-10-31`) and patterns (`2026-10-*`), of which at least one must match; empty:
    #: any.
    dataids: tuple[str, ...] = ()
    #: Statuses, of which the chunk must have one; empty: any.
    statuses: tuple[str, ...] = ()
    #: Data ids are taken literally.
    exact: bool = False

    def names(self, dataid: str) -> bool:
        """Whether a data id is selected."""
        return not self.dataids or any(test(dataid) for test in self._tests)

    @cached_property
    def bounds(self) -> tuple[str, str | None]:
        """The first and the last data id, in text order, that can be selected; None: there is no upper bound."""
        if not self.dataids:
            return "", None
        spans = [_bounds(word, exact=self.exact) for word in self.dataids]
        highs = [high for _, high in spans if high is not None]
        return min(low for low, _ in spans), max(highs) if len(highs) == len(spans) else None

    @cached_property
    def _tests(self) -> Sequence[Callable[[str], bool]]:
        return [_test(word, exact=self.exact) for word in self.dataids]


def select(
    act: str, dataids: Sequence[str], statuses: Sequence[str], *, downstream: bool = False, steal: bool = False,
    exact: bool = False,
) -> ChunkSelection:  # fmt: skip
    """A checked selection. BadValue for a bad range, an unknown operation, an option that the operation does not have,
    or an empty selection.
    """
    check_word("act", act, ACTS)
    if downstream and act != RESUBMIT_EVENT:
        raise BadValue("downstream", downstream, f"is for resubmit; {act} changes the selected chunks alone")
    if steal and act not in (RESUBMIT_EVENT, FORGET_EVENT):
        raise BadValue("steal", steal, f"is for resubmit and forget; {act} never takes a chunk from its worker")
    if isinstance(dataids, str) or isinstance(statuses, str):
        raise BadValue("selection", dataids if isinstance(dataids, str) else statuses, "is a text, not a list of them")
    for word in dataids:
        check_name("dataid", word)
        _test(word, exact=exact)
    found = tuple(dict.fromkeys(map(parse_status, statuses)))
    if not dataids and not found:
        raise BadValue("selection", "", "is empty; name data ids, a pattern such as '2026-10-*', or a status")
    if act == UNHOLD_EVENT and not found:
        found = (HOLD,)
    return ChunkSelection(tuple(dict.fromkeys(dataids)), found, exact)


def _test(word: str, *, exact: bool) -> Callable[[str], bool]:
    if not exact and is_pattern(word):
        return lambda dataid: compiled(translate(word)).fullmatch(dataid) is not None
    return expand(word, exact=exact).has


def _bounds(word: str, *, exact: bool) -> tuple[str, str | None]:
    if not exact and is_pattern(word):
        begin = word[: min(word.index(sign) for sign in WILD if sign in word)]
        return begin, f"{begin}\U0010ffff" if begin else None
    return expand(word, exact=exact).bounds


# ---------------------------------------------------------------- the result of an operation


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """An operation on one part of the selected chunks."""

    act: str
    selection: ChunkSelection
    reason: str
    who: str
    #: For resubmit: include everything that was made from them.
    downstream: bool = False
    #: Include chunks of living workers.
    steal: bool = False
    dry_run: bool = False
    #: The data id after which this part starts; empty: the first part.
    after: str = ""


@dataclass(frozen=True, slots=True)
class RefusedChunk:
    """A selected chunk that was not changed."""

    #: Its data id.
    dataid: str
    #: Why, in one line.
    why: str


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The changes that an operation on selected chunks made, or would make."""

    #: The act.
    act: str
    #: Selected chunks by status, before the operation.
    selected: Mapping[str, int] = field(default_factory=dict)
    #: Chunks that changed, by job; more jobs than one when everything downstream is included.
    changed: Mapping[str, int] = field(default_factory=dict)
    #: Selected chunks that were refused, for example because a worker is processing them.
    refused: int = 0
    #: The first of them.
    refusals: Sequence[RefusedChunk] = ()
    #: The first changes.
    changes: Sequence[Change] = ()
    #: Where the next part of the selection starts; None: this was the last one.
    next: str | None = None
    #: Among the changed ones: the downstream chunks, by job, that other parts of the selection may reach too.
    reached: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Selected chunks."""
        return sum(self.selected.values())

    @property
    def total(self) -> int:
        """Chunks that changed."""
        return sum(self.changed.values())

    def joined(self, later: BulkResult) -> BulkResult:
        """Return this and the following part of the selection as one.

        :param later: The following part.
        """
        return replace(
            later,
            selected=dict(Counter(self.selected) + Counter(later.selected)),
            changed=dict(Counter(self.changed) + Counter(later.changed)),
            refused=self.refused + later.refused,
            refusals=[*self.refusals, *later.refusals][:MOST_REFUSED],
            changes=[*self.changes, *later.changes][:MOST_LISTED],
        )


class BulkTotal:
    """The parts of a selection as one result: a downstream chunk that several parts reach is counted once."""

    def __init__(self, act: str) -> None:
        self.result = BulkResult(act)
        self._reached: dict[str, set[str]] = {}

    def add(self, part: BulkResult) -> None:
        """Add the following part.

        :param part: What it changed, or would change.
        """
        known = {job: self._reached.setdefault(job, set()) for job in part.reached}
        again = {job: known[job].intersection(dataids) for job, dataids in part.reached.items()}
        new = replace(
            part,
            changed={job: part.changed[job] - len(again.get(job, ())) for job in part.changed},
            changes=[each for each in part.changes if each.dataid not in again.get(each.job, ())],
            reached={},
        )
        for job, dataids in part.reached.items():
            known[job].update(dataids)
        self.result = self.result.joined(new)


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of an operation on one selected chunk."""

    #: Its status before; empty: it is no longer selected.
    before: str
    #: Why it was refused; empty: it was not.
    refused: str = ""


def on_selected(
    chunk: ChunkSnapshot, selection: ChunkSelection, unit: Callable[[ChunkSnapshot], ChunkOutcome[object]]
) -> ChunkOutcome[object]:
    """Run the operation on a locked chunk, if it is still selected. A refusal is a result."""
    row = chunk.own(chunk.job.counted, chunk.job.first)
    if row is None or (selection.statuses and row.status not in selection.statuses):
        return ChunkOutcome(Tried(""), chunk)
    try:
        return replace(unit(chunk), result=Tried(row.status))
    except Refused as error:
        return ChunkOutcome(Tried(row.status, first_line(error)), chunk)


def first_line(error: Exception) -> str:
    """An error's message, without the advice below it."""
    return str(error).partition("\n")[0]
