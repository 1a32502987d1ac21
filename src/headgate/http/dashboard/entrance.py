"""Signing in and out, and the static files of pages."""

from __future__ import annotations

from mimetypes import guess_type

from fastapi import Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from headgate.core.access.scopes import ApiToken
from headgate.core.errors import NotAllowed
from headgate.http.access import sessions
from headgate.http.access.auth import Anybody, TheService
from headgate.http.dashboard.actions import own_path
from headgate.http.dashboard.frame import STATIC, page_router, render, static_digest, static_path, who_is_it
from headgate.service.access.sessions import is_code

router = page_router()
FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    """Asks for an API token or a sign-in code; a script takes the code from the address that `headgate up` prints."""
    return _sign_in_page(request, request.query_params.get("next", "/"))


@router.post("/sign-in")
async def sign_in(request: Request, service: TheService) -> Response:
    """Sign in with an API token, or with a sign-in code. From then on a cookie identifies the session.

    A code may come from another person's link: the page asks whether to sign in as that token.
    """
    sessions.check_own_origin(request)
    address = request.client.host if request.client else ""
    service.pace.take(f"sign-in from {address}", address)  # Each success writes to the store.
    service.sign_ins.check(address)
    form = await sessions.form_of(request)
    wanted, given = own_path(form.get("next", "/")), form.get("token", "").strip()
    try:
        if is_code(given) and "confirmed" not in form:
            token = await run_in_threadpool(service.gate.sessions.whose, given)
            return await run_in_threadpool(_confirm_page, request, wanted, given, token)
        begin = service.gate.sessions.redeem if is_code(given) else service.gate.sessions.sign_in
        begun = await run_in_threadpool(begin, given)
    except NotAllowed as error:
        service.sign_ins.record_failure(address)
        return await run_in_threadpool(_sign_in_page, request, wanted, str(error))
    answer = RedirectResponse(wanted, 303)
    await run_in_threadpool(service.gate.sessions.end, sessions.id_of(request))
    sessions.keep(request, answer, begun)
    return answer


@router.post("/sign-out")
def sign_out(request: Request, service: TheService, _who: Anybody) -> Response:
    """End the session, here and at every other service on the store."""
    service.gate.sessions.end(sessions.id_of(request))
    answer = RedirectResponse("/sign-in", 303)
    sessions.drop(request, answer)
    return answer


@router.get("/static/{digest}/{name}")
def static_file(digest: str, name: str) -> Response:
    """A file of the dashboard. A URL with its digest may be cached forever."""
    file = STATIC / name
    if digest != static_digest() or file.parent != STATIC or not file.is_file():
        raise HTTPException(404, f"there is no {name} in this version")
    kind = "text/javascript" if name.endswith(".js") else guess_type(name)[0]
    return FileResponse(file, media_type=kind, headers={"Cache-Control": FOR_EVER})


@router.get("/favicon.ico")
def icon() -> Response:
    """The path where browsers look for it automatically."""
    return RedirectResponse(static_path("icon.svg"), 308)


def _confirm_page(request: Request, wanted: str, code: str, token: ApiToken) -> Response:
    return render(request, "confirm_sign_in.html", who_is_it(request), title="Sign in", wanted=wanted, code=code,
                  token=token)  # fmt: skip


def _sign_in_page(request: Request, wanted: str, problem: str = "") -> Response:
    status = 401 if problem else 200
    return render(request, "sign_in.html", None, title="Sign in", status=status, wanted=own_path(wanted),
                  problem=problem)  # fmt: skip
