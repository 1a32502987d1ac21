"""The frame of every page: the user, rendering, and error pages."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool

from headgate import __version__
from headgate.core.errors import NotAllowed
from headgate.core.history import RESOURCE_NOUNS
from headgate.core.ledger import model as of_ledger
from headgate.core.locks.model import Mode
from headgate.core.queue import model as of_queue
from headgate.core.queue.titles import file_name_of, title_of
from headgate.core.tables.tones import Tone
from headgate.http import errors
from headgate.http.access import sessions
from headgate.http.access.auth import Caller, look_up, service_of
from headgate.http.api.direct import Direct, Routes
from headgate.http.dashboard import words
from headgate.http.dashboard.tables import link
from headgate.http.waiters.waiting import Gone

HERE = Path(__file__).parent
STATIC = HERE / "static"
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
#: The cookie that passes the result of an action to the next page.
SAID = "headgate-said"
SIGN_IN = "/sign-in"


class MenuEntry(NamedTuple):
    """A page that the menu links to."""

    title: str
    path: str
    #: The second key of the shortcut `g …`.
    key: str


#: In the order of the navigation. Each page adds a line here.
PLACES = (
    MenuEntry("Overview", "/", "o"),
    MenuEntry("Pipeline", "/pipeline", "p"),
    MenuEntry("Locks", "/locks", "l"),
    MenuEntry("Ingest", "/ingest", "i"),
    MenuEntry("History", "/history", "h"),
)


class PageRoute(Direct):
    """A route that always answers with a page."""

    async def answer(self, request: Request) -> Response:
        """Errors become pages, with the headers that keep other sites out."""
        try:
            found = await super().answer(request)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - becomes a page, and a line in the log
            return await run_in_threadpool(problem_page, request, error)
        found.headers.update(HEADERS)
        return found


def page_router() -> Routes:
    """For the routes of pages: they are not part of the API."""
    return Routes(kind=PageRoute)


def render(
    request: Request, template: str, who: Caller | None, *, title: str, status: int = 200, **context: Any
) -> HTMLResponse:
    """A page. `who`: the caller; None: no user is signed in."""
    said = _said(request)
    page = environment().get_template(template).render(
        title=title, who=who, path=request.url.path, query=dict(request.query_params), said=said, places=PLACES,
        request_id=request.scope.get("headgate.request", ""), version=__version__, **context,
    )  # fmt: skip
    answer = HTMLResponse(page, status)
    if said and request.headers.get("sec-fetch-dest") in (None, "document"):
        answer.delete_cookie(SAID, **sessions.attributes(request))
    return answer


def done(request: Request, path: str, text: str) -> Response:
    """After an action: redirect to another page, which shows the result."""
    answer = RedirectResponse(path, 303)
    packed = urlsafe_b64encode(text.encode()).decode()
    answer.set_cookie(SAID, packed, max_age=60, **sessions.attributes(request))
    return answer


def problem_page(request: Request, error: Exception) -> Response:
    """An error as a page. A caller that is not signed in is asked to sign in, and then returns."""
    problem = errors.problem_of(error, request.scope.get("headgate.request", ""))
    if problem.status_code == 401:
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        here = f"?next={quote(wanted, safe='')}" if request.method == "GET" and wanted != "/" else ""
        return RedirectResponse(f"{SIGN_IN}{here}", 303, headers=HEADERS)
    document = json.loads(bytes(problem.body))
    not_allowed = isinstance(error, NotAllowed)
    page = render(request, "problem.html", who_is_it(request), title=TITLES.get(problem.status_code, "Request failed"),
                  status=problem.status_code, problem=document, not_allowed=not_allowed)  # fmt: skip
    page.headers.update(HEADERS)
    if "retry-after" in problem.headers:
        page.headers["Retry-After"] = problem.headers["retry-after"]
    return page


#: The titles of problems, by status.
TITLES: Mapping[int, str] = {
    403: "Not allowed",
    404: "Not found",
    408: "The request took too long",
    409: "Not possible now",
    413: "Too large",
    422: "Invalid input",
    429: "Too many requests",
    500: "Internal error",
    503: "The store is not available",
}


def who_is_it(request: Request) -> Caller | None:
    """The signed-in user, for the head of a public page; None also when the store is unavailable."""
    if not (given := sessions.id_of(request)):
        return None
    try:
        session = look_up(request, service_of(request).gate.sessions.find, given)
    except Exception:  # noqa: BLE001 - the page is about something else
        return None
    return Caller(session.token, "", session.form_key, session.digest)


@cache
def environment() -> Environment:
    """The folder of the templates, and the functions that they may use."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.globals.update(
        static=static_path, link=link, look=words.look, some=words.some, title_of=title_of, file_name_of=file_name_of,
        of_ledger=of_ledger, of_queue=of_queue, modes=tuple(Mode), tones=Tone, RESOURCE_NOUNS=RESOURCE_NOUNS,
    )  # fmt: skip
    made.filters.update(
        ago=words.ago, absolute=words.absolute, duration=words.duration, size=words.size, short=words.short,
        number=words.number, iso=lambda moment: moment.isoformat(timespec="seconds"),
    )  # fmt: skip
    return made


@cache
def static_digest() -> str:
    """Of all static files together: they refer to each other, so they are cached and changed together."""
    files = sorted(STATIC.iterdir())
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()[:12]


def static_path(name: str) -> str:
    """The address of a static file. It changes with the content, so it may be cached forever."""
    return f"/static/{static_digest()}/{name}"


def _said(request: Request) -> str:
    """The result of the action before this page. From a cookie of ours: escaped like any other text."""
    try:
        return urlsafe_b64decode(request.cookies.get(SAID, "")).decode()[:1000]
    except ValueError:
        return ""
