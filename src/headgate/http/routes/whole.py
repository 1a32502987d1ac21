"""The whole over HTTP: status, history, tables, known names, tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, Field

from headgate import __version__
from headgate.core.counts import Counts
from headgate.core.describe import machine_data
from headgate.core.errors import NotAllowed
from headgate.core.faults import Fault
from headgate.core.history import Entry, Happened
from headgate.core.locks import Lock
from headgate.core.scopes import ApiToken
from headgate.core.states import CHUNK, LOCK, MERRITT_BATCH
from headgate.core.wire import plain
from headgate.http import direct
from headgate.http.auth import Admin, Anybody, Caller, Operator, Reader, TheGate, TheService, needs
from headgate.http.queue_schemas import FaultGiven
from headgate.http.repeats import HARMLESS, SECRET, under
from headgate.http.schemas import (
    After,
    Body,
    Count,
    Lease,
    Limit,
    Page,
    Since,
    Until,
    answer,
    documented,
    listing,
    moment,
    nothing,
    page_after,
    shown_lock,
)
from headgate.service.history import check_time
from headgate.service.holdings import held_by

router = direct.router("whole")
Anyone = Annotated[
    Caller,
    needs("read", "lock:acquire", "chunk:claim", "queue:work", "queue:submit", "data:publish", "operate", "admin:force",
          "define", "cred:read"),
]  # fmt: skip
Registrar = Annotated[Caller, needs("lock:acquire", "define")]
Reaper = Annotated[Caller, needs("queue:work", "operate")]
ResourceGiven = Annotated[
    str, Query(min_length=1, max_length=2048, description=("URI of the resource; compared exactly."))
]


class ClientKnown(BaseModel):
    """A registered client."""

    name: str
    since: datetime


class TokenAsked(Body):
    """A new API token."""

    name: str
    scopes: list[str]
    expires: Lease | None = None
    principal: str | None = Field(None, description="Owner of everything acquired with it (default: the name).")


class TokenRotated(Body):
    """A new API token that replaces another one."""

    expires: Lease | None = Field(
        None, description=("Seconds until it expires (default: when the old one would have expired).")
    )


@router.get("/about", responses=documented(200, dict[str, Any], "Version, store and caller."))
def about(gate: TheGate, who: Anyone) -> Response:
    """Return the version, the store's tag, the spelling of its tables, and the caller."""
    spelling = "mrt-zk" if gate.queue.tables()[0] is MERRITT_BATCH else "design"
    return answer(
        {
            "version": __version__,
            "store": gate.upkeep.name,
            "tag": gate.upkeep.tag,
            "spelling": spelling,
            "ledger": gate.keeps_ledger,
            "inventory": gate.keeps_inventory,
            "guards": gate.guards,
            "token": who.token.name,
            "scopes": who.token.scopes,
            "principal": who.principal,
        }
    )


@router.get("/status", responses=documented(200, dict[str, Any], "opsQueue, lockCount, locks, failures."))
def status(gate: TheGate, who: Reader, rich: bool = False) -> Response:
    """Return what is running, locked and failed. `rich` adds holders, waiters and counts of the queue."""
    found = gate.status(rich=rich)
    if rich:
        found["holders"] = [shown_lock(who.seen(Lock(**each))) for each in found["holders"]]
    return answer(found)


@router.get("/counts", responses=documented(200, Counts, "Each by its name."))
def all_counts(gate: TheGate, _who: Reader) -> Response:
    """Every number that the command and the dashboard show: what runs, waits, failed and is held."""
    return answer(gate.counts())


@router.get("/store/faults", responses=documented(200, Page[Fault], "Each fault with its repair."))
def store_faults(gate: TheGate, _who: Reader) -> Response:
    """Find damage to locks, chunks, counters, history and clock. Changes nothing."""
    return listing(gate.locks.faults())


@router.post("/store/repair", under("repaired"), responses=documented(200, dict[str, bool], "Whether it was repaired."))
def repair_store(gate: TheGate, who: Operator, given: FaultGiven) -> Response:
    """Repair a fault that `/store/faults` reported, if it still exists."""
    fault = Fault(given.kind, given.item, given.what, given.repair)
    return answer({"repaired": gate.locks.repair(fault, by=who.by(given.by))})


@router.get("/machines", responses=documented(200, Page[dict[str, Any]], "Each table."))
def machines(gate: TheGate, _who: Anyone) -> Response:
    """List the state tables in force: the states, the events, and who may fire them."""
    return listing((LOCK, CHUNK, *gate.queue.tables()), None, machine_data)


