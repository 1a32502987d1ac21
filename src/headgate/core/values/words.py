"""Words and names that callers type: the known ones, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.core.errors import BadValue


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, in any case; empty if none is similar."""
    from difflib import get_close_matches

    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(word.lower(), by_lower, 1)
    return by_lower[near[0]] if near else ""


def suggestion(word: str, known: Sequence[str], most: int | None = None) -> str:
    """Advice for an unknown word: the nearest known one, or up to `most` of the known ones, or all."""
    near = nearest(word, known)
    if near:
        return f"did you mean {near!r}?"
    listed = ", ".join(known[:most]) + ("…" if len(known) > len(known[:most]) else "")
    return f"known: {listed}" if known else ""


def as_sentence(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]


def check_word(what: str, value: object, words: Sequence[str]) -> str:
    """One of some words. BadValue lists them and suggests the nearest."""
    if isinstance(value, str) and value in words:
        return value
    raise unknown_word(what, value, words)


def unknown_word(what: str, value: object, words: Iterable[str]) -> BadValue:
    """The error for a value that is not one of these words."""
    listed = list(dict.fromkeys(words))
    near = nearest(str(value), listed)
    hint = f"; did you mean {near!r}?" if near else ""
    return BadValue(what, value, f"is not one of {', '.join(listed)}{hint}")
