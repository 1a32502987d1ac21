"""Parsing of modes, wanted locks and lock ids."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headgate.core.errors import BadValue, ForeignStore
from headgate.core.locks.model import Mode
from headgate.core.values.words import unknown_word

#: The words for the two modes, in any case.
MODE_WORDS: Mapping[str, Mode] = {
    "shared": Mode.SHARED,
    "read": Mode.SHARED,
    "exclusive": Mode.EXCLUSIVE,
    "write": Mode.EXCLUSIVE,
}
#: Store, resource and request.
_LOCK_ID = re.compile("[a-z0-9]{4}-[a-z2-7]{16}-[a-z2-7]{12}")


def parse_mode(value: object) -> Mode:
    """read, write, shared or exclusive, in any case."""
    if isinstance(value, str) and value.lower() in MODE_WORDS:
        return MODE_WORDS[value.lower()]
    raise unknown_word("mode", value, MODE_WORDS)


def parse_want(word: str, mode: str | None = None) -> tuple[str, Mode]:
    """Resource and mode of RESOURCE=MODE, or of RESOURCE, which means exclusive.

    The text after the last = must be a mode, so that a mistyped one cannot become part of a resource. `mode`: given
    separately; the word is then the resource, unchanged.
    """
    resource, mark, last = word.rpartition("=")
    if mode is not None:
        if mark and last.lower() in MODE_WORDS:
            raise BadValue("resource", word, f"names a mode, and so does mode {mode!r}; give one of them")
        return word, parse_mode(mode)
    if not mark:
        return word, Mode.EXCLUSIVE
    if last.lower() not in MODE_WORDS:
        why = unknown_word("mode", last, MODE_WORDS).why
        again = f"{word}={Mode.EXCLUSIVE}"
        raise BadValue("mode", last, f"in {word!r} {why}\nA resource whose name contains = needs a mode: {again!r}")
    return resource, MODE_WORDS[last.lower()]


def check_lock_id(lock_id: object, tag: str, store: str) -> str:
    """A lock's id, which must be of this store."""
    text = parse_lock_id(lock_id)
    if text[:4] != tag:
        raise ForeignStore(f"lock {text} belongs to another store ({text[:4]}); {store} is {tag}. Check HEADGATE_URL")
    return text


def parse_lock_id(lock_id: object) -> str:
    """A lock's id, of any store."""
    if isinstance(lock_id, str) and _LOCK_ID.fullmatch(lock_id):
        return lock_id
    raise BadValue("lock id", lock_id, "is not a lock id; list locks with: headgate lock list")
