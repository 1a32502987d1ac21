"""The tables that decide about locks, as one value: stores take it as a parameter, and tests change a cell of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from headgate.core.locks.model import COMPATIBLE, Compatible, Mode
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.core.tables.states import LOCK


@dataclass(frozen=True, eq=False)
class LockRules:
    """Which modes are compatible, and which events are possible."""

    #: May a lock be granted (wanted, held)?
    compatible: Compatible = field(default_factory=lambda: COMPATIBLE)
    #: The states of a lock.
    machine: Machine = LOCK

    def agrees(self, wanted: Mode, held: Iterable[Mode]) -> bool:
        """Whether a lock may be granted beside locks, or ahead of waiters, of these modes."""
        compatible = self.compatible
        return all(compatible[wanted, mode] for mode in held)

    def find(self, state: str, event: str, target: str | None = None) -> Transition | None:
        """The row of an event in a state; `target` chooses between several rows of one event. None: there is no such
        row.
        """
        return self.machine.choose(state, event, lambda row: target is None or row.target == target)

    def row(self, state: str, event: str, target: str | None = None) -> Transition:
        """The same; TransitionRefused when there is no such row."""
        return self.find(state, event, target) or self.machine.refuse(state, event)

    def joins(self, wanted: Mode, said: Mode) -> bool:
        """Whether a lock is granted beside any set of locks with this summary."""
        return self.agrees(wanted, self._possible(said))

    def is_blocked(self, wanted: Mode, said: Mode) -> bool:
        """Whether it is refused beside any set of locks with this summary."""
        return not any(self.compatible[wanted, held] for held in self._possible(said))

    def _possible(self, said: Mode) -> Iterable[Mode]:
        """The modes of locks with this summary; with the real table they are never mixed."""
        alone = summary(())
        mixed = any(self.compatible[pair] for pair in product(Mode, Mode) if pair != (alone, alone))
        return Mode if said is alone and mixed else (said,)

    @cached_property
    def fast(self) -> FastLockRows:
        """The rows that fast paths execute."""
        modes = {mode: mode.value for mode in Mode}
        from_new = dict.fromkeys(Mode, self.machine.start)
        end = Also.FREE_RESOURCE | Also.RECORD_HISTORY
        grant = Also.NEW_TOKEN | Also.RECORD_HISTORY
        return FastLockRows(
            self._plain(from_new, "grant", By.CLIENT, grant, modes),
            self._plain(dict.fromkeys(Mode, "waiting"), "grant", By.CLIENT, grant | Also.LEAVE_QUEUE, modes),
            self._plain(modes, "release", By.HOLDER, end),
            self._plain(modes, "expire", By.STORE, end),
            self._plain(from_new, "wait", By.CLIENT, Also.JOIN_QUEUE),
        )

    def _plain(
        self, sources: Mapping[Mode, str], event: str, by: By, also: Also, targets: Mapping[Mode, str] | None = None
    ) -> dict[Mode, Transition]:
        found = {mode: self.find(sources[mode], event, mode) for mode in Mode}
        return {
            mode: row
            for mode, row in found.items()
            if row and (row.by, row.also) == (by, also) and row.target == (targets or {}).get(mode, row.target)
        }


@dataclass(frozen=True, slots=True)
class FastLockRows:
    """The rows that fast paths execute, by the mode of the lock: those whose guard and effects they implement.

    All others are left to the slow path.
    """

    #: A free resource becomes held.
    grant: Mapping[Mode, Transition]
    #: A waiter is granted a released resource.
    hand: Mapping[Mode, Transition]
    release: Mapping[Mode, Transition]
    expire: Mapping[Mode, Transition]
    #: A client joins the queue.
    wait: Mapping[Mode, Transition]


#: The standard tables.
LOCK_RULES = LockRules()


def summary(modes: Sequence[Mode]) -> Mode:
    """The summary of several locks: exclusive for a single exclusive one, otherwise shared."""
    return modes[0] if len(modes) == 1 else Mode.SHARED
