"""The tables that decide about locks, as one value: stores take it as a parameter, and tests change a cell of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.errors import TransitionRefused
from headgate.core.locks import COMPATIBLE, Mode
from headgate.core.machine import Also, Machine, Transition
from headgate.core.states import LOCK


@dataclass(frozen=True, eq=False)
class LockRules:
    """Which modes agree, and what may happen to a lock."""

    #: May a lock be granted (wanted, held)?
    compatible: Mapping[tuple[Mode, Mode | None], bool] = field(default_factory=lambda: COMPATIBLE)
    #: The states of a lock.
    machine: Machine = LOCK

    def agrees(self, wanted: Mode, held: Iterable[Mode]) -> bool:
        """Whether a lock may be granted beside locks, or ahead of waiters, of these modes."""
        return all(self.compatible[wanted, mode] for mode in held)

    def find(self, state: str, event: str, target: str | None = None) -> Transition | None:
        """The row of an event in a state; `target` chooses where one event has several. None: there is no such row."""
        rows = (row for row in self.machine.rows if (row.source, row.event) == (state, event))
        return next((row for row in rows if target is None or not row.when or row.target == target), None)

    def row(self, state: str, event: str, target: str | None = None) -> Transition:
        """The same; TransitionRefused when there is no such row."""
        found = self.find(state, event, target)
        if found is None:
            raise TransitionRefused(self.machine.name, state, event, self.machine.allowed(state))
        return found

    def plain(self, event: str, also: Also, source: str | None = None) -> dict[Mode, Transition]:
        """The rows of an event with exactly these effects, by the lock's mode before it (after it, if from `source`).

        A fast path writes the effects of such rows. Whatever the table says otherwise is left to the slow path.
        """
        found = {mode: self.find(source or mode, event, mode if source else None) for mode in Mode}
        return {mode: row for mode, row in found.items() if row is not None and row.also == also}


#: The tables of this product.
LOCK_RULES = LockRules()


def summary(modes: Sequence[Mode]) -> Mode:
    """What one word says of several locks: exclusive is one that is alone."""
    return modes[0] if len(modes) == 1 else Mode.SHARED
