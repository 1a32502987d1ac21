"""Actions of a user: a page, or a dialog on it, describes the effect and asks for a reason; then the action is executed
and confirmed.

An action has two routes at one address: GET asks (`ask`), and POST executes it through the service (`act`). A script
shows the same page as a dialog.
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
    """An additional question, besides the reason."""

    name: str
    label: str
    value: str = ""
    #: The minimum and maximum number; None: it is text.
    numbers: tuple[int, int] | None = None
    #: Suggested names; others may be typed.
    known: Sequence[str] = ()
    #: It is sent but not shown, because the heading contains it.
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """The question before an action."""

    #: Break the exclusive lock on s3://raw?
    heading: str
    #: The effects, in numbers, one sentence each.
    consequences: Sequence[str]
    #: The verb on the confirming button: Break the lock.
    verb: str
    #: The label of the cancel button. Keep the lock.
    keep: str
    #: The page to return to without the action.
    back: str
    #: What cannot be undone; empty: everything can.
    final: str = ""
    #: Text to type as confirmation, because others are affected; empty: none.
    type_name: str = ""
    fields: Sequence[Field] = ()
    #: False: no reason is requested, because none is stored.
    asks_why: bool = True
    #: Whether other users may lose something.
    danger: bool = True


def ask(request: Request, who: Caller, question: Question, *, problem: str = "", reason: str = "") -> Response:
    """The question as a page. `problem`: why the previous attempt failed."""
    status = 422 if problem else 200
    return render(request, "action.html", who, title=question.heading, status=status, question=question,
                  problem=problem, reason=reason)  # fmt: skip


async def act(
    request: Request, who: Caller, question_of: Callable[[], Question], do: Callable[[str], str], then: str
) -> Response:
    """Execute the action with the given reason, and go to `then`, which shows the sentence that `do` returns.

    Invalid answers and refusals are shown with the question.
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
    """A path of this dashboard, never of another site."""
    parts = urlsplit(text)
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain and not parts.scheme and not parts.netloc else otherwise
