"""The mapping of one input of a job: which of its data ids one data id of the job reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

from headgate.core.ledger.mappings.calendar import Unit
from headgate.core.ledger.mappings.periods import PeriodRule
from headgate.core.ledger.mappings.sources import Sources
from headgate.core.ledger.mappings.splits import SplitRule
from headgate.core.ledger.mappings.stamps import FORMATS, Grain, stamp_format
from headgate.core.ledger.mappings.whole import SameRule, WholeRule
from headgate.core.ledger.mappings.windows import WindowRule
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural

Rule: TypeAlias = SameRule | PeriodRule | WindowRule | WholeRule | SplitRule
#: How many of the upstream ids must be READY: all, one, or (a number) at least as many.
NEED_ALL, NEED_ANY = "all", "any"
#: Default seconds between a late input and the redo that it causes, so that many late inputs cause one redo.
LATE_DELAY = 600.0


class MapKind(StrEnum):
    """How the data ids of an input correspond to those of a job."""

    SAME = "same"
    PERIOD = "period"
    WINDOW = "window"
    ALL = "all"
    LIST = "list"
    SPLIT = "split"


class OnLate(StrEnum):
    """The reaction to an input that arrives, or changes, after it was read."""

    NOTE = "note"
    REDO = "redo"


@dataclass(frozen=True, slots=True)
class InputMap:
    """The mapping of one input: which of its data ids one data id of the job reads. Fields that do not apply to its
    kind are None.
    """

    #: same, period, window, all, list or split.
    kind: MapKind = MapKind.SAME
    #: period: what one data id of the job represents: day, week, month, quarter, year.
    period: Unit | None = None
    #: period, window: what one data id of the input represents; null: no calendar determines its data ids.
    unit: Unit | None = None
    #: period, window with a unit, split: the format of the input's data ids.
    format: str | None = None
    #: period, split: the format of the job's data ids.
    job_format: str | None = None
    #: period of data ids with an hour: the time zone that defines a day.
    zone: str | None = None
    #: window: how many preceding data ids are read.
    before: int | None = None
    #: window: how many following data ids are read.
    after: int | None = None
    #: list: these data ids, whatever the job's data id is.
    ids: tuple[str, ...] | None = None
    #: How many of them must be READY: all, any (at least one), or a number.
    need: str | int = NEED_ALL
    #: note: an input that arrives or changes later is noted; redo: the chunk is made again.
    on_late: OnLate = OnLate.NOTE
    #: Seconds that a redo waits for more late inputs.
    late_delay: float = LATE_DELAY

    @property
    def creates(self) -> bool:
        """Whether READY upstream ids create data ids of the job."""
        return self.kind not in (MapKind.ALL, MapKind.LIST)

    @property
    def in_order(self) -> bool:
        """Whether it is a window in the input's order: `targets` and `sources` then need the neighbours."""
        return self.kind is MapKind.WINDOW and self.unit is None

    def targets(self, upstream_id: str) -> tuple[str, ...]:
        """Return the data ids of the job that read a data id of the input; empty if it does not have the mapping's
        format.

        None for `all` and `list`, which every data id of the job reads. Raises ValueError for a window in the input's
        order, which depends on the neighbours.

        :param upstream_id: Data id of the input.
        """
        return _rule(self).targets(upstream_id)

    def created(self, upstream_id: str) -> tuple[str, ...]:
        """Return the data ids of the job that exist because a data id of the input is READY: for a window its middle.

        :param upstream_id: Data id of the input.
        """
        if self.kind is not MapKind.WINDOW:
            return self.targets(upstream_id) if self.creates else ()
        return () if self.fault(upstream_id) else (upstream_id,)

    def sources(self, dataid: str) -> Sources:
        """Return what a data id of the job reads: exactly the ids that have it among their `targets`.

        :param dataid: Data id of the job.
        """
        return _rule(self).sources(dataid)

    def required(self, dataid: str) -> tuple[str, ...]:
        """Return the data ids of the input that must be READY regardless of `need`: the middle of a window.

        :param dataid: Data id of the job.
        """
        return (dataid,) if self.kind is MapKind.WINDOW else ()

    def fault(self, dataid: str) -> str:
        """Return why a text cannot be a data id of the job; empty if it can.

        :param dataid: The text.
        """
        return _rule(self).fault(dataid)

    def least(self, count: int) -> int:
        """Return how many data ids of the input must be READY.

        :param count: The number of upstream ids of a data id of the job.
        """
        if self.need == NEED_ALL:
            return count
        return 1 if self.need == NEED_ANY else int(self.need)

    def to_document(self) -> dict[str, Any]:
        """Return the fields that apply to its kind: the form in which it is stored and can be defined again."""
        if self.kind is MapKind.SAME:
            return {"kind": str(self.kind)}
        found = {
            "kind": str(self.kind), "period": _word(self.period), "unit": _word(self.unit), "format": self.format,
            "job_format": self.job_format, "zone": self.zone, "before": self.before, "after": self.after,
            "ids": None if self.ids is None else list(self.ids), "need": self.need, "on_late": str(self.on_late),
            "late_delay": self.late_delay,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}

    def __str__(self) -> str:
        """Return it in words."""
        late = f", redone {in_words(self.late_delay)} after a late input" if self.on_late is OnLate.REDO else ""
        need = {NEED_ALL: "", NEED_ANY: ", at least one"}.get(str(self.need), f", at least {self.need}")
        return f"{self._which()}{need}{late}"

    def _which(self) -> str:
        if self.kind is MapKind.PERIOD:
            parts = f"every {_named(self.unit, self.format)}" if self.unit else f"whatever arrives as {self.format}"
            zone = f" in {self.zone}" if self.zone else ""
            return f"{parts} of the {_named(self.period, self.job_format)}{zone}"
        if self.kind is MapKind.WINDOW:
            near = f"by {_named(self.unit, self.format)}" if self.unit else "in its order"
            return f"{self.before} before and {self.after} after, {near}"
        if self.kind is MapKind.LIST:
            return f"a list of {plural(len(self.ids or ()), 'data id')}"
        if self.kind is MapKind.SPLIT:
            return f"every {self.format} of {self.job_format}"
        return "all data ids" if self.kind is MapKind.ALL else "the same data id"


#: The mapping of an input that defines none.
SAME = InputMap()


@lru_cache(maxsize=1000)
def _rule(mapping: InputMap) -> Rule:
    kind, form, shown = mapping.kind, mapping.format or "", mapping.job_format or ""
    if kind is MapKind.PERIOD and mapping.period is not None:
        return PeriodRule(mapping.period, mapping.unit, form, shown, mapping.zone or "")
    if kind is MapKind.WINDOW:
        return WindowRule(mapping.before or 0, mapping.after or 0, mapping.unit, form)
    if kind is MapKind.SPLIT:
        return SplitRule(form, shown)
    return SameRule() if kind is MapKind.SAME else WholeRule(mapping.ids)


def has_hours(form: str) -> bool:
    """Whether a format includes hours or smaller units, which are in UTC."""
    return stamp_format(form).grain <= Grain.HOUR


def _named(unit: Unit | None, form: str | None) -> str:
    """A unit, with the format of its data ids if that is not the default."""
    return str(unit) if unit and form == FORMATS[unit] else f"{unit} ({form})"


def _word(unit: Unit | None) -> str | None:
    return None if unit is None else str(unit)
