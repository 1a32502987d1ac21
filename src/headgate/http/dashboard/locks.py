"""Locks: who holds, who waits and why, and how one is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import Request, Response

from headgate.core.ledger import parse_chunk_resource
from headgate.core.locks import Blocker, Lock, Waiter
from headgate.http.auth import Forcer, Reader, TheGate, TheService
from headgate.http.dashboard.actions import Question, act, ask
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.tables import ROWS, Column, Table, as_csv, cut, link, order_of, ordered
from headgate.http.dashboard.words import duration, some
from headgate.wiring import Gate

router = page_router()
FILTERS = ("resource", "client", "mode")
#: Of so many resources it is told why somebody waits; beyond, on the lock's own page.
EXPLAINED = 20
#: Entries of the history on a lock's page.
TOLD = 50
#: More waiters than this, and who breaks a lock types its name.
MANY = 10
Why = tuple[Blocker, ...] | None
Pair = tuple[Waiter, Why]

HELD: Mapping[str, Column] = {
    "resource": Column("Resource", lambda lock: lock.resource),
    "client": Column("Held by", lambda lock: lock.client),
    "mode": Column("Mode", lambda lock: lock.mode.value),
    "since": Column("Since", lambda lock: lock.since),
    "lease": Column("Lease", lambda lock: lock.expires_in),
    "waiting": Column("Waiting", lambda _lock: None, numeric=True),
    "acts": Column("Actions", lambda _lock: None),
}
WAITING: Mapping[str, Column] = {
    "resource": Column("Resource", lambda pair: pair[0].resource),
    "client": Column("Who waits", lambda pair: pair[0].client),
    "mode": Column("Mode", lambda pair: pair[0].mode.value),
    "since": Column("Since", lambda pair: pair[0].since),
    "why": Column("What for", lambda pair: "; ".join(each.sentence() for each in pair[1] or ())),
}
IN_FILE = {name: HELD[name] for name in ("resource", "client", "mode", "since", "lease")} | {
    "owner": Column("Process", lambda lock: lock.owner),
    "principal": Column("Principal", lambda lock: lock.principal),
    "token": Column("Token", lambda lock: lock.token or ""),
    "id": Column("Id", lambda lock: lock.id),
}


@router.get("/locks")
def locks(request: Request, gate: TheGate, who: Reader) -> Response:
    """Who holds what, and who waits for it."""
    query = dict(request.query_params)
    chosen = {name: query[name] for name in FILTERS if query.get(name)}
    resource, client, mode = (chosen.get(name) for name in FILTERS)
    found = gate.locks.list(resource, client, mode, after=query.get("after") or None, limit=ROWS + 1)
    rows, more = cut([who.seen(each) for each in found], lambda lock: lock.id)
    queue = gate.locks.waiters(chosen.get("resource"))
    waiters = [each for each in queue if _is_chosen(each, chosen)]
    counted = Counter(each.resource for each in queue)
    columns = {**HELD, "waiting": Column("Waiting", lambda lock: counted[lock.resource], numeric=True)}
    order = order_of(query, more)
    held = Table(
        "held", "Locks that are held", columns, ordered(rows, columns, order), lambda lock: lock.id, path="/locks",
        query=query, next=more, order=order, json=link("/v1/locks", chosen), csv=link("/locks.csv", chosen),
    )  # fmt: skip
    waiting = Table(
        "waiting", "Who waits for a lock", WAITING, explained(gate, waiters[:ROWS]), _place_of,
        json=link("/v1/waiters", {name: chosen[name] for name in chosen if name == "resource"}),
    )  # fmt: skip
    summary = f"{some(len(rows), 'lock')} {'shown' if more or chosen else 'held'}, {len(waiters):,} waiting"
    return render(request, "locks.html", who, title="Locks", held=held, waiting=waiting, summary=summary,
                  filtered=bool(chosen), waiting_for=counted, **_words())  # fmt: skip


@router.get("/locks.csv")
def locks_file(request: Request, gate: TheGate, who: Reader) -> Response:
    """The same as a file, whole."""
    resource, client, mode = (request.query_params.get(name) or None for name in FILTERS)
    return as_csv("locks", IN_FILE, map(who.seen, gate.locks.list(resource, client, mode)))


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
    """What breaking it would do."""
    return ask(request, who, breaking(gate, gate.locks.get(lock_id)))


@router.post("/locks/{lock_id}/break")
async def break_lock(request: Request, service: TheService, who: Forcer, lock_id: str) -> Response:
    """Break it, as the API does."""

    def do(reason: str) -> str:
        broken = service.gate.locks.break_lock(lock_id, reason=reason, by=who.by())
        service.ring(("lock", lock_id.split("-")[1]))
        return f"The {broken.mode} lock of {broken.client} on {broken.resource} was broken."

    return await act(request, who, lambda: breaking(service.gate, service.gate.locks.get(lock_id)), do, "/locks")


def breaking(gate: Gate, found: Lock) -> Question:
    """The question before a lock is broken, with what it does in numbers."""
    waiting = gate.locks.waiters(found.resource)
    others = [each for each in gate.locks.list(found.resource) if each.id != found.id]
    stay = f"{some(len(others), 'other lock')} {'stays' if len(others) == 1 else 'stay'}"
    alive = found.lease is not None
    queue = f"{some(len(waiting), 'client')} waiting; {waiting[0].client} is next." if waiting else "Nobody waits."
    return Question(
        heading=f"Break the {found.mode} lock on {found.resource}?",
        consequences=[
            f"Held by {found.client}{f' ({found.owner})' if found.owner else ''} for {_age(found)}, {_sign(found)}.",
            f"Its next write will be refused where tokens are checked: token {found.token} becomes stale.",
            queue,
            *([f"{stay}: who wants it alone goes on waiting."] if others else ()),
        ],
        final="This cannot be undone.",
        verb="Break the lock",
        keep="Keep the lock",
        back=f"/locks/{found.id}",
        type_name=found.resource if alive or len(waiting) > MANY else "",
    )


def explained(gate: Gate, waiters: Sequence[Waiter]) -> list[Pair]:
    """Each waiter with what is in its way, as far as that is cheap."""
    why: dict[tuple[int, str], Why] = {}
    for resource in list(dict.fromkeys(each.resource for each in waiters))[:EXPLAINED]:
        why.update({(each.ticket, resource): found for each, found in gate.locks.explain(resource)})
    return [(each, why.get((each.ticket, each.resource))) for each in waiters]


def is_claim(found: Lock) -> bool:
    """Whether it is implied by a chunk that a job works on; such a lock has no request of its own."""
    return not found.request_id and parse_chunk_resource(found.resource) is not None


def lease(found: Lock) -> str:
    """How long it lives, in words."""
    return ending(found.expires_in)


def ending(expires_in: float | None) -> str:
    """When it goes by itself."""
    return "until it is released" if expires_in is None else f"{duration(expires_in)} left unless renewed"


def _words() -> dict[str, Any]:
    """What the templates of locks may say."""
    return {"is_claim": is_claim, "lease": lease, "ending": ending}


def _is_chosen(waiter: Waiter, chosen: Mapping[str, str]) -> bool:
    wanted = {"client": waiter.client, "mode": waiter.mode.value}
    return all(chosen.get(name, value) == value for name, value in wanted.items())


def _place_of(pair: Pair) -> str:
    return f"{pair[0].ticket}-{pair[0].resource}"


def _age(found: Lock) -> str:
    return duration(datetime.now(UTC) - found.since)


def _sign(found: Lock) -> str:
    """Whether its holder gives a sign of life."""
    if found.lease is None or found.expires_in is None:
        return "with no lease: whether the holder lives is not known"
    return f"last renewed {duration(found.lease - found.expires_in)} ago (it is alive)"