@router.get("/history", responses=documented(200, Page[Entry], "Newest first."))
def history(
    gate: TheGate,
    _who: Reader,
    noun: str | None = None,
    event: str | None = None,
    resource: str | None = None,
    lock_id: str | None = None,
    job: str | None = None,
    dataid: str | None = None,
    item: str | None = None,
    client: str | None = None,
    since: Since = None,
    until: Until = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """Return what happened to locks, chunks, jobs, batches, ingest jobs and holds."""
    found = gate.history(
        resource, client, event, noun=noun, lock_id=lock_id, job=job, dataid=dataid, item=item, since=moment(since),
        until=moment(until), after=after, limit=limit,
    )  # fmt: skip
    return listing(found, found.next)


@router.get("/history/counts", responses=documented(200, Page[Happened], "By noun, event and hour."))
def history_counts(
    gate: TheGate,
    _who: Reader,
    event: Annotated[list[str], Query(min_length=1, max_length=100, description="Only these events.")],
    since: Since = None,
) -> Response:
    """How often events happened, hour by hour (default: in the last day)."""
    begin = check_time("since", moment(since)) or datetime.now(UTC) - timedelta(days=1)
    return listing(gate.history.count(begin, event))


# ---------------------------------------------------------------- known names


@router.get("/clients", responses=documented(200, Page[ClientKnown], "By name."))
def clients(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List registered clients."""
    found = sorted(gate.locks.clients())
    return page_after(
        found, after, limit, lambda each: each[0], lambda each: {"name": each[0], "since": plain(each[1])}
    )


@router.put("/clients/{name}", responses=documented(200, dict[str, str], "When it was registered."))
def register_client(gate: TheGate, _who: Registrar, name: str) -> Response:
    """Register a client, if it is new."""
    return answer({"since": gate.locks.register_client(name)})


@router.delete("/clients/{name}", status_code=204)
def forget_client(gate: TheGate, _who: Operator, name: str) -> Response:
    """Remove a client. 409 while it holds a lock."""
    gate.locks.forget_client(name)
    return nothing()


@router.get("/resources", responses=documented(200, Page[str], "Sorted."))
def resources(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List known resources: registered or ever locked, and not removed."""
    return page_after(gate.locks.resources(), after, limit, str)


@router.put("/resources", status_code=204)
def register_resource(gate: TheGate, who: Registrar, resource: ResourceGiven) -> Response:
    """Register a resource, if it is new."""
    if not who.reach.has("define"):
        who.must_reach("lock:acquire", resource)
    gate.locks.register_resource(resource)
    return nothing()


@router.delete("/resources", status_code=204)
def forget_resource(gate: TheGate, _who: Operator, resource: ResourceGiven) -> Response:
    """Remove a resource; its token counter is kept. 409 while it is held or has waiters."""
    gate.locks.forget_resource(resource)
    return nothing()


@router.post("/reap", HARMLESS, responses=documented(200, Count, "How many were released."))
def reap(
    gate: TheGate,
    service: TheService,
    who: Reaper,
    of: Annotated[str, Query(pattern="^(locks|ledger|queue)$", description="locks, ledger or queue.")],
    limit: Limit = 1000,
) -> Response:
    """Release what crashed processes left behind: locks, claims or items whose lease has expired. This also happens
    automatically.
    """
    if of == "locks":
        count = gate.locks.expire(limit=limit)
    else:
        count = gate.ledger.reap(limit=limit, by=who.by()) if of == "ledger" else gate.queue.reap(limit)
    service.ring(("lock",), ("job",), ("batch",), ("work",))
    return answer({"count": count})


# ---------------------------------------------------------------- tokens


@router.get("/tokens", responses=documented(200, Page[ApiToken], "Oldest first."))
def tokens(gate: TheGate, _who: Admin, after: After = None, limit: Limit = 100) -> Response:
    """List API tokens, without their secrets."""
    found = sorted(gate.tokens.list(), key=_age)
    return page_after(found, after, limit, _age)


@router.get("/tokens/expiring", responses=documented(200, Page[ApiToken], "Earliest first."))
def expiring_tokens(gate: TheGate, _who: Reader) -> Response:
    """List API tokens that expire soon, by the setting `token_warning`."""
    return listing(gate.expiring_tokens())


@router.post(
    "/tokens", SECRET, status_code=201, responses=documented(201, dict[str, Any], ("The token, shown only once."))
)
def new_token(gate: TheGate, _who: Admin, asked: TokenAsked) -> Response:
    """Create an API token. It is shown once and stored nowhere."""
    made = gate.tokens.new(asked.name, asked.scopes, expires=asked.expires, principal=asked.principal)
    return answer(made, 201)


@router.post(
    "/tokens/{token_id}/rotate",
    SECRET,
    status_code=201,
    responses=documented(201, dict[str, Any], ("The token, shown only once.")),
)
def rotate_token(gate: TheGate, _who: Admin, token_id: str, asked: TokenRotated) -> Response:
    """Replace a token by a new one with the same principal and scopes. The old one is revoked."""
    return answer(gate.tokens.rotate(token_id, expires=asked.expires), 201)


@router.delete("/tokens/{token_id}", responses=documented(200, dict[str, Any], "What its principal still holds."))
def revoke_token(gate: TheGate, _who: Admin, token_id: str) -> Response:
    """Revoke a token. Its principal keeps the locks, claims and items it holds, which are listed."""
    token = gate.tokens.get(token_id)
    gate.tokens.revoke(token_id)
    held = held_by(gate.locks, gate.queue, token.principal)
    return answer({"id": token.id, "principal": token.principal, "held": held})


@router.post(
    "/sign-in-codes",
    HARMLESS,
    status_code=201,
    responses=documented(201, dict[str, Any], ("The code, shown only once.")),
)
def new_sign_in_code(gate: TheGate, who: Anybody) -> Response:
    """Create a code that signs one browser in, once and within 5 minutes, with the API token of the caller.

    A signed-in browser cannot create one: such a session would outlive its sign-out.
    """
    if who.session:
        raise NotAllowed("a signed-in browser cannot create sign-in codes; use the API token", "the API token itself")
    return answer(gate.sessions.new_code(who.token.id), 201)


def _age(token: ApiToken) -> str:
    """By when it was made, then by id."""
    return f"{token.created.timestamp():020.6f} {token.id}"
