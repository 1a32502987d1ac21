"""Ingest over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from headgate import private
from headgate.core.errors import UnknownName
from headgate.core.queue.frozen import Frozen
from headgate.core.values.redaction import redact_all
from headgate.core.values.wire import plain
from headgate.http.access.auth import Caller
from headgate.http.api.handlers import ApiCall, Handlers, page_after
from headgate.http.errors import TooMany
from headgate.http.limits.bodies import declared_length
from headgate.http.limits.uploads import Upload, disk_error, room_of
from headgate.http.waiters.waiting import Gone, while_there
from headgate.operations import ingest
from headgate.operations.declaring import Page

if TYPE_CHECKING:
    from headgate.ingest.profiles.profile import Profile

handlers = Handlers(ingest.declared)


@handlers.of(ingest.frozen)
def frozen(call: ApiCall, *, jid: str) -> Frozen | None:
    """For a job that the caller may see."""
    return call.gate.deposits.frozen_of(call.gate.queue.job(jid))


@handlers.of(ingest.refresh)
def refresh(call: ApiCall, *, jid: str) -> Frozen:
    """The same."""
    return call.gate.deposits.refresh(call.gate.queue.job(jid))


@handlers.of(ingest.profiles)
def profiles(call: ApiCall, *, after: str | None, limit: int) -> Page[dict[str, Any]]:
    """Those that the caller may see."""
    from headgate.ingest.profiles.profile import load_profiles

    reach, sight = call.who.reach, call.gate.sight

    def is_seen(name: str) -> bool:
        return (sight.profile(name) if sight else reach.has("read")) or reach.covers("queue:submit", name)

    found = load_profiles(Path(call.gate.settings["profiles_folder"]), is_seen)
    page = page_after(found.values(), after, limit, lambda each: each.name)
    return Page([_snapshot(call.who, each) for each in page.items], page.next)


@handlers.of(ingest.profile)
def profile(call: ApiCall, *, name: str) -> dict[str, Any]:
    """If the caller may see it."""
    from headgate.ingest.profiles.snapshots import read_profile

    who, sight = call.who, call.gate.sight
    if not who.reach.has("queue:work"):
        who.must_see("profile", "queue:submit", name)
    if sight and not sight.profile(name):
        raise UnknownName("profile", name)
    return _snapshot(who, read_profile(Path(call.gate.settings["profiles_folder"]), name))


@handlers.of(ingest.upload)
async def upload(call: ApiCall, *, name: str) -> ingest.Uploaded:
    """As it arrives."""
    service, request = call.service, call.request
    try:
        room = await run_in_threadpool(room_of, service.gate)
        async with service.uploads.receiving(room, call.who.token.id, declared_length(request.scope)) as upload:
            place = await _receive(request, upload, name)
    except OSError as error:
        raise disk_error(error) from error
    return ingest.Uploaded(place.as_uri(), upload.size)


@handlers.of(ingest.verify)
async def verify(call: ApiCall, **asked: Any) -> ingest.Verified:
    """In a separate thread, until it is done or the caller disconnects."""
    if not call.service.readers.available_tokens:
        raise TooMany("too many objects are being verified at the same time", 30)
    call.request.scope["headgate.waits"] = True
    return await while_there(call.request, _verify(call, **asked))


def _snapshot(who: Caller, profile: Profile) -> dict[str, Any]:
    """The profile as a caller sees it: a worker needs the full callback URL."""
    found: dict[str, Any] = plain(profile.snapshot())
    return found if who.reach.has("queue:work") else redact_all(found)


async def _receive(request: Request, upload: Upload, name: str) -> Path:
    """Write the body to a file as it arrives, and return its path. A failed upload leaves nothing behind."""
    from headgate.service.queue.work_folder import keep_upload, place_upload

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


async def _verify(call: ApiCall, *, ark: str, wait: float, by: str, warnings: bool) -> ingest.Verified:
    from headgate.ingest.objects.reading import verify_object

    left, count = threading.Event(), [0]

    def read() -> ingest.Verified:
        def progress(size: int) -> None:
            count[0] += size

        context = call.service.gate.ingest
        problems = verify_object(context, by, ark, wait=wait, stop=left.is_set, progress=progress, warnings=warnings)
        return ingest.Verified(count[0], [plain(each) for each in problems])

    try:
        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=call.service.readers)
    finally:
        left.set()
