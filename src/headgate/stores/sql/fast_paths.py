"""The tables of locks and chunks rendered as SQL, for statements and routines that decide in one trip.

They accelerate the slow path and must come to the same result whenever they say yes. So every state, mode and event in
them is rendered from the tables; everything else is left to the slow path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from headgate.core.ledger.model import ERROR, HOLD, READY, RESUBMIT, RUNNING, SETTLED, Kind
from headgate.core.ledger.rules import COUNTS_BEGIN, ChunkRules, word_of
from headgate.core.locks.model import Mode, delay_of
from headgate.core.locks.rules import LockRules, summary
from headgate.core.tables.machine import Transition

#: Placeholder for the name of a routine in its own text.
NAME = "$name"
NEVER = "1 = 0"
#: The mode recorded for a resource with several holders, or none.
NO_MODE = f"'{summary([]).value}'"


@dataclass(frozen=True, slots=True)
class Routine:
    """A stored routine. Its name contains a digest of its text: other versions and other tables have their own
    routines.
    """

    name: str
    #: The statement that creates it.
    text: str


def routine(name: str, text: str) -> Routine:
    """The routine with this text, in which NAME stands for its name."""
    named = f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    return Routine(named, text.replace(NAME, named))


@lru_cache(maxsize=64)
def lock_words(rules: LockRules) -> Mapping[str, str]:
    """The values of words in braces in statements about locks; the resource's row is `r`, the mode is `:mode`."""
    fast = rules.fast
    return {
        "no_mode": NO_MODE,
        "joins": joins(rules, ":mode", "r"),
        "is_blocked": is_blocked(rules, ":mode", "r"),
        "joined_mode": joined_mode(":mode", "r"),
        "grant_event": event_of(fast.grant),
        "grant_source": source_of(fast.grant),
        "expire_event": event_of(fast.expire),
        "expire_target": target_of("mode", fast.expire),
        "release_event": event_of(fast.release),
        "releasable": one_of("mode", fast.release),
        "release_target": target_of("mode", fast.release),
    }


@lru_cache(maxsize=64)
def chunk_words(rules: ChunkRules) -> Mapping[str, str]:
    """The values of words in braces in statements about chunks."""
    claim, success, lose = rules.fast.claim, rules.fast.success, rules.fast.lose
    return {
        "running": quoted(RUNNING),
        "ready": quoted(READY),
        "done": quoted(word_of(READY, Kind.INPUT)),
        "redone": quoted(RESUBMIT),
        "in_error": quoted(ERROR),
        "on_hold": quoted(HOLD),
        "settled": f"({quoted(*SETTLED)})",
        "settled_or_held": f"({quoted(*SETTLED, HOLD)})",
        "claim_event": quoted(claim.event if claim else ""),
        "claim_source": quoted(claim.source if claim else ""),
        "success_event": quoted(success.event if success else ""),
        "interruptions": f"({quoted(*rules.counts_interruptions)})" if rules.counts_interruptions else "(null)",
        "counts_begin": f"({quoted(*COUNTS_BEGIN)})",
        "claims_end": NEVER if lose is None else "1 = 1",
        "lose_event": quoted(lose.event if lose else ""),
        "lose_target": quoted(lose.target if lose else ""),
    }


def quoted(*words: str) -> str:
    """Words as SQL literals, separated by commas."""
    return ", ".join(f"'{word}'" for word in words)


def joins(rules: LockRules, wanted: str, row: str) -> str:
    """Whether a mode can certainly be granted beside all holders, according to the resource's row."""
    beside = {mode: one_of(f"{row}.mode", [s for s in Mode if rules.joins(mode, s)]) for mode in rules.fast.grant}
    parts = [f"({wanted} = '{mode.value}' and ({row}.holders = 0 or {said}))" for mode, said in beside.items()]
    return f"({' or '.join(parts) or NEVER})"


def is_blocked(rules: LockRules, wanted: str, row: str) -> str:
    """Whether a mode certainly conflicts with some holder, according to the resource's row."""
    beside = {mode: one_of(f"{row}.mode", [s for s in Mode if rules.is_blocked(mode, s)]) for mode in Mode}
    parts = [f"({wanted} = '{mode.value}' and {said})" for mode, said in beside.items()]
    return f"({row}.holders > 0 and ({' or '.join(parts)}))"


def joined_mode(wanted: str, row: str) -> str:
    """The recorded mode after one more grant."""
    return f"case when {row}.holders = 0 then {wanted} else {NO_MODE} end"


def one_of(column: str, modes: Iterable[Mode]) -> str:
    """Whether a column contains one of these modes."""
    listed = ", ".join(f"'{mode.value}'" for mode in modes)
    return f"{column} in ({listed})" if listed else NEVER


def delay_after(row: str = "") -> str:
    """How long a lock stays in place after its holder died, by its mode. `row`: as in `l.`."""
    delayed = [mode for mode in Mode if delay_of(mode, 1.0)]
    return f"case when {one_of(f'{row}mode', delayed)} then {row}lock_delay else 0 end"


def target_of(column: str, rows: Mapping[Mode, Transition]) -> str:
    """The state after an event, by the mode in a column."""
    return _by_mode(column, {mode: row.target for mode, row in rows.items()})


def event_of(rows: Mapping[Mode, Transition]) -> str:
    """The event of these rows."""
    return f"'{next((row.event for row in rows.values()), '')}'"


def source_of(rows: Mapping[Mode, Transition]) -> str:
    """The state before the event, which is the same for every mode."""
    return f"'{next((row.source for row in rows.values()), '')}'"


def _by_mode(column: str, words: Mapping[Mode, str]) -> str:
    if len(set(words.values())) < 2:
        return f"'{next(iter(words.values()), '')}'"
    return f"case {column} " + " ".join(f"when '{mode.value}' then '{word}'" for mode, word in words.items()) + " end"
