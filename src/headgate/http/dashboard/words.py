"""Values as people read them: times, lengths of time, sizes, ids, and how a state looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from headgate.core.census import EXPIRED
from headgate.core.durations import in_words
from headgate.core.plurals import plural

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
#: An id that is longer is shortened in the middle.
LONGEST_ID = 18


class Look(NamedTuple):
    """How a state looks: never by colour alone."""

    #: The name of its colours in the style sheet.
    tone: str
    #: The shape of its icon, in templates/icons.svg.
    shape: str


#: By the state's word. A word that stands nowhere here looks like one that is not known.
LOOKS: dict[str, Look] = {
    **dict.fromkeys(("READY", "DONE", "completed", "ok", "release", "released", "success", "delivered", "cleaned",
                     "finish", "clear", "publish"), Look("ok", "check")),
    **dict.fromkeys(("shared",), Look("ok", "circles")),
    **dict.fromkeys(
        ("RUNNING", "estimating", "provisioning", "downloading", "processing", "storing", "recording", "notify",
         "reporting", "update-reporting", "running", "grant", "granted", "claim", "resume", "start", "accept"),
        Look("running", "play"),
    ),
    **dict.fromkeys(("exclusive",), Look("running", "lock")),
    **dict.fromkeys(("ERROR", EXPIRED, "failed", "fail", "expire", "expired", "reap", "refuse", "refused",
                     "given-up"), Look("failed", "cross")),
    **dict.fromkeys(("stuck",), Look("failed", "warn")),
    **dict.fromkeys(("HOLD", "held", "hold", "paused", "pause"), Look("held", "pause")),
    **dict.fromkeys(("PENDING", "pending", "waiting", "queued", "RESUBMIT", "resubmit", "submit", "create", "wait",
                     "interrupt", "interrupted"),
                    Look("queued", "clock")),
    **dict.fromkeys(("break", "broken", "force", "forced", "deleted", "delete"), Look("forced", "bolt")),
}  # fmt: skip
UNKNOWN = Look("queued", "dot")


def look(word: str) -> Look:
    """How a state, or an event that leads to it, looks."""
    return LOOKS.get(word, UNKNOWN)


def duration(value: float | timedelta | None) -> str:
    """2 h 14 min; 40 s; a dash where there is none."""
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


def size(count: float) -> str:
    """1.5 GiB"""
    value, unit = float(count), _SIZES[0]
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def short(text: str) -> str:
    """A long id, its middle left out."""
    return text if len(text) <= LONGEST_ID else f"{text[:8]}…{text[-6:]}"


def number(value: int) -> str:
    """12,345"""
    return f"{value:,}"


#: 1 lock, 2 locks.
some = plural
