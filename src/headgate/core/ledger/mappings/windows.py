"""Windows: a data id with those before and after it, by the calendar or in the input's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.ledger.mappings.calendar import Unit, number_at, one, start_of
from headgate.core.ledger.mappings.sources import Listed, Neighbours, Sources
from headgate.core.ledger.mappings.stamps import stamp_format


@dataclass(frozen=True, slots=True)
class WindowRule:
    """A data id of the job reads the one of the same name, `before` that precede it and `after` that follow it."""

    before: int
    after: int
    #: None: the neighbours in the input's order are needed.
    unit: Unit | None
    format: str

    def targets(self, upstream_id: str) -> tuple[str, ...]:
        """The data ids of the job whose window has an upstream id; only by the calendar, see `targets_in_order`."""
        if self.unit is None:
            raise ValueError("a window in the input's order depends on the neighbours; use targets_in_order")
        return self._around(self.unit, upstream_id, self.after, self.before)

    def sources(self, dataid: str) -> Sources:
        """The window of a data id of the job."""
        if self.unit is None:
            return Neighbours(self.before, self.after)
        return Listed(self._around(self.unit, dataid, self.before, self.after))

    def fault(self, dataid: str) -> str:
        """Why a data id has no window; empty if it has one."""
        if self.unit is None or stamp_format(self.format).read(dataid) is not None:
            return ""
        return f"{dataid} does not name {one(self.unit)} as {self.format}"

    def _around(self, unit: Unit, dataid: str, before: int, after: int) -> tuple[str, ...]:
        moment = stamp_format(self.format).read(dataid)
        if moment is None:
            return ()
        number, write = number_at(unit, moment), stamp_format(self.format).write
        near = (start_of(unit, each) for each in range(number - before, number + after + 1))
        return tuple(write(each) for each in near if each is not None)


def window_in_order(
    before: int, after: int, preceding: Sequence[str], dataid: str, following: Sequence[str]
) -> tuple[str, ...]:
    """The window of a data id among its neighbours, all in the input's order; extra neighbours are ignored."""
    return (*preceding[max(len(preceding) - before, 0) :], dataid, *following[:after])


def targets_in_order(
    before: int, after: int, preceding: Sequence[str], upstream_id: str, following: Sequence[str]
) -> tuple[str, ...]:
    """The data ids whose window contains an existing upstream id.

    These windows also change when the id is new: each of them gains it, and loses another one.
    """
    return window_in_order(after, before, preceding, upstream_id, following)
