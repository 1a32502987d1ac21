"""The tone of each word in the tables: pages and terminals display them alike."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Tone(StrEnum):
    """How a state, or an event that leads to it, is to be displayed."""

    OK = "ok"
    #: A worker has it.
    RUNNING = "running"
    FAILED = "failed"
    #: It waits for an operator.
    HELD = "held"
    #: Its turn comes.
    QUEUED = "queued"
    #: An operator overrode the rules.
    FORCED = "forced"
    #: A reader, and a writer.
    SHARED = "shared"
    EXCLUSIVE = "exclusive"


#: The tones of states and events. A missing word is displayed like an unknown one.
TONES: Mapping[str, Tone] = {
    **dict.fromkeys(("READY", "DONE", "completed", "cleaned", "released"), Tone.OK),
    **dict.fromkeys(("success", "publish", "finish", "release", "clear"), Tone.OK),
    "shared": Tone.SHARED,
    "exclusive": Tone.EXCLUSIVE,
    **dict.fromkeys(("RUNNING", "estimating", "provisioning", "downloading", "processing", "storing"), Tone.RUNNING),
    **dict.fromkeys(("recording", "notify", "reporting", "update-reporting"), Tone.RUNNING),
    **dict.fromkeys(("grant", "claim", "accept", "start", "resume"), Tone.RUNNING),
    **dict.fromkeys(("ERROR", "failed", "expired", "refused", "fail", "expire", "reap", "refuse"), Tone.FAILED),
    **dict.fromkeys(("HOLD", "held", "hold"), Tone.HELD),
    **dict.fromkeys(("PENDING", "RESUBMIT", "pending", "waiting"), Tone.QUEUED),
    **dict.fromkeys(("submit", "create", "wait", "interrupt", "resubmit"), Tone.QUEUED),
    **dict.fromkeys(("broken", "deleted", "break", "force", "delete"), Tone.FORCED),
}
