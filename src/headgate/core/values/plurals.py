"""Counted nouns: 1 failure, 2 failures."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """1 failure, 2 failures; 1 batch, 2 batches."""
    return f"{count:,} {noun if count == 1 else nouns or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """The plural of a regular noun: failures, batches, entries."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"
