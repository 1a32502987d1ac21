"""Names of files with fields: `{sample}/{lane}.fastq.gz`, `orders-{date:%Y-%m-%d}.csv`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

from headgate.core.ledger.mappings.stamps import DIRECTIVES, StampFormat, stamp_format

#: In a marker: the whole name of the file that it belongs to.
WHOLE_NAME = "name"
#: A time that names in examples have.
EXAMPLE = datetime(2026, 11, 14)  # noqa: DTZ001 - calendars have no zone
_PARTS = re.compile(r"\{[^{}]*\}|[{}]|[^{}]+")
_FIELD = re.compile(r"\{([a-z_][a-z0-9_]*)(?::([^{}]+))?\}", re.ASCII | re.IGNORECASE)
_DIRECTIVE = re.compile(r"%.")


class UnreadableName(ValueError):
    """The name of a file that matches a pattern but names no chunk; its text is the reason."""


class FilePattern:
    """A pattern of names. ValueError, with the reason, for one that is ambiguous.

    A field has at least one character, and no slash. One with a format, such as `{date:%Y-%m-%d}`, is a time.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = tuple(_PARTS.findall(text))
        strange = next((part for part in self.parts if part[0] in "{}" and not _FIELD.fullmatch(part)), None)
        if strange is not None:
            raise ValueError(f"has {strange!r}; a field is a name in braces, such as {{sample}} or {{date:%Y-%m-%d}}")
        found = [_field(part) for part in self.parts if part[0] == "{"]
        self.fields = tuple(name for name, _ in found)
        #: The format of each field that is a time.
        self.times: Mapping[str, StampFormat] = {name: _stamp(name, form) for name, form in found if form}
        self._check()
        self._shortest, self._longest = self._compile("+?"), self._compile("+")

    def _check(self) -> None:
        twice = next((each for each in self.fields if self.fields.count(each) > 1), None)
        if twice is not None:
            raise ValueError(f"has the field {{{twice}}} twice")
        plain = [part[0] == "{" and _field(part)[0] not in self.times for part in self.parts]
        if any(one and other for one, other in pairwise(plain)):
            raise ValueError("has two fields with nothing between them")

    def read(self, name: str) -> Mapping[str, str] | None:
        """The fields of a name; None if it does not match. UnreadableName if it has two readings, or names an invalid
        time.
        """
        shortest = self._shortest.fullmatch(name)
        if shortest is None:
            return None
        found, longest = shortest.groupdict(), self._longest.fullmatch(name)
        if longest is not None and longest.groupdict() != found:
            one, other = (", ".join(f"{key}={value}" for key, value in each.items())
                          for each in (found, longest.groupdict()))  # fmt: skip
            raise UnreadableName(f"can be read in two ways: {one}, or {other}")
        for field, form in self.times.items():
            if form.read(found[field]) is None:
                raise UnreadableName(f"has {found[field]!r}, which is not a time in the format {form.text}")
        return found

    def example(self) -> Mapping[str, str]:
        """Fields of the shortest name that matches."""
        return {each: self.times[each].write(EXAMPLE) if each in self.times else "x" for each in self.fields}

    def write(self, fields: Mapping[str, str], times: Mapping[str, StampFormat]) -> str:
        """The name with these fields, written in these formats."""
        return "".join(self._written(part, fields, times) if part[0] == "{" else part for part in self.parts)

    def _written(self, part: str, fields: Mapping[str, str], times: Mapping[str, StampFormat]) -> str:
        field, form = _field(part)
        moment = times[field].read(fields[field]) if form else None
        return fields[field] if moment is None else self.times[field].write(moment)

    def _compile(self, repeat: str) -> re.Pattern[str]:
        return re.compile("".join(self._expression(part, repeat) for part in self.parts))

    def _expression(self, part: str, repeat: str) -> str:
        if part[0] != "{":
            return re.escape(part)
        field, form = _field(part)
        return f"(?P<{field}>{_digits(form) if form else f'[^/]{repeat}'})"


@lru_cache(maxsize=1000)
def file_pattern(text: str) -> FilePattern:
    """The pattern for that text, parsed once."""
    return FilePattern(text)


def _field(part: str) -> tuple[str, str]:
    found = _FIELD.fullmatch(part)
    return ("", "") if found is None else (found[1], found[2] or "")


def _stamp(field: str, form: str) -> StampFormat:
    try:
        return stamp_format(form)
    except ValueError as error:
        raise ValueError(f"has the field {{{field}:{form}}}, whose format {error}") from None


def _digits(form: str) -> str:
    """The regular expression of a time: as many digits as each part has."""
    found, last = [], 0
    for match in _DIRECTIVE.finditer(form):
        found += [re.escape(form[last : match.start()]), _part(match[0])]
        last = match.end()
    return "".join((*found, re.escape(form[last:])))


def _part(directive: str) -> str:
    return f"[0-9]{{{DIRECTIVES[directive].width}}}" if directive in DIRECTIVES else "%"
