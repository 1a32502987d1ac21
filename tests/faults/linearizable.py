"""Is a recorded history linearizable: can each operation have taken effect at one moment between its question and its
answer, in an order that the model allows?

The search is that of Wing and Gong with Lowe's memoization: try the orders that agree with the times, and never twice
the same set of completed operations with the same state. Keys are checked separately, since operations on different
keys are independent. An operation without an answer (`info`) may take effect at any later moment, or never; so may the
expiry of a lease, which the model adds as an operation of its own.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tests.faults.history import Op, by_key

#: More configurations than any correct history needs; beyond that the result is unknown.
MOST = 2_000_000


class End(NamedTuple):
    """A grant that has ended, and the kinds of optional operations on it that can no longer take effect."""

    ref: Hashable
    kinds: tuple[str, ...]


class Model(Protocol):
    """The behaviour of one key, one operation after another."""

    def ops(self, ops: Sequence[Op]) -> list[Op]:
        """The operations of a history, with those that no process called (expiry)."""

    def start(self) -> Hashable:
        """The state before the first operation."""

    def step(self, state: Hashable, op: Op) -> Hashable | None:
        """The state after it; None: with this answer it cannot happen in that state."""

    def ends(self, op: Op) -> End | None:
        """The operations that can no longer take effect after this one; None: there are none."""

    def ref(self, op: Op) -> Hashable:
        """The grant that an operation is about."""

    def twin(self, op: Op) -> Hashable | None:
        """The group of operations that stand for each other: whatever one of them explains, those that were asked
        earlier explain as well. They are tried in the order in which they were asked. None: it stands for itself.
        """


class Undecided(Exception):
    """The search was given up."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A key whose history no order explains."""

    key: str
    #: The largest number of operations that can be explained; and those of which none can be next.
    explained: int
    stuck: tuple[Op, ...]

    def __str__(self) -> str:
        waiting = "; ".join(map(str, self.stuck[:6]))
        return f"not linearizable: {self.key}: after {self.explained} operations none of these fits: {waiting}"


def violations(ops: Iterable[Op], model: Model) -> list[Violation]:
    """Every key whose history the model does not explain."""
    found = (_Search(key, each, model).run() for key, each in by_key(ops).items())
    return [each for each in found if each is not None]


class _Search:
    def __init__(self, key: str, ops: Sequence[Op], model: Model) -> None:
        self._key = key
        self._model = model
        self._ops = sorted(model.ops(ops), key=lambda op: op.invoked)
        self._required = sum(1 << place for place, op in enumerate(self._ops) if op.required)
        self._buries = self._burials()
        self._twins = [None if op.required else model.twin(op) for op in self._ops]
        self._best: tuple[int, tuple[Op, ...]] = (-1, ())

    def run(self) -> Violation | None:
        """Depth first, with an explicit stack: histories are longer than Python's."""
        seen: set[tuple[int, Hashable]] = set()
        start = self._model.start()
        stack = [(0, start, self._next(0))]
        while stack:
            done, state, candidates = stack[-1]
            if done & self._required == self._required:
                return None
            found = self._advance(done, state, candidates, seen)
            if found is None:
                stack.pop()
                continue
            if len(seen) > MOST:
                raise Undecided(f"{self._key}: {len(self._ops)} operations")
            stack.append((*found, self._next(found[0])))
        explained, stuck = self._best
        return Violation(self._key, explained, stuck)

    def _advance(
        self, done: int, state: Hashable, candidates: Iterator[int], seen: set[tuple[int, Hashable]]
    ) -> tuple[int, Hashable] | None:
        for place in candidates:
            after = self._model.step(state, self._ops[place])
            if after is None:
                continue
            found = (done | 1 << place | self._buries[place], after)
            if found not in seen:
                seen.add(found)
                return found
        count = (done & self._required).bit_count()
        if count > self._best[0]:
            self._best = (count, tuple(self._ops[place] for place in self._next(done)))
        return None

    def _next(self, done: int) -> Iterator[int]:
        """Operations that may be next: none that is not done had ended before they were asked.

        Optional ones last, and of those that stand for each other the first.
        """
        required: list[int] = []
        optional: list[int] = []
        groups: set[Hashable] = set()
        horizon = float("inf")
        first_left = (~done & (done + 1)).bit_length() - 1
        for place in range(first_left, len(self._ops)):
            op = self._ops[place]
            if op.invoked > horizon:
                break
            if done >> place & 1:
                continue
            horizon = min(horizon, op.ended)
            twin = self._twins[place]
            if twin is None or twin not in groups:
                groups.add(twin)
                (required if op.required else optional).append(place)
        required.sort(key=lambda place: self._ops[place].ended)
        return iter(required + optional)

    def _burials(self) -> list[int]:
        """For each operation: the optional ones that cannot take effect any more once it did.

        Whether they count as done makes no difference then, so they do: fewer configurations differ.
        """
        optional: dict[tuple[Hashable, str], int] = {}
        for place, op in enumerate(self._ops):
            if not op.required:
                of = (self._model.ref(op), op.f)
                optional[of] = optional.get(of, 0) | 1 << place
        return [self._buried_by(op, optional) for op in self._ops]

    def _buried_by(self, op: Op, optional: dict[tuple[Hashable, str], int]) -> int:
        end = self._model.ends(op)
        found = 0
        if end is not None:
            for kind in end.kinds:
                found |= optional.get((end.ref, kind), 0)
        return found
