"""The queue over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse

from headgate.core.alarms import Alarm
from headgate.core.errors import BadProfiles, BadValue, UnknownName
from headgate.core.queue.model import (
    ALL,
    DELETE_EVENT,
    FORCE_FAIL_EVENT,
    MAX_CRASHES,
    PENDING,
    Batch,
    IngestJob,
    Item,
    Place,
    Report,
    Taken,
    check_item_id,
    for_readers,
    is_batch,
)
from headgate.core.tables.machine import By
from headgate.core.tables.states import MERRITT_BATCH
from headgate.core.values.names import check_reason
from headgate.core.values.wire import plain
from headgate.gate import Gate
from headgate.http.access.auth import Caller
from headgate.http.api.handlers import PACKED, SHOWN, ApiCall, Handlers
from headgate.http.waiters.waiting import followed, found_within
from headgate.operations import queue
from headgate.service.leases.looking import Looking
from headgate.telemetry import event as log

handlers = Handlers(queue.declared)
#: Operators' events that need more than an operator's scope.
FORCED = (DELETE_EVENT, FORCE_FAIL_EVENT)
#: Maximum number of items in a state that are checked.
LOOK = 100


def seen(who: Caller, item: Item) -> Item:
    """The item as a caller sees it: callers that may take it need the full payload URL."""
    return item if who.reach.has("queue:work") else for_readers(item)


def alarm_data(alarm: Alarm) -> dict[str, Any]:
    """An alarm in JSON types, with its command."""
    return {**plain(alarm), "command": alarm.command}


SHOWN[Batch, False] = SHOWN[IngestJob, False] = lambda item, who: plain(seen(who, item))
SHOWN[Alarm, False] = lambda alarm, _who: alarm_data(alarm)


@handlers.of(queue.submit)
def submit(call: ApiCall, *, metadata: Mapping[str, Any] | None, request_id: str | None, **given: Any) -> JSONResponse:
    """With what blocks it."""
    gate, who = call.gate, call.who
    _refuse_names(metadata or {}, given)
    _refuse_others_file(gate, who, given["payload_url"])
    batch = gate.queue.submit(**given, request_id=request_id, **metadata or {})
    alarms = [alarm_data(alarm) for alarm in gate.alarms_of(batch)]
    return JSONResponse({**who.shown(seen(who, batch)), "alarms": alarms}, 201)


@handlers.of(queue.batch)
@handlers.of(queue.job)
async def item(call: ApiCall, *, state: str | None, wait: float, **item_id: str) -> Item:
    """With `wait`, wait without a thread."""
    noun, name = item_id.popitem()
    if is_batch(check_item_id(name)) != (noun == "bid"):
        raise UnknownName("batch" if noun == "bid" else "ingest job", name)
    return await followed(call.request, call.gate.queue.following(name, state=state), wait)


@handlers.of(queue.acquire_batch)
async def acquire_batch(call: ApiCall, **asked: Any) -> Item | None:
    """With `wait`, wait without a thread."""
    return await _acquired(call, call.service.gate.queue.acquire_batch, **asked)


@handlers.of(queue.acquire_job)
async def acquire_job(call: ApiCall, *, after: Mapping[str, Any] | None, **asked: Any) -> Item | None:
    """In the order of priorities."""
    place = None if after is None else Place(after["priority"], check_item_id(after["id"]))
    return await _acquired(call, call.service.gate.queue.acquire_job, after=place, **asked)


@handlers.of(queue.create_jobs)
def create_jobs(call: ApiCall, *, batch: Taken, position: int, jobs: Sequence[Mapping[str, Any]]) -> int:
    """As in the profile that the batch started with."""
    gate = call.gate
    kept = gate.inventory.intake(check_item_id(batch.id)) if gate.keeps_inventory else None
    most = kept.profile.get(MAX_CRASHES) if kept else None
    return gate.queue.create_portion(batch, position, jobs, most)


@handlers.of(queue.await_work)
async def await_work(call: ApiCall, *, batch: Sequence[str] | None, job: Sequence[str] | None, wait: float) -> None:
    """Wait without a thread."""
    batches, jobs = sorted(batch or ()), sorted(job or ())
    key = ("work", *(f"batch {each}" for each in batches), *(f"job {each}" for each in jobs))

    def look() -> bool | None:
        return _is_work(call.service.gate, batches, jobs) or None

    looking = call.service.gate.queue.looking(look, batches, jobs)
    await found_within(call.request, wait, key, looking)


# ---------------------------------------------------------------- actions of owners and operators


@handlers.of(queue.fire_batch)
@handlers.of(queue.fire_job)
def fire(call: ApiCall, *, event: str, reason: str, by: str, daemon: bool, **given: Any) -> Item:
    """By its owner, an operator or a daemon."""
    owned, who = given["token"] is not None, call.who
    _check_fields(call.gate, given, event, others=daemon or bool(reason))
    taken = _taken(given)
    who.must_reach("queue:work" if owned or daemon else scope_of(event), taken.id)
    if not owned:
        reason = check_reason(reason) if event in FORCED else reason
        return call.gate.queue.act(taken.id, event, reason=reason, by=by, daemon=daemon)
    told = given.pop("report")
    report = None if told is None else Report(tuple(told["failed"]), tuple(told["successful"]))
    return call.gate.queue.fire(taken, event, report=report, **given)


def _check_fields(gate: Gate, given: Mapping[str, Any], event: str, *, others: bool) -> None:
    """Refuse a request that lacks what its event needs: an owner sends the token and the state of the take.

    `others`: an operator or a daemon, as a reason or the flag shows; the table decides about them.
    """
    table = gate.queue.tables()[0 if "bid" in given else 1]
    by = {row.by for row in table.rows if row.event == event and row.source != table.start}
    missing = [name for name in ("token", "state") if not given[name]]
    if missing and (len(missing) == 1 or (by == {By.OWNER} and not others)):
        raise RequestValidationError([{"loc": ("body", name), "msg": "Field required"} for name in missing])


def scope_of(event: str) -> str:
    """The scopes that a user needs to fire an event."""
    return "admin:force" if event in FORCED else "operate"


def _taken(given: dict[str, Any]) -> Taken:
    """The owner's proof, from the given arguments."""
    noun = "batches" if "bid" in given else "ingest-jobs"
    item: str = given.pop("bid" if "bid" in given else "jid")
    if is_batch(item) != (noun == "batches"):
        raise BadValue("id", item, f"is not one of the {noun}")
    return Taken(item, given.pop("token") or 0, given.pop("state") or "", given.pop("worker"))


