"""The names of versions: `v1`, `v2`, or zero-padded `v001`, `v002`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

_NAME = re.compile("v(0*)([1-9][0-9]{0,17})")


@dataclass(slots=True)
class VersionNames:
    """The valid names of an inventory's versions, in the order of their numbers."""

    all: dict[str, int] = field(default_factory=dict)

    @property
    def newest(self) -> str:
        """The one with the highest number; empty: there is none."""
        return next(reversed(self.all), "")

    @property
    def first(self) -> str:
        return next(iter(self.all), "")

    def same_number(self, name: str) -> str:
        """The actual name of the version meant by another spelling; empty: there is none."""
        match = _NAME.fullmatch(name)
        return next((each for each, number in self.all.items() if match and number == int(match[2])), "")


def number_of(name: str) -> int:
    """The number in the name of a version; 0: the name is not valid."""
    match = _NAME.fullmatch(name)
    return int(match[2]) if match else 0


def name_faults(name: str) -> tuple[str, str] | None:
    """The code and the reason, if the name of a version is not valid."""
    if number_of(name):
        return None
    if not name.startswith("v"):
        return "E104", f"the version {name!r} does not start with 'v'"
    return "E105", f"the version {name!r} has no whole number from 1 on after its 'v'"


def sequence_faults(names: VersionNames) -> Iterator[tuple[str, str]]:
    """Errors in the numbers of all versions together, and in their spelling."""
    numbers = list(names.all.values())
    if numbers and numbers[0] != 1:
        yield "E009", f"the first version is {names.first!r}"
    for before, after in pairwise(numbers):
        if after > before + 1:
            yield "E010", f"version {before + 1} is missing between {before} and {after}"
    first = names.first
    for name in list(names.all)[1:]:
        yield from _convention_faults(first, name)
    if _is_padded(first):
        yield "W001", f"the versions are zero-padded: {first!r}"


def _convention_faults(first: str, name: str) -> Iterator[tuple[str, str]]:
    if _is_padded(first) and _is_padded(name):
        if len(name) != len(first):
            yield "E012", f"the versions {first!r} and {name!r} differ in length"
    elif _is_padded(name):
        yield "E013", f"the version {name!r} is zero-padded, and {first!r} is not"
    elif _is_padded(first):
        yield "E013", f"the version {name!r} is not zero-padded, and {first!r} is"
        if len(name) == len(first):
            yield "E011", f"the version {name!r} does not start with 'v0'"


def _is_padded(name: str) -> bool:
    return name.startswith("v0")
