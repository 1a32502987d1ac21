"""Locks: waiters with the reasons, holders, and breaking a lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import Request, Response

from headgate.core.ledger.model import parse_chunk_resource
from headgate.core.locks.model import Blocker, Lock, Waiter
from headgate.gate import Gate
from headgate.http.access.auth import Forcer, Reader, TheGate, TheService
from headgate.http.dashboard.actions import Question, act, ask
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.tables import ROWS, Column, Table, as_csv, link, ordered
from headgate.http.dashboard.words import duration, some

router = page_router()
FILTERS = ("resource", "client", "mode")
#: The address parameter for the order of the waiters; `sort` is for the locks.
BY_WAITERS = "waiters"
#: Number of locks that one page filters and sorts; only very busy stores have more.
MOST_READ = 10_000
#: Number of resources whose waiters are explained in the list; for the others, see the lock's own page.
EXPLAINED = 20
#: Number of history entries on a lock's page.
TOLD = 50
#: With more waiters than this, the operator has to type the resource to break its lock.
MANY = 10
Why = tuple[Blocker, ...] | None
Pair = tuple[Waiter, Why]

HELD: Mapping[str, Column] = {
    "resource": Column("Resource", lambda lock: lock.resource),
    "client": Column("Holder", lambda lock: lock.client),
    "mode": Column("Mode", lambda lock: lock.mode.value),
    "since": Column("Since", lambda lock: lock.since),
    "lease": Column("Lease", lambda lock: lock.expires_in),
    "waiting": Column("Waiting", lambda _lock: None, numeric=True),
    "acts": Column("Actions", lambda _lock: None, sorts=False),
}
WAITING: Mapping[str, Column] = {
    "resource": Column("Resource", lambda pair: pair[0].resource),
    "client": Column("Waiter", lambda pair: pair[0].client),
    "mode": Column("Mode", lambda pair: pair[0].mode.value),
    "since": Column("Since", lambda pair: pair[0].since),
    "why": Column("Blocked by", lambda pair: "; ".join(each.sentence() for each in pair[1] or ()), sorts=False),
}
IN_FILE = {name: HELD[name] for name in ("resource", "client", "mode", "since", "lease")} | {
    "owner": Column("Process", lambda lock: lock.owner),
    "principal": Column("Principal", lambda lock: lock.principal),
    "token": Column("Token", lambda lock: lock.token or ""),
    "id": Column("Id", lambda lock: lock.id),
}


@router.get("/locks")
def locks(request: Request, gate: TheGate, who: Reader) -> Response:
    """Waiters with what blocks them, and then all held locks."""
    query = dict(request.query_params)
    chosen = chosen_of(query)
    queue, found, cut_off = gate.locks.waiters(), *_matching(gate, chosen)
    waiters = [each for each in queue if _matches(each, chosen)]
    counted = Counter(each.resource for each in queue)
    held = _held_table(query, chosen, [who.seen(each) for each in found], counted)
    waiting = _waiting_table(gate, query, chosen, waiters)
    locks_held = f"{some(len(found), 'lock')} {'found' if chosen else 'held'}"
    return render(request, "locks.html", who, title="Locks", held=held, waiting=waiting, waiting_for=counted,
                  summary=f"{some(len(waiters), 'client')} waiting, {locks_held}", filtered=bool(chosen),
                  more_waiting=len(waiters) - len(waiting.rows), cut_off=MOST_READ if cut_off else 0,
                  **_words())  # fmt: skip


@router.get("/locks.csv")
def locks_file(request: Request, gate: TheGate, who: Reader) -> Response:
    """The same list as a file, complete."""
    chosen = chosen_of(request.query_params)
    found = gate.locks.list(mode=chosen.get("mode"))
    return as_csv("locks", IN_FILE, (who.seen(each) for each in found if _matches(each, chosen)))


def chosen_of(query: Mapping[str, str]) -> dict[str, str]:
    """The filters in an address."""
    return {name: query[name].strip() for name in FILTERS if query.get(name, "").strip()}


def _matching(gate: Gate, chosen: Mapping[str, str]) -> tuple[list[Lock], bool]:
    """The locks that match the filters, and whether there are more than were checked."""
    read = gate.locks.list(mode=chosen.get("mode"), limit=MOST_READ + 1)
    return [each for each in read[:MOST_READ] if _matches(each, chosen)], len(read) > MOST_READ


def _matches(found: Lock | Waiter, chosen: Mapping[str, str]) -> bool:
    """Whether it matches the filters: part of the resource, or of the holder's name or process, in any case."""
    texts = {"resource": found.resource, "client": f"{found.client}\n{found.owner}"}
    parts = all(chosen.get(name, "").casefold() in text.casefold() for name, text in texts.items())
    return parts and chosen.get("mode", found.mode.value) == found.mode.value


