"""Data ids that are made of named fields: `{sample}.{lane}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

_PARTS = re.compile(r"\{[^{}]*\}|[{}]|[^{}]+")
_FIELD = re.compile(r"\{([a-z_][a-z0-9_]*)\}", re.ASCII | re.IGNORECASE)


class NamePattern:
    """A pattern of data ids. ValueError for one that cannot be read in one way only, with the reason.

    A field has at least one character. Each is as short as possible, from left to right: of `{sample}.{lane}`,
    `a.b.c` has the sample `a`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = tuple(_PARTS.findall(text))
        strange = next((part for part in self.parts if part[0] in "{}" and not _FIELD.fullmatch(part)), None)
        if strange is not None:
            raise ValueError(f"has {strange!r}; a field is a name in braces: {{sample}}")
        self.fields = tuple(part[1:-1] for part in self.parts if part[0] == "{")
        if not self.fields:
            raise ValueError("has no field in braces, such as {sample}")
        twice = next((each for each in self.fields if self.fields.count(each) > 1), None)
        if twice is not None:
            raise ValueError(f"has the field {{{twice}}} twice")
        if any(one[0] == other[0] == "{" for one, other in pairwise(self.parts)):
            raise ValueError("has two fields with nothing between them")
        self._pattern = re.compile(
            "".join(f"(?P<{part[1:-1]}>.+?)" if part[0] == "{" else re.escape(part) for part in self.parts)
        )

    def read(self, dataid: str) -> Mapping[str, str] | None:
        """The fields of a data id; None if it does not match."""
        found = self._pattern.fullmatch(dataid)
        return None if found is None else found.groupdict()

    def write(self, fields: Mapping[str, str]) -> str:
        """The data id with these fields."""
        return "".join(fields[part[1:-1]] if part[0] == "{" else part for part in self.parts)


@lru_cache(maxsize=1000)
def name_pattern(text: str) -> NamePattern:
    """The pattern of that text, read once."""
    return NamePattern(text)
