"""ANVL, a name-value language: `label: value` lines, percent-encoded if necessary."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headgate.core.errors import BadValue
from headgate.ingest.formats.lines import lines_of

Pairs = list[tuple[str, str]]
#: Maximum number of characters and pairs of a text.
LONGEST_TEXT = 5_000_000
MOST_PAIRS = 10_000

_IN_LABEL = re.compile("[%:\r\n]|^#")
_IN_VALUE = re.compile("[%\r\n]")
_ENCODED = re.compile("%([0-9A-Fa-f]{2})?")


def write(pairs: Iterable[tuple[str, str]], gap: str = " ") -> str:
    """One line per pair. Readers drop blanks around a label or value, so they are not written."""
    return "".join(f"{_label(label)}:{gap}{_encode(_IN_VALUE, value.strip())}\n" for label, value in pairs)


def read(text: str) -> Pairs:
    """Every pair, in order. A line that starts with a blank continues the one before; # is a comment."""
    if len(text) > LONGEST_TEXT:
        raise BadValue("ANVL", f"{len(text):,} characters", f"is too long; at most {LONGEST_TEXT:,} are allowed")
    return [(label, " ".join(filter(None, parts))) for label, parts in _lists(text)]


def _lists(text: str) -> list[tuple[str, list[str]]]:
    """Each label with the parts of its value. They are joined only once, so that the time is proportional to the
    length.
    """
    found: list[tuple[str, list[str]]] = []
    continues = False
    for number, line in enumerate(lines_of(text), 1):
        if not line:
            continues = False
        elif line[0].isspace():
            if not continues:
                raise _wrong(number, line, "continues a line that does not exist")
            found[-1][1].append(_decode(number, line))
        elif not line.startswith("#"):
            if len(found) == MOST_PAIRS:
                raise _wrong(number, line, f"is one too many; at most {MOST_PAIRS:,} pairs are allowed")
            label, value = _pair(number, line)
            found.append((label, [value]))
            continues = True
    return found


def read_unique(text: str) -> dict[str, str]:
    """The pairs of a text in which labels must be unique."""
    found: dict[str, str] = {}
    for label, value in read(text):
        if label in found:
            raise BadValue("ANVL label", label, "appears twice")
        found[label] = value
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