PACKED[Taken] = _taken


async def _acquired(call: ApiCall, acquire: Callable[..., Item | None], *, wait: float, **asked: Any) -> Item | None:
    """The item that was taken, at once or within `wait` seconds. With a request id, it may have been returned
    already. The profile of its batch is stored.
    """
    gate, states = call.service.gate, [asked["state"]]

    def take() -> Item | None:
        found = acquire(**asked, outlives=True)
        if found is not None:
            _keep_profile(gate, found)
        return found

    of_batches = call.operation is queue.acquire_batch
    looking: Looking[Item] = gate.queue.looking(take, *((states, []) if of_batches else ([], states)))
    key = (call.operation.name, *states, str(asked["after"] or ""))
    return await found_within(call.request, wait, key, looking, again=asked["request_id"] is not None)


def _keep_profile(gate: Gate, item: Item) -> None:
    """Record the profile of a batch, which only the service chooses, whatever worker takes the batch or one of its
    jobs. If another worker has started the batch, its profile stays, unless one of Merritt's programs started it.
    """
    starts = item if isinstance(item, Batch) and item.state == PENDING else None
    if not gate.keeps_inventory or not (starts or gate.queue.tables()[0] is MERRITT_BATCH):
        return
    from headgate.ingest.profiles.snapshots import adopt_batch, start_batch

    folder = Path(gate.settings["profiles_folder"])
    batch = item.id if isinstance(item, Batch) else item.batch
    try:
        if starts:
            start_batch(gate.inventory, folder, starts)
        else:
            adopt_batch(gate.inventory, folder, batch, item.profile)
    except (BadProfiles, BadValue) as error:
        # Outside owners may need no profile. Our own steps report the mistakes.
        log("batch.no_profile", logging.WARNING, batch=batch, why=str(error))


def _is_work(gate: Gate, batch_states: Sequence[str], job_states: Sequence[str]) -> bool:
    """Whether there may be an item to take, according to a quick check."""
    if gate.queue.hold_of(ALL):
        return False
    found: list[Item] = [each for state in batch_states for each in gate.queue.batches(state, limit=LOOK)]
    found += [each for state in job_states for each in gate.queue.jobs(state, limit=LOOK)]
    return any(not each.worker for each in found)


def _refuse_others_file(gate: Gate, who: Caller, url: str) -> None:
    """Readers see the URLs of files that others submitted; only their submitter may have them ingested."""
    from headgate.service.queue.work_folder import upload_owner

    owner = upload_owner(gate.work_folder, url)
    if owner in (None, who.token.id) or who.reach.has("admin:force"):
        return
    if owner not in [each.id for each in gate.tokens.list() if each.principal == who.principal]:
        raise BadValue("payload", url, f"was not uploaded by the principal {who.principal!r}; upload it again")


def _refuse_names(metadata: Mapping[str, Any], names: Mapping[str, Any]) -> None:
    for name in metadata:
        if name in names or name == "request_id":
            raise BadValue("metadata", name, "is a field next to the metadata, not in it")
