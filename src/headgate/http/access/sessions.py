"""Signed-in browsers: the cookie, and the check that a form is our own."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Literal, TypedDict
from urllib.parse import parse_qsl

from fastapi import Request, Response

from headgate.core.errors import NotAllowed
from headgate.http.service import Service
from headgate.service.access.sessions import SESSION_SECONDS

#: The form field, and the script header, that contain the proof that they are ours.
FORM_KEY = "form_key"
FORM_KEY_HEADER = "Headgate-Form-Key"
#: The value that a request from another site would need; it belongs to no token, so none matches.
OWN_FORM = "a form of this dashboard"


def cookie_name(request: Request) -> str:
    """Specific to this store, because cookies are not separated by port. Under TLS with the prefix that other sites
    cannot set.
    """
    service: Service = request.app.state.service
    return f"{'__Host-' if _is_tls(request) else ''}headgate-{service.gate.upkeep.tag}"


def id_of(request: Request) -> str:
    """The session id that the browser sent; empty: none."""
    return request.cookies.get(cookie_name(request), "")


def keep(request: Request, answer: Response, given: str) -> None:
    """Set the cookie of a session."""
    answer.set_cookie(cookie_name(request), given, max_age=SESSION_SECONDS, **attributes(request))


def drop(request: Request, answer: Response) -> None:
    """Remove the cookie of a session."""
    answer.delete_cookie(cookie_name(request), **attributes(request))


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form; the last value of each name."""
    return dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))


async def check_own_form(request: Request, form_key: str, *, is_file: bool = False) -> None:
    """NotAllowed unless the request comes from one of our pages for the session with that key. For files only the
    header is checked.
    """
    given = request.headers.get(FORM_KEY_HEADER, "")
    if not given and not is_file:
        given = (await form_of(request)).get(FORM_KEY, "")
    if not hmac.compare_digest(given.encode(), form_key.encode()):
        raise NotAllowed("the form belongs to another session; reload the page and try again", OWN_FORM)


def check_own_origin(request: Request) -> None:
    """NotAllowed when a browser reports that another site sent it."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    ours = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if site not in (None, "same-origin") or origin not in (None, ours):
        raise NotAllowed("the form came from another site; nothing was changed", OWN_FORM)


class Attributes(TypedDict):
    """The attributes of a cookie."""

    httponly: bool
    samesite: Literal["strict"]
    secure: bool
    path: str


def attributes(request: Request) -> Attributes:
    """Scripts cannot read it, other sites cannot send it, and with TLS it is sent only over TLS."""
    return {"httponly": True, "samesite": "strict", "secure": _is_tls(request), "path": "/"}


def _is_tls(request: Request) -> bool:
    return bool(request.url.scheme == "https")
