"""What an error becomes: a text that says what to do next, a JSON object, and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headgate.core.errors import (
    HeadgateError,
    Invalid,
    LockRefused,
    Lost,
    NotAllowed,
    NotOwner,
    Refused,
    StoreUnavailable,
    Unavailable,
    WrongKey,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.cli.session import Session

#: Every exit code with its one meaning. A command that is run under a lock or on a chunk has its own codes.
MEANINGS: Mapping[int, str] = {
    0: "done",
    1: "done, but something failed, is damaged or is stuck; the output names it",
    2: "wrong usage, or a request that can never succeed as it is",
    3: "nothing to do",
    69: "the store or a service cannot be reached",
    74: "the file of a claim cannot be written",
    75: "refused now: another client holds it, a rule forbids it, or the time is up; try later",
    76: "lost: the lease expired, or the token is an old one",
    77: "not allowed: a wrong key, an API token without the right, or another owner",
}
DONE, FAILED, WRONG_USAGE, NOTHING_TO_DO, CANNOT_REACH, CANNOT_WRITE, TRY_LATER, LOST, NOT_ALLOWED = MEANINGS
#: Interrupted from the keyboard, and: the reader of our output went away. As shells report signals.
INTERRUPTED, BROKEN_PIPE = 130, 141
#: By kind, the first that fits.
EXIT_CODES: tuple[tuple[type[HeadgateError], int], ...] = (
    (NotOwner, NOT_ALLOWED),
    (WrongKey, NOT_ALLOWED),
    (NotAllowed, NOT_ALLOWED),
    (Refused, TRY_LATER),
    (Lost, LOST),
    (Unavailable, CANNOT_REACH),
    (Invalid, WRONG_USAGE),
)
#: No more than this many locks are named in the advice.
MOST_LOCKS = 3


def exit_code(error: HeadgateError) -> int:
    """What the shell is told."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAILED)


def report(error: HeadgateError, session: Session) -> int:
    """Tell of an error on stderr, and give the exit code."""
    if session.as_json:
        write_json(document(error, session))
    else:
        _say(text(error, session))
    return exit_code(error)


def complain(session: Session, kind: str, detail: str) -> None:
    """Tell of a failure that is none of Headgate's own errors."""
    if session.as_json:
        write_json({"error": kind, "detail": detail})
    else:
        _say(detail)


def _say(detail: str) -> None:
    from headgate.cli.output import say

    say(f"headgate: {detail}")


def write_json(content: dict[str, Any]) -> None:
    """An error for programs: one JSON object on stderr."""
    import json

    from headgate.core.visible import visible_json
    from headgate.core.wire import plain

    sys.stderr.write(visible_json(json.dumps(plain(content), ensure_ascii=False)) + "\n")


def document(error: HeadgateError, session: Session) -> dict[str, Any]:
    """The error's kind, its text, its data, and what may be done."""
    data = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    content = {"error": kebab_case(type(error).__name__), "detail": str(error), **data}
    steps = [command for _why, command in next_steps(error, session)]
    return {**content, "next": steps} if steps else content


def text(error: HeadgateError, session: Session) -> str:
    """The error for people; the last lines are commands to type."""
    steps = next_steps(error, session)
    width = max((len(why) for why, _command in steps), default=0)
    return "\n".join([str(error), *(f"{why:<{width}}  {command}" for why, command in steps)])


def next_steps(error: HeadgateError, session: Session) -> list[tuple[str, str]]:
    """What the user may do now: why, and the command."""
    if isinstance(error, StoreUnavailable) and error.request_id:
        again = _with_option(session.words, "--request-id", error.request_id)
        return [("To retry safely:", again)] if again else []
    if not isinstance(error, LockRefused):
        return []
    again = _with_option(session.words, "--wait", "60")
    resources = list(dict.fromkeys(blocker.resource for blocker in error.blockers))
    locks = [blocker.lock_id for blocker in error.blockers if blocker.lock_id and blocker.kind != "claim"]
    return [
        *([("To wait for it:", again)] if again else []),
        *(("To see the holder:", session.command("lock", "list", "--resource", each)) for each in resources),
        *(
            ("To break the lock:", session.command("lock", "break", each, "--reason", "why"))
            for each in locks[:MOST_LOCKS]
        ),
    ]


def kebab_case(name: str) -> str:
    """LockRefused is lock-refused."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def _with_option(words: Sequence[str], option: str, value: str) -> str:
    """The same command line with an option set; nothing when the command does not take it."""
    import shlex

    from headgate.core.redaction import mask

    end = words.index("--") if "--" in words else len(words)
    ours, rest = _without_option(words[:end], option), words[end:]
    for at in range(len(ours) - 1):
        if ours[at] == "lock" and ours[at + 1] in ("acquire", "run"):
            ours[at + 2 : at + 2] = [option, value]
            return shlex.join(["headgate", *(mask(word) for word in ours), *rest])
    return ""


def _without_option(words: Sequence[str], option: str) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word != option and not word.startswith(option + "="):
            kept.append(word)
        skip = not skip and word == option
    return kept
