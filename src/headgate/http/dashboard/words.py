"""Display of values: times, durations, sizes, ids, and states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from headgate.core.ledger.census import EXPIRED
from headgate.core.tables.tones import TONES, Tone
from headgate.core.values.durations import in_words
from headgate.core.values.plurals import plural
from headgate.core.values.sizes import size_in_words

#: A longer id is shortened in the middle.
LONGEST_ID = 18


class Appearance(NamedTuple):
    """The appearance of a state: never only by colour."""

    #: The name of its colours in the style sheet.
    tone: str
    #: The shape of its icon, in templates/icons.svg.
    shape: str


TONE_LOOKS = {
    Tone.OK: Appearance(Tone.OK, "check"),
    Tone.RUNNING: Appearance(Tone.RUNNING, "play"),
    Tone.FAILED: Appearance(Tone.FAILED, "cross"),
    Tone.HELD: Appearance(Tone.HELD, "pause"),
    Tone.QUEUED: Appearance(Tone.QUEUED, "clock"),
    Tone.FORCED: Appearance(Tone.FORCED, "bolt"),
    Tone.SHARED: Appearance(Tone.OK, "circles"),
    Tone.EXCLUSIVE: Appearance(Tone.RUNNING, "lock"),
}
#: By the state's word, or by another word used in pages. An unlisted word looks like an unknown one.
LOOKS: dict[str, Appearance] = {
    **{word: TONE_LOOKS[tone] for word, tone in TONES.items()},
    **dict.fromkeys(("delivered",), TONE_LOOKS[Tone.OK]),
    **dict.fromkeys(("granted",), TONE_LOOKS[Tone.RUNNING]),
    **dict.fromkeys((EXPIRED, "given-up"), TONE_LOOKS[Tone.FAILED]),
    **dict.fromkeys(("paused", "pause"), TONE_LOOKS[Tone.HELD]),
    **dict.fromkeys(("interrupted",), TONE_LOOKS[Tone.QUEUED]),
    **{str(tone): each for tone, each in TONE_LOOKS.items()},
    "stuck": Appearance(Tone.FAILED, "warn"),
}
UNKNOWN = Appearance(Tone.QUEUED, "dot")


def look(word: str) -> Appearance:
    """The appearance of a state, or of an event that leads to it."""
    return LOOKS.get(word, UNKNOWN)


def duration(value: float | timedelta | None) -> str:
    """A duration: 2 h 14 min; 40 s; a dash for none."""
    if value is None:
        return "-"
    return in_words(value.total_seconds() if isinstance(value, timedelta) else value)


def ago(moment: datetime, now: datetime | None = None) -> str:
    """3 min ago; of two clocks that differ a little: just now."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    return "just now" if seconds < 2 else f"{duration(seconds)} ago"


def absolute(moment: datetime) -> str:
    """2026-11-15 04:50:00 UTC"""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def short(text: str) -> str:
    """A long id, without its middle."""
    return text if len(text) <= LONGEST_ID else f"{text[:8]}…{text[-6:]}"


def number(value: int) -> str:
    """12,345"""
    return f"{value:,}"


#: 1 lock, 2 locks.
some = plural
#: 1.5 GiB.
size = size_in_words
