"""What one data id of a job reads from an input: the answers of a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Listed:
    """Exactly these data ids, whether they exist yet or not. None: the data id does not have the mapping's format."""

    ids: tuple[str, ...]
    #: Whether nothing else can arrive: it is enough that they are READY.
    complete: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Matching:
    """Every data id of the input whose `targets` contain the job's data id. More may arrive until the data id is
    closed.
    """

    #: The prefix of all of them; it only narrows a search.
    prefix: str
    complete: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Everything:
    """Every data id that the input has when the claim is made, and at least one."""

    complete: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The data id itself, and those next to it among all that the input has, in the input's order."""

    #: How many before it.
    before: int
    #: How many after it.
    after: int
    complete: ClassVar[bool] = True


Sources: TypeAlias = Listed | Matching | Everything | Neighbours
