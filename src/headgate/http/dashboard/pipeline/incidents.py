"""Incidents: problems that need a person; acknowledging and snoozing them."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request, Response

from headgate.core.errors import BadValue
from headgate.core.incidents import Incident
from headgate.core.ledger.expectations.model import LATE
from headgate.gate import Gate
from headgate.http.access.auth import Operator, Reader, TheGate, TheService
from headgate.http.dashboard.actions import Question, act, ask
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.pipeline.pages import chunk_page
from headgate.http.dashboard.tables import ROWS, Column, Table, cut, link, order_of, ordered

router = page_router()
PATH = "/pipeline/incidents"
#: How long the button snoozes an incident.
SNOOZE_SECONDS = 8 * 3600.0
COLUMNS: Mapping[str, Column] = {
    "id": Column("Incident", lambda each: each.id, numeric=True),
    "job": Column("Job", lambda each: each.job),
    "subject": Column("Chunk", lambda each: each.subject),
    "kind": Column("Kind", lambda each: each.kind),
    "state": Column("State", lambda each: each.state),
    "since": Column("Since", lambda each: each.since),
    "count": Column("Times", lambda each: each.count, numeric=True),
    "message": Column("Why", lambda each: each.message),
    "acts": Column("Actions", lambda _each: None, sorts=False),
}


@router.get(PATH)
def incidents(request: Request, gate: TheGate, who: Reader) -> Response:
    """Open incidents, newest first; with `show=closed`, also closed ones."""
    query = dict(request.query_params)
    after = query.get("after", "")
    page = gate.incidents.list(
        query.get("job") or None, closed=query.get("show") == "closed", after=int(after) if after.isdecimal() else None,
        limit=ROWS + 1,
    )  # fmt: skip
    rows, more = cut(page, lambda each: each.id)
    order = order_of(query, more)
    asked = {"closed": "true"} if query.get("show") == "closed" else {}
    table = Table(
        "incidents", "Incidents", COLUMNS, ordered(rows, COLUMNS, order), lambda each: each.id, path=PATH, query=query,
        next=more, order=order, json=link("/v1/incidents", asked),
    )  # fmt: skip
    filtered = any(query.get(name) for name in ("job", "show"))
    jobs = [job.name for job in gate.ledger.jobs()]
    return render(
        request, "incidents.html", who, title="Incidents", table=table, filtered=filtered, jobs=jobs,
        page_of=chunk_page, late_kind=LATE,
    )  # fmt: skip


@router.get(PATH + "/{number}/{name}")
def ask_to_act(request: Request, gate: TheGate, who: Operator, number: int, name: str) -> Response:
    """Its effect."""
    return ask(request, who, question_of(gate.incidents.get(number), name))


@router.post(PATH + "/{number}/{name}")
async def act_on(request: Request, service: TheService, who: Operator, number: int, name: str) -> Response:
    """Do it, as the API does."""
    gate = service.gate

    def do(_reason: str) -> str:
        return done_text(gate, number, name, who.by())

    return await act(request, who, lambda: question_of(gate.incidents.get(number), name), do, PATH)


def question_of(incident: Incident, name: str) -> Question:
    """The question before an incident is acknowledged or snoozed."""
    meaning = [f"{incident.sentence}."]
    if name == "acknowledge":
        meaning.append("No more notices about it are sent, unless it happens again or closes.")
        return Question(
            f"Acknowledge incident {incident.id}?",
            meaning,
            "Acknowledge",
            "Leave it",
            PATH,
            asks_why=False,
            danger=False,
        )
    if name == "snooze":
        meaning.append("No notices about it are sent for 8 h. If it is still open then, a notice reports it again.")
        return Question(
            f"Snooze incident {incident.id}?", meaning, "Snooze for 8 h", "Leave it", PATH, asks_why=False,
            danger=False,
        )  # fmt: skip
    raise BadValue("act", name, "is neither acknowledge nor snooze")


def done_text(gate: Gate, number: int, name: str, by: str) -> str:
    """Execute it, and return the result as a sentence."""
    if name == "acknowledge":
        return f"Incident {gate.incidents.acknowledge(number, by=by).id} is acknowledged."
    return f"Incident {gate.incidents.snooze(number, SNOOZE_SECONDS).id} is snoozed for 8 h."
