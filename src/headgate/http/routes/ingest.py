"""Ingest over HTTP: profiles, files that are handed in, and whether what is stored is as it was stored."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from headgate import private
from headgate.core.errors import UnknownName
from headgate.core.names import NAME_LENGTH
from headgate.core.redaction import redact_all
from headgate.core.wire import plain
from headgate.http import direct
from headgate.http.auth import Caller, Operator, TheGate, TheService, needs
from headgate.http.bodies import declared_length
from headgate.http.errors import PROBLEMS, TooMany
from headgate.http.queue_schemas import Uploaded, Verification, Verified
from headgate.http.repeats import FILE as FILE_SENT
from headgate.http.repeats import HARMLESS
from headgate.http.schemas import After, Limit, Page, answer, documented, page_after
from headgate.http.service import Service
from headgate.http.uploads import Upload, disk_error, room_of
from headgate.http.waiting import Gone, while_there

if TYPE_CHECKING:
    from headgate.ingest.profile import Profile

router = direct.router("ingest")
Submitter = Annotated[Caller, needs("queue:submit")]
ProfileReader = Annotated[Caller, needs("read", "queue:submit")]
ProfileUser = Annotated[Caller, needs("read", "queue:submit", "queue:work")]
FILE: dict[str, Any] = {
    "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get(
    "/profiles", responses=documented(200, Page[dict[str, Any]], "By name: the current content of their files.")
)
def profiles(gate: TheGate, who: ProfileReader, after: After = None, limit: Limit = 100) -> Response:
    """List the ingest profiles. 422 lists every error in every file."""
    from headgate.ingest.profile import load_profiles

    def seen(name: str) -> bool:
        reads = gate.sight.profile(name) if gate.sight else who.reach.has("read")
        return reads or who.reach.covers("queue:submit", name)

    found = load_profiles(Path(gate.settings["profiles_folder"]), seen)
    by_name = [found[name] for name in sorted(found)]
    return page_after(by_name, after, limit, lambda each: each.name, lambda each: plain(_snapshot(who, each)))


@router.get("/profiles/{name}", responses=documented(200, dict[str, Any], "The current content of its file."))
def profile(gate: TheGate, who: ProfileUser, name: str) -> Response:
    """Return one ingest profile. 422 lists every error in its file."""
    from headgate.ingest.snapshots import read_profile

    if not who.reach.has("queue:work"):
        who.must_see("profile", "queue:submit", name)
    if gate.sight and not gate.sight.profile(name):
        raise UnknownName("profile", name)
    return answer(_snapshot(who, read_profile(Path(gate.settings["profiles_folder"]), name)))


@router.post(
    "/uploads",
    FILE_SENT,
    status_code=201,
    responses={**documented(201, Uploaded, "Kept."), 507: {**PROBLEMS[503], "description": "No space for the file."}},
    openapi_extra=FILE,
)
async def upload(
    request: Request,
    service: TheService,
    who: Submitter,
    name: Annotated[str, Query(min_length=1, max_length=NAME_LENGTH, description="File name.")],
) -> Response:
    """Upload a file; its URL can then be submitted as the payload of a batch. A file that no batch uses is removed
    after the retention time.

    The body is the file itself. It is written to disk as it arrives, and is stored durably when the request is
    answered.
    """
    try:
        room = await run_in_threadpool(room_of, service.gate)
        async with service.uploads.receiving(room, who.token.id, declared_length(request.scope)) as upload:
            place = await _receive(request, upload, name)
    except OSError as error:
        raise disk_error(error) from error
    return answer({"payload_url": place.as_uri(), "bytes": upload.size}, 201)


@router.post("/objects/verify", HARMLESS, responses=documented(200, Verified, "The result of the verification."))
async def verify(request: Request, service: TheService, who: Operator, asked: Verification) -> Response:
    """Read every stored byte of an object, and compare storage and inventory. This takes as long as reading takes.

    With `wait`, wait up to that many seconds while another process writes to it. Closing the connection cancels it.
    """
    if not service.readers.available_tokens:
        raise TooMany("too many objects are being verified at the same time", 30)
    request.scope["headgate.waits"] = True
    return answer(await while_there(request, _verify(service, who.by(), asked)))


def _snapshot(who: Caller, profile: Profile) -> dict[str, Any]:
    """The profile as a caller sees it: a worker needs the whole address of a callback."""
    return profile.snapshot() if who.reach.has("queue:work") else redact_all(plain(profile.snapshot()))


async def _receive(request: Request, upload: Upload, name: str) -> Path:
    """Write the body to a file, as it comes, and return where it is. Nothing is left of one that fails."""
    from headgate.service.work_folder import keep_upload, place_upload

    place = await run_in_threadpool(place_upload, upload.room.folder, name, upload.owner)
    try:
        file = await run_in_threadpool(private.opened, place, "xb")
        try:
            async for block in request.stream():
                await upload.add(len(block))
                await run_in_threadpool(file.write, block)
            return await run_in_threadpool(keep_upload, file)
        finally:
            await run_in_threadpool(file.close)
    except BaseException as error:
        await run_in_threadpool(shutil.rmtree, place.parent, ignore_errors=True)
        if isinstance(error, ClientDisconnect):
            raise Gone from None
        raise


async def _verify(service: Service, client: str, asked: Verification) -> dict[str, Any]:
    from headgate.ingest.reading import verify_object

    left, count = threading.Event(), [0]

    def read() -> dict[str, Any]:
        def progress(size: int) -> None:
            count[0] += size

        problems = verify_object(
            service.gate.ingest, client, asked.ark, wait=asked.wait, stop=left.is_set, progress=progress
        )
        return {"bytes": count[0], "problems": problems}

    try:
        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=service.readers)
    finally:
        left.set()
