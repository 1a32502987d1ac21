"""Is a recorded history linearizable: can each operation have taken effect at one moment between its question and its
answer, in an order that the model allows?

The search is that of Wing and Gong with Lowe's memory: go through the orders that agree with the times, and never
twice through the same set of done operations with the same state. Keys are checked one by one, since operations on
different keys do not touch each other. An operation without an answer (`info`) may take effect at any later moment,
or never; so may the expiry of a lease, which the model adds as an operation of its own.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.faults.history import Op, by_key

#: More configurations than any sound history needs; beyond it the answer is unknown.
MOST = 2_000_000


class Model(Protocol):
    """What one key does, one operation after the other."""

    def ops(self, ops: Sequence[Op]) -> list[Op]:
        """The operations of a history, with those that nobody asked for (expiry)."""

    def start(self) -> Hashable:
        """The state before the first operation."""

    def step(self, state: Hashable, op: Op) -> Hashable | None:
        """The state after it; None: with this answer it cannot happen in that state."""

    def ends(self, op: Op) -> Hashable | None:
        """What can never expire any more once this operation took effect; None: nothing."""


class Undecided(Exception):
    """The search was given up."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A key whose history no order explains."""

    key: str
    #: As many operations as can be explained, at most; and those of which none can be next.
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
        self._best: tuple[int, tuple[Op, ...]] = (-1, ())

    def run(self) -> Violation | None:
        """Depth first, with a stack of its own: histories are longer than Python's."""
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
        """Operations that may be next: none that is not done had ended before they were asked. Optional ones last."""
        required: list[int] = []
        optional: list[int] = []
        horizon = float("inf")
        first_left = (~done & (done + 1)).bit_length() - 1
        for place in range(first_left, len(self._ops)):
            op = self._ops[place]
            if op.invoked > horizon:
                break
            if done >> place & 1:
                continue
            horizon = min(horizon, op.ended)
            (required if op.required else optional).append(place)
        required.sort(key=lambda place: self._ops[place].ended)
        return iter(required + optional)

    def _burials(self) -> list[int]:
        """For each operation: the expiries that cannot happen any more once it took effect."""
        expiries: dict[Hashable, int] = {}
        for place, op in enumerate(self._ops):
            if op.f == "expire":
                ref = op.value["ref"]
                expiries[ref] = expiries.get(ref, 0) | 1 << place
        return [expiries.get(self._model.ends(op), 0) for op in self._ops]
