"""Errors as text with next steps, as JSON, and as exit codes."""

from __future__ import annotations

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

    from headgate.cli.terminal.console import Console

#: Every exit code with its one meaning. A command that runs under a lock or on a chunk has its own exit codes.
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
#: Interrupted from the keyboard, and: the reader of our output went away. The exit codes by which shells report
#: signals.
INTERRUPTED, BROKEN_PIPE = 130, 141
#: By kind; the first match counts.
EXIT_CODES: tuple[tuple[type[HeadgateError], int], ...] = (
    (NotOwner, NOT_ALLOWED),
    (WrongKey, NOT_ALLOWED),
    (NotAllowed, NOT_ALLOWED),
    (Refused, TRY_LATER),
    (Lost, LOST),
    (Unavailable, CANNOT_REACH),
    (Invalid, WRONG_USAGE),
)
#: Maximum number of locks that are named in the advice.
MOST_LOCKS = 3


def exit_code(error: HeadgateError) -> int:
    """The exit code."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), FAILED)


def report(error: HeadgateError, console: Console) -> int:
    """Print an error on stderr, and return the exit code."""
    if console.on_error is not None:
        console.on_error(str(error))
    elif console.as_json:
        write_json(document(error, console))
    else:
        _say(text(error, console))
    return exit_code(error)


def complain(console: Console, kind: str, detail: str) -> None:
    """Print a failure that is not one of Headgate's own errors."""
    if console.on_error is not None:
        console.on_error(detail)
    elif console.as_json:
        write_json({"error": kind, "detail": detail})
    else:
        _say(detail)


def _say(detail: str) -> None:
    from headgate.cli.terminal.output import say

    say(f"headgate: {detail}")


def write_json(content: dict[str, Any]) -> None:
    """An error as one JSON object on stderr."""
    import json

    from headgate.cli.terminal.talk import talk
    from headgate.core.values.visible import visible_json
    from headgate.core.values.wire import plain

    talk(visible_json(json.dumps(plain(content), ensure_ascii=False)) + "\n")


def document(error: HeadgateError, console: Console) -> dict[str, Any]:
    """Return the error's kind, text, data and next steps."""
    from headgate.core.problems import data_of, word_of

    content = {"error": word_of(type(error)), "detail": str(error), **data_of(error)}
    steps = [command for _why, command in next_steps(error, console)]
    return {**content, "next": steps} if steps else content


def text(error: HeadgateError, console: Console) -> str:
    """The error as text; the last lines are commands to type."""
    steps = next_steps(error, console)
    width = max((len(why) for why, _command in steps), default=0)
    return "\n".join([str(error), *(f"{why:<{width}}  {command}" for why, command in steps)])


def next_steps(error: HeadgateError, console: Console) -> list[tuple[str, str]]:
    """Return suggestions for the user: purposes and commands."""
    if isinstance(error, StoreUnavailable) and error.request_id:
        again = _with_option(console.words, "--request-id", error.request_id)
        return [("To retry safely:", again)] if again else []
    if not isinstance(error, LockRefused):
        return []
    again = _with_option(console.words, "--wait", "60")
    resources = list(dict.fromkeys(blocker.resource for blocker in error.blockers))
    locks = [blocker.lock_id for blocker in error.blockers if blocker.lock_id and blocker.kind != "claim"]
    return [
        *([("To wait for it:", again)] if again else []),
        *(("To see the holder:", console.command("lock", "list", "--resource", each)) for each in resources),
        *(
            ("To break the lock:", console.command("lock", "break", each, "--reason", "why"))
            for each in locks[:MOST_LOCKS]
        ),
    ]


def _with_option(words: Sequence[str], option: str, value: str) -> str:
    """Return the same command line with an option set; empty if the command does not take it."""
    import shlex

    from headgate.core.values.redaction import mask

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
