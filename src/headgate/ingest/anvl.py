"""ANVL, a name-value language: `label: value` lines, percent-encoded where they must be."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headgate.core.errors import BadValue

Pairs = list[tuple[str, str]]

_IN_LABEL = re.compile("[%:\r\n]|^#")
_IN_VALUE = re.compile("[%\r\n]")
_ENCODED = re.compile("%([0-9A-Fa-f]{2})?")
#: Not str.splitlines: it also splits at characters that are part of a text here.
_LINE_END = re.compile("\r\n?|\n")


def write(pairs: Iterable[tuple[str, str]], gap: str = " ") -> str:
    """One line a pair. Blanks around a label or value are kept by no reader, so that they are not written."""
    return "".join(f"{_label(label)}:{gap}{_encode(_IN_VALUE, value.strip())}\n" for label, value in pairs)


def read(text: str) -> Pairs:
    """Every pair in its order. A line that starts with a blank goes on from the one before; # is a comment."""
    pairs: Pairs = []
    goes_on = False
    for number, line in enumerate(_LINE_END.split(text), 1):
        if not line:
            goes_on = False
        elif line[0].isspace():
            if not goes_on:
                raise _wrong(number, line, "goes on from a line that is not there")
            label, value = pairs[-1]
            pairs[-1] = (label, f"{value} {_decode(number, line)}".strip())
        elif not line.startswith("#"):
            pairs.append(_pair(number, line))
            goes_on = True
    return pairs


def read_unique(text: str) -> dict[str, str]:
    """The pairs of a text in which no label may stand twice."""
    pairs = read(text)
    found = dict(pairs)
    if len(found) < len(pairs):
        labels = [label for label, _ in pairs]
        twice = next(label for label in labels if labels.count(label) > 1)
        raise BadValue("ANVL label", twice, "is there twice")
    return found


def _pair(number: int, line: str) -> tuple[str, str]:
    label, colon, value = line.partition(":")
    if not colon:
        raise _wrong(number, line, "has no colon")
    decoded = _decode(number, label)
    if not decoded:
        raise _wrong(number, line, "has no label before the colon")
    return decoded, _decode(number, value)


def _label(label: str) -> str:
    if not label.strip():
        raise BadValue("ANVL label", label, "is empty")
    return _encode(_IN_LABEL, label.strip())


def _encode(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _decode(number: int, text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[1] is None:
            raise _wrong(number, text, "has a % without two hexadecimal digits after it")
        return chr(int(found[1], 16))

    return _ENCODED.sub(plain, text).strip()


def _wrong(number: int, line: str, why: str) -> BadValue:
    return BadValue(f"ANVL line {number}", line, why)
