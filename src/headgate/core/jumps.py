"""How far tokens and ids jump when a store is copied or restored, so that no two branches issue the same one.

A store that was copied or backed up may continue to be used, and a restore cannot know how far it went. Clocks are not
used: those of two machines differ, and one may be slow. A copy therefore jumps by a step that is larger than anything
the source can use up, plus a random part, so that two restores of one backup differ even when neither knows of the
other. If an earlier jump is known, the next one goes beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headgate.core.errors import BadValue

#: JSON numbers are exact up to here in every language.
LAST_TOKEN = 2**53 - 1
#: Ids of batches and ingest jobs have ten digits.
LAST_NUMBER = 10**10 - 1
#: The names of the counters of batches and ingest jobs.
NUMBERED = ("bid", "jid")


@dataclass(frozen=True, slots=True)
class Jump:
    """How far tokens, and the ids of batches and ingest jobs, jump beyond those of the source."""

    tokens: int = 0
    ids: int = 0


#: More than the source can have used since it was read: 2^40 tokens, 10^8 ids.
STEP = Jump(2**40, 10**8)
#: Beyond what an earlier, abandoned copy may have used.
NEXT = Jump(2**36, 10**6)


def next_jump(known: Jump, below: Callable[[int], int]) -> Jump:
    """Return a jump beyond the known ones, random within its step: `below(n)` draws from 0 to n - 1."""
    tokens, ids = _step(known.tokens, STEP.tokens, NEXT.tokens), _step(known.ids, STEP.ids, NEXT.ids)
    return Jump(known.tokens + tokens + below(tokens), known.ids + ids + below(ids))


def check_room(name: str, token: int, numbers: Mapping[str, int], known: Jump) -> None:
    """Raise BadValue when `next_jump` could lead beyond the last token or id."""
    most, farthest = max((0, *numbers.values())), next_jump(known, lambda step: step)
    if token + farthest.tokens > LAST_TOKEN:
        raise BadValue("source", name, f"has issued tokens up to {token}; a copy or restore would exceed 2^53")
    if most + farthest.ids > LAST_NUMBER:
        raise BadValue("source", name, f"has issued ids up to {most}; a copy or restore would exceed ten digits")


def _step(known: int, first: int, following: int) -> int:
    return following if known else first
