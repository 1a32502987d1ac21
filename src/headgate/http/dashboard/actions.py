"""Acts of a person: a page, or a dialog on it, says what will happen and asks why; then it is done, and confirmed.

An act has two routes at one address: GET asks (`ask`), POST does it through the service (`act`). A script shows the
same page as a dialog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from headgate.core.errors import BadProfiles, BadValue, Refused, UnknownName
from headgate.http.access.auth import Caller
from headgate.http.access.sessions import form_of
from headgate.http.dashboard.frame import done, render

REASON, NAME = "reason", "name"


@dataclass(frozen=True, slots=True)
class Field:
    """Something else that is asked for, besides the reason."""

    name: str
    label: str
    value: str = ""
    #: The least and the greatest number that it may be; None: it is text.
    numbers: tuple[int, int] | None = None
    #: Names to choose from; more than these may be typed.
    known: Sequence[str] = ()
    #: It is sent along and not shown: the heading says it already.
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before an act."""

    #: Break the exclusive lock on s3://raw?
    heading: str
    #: What will happen, in numbers, one sentence each.
    consequences: Sequence[str]
    #: The verb on the button that does it: Break the lock.
    verb: str
    #: On the button that does not: Keep the lock.
    keep: str
    #: Where to go without doing it.
    back: str
    #: What cannot be undone; empty: it can.
    final: str = ""
    #: To be typed, because somebody is hit by it; empty: nothing is.
    type_name: str = ""
    fields: Sequence[Field] = ()
    #: False: it is not asked why, since that is kept nowhere.
    asks_why: bool = True
    #: Whether somebody may lose something by it.
    danger: bool = True


def ask(request: Request, who: Caller, question: Question, *, problem: str = "", reason: str = "") -> Response:
    """The question as a page. `problem`: why it was not done a moment ago."""
    status = 422 if problem else 200
    return render(request, "action.html", who, title=question.heading, status=status, question=question,
                  problem=problem, reason=reason)  # fmt: skip


async def act(
    request: Request, who: Caller, question_of: Callable[[], Question], do: Callable[[str], str], then: str
) -> Response:
    """Do it for the reason that was given, and go to `then`, where the sentence that `do` returns is shown.

    What is wrong with the answers, or refused by a rule, is shown beside the question.
    """
    form = await form_of(request)
    question = await run_in_threadpool(question_of)

    def answer() -> Response:
        reason = form.get(REASON, "").strip()
        try:
            check_answers(question, reason, form.get(NAME, "").strip())
            return done(request, then, do(reason))
        except (BadProfiles, BadValue, Refused, UnknownName) as error:
            return ask(request, who, question, problem=str(error), reason=reason)

    return await run_in_threadpool(answer)


def check_answers(question: Question, reason: str, name: str) -> None:
    """BadValue when an answer is missing or wrong."""
    if question.asks_why and not reason:
        raise BadValue("reason", reason, "is missing; it is recorded in the history")
    if question.type_name and name != question.type_name:
        raise BadValue("name", name, f"is not {question.type_name}")


def own_path(text: str, otherwise: str = "/") -> str:
    """A path of this dashboard, never another site."""
    parts = urlsplit(text)
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain and not parts.scheme and not parts.netloc else otherwise
