"""What happens, as it happens: server-sent events out of the history, which can be taken up where they broke off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from headgate.core.errors import BadValue, Unavailable
from headgate.core.history import Entry
from headgate.core.wire import plain
from headgate.http.auth import Reader, TheService
from headgate.http.errors import TooMany
from headgate.http.service import Service
from headgate.service.clock import steady
from headgate.stores.base import HistoryFilter, LedgerHistoryFilter
from headgate.stores.queue_port import QueueHistoryFilter
from headgate.wiring import Gate

router = APIRouter(tags=["whole"])
#: Between two looks, and between two signs of life.
PAUSE_SECONDS, SILENCE_SECONDS = 0.5, 15.0
#: Entries that are read at once, and at most after a break; who was away longer reads the history.
PORTION, MOST_MISSED = 200, 10_000


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the three histories have been told: of locks, ledger and queue."""

    locks: int
    ledger: int
    queue: int

    def __str__(self) -> str:
        return f"{self.locks}.{self.ledger}.{self.queue}"


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A stream."}},
)
async def events(
    service: TheService, _who: Reader, last: Annotated[str | None, Header(alias="Last-Event-ID")] = None
) -> StreamingResponse:
    """Everything that happens from now on, one history entry an event. With `Last-Event-ID`: from there on."""
    if service.streams >= service.limits.streams:
        raise TooMany(f"{service.limits.streams} streams are open already", 10)
    mark = await run_in_threadpool(_newest, service.gate) if last is None else parse_mark(last)
    return StreamingResponse(_stream(service, mark), media_type="text/event-stream")


def parse_mark(text: str) -> Mark:
    """A mark, as the id of an event has it."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 19 for part in parts):
        raise BadValue("Last-Event-ID", text, "is not the id of an event of this stream")
    return Mark(*(int(part) for part in parts))


async def _stream(service: Service, mark: Mark) -> AsyncIterator[str]:
    service.streams += 1
    told = steady()
    try:
        yield f"id: {mark}\nretry: 1000\n: from here on\n\n"
        while not service.ending.is_set():
            found, mark = await run_in_threadpool(_newer, service.gate, mark)
            for text in found:
                yield text
            if not found and steady() - told > SILENCE_SECONDS:
                yield ": nothing happened\n\n"
            if found or steady() - told > SILENCE_SECONDS:
                told = steady()
            await _pause(service)
    finally:
        service.streams -= 1


async def _pause(service: Service) -> None:
    try:
        await asyncio.wait_for(service.ending.wait(), PAUSE_SECONDS)
    except TimeoutError:
        return


def _newest(gate: Gate) -> Mark:
    newest = [next(iter(ask(None, 1)), None) for ask in _histories(gate)]
    return Mark(*(0 if entry is None else entry.id for entry in newest))


def _newer(gate: Gate, mark: Mark) -> tuple[list[str], Mark]:
    """What happened since, oldest first, and how far that is. A store that is away is asked again later."""
    marks = [mark.locks, mark.ledger, mark.queue]
    try:
        found = [(place, entry) for place, ask in enumerate(_histories(gate)) for entry in _since(ask, marks[place])]
    except Unavailable:
        return [], mark
    texts = []
    for place, entry in sorted(found, key=lambda each: (each[1].at, each[0], each[1].id)):
        marks[place] = entry.id
        data = json.dumps(plain(entry), ensure_ascii=False)
        texts.append(f"id: {Mark(*marks)}\nevent: {entry.noun}\ndata: {data}\n\n")
    return texts, Mark(*marks)


Ask = Callable[[int | None, int], Sequence[Entry]]


def _since(ask: Ask, last: int) -> list[Entry]:
    """The entries after that one, oldest first."""
    found: list[Entry] = []
    before: int | None = None
    while len(found) < MOST_MISSED:
        portion = [entry for entry in ask(before, PORTION) if entry.id > last]
        found += portion
        if len(portion) < PORTION:
            break
        before = portion[-1].id
    return found[::-1]


def _histories(gate: Gate) -> tuple[Ask, Ask, Ask]:
    has_ledger = getattr(gate.store, "ledger", None) is not None
    return (
        lambda before, limit: gate.store.history(HistoryFilter(before=before, limit=limit)),
        lambda before, limit: (
            gate.ledger.history(LedgerHistoryFilter(before=before, limit=limit)) if has_ledger else ()
        ),
        lambda before, limit: gate.queue.history(QueueHistoryFilter(before=before, limit=limit)),
    )