def _held_table(
    query: Mapping[str, str], chosen: Mapping[str, str], found: Sequence[Lock], counted: Mapping[str, int]
) -> Table:
    """One page of the locks, in any order; by default those with waiters come first."""
    waiting = Column("Waiting", lambda lock: counted.get(lock.resource, 0), numeric=True)
    columns, order = {**HELD, "waiting": waiting}, query.get("sort", "")
    rows = ordered(ordered(found, columns, "resource"), columns, order or "-waiting")
    after = query.get("after", "")[:9]
    begin = int(after) if after.isdecimal() else 0
    more = begin + ROWS < len(rows)
    exact = set(chosen) <= {"mode"}
    return Table(
        "held", "Locks that are held", columns, rows[begin : begin + ROWS], lambda lock: lock.id, path="/locks",
        query=query, next=str(begin + ROWS) if more else None, order=order, whole=True,
        json=link("/v1/locks", chosen) if exact else "", csv=link("/locks.csv", chosen),
    )  # fmt: skip


def _waiting_table(gate: Gate, query: Mapping[str, str], chosen: Mapping[str, str], waiters: Sequence[Waiter]) -> Table:
    order = query.get(BY_WAITERS, "")
    rows = ordered([(each, None) for each in waiters], WAITING, order)[:ROWS]
    return Table(
        "waiting", "Clients that wait for a lock", WAITING, explained(gate, [each for each, _ in rows]), _place_of,
        path="/locks", query=query, order=order, whole=True, by=BY_WAITERS, json="" if chosen else "/v1/waiters",
    )  # fmt: skip


@router.get("/locks/{lock_id}")
def lock(request: Request, gate: TheGate, who: Reader, lock_id: str) -> Response:
    """One lock: its holder, its queue, its history."""
    found = who.seen(gate.locks.get(lock_id))
    waiting = gate.locks.explain(found.resource)
    entries = gate.history(found.resource, limit=TOLD)
    summary = f"{found.client} holds {found.resource}, {len(waiting):,} waiting"
    return render(request, "lock.html", who, title=f"Lock on {found.resource}", lock=found, waiting=waiting,
                  entries=entries, summary=summary, **_words())  # fmt: skip


@router.get("/locks/{lock_id}/break")
def ask_to_break(request: Request, gate: TheGate, who: Forcer, lock_id: str) -> Response:
    """The question before a lock is broken."""
    return ask(request, who, breaking(gate, gate.locks.get(lock_id)))


@router.post("/locks/{lock_id}/break")
async def break_lock(request: Request, service: TheService, who: Forcer, lock_id: str) -> Response:
    """Break a lock, as the API does."""

    def do(reason: str) -> str:
        broken = service.gate.locks.break_lock(lock_id, reason=reason, by=who.by())
        return f"The {broken.mode} lock of {broken.client} on {broken.resource} was broken."

    return await act(request, who, lambda: breaking(service.gate, service.gate.locks.get(lock_id)), do, "/locks")


def breaking(gate: Gate, found: Lock) -> Question:
    """The question before a lock is broken, with the effects in numbers."""
    waiting = gate.locks.waiters(found.resource)
    others = [each for each in gate.locks.list(found.resource) if each.id != found.id]
    stay = f"{some(len(others), 'other lock')} {'stays' if len(others) == 1 else 'stay'}"
    alive = found.lease is not None
    queue = (
        f"{some(len(waiting), 'client')} waiting; {waiting[0].client} is next." if waiting else "No client is waiting."
    )
    return Question(
        heading=f"Break the {found.mode} lock on {found.resource}?",
        consequences=[
            f"Held by {found.client}{f' ({found.owner})' if found.owner else ''} for {_age(found)}, {_sign(found)}.",
            f"Its next write is refused wherever tokens are checked: token {found.token} becomes stale.",
            queue,
            *([f"{stay}: clients that want it exclusively keep waiting."] if others else ()),
        ],
        final="This cannot be undone.",
        verb="Break the lock",
        keep="Keep the lock",
        back=f"/locks/{found.id}",
        type_name=found.resource if alive or len(waiting) > MANY else "",
    )


def explained(gate: Gate, waiters: Sequence[Waiter]) -> list[Pair]:
    """Each waiter with its blockers; for the first EXPLAINED resources, to keep the page fast."""
    why: dict[tuple[int, str], Why] = {}
    for resource in list(dict.fromkeys(each.resource for each in waiters))[:EXPLAINED]:
        why.update({(each.ticket, resource): found for each, found in gate.locks.explain(resource)})
    return [(each, why.get((each.ticket, each.resource))) for each in waiters]


def is_claim(found: Lock) -> bool:
    """Whether a running chunk implies it; such a lock has no request."""
    return not found.request_id and parse_chunk_resource(found.resource) is not None


def lease(found: Lock) -> str:
    """When its lease expires, in words."""
    return "none: held until released" if found.expires_in is None else ending(found.expires_in)


def ending(expires_in: float | None) -> str:
    """When a lease expires, in words."""
    return "until it is released" if expires_in is None else f"expires in {duration(expires_in)} unless renewed"


def _words() -> dict[str, Any]:
    """Functions for the templates of locks."""
    return {"is_claim": is_claim, "lease": lease, "ending": ending}


def _place_of(pair: Pair) -> str:
    return f"{pair[0].ticket}-{pair[0].resource}"


def _age(found: Lock) -> str:
    return duration(datetime.now(UTC) - found.since)


def _sign(found: Lock) -> str:
    """Whether its holder is alive."""
    if found.lease is None or found.expires_in is None:
        return "without a lease: Headgate cannot know whether the holder is alive"
    return f"renewed {duration(found.lease - found.expires_in)} ago (the holder is alive)"
