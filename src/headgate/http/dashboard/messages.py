"""Mails and callbacks: delivered, waiting, and undelivered ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import Request, Response

from headgate.core.inventory import Message
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.ingest.acts import path_of
from headgate.http.dashboard.tables import ROWS, Column, Table, cut, link, order_of, ordered

router = page_router()
FAILED = "failed"
MESSAGES: Mapping[str, Column] = {
    "id": Column("Message", lambda message: message.id),
    "kind": Column("Kind", lambda message: message.kind),
    "item": Column("About", lambda message: message.item),
    "state": Column("State", lambda message: message.state),
    "tries": Column("Tries", lambda message: message.tries, numeric=True),
    "next": Column("Next try", lambda message: message.next_try),
    "problem": Column("Problem", lambda message: message.problem),
}


@router.get("/ingest/messages")
def messages(request: Request, gate: TheGate, who: Reader) -> Response:
    """Messages by id; with `show=failed`, only undelivered ones."""
    query = dict(request.query_params)
    failed = query.get("show") == FAILED
    page: Sequence[Message] = ()
    if gate.keeps_inventory:
        page = gate.inventory.messages(failed=failed, after=query.get("after") or None, limit=ROWS + 1)
    rows, more = cut(page, lambda message: message.id)
    order = order_of(query, more)
    table = Table(
        "messages", "Messages", MESSAGES, ordered(rows, MESSAGES, order), lambda message: message.id,
        path="/ingest/messages", query=query, next=more, order=order,
        json=link("/v1/messages", {"failed": "true"} if failed else {}),
    )  # fmt: skip
    return render(request, "messages.html", who, title="Messages", table=table, failed=failed, path_of=path_of)
