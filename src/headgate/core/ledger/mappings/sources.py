"""The upstream ids that one data id of a job reads from an input, as a mapping returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Listed:
    """Exactly these data ids, whether they exist yet or not. None: the data id does not have the mapping's format."""

    ids: tuple[str, ...]
    #: Whether no others can arrive, so that it is enough for these to be READY.
    complete: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Matching:
    """Every data id of the input whose `targets` contain the job's data id. More may arrive until the data id is
    closed.
    """

    #: A common prefix of all of them, which only narrows a search.
    prefix: str
    complete: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Everything:
    """Every data id that the input has when the claim is made, and at least one."""

    complete: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The data id itself and its neighbours among all existing ids, in the input's order."""

    #: How many before it.
    before: int
    #: How many after it.
    after: int
    complete: ClassVar[bool] = True


Sources: TypeAlias = Listed | Matching | Everything | Neighbours
