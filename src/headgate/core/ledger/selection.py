"""Chunks of a job by what they are: their statuses, ranges and patterns of data ids; and what an act on them comes to.

One selection serves every act, the command, the HTTP API and the dashboard. A store reads candidates between `bounds`
and keeps those that the selection `names`; the status is compared once more when their rows are held still.
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

#: The acts on selected chunks.
ACTS = (RESUBMIT_EVENT, HOLD_EVENT, UNHOLD_EVENT, FORGET_EVENT)
#: What a pattern contains, and a plain data id or range does not.
WILD = ("*", "?", "[")
#: Changes, and refused chunks, that an answer lists; all are counted.
MOST_LISTED, MOST_REFUSED = 100, 1000


def is_pattern(word: str) -> bool:
    """Whether a word is a pattern: `2026-10-*`."""
    return any(sign in word for sign in WILD)


@dataclass(frozen=True)
class ChunkSelection:
    """Chunks of a job that have a row. Both parts must apply."""

    #: Data ids, ranges (`2026-10-01..2026-10-31`) and patterns (`2026-10-*`), one of which names the chunk; none: any.
    dataids: tuple[str, ...] = ()
    #: Statuses, one of which it has; none: any.
    statuses: tuple[str, ...] = ()
    #: Data ids are taken literally.
    exact: bool = False

    def names(self, dataid: str) -> bool:
        """Whether a data id is among those that were asked for."""
        return not self.dataids or any(test(dataid) for test in self._tests)

    @cached_property
    def bounds(self) -> tuple[str, str | None]:
        """The first and the last data id, as text, that may be among them; None: there is no last one."""
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
    """A checked selection. BadValue for a bad range, an unknown act, what the act does not have, or no selection."""
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


# ---------------------------------------------------------------- what an act comes to


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """An act on one part of the selected chunks."""

    act: str
    selection: ChunkSelection
    reason: str
    who: str
    #: For resubmit: also everything that was made from them.
    downstream: bool = False
    #: Also from living workers.
    steal: bool = False
    dry_run: bool = False
    #: The data id behind which this part starts; empty: the first part.
    after: str = ""


@dataclass(frozen=True, slots=True)
class RefusedChunk:
    """A selected chunk that stays as it is."""

    #: Its data id.
    dataid: str
    #: Why, in one line.
    why: str


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What an act on selected chunks changed, or would change."""

    #: The act.
    act: str
    #: Selected chunks by status, before the act.
    selected: Mapping[str, int] = field(default_factory=dict)
    #: Chunks that changed, by job; more jobs than one when everything downstream is included.
    changed: Mapping[str, int] = field(default_factory=dict)
    #: Selected chunks that were refused, for example because a worker is on them.
    refused: int = 0
    #: The first of them.
    refusals: Sequence[RefusedChunk] = ()
    #: The first changes.
    changes: Sequence[Change] = ()
    #: Where the next part of the selection starts; None: this was the last one.
    next: str | None = None

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


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of an act on one selected chunk."""

    #: Its status before; empty: it is no longer selected.
    before: str
    #: Why it was refused; empty: it was not.
    refused: str = ""


def on_selected(
    chunk: ChunkSnapshot, selection: ChunkSelection, unit: Callable[[ChunkSnapshot], ChunkOutcome[object]]
) -> ChunkOutcome[object]:
    """Act on a chunk that is held still, if it is still selected. A refusal is a result."""
    row = chunk.own(chunk.job.counted, chunk.job.first)
    if row is None or (selection.statuses and row.status not in selection.statuses):
        return ChunkOutcome(Tried(""), chunk)
    try:
        return replace(unit(chunk), result=Tried(row.status))
    except Refused as error:
        return ChunkOutcome(Tried(row.status, first_line(error)), chunk)


def first_line(error: Exception) -> str:
    """What an error says, without the advice below it."""
    return str(error).partition("\n")[0]
