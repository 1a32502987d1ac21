"""Data ids that consist of named fields: `{sample}.{lane}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

_PARTS = re.compile(r"\{[^{}]*\}|[{}]|[^{}]+")
_FIELD = re.compile(r"\{([a-z_][a-z0-9_]*)\}", re.ASCII | re.IGNORECASE)


class NamePattern:
    """A pattern of data ids. ValueError, with the reason, for an ambiguous one.

    A field has at least one character. Each is as short as possible, from left to right: with `{sample}.{lane}`,
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

    def beginnings(self, dataid: str) -> Mapping[str, tuple[str, bool]]:
        """What the fields certainly begin with, in whatever way a data id that matches was made of them, and whether
        that is all of the field. Fields of which nothing is certain are missing.
        """
        known: dict[str, tuple[str, bool]] = {}
        at, parts = 0, (*self.parts, "")
        for part, after in pairwise(parts):
            if part[0] != "{":
                at += len(part)
                continue
            # The last field ends where the rest of the pattern begins; others may end at each place that looks like it.
            is_last = part[1:-1] == self.fields[-1]
            end = len(dataid) - len(after) if is_last else dataid.find(after, at + 1)
            whole = is_last or dataid.find(after, end + 1) < 0
            known[part[1:-1]] = dataid[at:end], whole
            if not whole:
                break
            at = end
        return known

    def write(self, fields: Mapping[str, str]) -> str:
        """The data id with these fields."""
        return "".join(fields[part[1:-1]] if part[0] == "{" else part for part in self.parts)


@lru_cache(maxsize=1000)
def name_pattern(text: str) -> NamePattern:
    """The pattern for that text, parsed once."""
    return NamePattern(text)
