"""Lines of potentially large texts: one after another, without a list of all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, AnyStr

_ENDS: Mapping[type, re.Pattern[Any]] = {str: re.compile("\r\n?|\n"), bytes: re.compile(b"\r\n?|\n")}


def lines_of(text: AnyStr) -> Iterator[AnyStr]:
    """Lines without their ends (LF, CR LF or CR); text after the last end is a line too.

    Not `splitlines`, which also splits at characters that are part of a text here.
    """
    start = 0
    for end in _ENDS[type(text)].finditer(text):
        yield text[start : end.start()]
        start = end.end()
    if start < len(text):
        yield text[start:]
