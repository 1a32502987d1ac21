"""History: all events, filtered, and as of a given time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response

from headgate.core.errors import BadValue
from headgate.core.history import EVENTS, Entry
from headgate.core.ledger.model import parse_chunk_resource
from headgate.core.values.wire import rfc3339
from headgate.gate import Gate
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.ingest.acts import path_of
from headgate.http.dashboard.tables import PORTION, ROWS, Column, Table, as_csv, link
from headgate.http.dashboard.words import absolute, some

router = page_router()
FILTERS = ("noun", "event", "resource", "job", "dataid", "item", "client")
TIMES = ("since", "until")
COLUMNS: Mapping[str, Column] = {
    "at": Column("When", lambda entry: entry.at),
    "event": Column("Event", lambda entry: entry.event),
    "thing": Column("Object", lambda entry: entry.job or entry.resource),
    "states": Column("Change", lambda entry: f"{entry.before} → {entry.after}"),
    "client": Column("Client", lambda entry: entry.client),
    "reason": Column("Reason", lambda entry: entry.reason),
}
IN_FILE: Mapping[str, Column] = {
    "at": COLUMNS["at"],
    "noun": Column("Noun", lambda entry: entry.noun),
    "event": Column("Event", lambda entry: entry.event),
    "resource": Column("Resource", lambda entry: entry.resource),
    "job": Column("Job or batch", lambda entry: entry.job),
    "before": Column("Before", lambda entry: entry.before),
    "after": Column("After", lambda entry: entry.after),
    "client": Column("Who", lambda entry: entry.client),
    "principal": Column("Principal", lambda entry: entry.principal),
    "reason": Column("Why", lambda entry: entry.reason),
    "count": Column("Times", lambda entry: entry.count),
    "token": Column("Token", lambda entry: entry.token),
    "id": Column("Id", lambda entry: entry.id),
}


@router.get("/history")
def history(request: Request, gate: TheGate, who: Reader) -> Response:
    """Events of locks, chunks and the queue, newest first."""
    query = dict(request.query_params)
    chosen = {name: query[name].strip() for name in (*FILTERS, *TIMES) if query.get(name, "").strip()}
    which = filters(chosen)
    told = gate.history(**which, after=query.get("after") or None, limit=ROWS)
    times = {name: which[name] for name in TIMES if name in which}
    asked = {**chosen, **{name: rfc3339(moment) for name, moment in times.items()}}
    table = Table(
        "history", "History entries", COLUMNS, told, lambda entry: f"{entry.noun.replace(' ', '-')}-{entry.id}",
        path="/history", query=query, next=told.next, fixed=True, json=link("/v1/history", asked),
        csv=link("/history.csv", chosen),
    )  # fmt: skip
    events = sorted({event for events in EVENTS.values() for event in events})
    return render(
        request, "history.html", who, title="History", table=table, nouns=list(EVENTS), events=events,
        fields={**query, **{name: _in_field(moment) for name, moment in times.items()}},
        filtered=bool(chosen), thing=thing, as_of=as_of(which, told, first="after" not in query),
        until=which.get("until"), summary=f"{some(len(told), 'entry', 'entries')} shown",
    )  # fmt: skip


@router.get("/history.csv")
def history_file(request: Request, gate: TheGate, _who: Reader) -> Response:
    """The same list as a file, complete."""
    given = request.query_params
    which = filters({name: given[name].strip() for name in (*FILTERS, *TIMES) if given.get(name, "").strip()})
    return as_csv("history", IN_FILE, _all(gate, which))


def filters(chosen: Mapping[str, str]) -> dict[str, Any]:
    """The filter fields, as a query of the history."""
    times = {name: moment(name, chosen[name]) for name in TIMES if name in chosen}
    return {**{name: chosen[name] for name in FILTERS if name in chosen}, **times}


def moment(name: str, text: str) -> datetime:
    """A time from a browser's field, or with an offset; without one it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadValue(name, text, "is not a time; write it as 2026-11-15T04:50") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def thing(entry: Entry) -> str:
    """The page about an entry's subject."""
    if entry.noun in ("batch", "ingest job"):
        return path_of(entry.job)
    if entry.noun == "hold":
        return "/ingest"
    if entry.noun == "lock":
        return link("/locks", {"resource": entry.resource})
    chunk = parse_chunk_resource(entry.resource)
    if chunk is None:
        return f"/pipeline/jobs/{quote(entry.job, safe='')}"
    return f"/pipeline/datasets/{quote(chunk[0], safe='')}/chunks/{quote(chunk[1], safe='')}"


def as_of(which: Mapping[str, Any], entries: Sequence[Entry], *, first: bool) -> str:
    """The state of the selected thing at that time, in a sentence; empty: no single thing is selected."""
    item, until = which.get("item"), which.get("until")
    one = item or which.get("resource")
    if until is None or not one or "event" in which or "client" in which or not first:
        return ""
    found = next((entry for entry in entries if item in (None, entry.job)), None)
    if found is None:
        return f"{one} has no history before {absolute(until)}."
    return f"At {absolute(until)}, {one} was {found.after}, since {absolute(found.at)}."


def _in_field(moment: datetime) -> str:
    """In the format of a browser's time field."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")


def _all(gate: Gate, which: Mapping[str, Any]) -> Iterator[Entry]:
    after: str | None = None
    while True:
        found = gate.history(**which, after=after, limit=PORTION)
        yield from found
        after = found.next
        if after is None:
            return
