"""A state table: rows of data, checked when they are created, from which everything else is derived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, Flag, auto
from functools import cached_property
from typing import NoReturn

from headgate.core.errors import TransitionRefused


class By(Enum):
    """Who may fire an event. It is also the guard in the write."""

    CLIENT = "the calling client"
    HOLDER = "the holder: id and token match, and the lease has not expired"
    STORE = "any process that finds the lease expired, by the store's clock"
    OPERATOR = "an operator, with a reason"
    WORKER = "the worker: its token is that of the newest claim, which has not been reaped"
    OWNER = "the consumer that took it: its token is the newest, and its lease or session has not expired"
    DAEMON = "a daemon of the queue, while no consumer has taken it"


class Also(Flag):
    """What else changes in the same write."""

    NOTHING = 0
    NEW_TOKEN = auto()
    JOIN_QUEUE = auto()
    LEAVE_QUEUE = auto()
    FREE_RESOURCE = auto()
    SERVE_QUEUE = auto()
    COUNT_REFUSAL = auto()
    COUNT_HOLD = auto()
    RECORD_HISTORY = auto()
    COUNT_ATTEMPT = auto()
    COUNT_FAILURE = auto()
    COUNT_CRASH = auto()
    COUNT_INTERRUPTION = auto()
    RESTORE_ATTEMPT = auto()
    CLEAR_COUNTS = auto()
    CLEAR_INPUTS = auto()
    DROP_OWNER = auto()
    MARK_STEP = auto()
    COUNT_RETRY = auto()
    DROP_ENTRY = auto()
    DROP_ALL = auto()
    DROP_OBJECT_LOCKS = auto()
    OPEN_INCIDENT = auto()
    CLOSE_INCIDENT = auto()

    def has(self, others: Also) -> bool:
        """Whether these effects include any of the given ones. (`in` and `&` of a Flag take ten times as long.)"""
        return self._value_ & others._value_ != 0

    def words(self) -> str:
        """The effects as readable text."""
        names = [member.name.lower().replace("_", " ") for member in self if member.name]
        return ", ".join(names) or "nothing"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of a table."""

    #: The state before.
    source: str
    #: What is fired.
    event: str
    #: The state after.
    target: str
    #: Who may fire it: the guard of the write.
    by: By
    #: What else changes in the same write.
    also: Also
    #: One sentence for people.
    meaning: str
    #: Which of several targets applies, where one event has more than one.
    when: str = ""
    #: A condition on other things; if it is not met, the event is refused.
    needs: str = ""
    #: The only spelling of the tree that has this row; empty: every one.
    only: str = ""

    @property
    def name(self) -> str:
        """A short name of the row, for tests and docs."""
        return f"{self.source} {self.event} {self.target}" + (f" ({self.when})" if self.when else "")


@dataclass(frozen=True)
class Machine:
    """A whole table: its rows, where it starts, and where it ends."""

    #: The noun that moves through the states.
    name: str
    #: The state of a thing before its first event.
    start: str
    #: All rows, in reading order.
    rows: tuple[Transition, ...]
    #: States that no row leaves, in which a thing stays until another one is removed with it.
    lasting: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._refuse_ambiguous_rows()
        self._refuse_unreachable_states()

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Every state, in reading order."""
        found = [self.start]
        found += [state for row in self.rows for state in (row.source, row.target)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def owned(self) -> tuple[str, ...]:
        """States in which an owner acts on an existing thing, in reading order."""
        found = (row.source for row in self.rows if row.by is By.OWNER and row.source != self.start)
        return tuple(dict.fromkeys(found))

    @property
    def events(self) -> tuple[str, ...]:
        """Every event, in reading order."""
        return tuple(dict.fromkeys(row.event for row in self.rows))

    @property
    def ends(self) -> tuple[str, ...]:
        """States in which a thing no longer exists: no row leaves them."""
        left = {*(row.source for row in self.rows), *self.lasting}
        return tuple(state for state in self.states if state not in left)

    @property
    def told(self) -> tuple[str, ...]:
        """The events that the history may hold."""
        return tuple(dict.fromkeys(row.event for row in self.rows if Also.RECORD_HISTORY in row.also))

    def allowed(self, state: str) -> tuple[str, ...]:
        """The events that a caller may fire in a state; those that the store fires automatically are not included."""
        return tuple(dict.fromkeys(row.event for row in self.rows if row.source == state and row.by is not By.STORE))

    def find(self, state: str, event: str) -> tuple[Transition, ...]:
        """The rows of an event in a state, or TransitionRefused with what is possible instead."""
        return self.rows_of(state, event) or self.refuse(state, event)

    def choose(self, state: str, event: str, is_met: Callable[[Transition], bool]) -> Transition | None:
        """The row of an event in a state whose condition is met, if it has one; None: there is no such row."""
        for row in self.rows_of(state, event):
            if not row.when or is_met(row):
                return row
        return None

    def refuse(self, state: str, event: str) -> NoReturn:
        """Raise TransitionRefused, with what is possible in this state instead."""
        raise TransitionRefused(self.name, state, event, self.allowed(state))

    def rows_of(self, state: str, event: str) -> tuple[Transition, ...]:
        """The rows of an event in a state; none when it is not possible there."""
        return self._rows.get((state, event), ())

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str], tuple[Transition, ...]]:
        found: dict[tuple[str, str], list[Transition]] = {}
        for row in self.rows:
            found.setdefault((row.source, row.event), []).append(row)
        return {key: tuple(rows) for key, rows in found.items()}

    def _refuse_ambiguous_rows(self) -> None:
        seen: set[tuple[str, str, str]] = set()
        for row in self.rows:
            key = (row.source, row.event, row.when)
            if key in seen:
                raise ValueError(f"{self.name}: two rows for {key}")
            seen.add(key)
        for source, event in {(row.source, row.event) for row in self.rows}:
            rows = [row for row in self.rows if (row.source, row.event) == (source, event)]
            if len(rows) > 1 and not all(row.when for row in rows):
                raise ValueError(f"{self.name}: {source} {event} has several targets, and not each says when")

    def _refuse_unreachable_states(self) -> None:
        reached = _closure(self.start, self.rows)
        lost = [state for state in self.states if state not in reached]
        if lost:
            raise ValueError(f"{self.name}: no row leads to {', '.join(lost)}")


def spelt(spelling: str, rows: Iterable[Transition]) -> tuple[Transition, ...]:
    """The rows that one spelling of the tree has."""
    return tuple(row for row in rows if row.only in ("", spelling))


def _closure(start: str, rows: Iterable[Transition]) -> set[str]:
    rows = tuple(rows)
    reached = {start}
    while True:
        more = {row.target for row in rows if row.source in reached} - reached
        if not more:
            return reached
        reached |= more
