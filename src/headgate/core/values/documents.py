"""Parsing of external JSON and TOML, in one place and by one rule, so that all readers see the same document."""

from __future__ import annotations

import json
import math
from collections import Counter
from json.encoder import encode_basestring
from typing import Any

#: Maximum nesting depth of lists and objects.
DEEPEST = 50
#: Maximum number of lists and objects, and of values, in an untrusted document: a byte or two of it can take a hundred
#: in memory.
MOST_CONTAINERS = 500_000
MOST_VALUES = 4_000_000

#: A string in JSON syntax. (Building small JSON this way is five times as fast as `json.dumps`.)
quoted = encode_basestring


class DuplicateKey(ValueError):
    """An object has a duplicate key: which value counts would depend on the reader."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key[:60]!r} appears twice")


def read_document(text: bytes | str) -> Any:
    """A document that can be stored and returned unchanged, or ValueError.

    It must be in UTF-8, without duplicate keys, infinite numbers or lone surrogates, and no deeper than `DEEPEST`.
    """
    written = text if isinstance(text, str) else bytes(text).decode()
    try:
        found = _DECODER.decode(written)
        if "\\u" in written:  # The only way to write a lone surrogate.
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if written.count("[") + written.count("{") > DEEPEST and _is_deeper(found, DEEPEST):
        raise ValueError("it is nested too deeply")
    return found


def read_foreign(text: bytes) -> Any:
    """A document as `read_document` reads it, unless it is built to exhaust the memory; then ValueError."""
    if text.count(b"[") + text.count(b"{") > MOST_CONTAINERS or text.count(b",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_CONTAINERS:,} lists and objects, or {MOST_VALUES:,} values")
    return read_document(text)


def read_toml(text: bytes) -> dict[str, Any]:
    """The content of a TOML file, or ValueError with the reason."""
    import tomllib  # Imported only when there is a file: the command starts faster without it.

    try:
        return tomllib.loads(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DuplicateKey(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number")
    return value


def _is_deeper(found: Any, levels: int) -> bool:
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return levels < 0 or any(_is_deeper(each, levels - 1) for each in parts)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
