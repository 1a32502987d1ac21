"""A user's actions in the queue: those of the tables, each after a question that describes its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote

from fastapi import Request, Response

from headgate.core.errors import BadProfiles, BadValue, QueueRefused, Refused, UnknownName
from headgate.core.notices import ITEM
from headgate.core.queue.model import (
    ALL,
    CLEAR_EVENT,
    FAILED,
    HELD,
    HIGHEST_NUMBER,
    PENDING,
    UPDATE_REPORT_EVENT,
    Batch,
    Hold,
    IngestJob,
    Item,
    check_item_id,
    check_priority,
    for_readers,
    is_batch,
)
from headgate.core.queue.rules import QueueFacts, QueueRules, choose
from headgate.core.tables.machine import Also, By, Machine, Transition
from headgate.gate import Gate
from headgate.http.access.auth import Caller, Operator, TheGate, TheService, needs
from headgate.http.access.sessions import form_of
from headgate.http.dashboard.actions import Field, Question, act, ask
from headgate.http.dashboard.frame import page_router
from headgate.http.dashboard.words import some
from headgate.http.routes.queue import scope_of
from headgate.service.queue.use_cases import Queue

router = page_router()
Actor = Annotated[Caller, needs("operate", "admin:force")]
Kind = Literal["batch", "job"]
#: Maximum number of items that one action moves; for more, repeat it.
AT_ONCE = 1000
#: With more jobs than this, a user who deletes a batch has to type its id.
MANY = 10
WAITS = "Pending items wait until the collection is released, and so do new submissions."
#: The button labels for events of the tables.
VERBS = {UPDATE_REPORT_EVENT: "Report again"}


class ItemAction(NamedTuple):
    """A user's event for an item's state, according to the table."""

    event: str
    label: str
    scope: str
    href: str
    #: Why it is refused at this moment; empty: it is not.
    why_not: str
    danger: bool


def acts_of(queue: Queue, item: Item) -> list[ItemAction]:
    """All possible actions of a user on an item, and what blocks the others."""
    machine, facts = _machine(queue, item), None
    found = []
    for row in _rows(machine, item.state):
        facts = facts or facts_of(queue, item)
        why_not = f"{item.worker} is working on it" if item.worker else ""
        try:
            choose(machine.find(item.state, row.event), facts)
        except QueueRefused as error:
            why_not = error.why
        path, deletes = f"{path_of(item.id)}/{row.event}", Also.DROP_ALL in row.also
        found.append(ItemAction(row.event, _verb(row.event), scope_of(row.event), path, why_not, deletes))
    return [*_releases(item, facts), *found]


def _releases(item: Item, facts: QueueFacts | None) -> Iterable[ItemAction]:
    """For an item that waits for its collection: the link to release the collection with the item.

    There is none for a hold in the profile's file; the reason why the item cannot be released names that file.
    """
    hold = facts.hold if facts else None
    if item.state == HELD and hold is not None and not hold.file:
        href = f"/ingest/holds/{quote(hold.profile, safe='')}/clear"
        yield ItemAction(
            CLEAR_EVENT, f"Release {_collection(hold.profile, begins=False)}", "operate", href, "", danger=False
        )


def path_of(item: str) -> str:
    """The page of a batch or an ingest job, or of another subject of a message."""
    if item == ITEM:
        return "/pipeline/incidents"
    return f"/ingest/{'batch' if is_batch(item) else 'job'}/{item}"


def batch_of(queue: Queue, item: str) -> Batch:
    """A batch by its id; a job's id is rejected."""
    if not is_batch(check_item_id(item)):
        raise UnknownName("batch", item)
    return for_readers(queue.batch(item))


def job_of(queue: Queue, item: str) -> IngestJob:
    """An ingest job by its id; a batch's id is rejected."""
    if is_batch(check_item_id(item)):
        raise UnknownName("ingest job", item)
    return for_readers(queue.job(item))


def look_up(queue: Queue, kind: Kind, item: str) -> Item:
    """A batch or an ingest job."""
    return batch_of(queue, item) if kind == "batch" else job_of(queue, item)


def facts_of(queue: Queue, item: Item) -> QueueFacts:
    """The facts that the conditions of the tables look at."""
    hold = queue.hold_of(item.profile)
    if isinstance(item, Batch):
        taken = next(iter(queue.jobs(batch=item.id, taken=True, limit=1)), None)
        taken_job = taken.id if taken else ""
        return QueueFacts(item=item, hold=hold, taken_job=taken_job)
    state = ""
    with suppress(UnknownName):
        state = QueueRules(*queue.tables()).state_for_jobs(queue.batch(item.batch))
    return QueueFacts(item=item, hold=hold, batch_state=state)


# ---------------------------------------------------------------- collections


@router.get("/ingest/hold")
def ask_to_hold(request: Request, gate: TheGate, who: Operator, profile: str = "") -> Response:
    """The effect of holding a collection."""
    return ask(request, who, holding(gate, profile))


@router.post("/ingest/hold")
async def hold(request: Request, service: TheService, who: Operator) -> Response:
    """Hold it, as the API does."""
    profile = (await form_of(request)).get("profile", "").strip()

    def do(reason: str) -> str:
        found = service.gate.queue.set_hold(profile, reason=reason, by=who.by())
        return f"{_collection(found.profile)} is held by {found.who}: {found.reason}."

    return await act(request, who, lambda: holding(service.gate, profile), do, "/ingest")


@router.get("/ingest/holds/{profile}/clear")
def ask_to_clear(request: Request, gate: TheGate, who: Operator, profile: str) -> Response:
    """The effect of releasing a collection."""
    return ask(request, who, clearing(gate.queue, profile))


@router.post("/ingest/holds/{profile}/clear")
async def clear(request: Request, service: TheService, who: Operator, profile: str) -> Response:
    """Clear the hold; what it held is pending again."""

    def do(reason: str) -> str:
        queue = service.gate.queue
        held = _held(queue, profile)
        queue.clear_hold(profile, by=who.by())
        said = on_each(held[:AT_ONCE], lambda item: queue.release(item, reason=reason, by=who.by()), "set to pending")
        more = f" More are held: release them from the list of held items of {profile}." if len(held) > AT_ONCE else ""
        return f"{_collection(profile)} is released{f': {said}' if held else ''}.{more}"

    return await act(request, who, lambda: clearing(service.gate.queue, profile), do, "/ingest")


def holding(gate: Gate, profile: str) -> Question:
    """The question before a collection is held."""
    queue, sight = gate.queue, gate.sight
    known = [name for name in queue.collections() if sight is None or sight.profile(name)]
    told = _stopped(queue, profile) if profile else WAITS
    fields = [Field("profile", "Collection (the name of its profile)", profile, known=known, hidden=profile == ALL)]
    return Question(
        heading="Pause the whole queue?" if profile == ALL else f"Hold {_collection(profile, begins=False)}?",
        consequences=[told, *_held_already(queue, profile)],
        verb="Pause the queue" if profile == ALL else "Hold the collection",
        keep="Keep it running",
        back="/ingest",
        fields=fields,
    )


def _stopped(queue: Queue, profile: str) -> str:
    """The items that a hold would stop, in numbers."""
    if profile == ALL:
        counts = queue.counts()
        waiting = sum(counts.get(noun, {}).get(PENDING, 0) for noun in ("batch", "ingest job"))
        return f"Workers get nothing new from the queue: {waiting:,} items are pending. Running work finishes normally."
    batches = queue.batches(PENDING, profile=profile, limit=AT_ONCE + 1)
    jobs = queue.jobs(PENDING, profile=profile, limit=AT_ONCE + 1)
    return f"{some_of(batches, 'pending batch', 'pending batches')}, {some_of(jobs, 'pending job')} now. {WAITS}"


def clearing(queue: Queue, profile: str) -> Question:
    """The question before a hold is cleared, and what it held is released. UnknownName when there is neither."""
    hold, held = queue.hold_of(profile), _held(queue, profile)
    if hold is None and not held:
        raise UnknownName("hold", profile)
    batches = [each for each in held if isinstance(each, Batch)]
    jobs = [each for each in held if isinstance(each, IngestJob)]
    told = f"{some_of(batches, 'batch', 'batches')} and {some_of(jobs, 'job')} become pending again."
    return Question(
        heading="Resume the whole queue?" if profile == ALL else f"Release {_collection(profile, begins=False)}?",
        consequences=[
            _why_held(hold) if hold else "The collection itself is no longer on hold.",
            told if held else "It has not stopped anything yet.",
            *(
                [f"{AT_ONCE:,} are released at once; the others stay held until you release them too."]
                if len(held) > AT_ONCE
                else ()
            ),
        ],
        verb="Resume the queue" if profile == ALL else "Release the collection",
        keep="Keep the hold",
        back="/ingest",
        asks_why=bool(held),
        danger=False,
    )


# ---------------------------------------------------------------- the priority of one job


@router.get("/ingest/job/{item}/priority")
def ask_for_priority(request: Request, gate: TheGate, who: Operator, item: str) -> Response:
    """The effect of another priority."""
    return ask(request, who, placing(job_of(gate.queue, item)))


@router.post("/ingest/job/{item}/priority")
async def set_priority(request: Request, service: TheService, who: Operator, item: str) -> Response:
    """Set it, as the API does."""
    given = (await form_of(request)).get("priority", "").strip()

    def do(reason: str) -> str:
        wanted = check_priority(int(given) if given.isdecimal() else given)
        found = service.gate.queue.set_priority(item, wanted, reason=reason, by=who.by())
        return f"The priority of {found.id} is now {found.priority}."

    return await act(request, who, lambda: placing(job_of(service.gate.queue, item), given), do, path_of(item))


def placing(job: IngestJob, given: str = "") -> Question:
    """The question before a job's priority is changed."""
    return Question(
        heading=f"Change the priority of {job.id}?",
        consequences=[
            f"It is {job.priority} now. 0 runs first, {HIGHEST_NUMBER} last; equal priorities run oldest first."
        ],
        verb="Set the priority",
        keep="Leave it",
        back=path_of(job.id),
        fields=[Field("priority", "Priority", given or str(job.priority), (0, HIGHEST_NUMBER))],
        danger=False,
    )


# ---------------------------------------------------------------- all failed jobs of a batch


@router.get("/ingest/batch/{item}/resume-failed")
def ask_to_resume_all(request: Request, gate: TheGate, who: Operator, item: str) -> Response:
    """The effect of resuming all its failed jobs."""
    return ask(request, who, resuming(gate.queue, batch_of(gate.queue, item)))


@router.post("/ingest/batch/{item}/resume-failed")
async def resume_all(request: Request, service: TheService, who: Operator, item: str) -> Response:
    """Resume each, as the table allows."""
    queue = service.gate.queue

    def do(reason: str) -> str:
        jobs = queue.jobs(FAILED, batch=item, limit=AT_ONCE)
        said = on_each(jobs, lambda job: queue.resume(job, reason=reason, by=who.by()), "resumed")
        return f"{item}: {said}."

    return await act(request, who, lambda: resuming(queue, batch_of(queue, item)), do, path_of(item))


def resuming(queue: Queue, batch: Batch) -> Question:
    """The question before all failed jobs of a batch are resumed."""
    jobs = queue.jobs(FAILED, batch=batch.id, limit=AT_ONCE + 1)
    again = sum(job.last_successful is not None for job in jobs)
    return Question(
        heading=f"Resume the failed jobs of {batch.id}?",
        consequences=[
            f"{some_of(jobs, 'job')} failed; {again:,} can continue after their last successful step.",
            "They continue with the profile and manifest that each keeps.",
            "Each counts as one more retry.",
        ],
        verb="Resume them",
        keep="Leave them",
        back=path_of(batch.id),
        danger=False,
    )  # fmt: skip


# ---------------------------------------------------------------- the events of the tables


@router.get("/ingest/{kind}/{item}/{event}")
def ask_to_fire(request: Request, gate: TheGate, who: Actor, kind: Kind, item: str, event: str) -> Response:
    """The effect of an event."""
    who.must_reach(scope_of(event), item)
    return ask(request, who, firing(gate.queue, look_up(gate.queue, kind, item), event))


@router.post("/ingest/{kind}/{item}/{event}")
async def fire(request: Request, service: TheService, who: Actor, kind: Kind, item: str, event: str) -> Response:
    """Fire the event, as the API does."""
    who.must_reach(scope_of(event), item)
    queue = service.gate.queue

    def do(reason: str) -> str:
        moved = queue.act(item, event, reason=reason, by=who.by())
        return f"{item} was deleted." if gone else f"{item} is now {moved.state}."

    machine = queue.tables()[0 if kind == "batch" else 1]
    gone = any(Also.DROP_ALL in row.also for row in machine.rows if row.event == event)
    then = "/ingest" if gone else path_of(item)
    return await act(request, who, lambda: firing(queue, look_up(queue, kind, item), event), do, then)


def firing(queue: Queue, item: Item, event: str) -> Question:
    """The question before an event, from its row of the table."""
    machine = _machine(queue, item)
    rows = [row for row in _rows(machine, item.state) if row.event == event]
    if not rows:
        raise UnknownName("act", event, f"Possible in state {item.state}: {', '.join(machine.allowed(item.state))}")
    try:
        row = choose(machine.find(item.state, event), facts_of(queue, item))
    except (
        QueueRefused
    ) as error:  # It is offered anyway, because the situation may have changed when the answer arrives.
        row, refused = rows[0], [f"Not possible at the moment: {error}"]
    else:
        refused = []
    final = Also.DROP_ALL in row.also
    many = isinstance(item, Batch) and item.made > MANY
    return Question(
        heading=f"{_verb(event)} {item.id}?",
        consequences=[*refused, *_consequences(row, item)],
        verb=_verb(event),
        keep="Keep it" if final else "Leave it",
        back=path_of(item.id),
        final="This cannot be undone." if final else "",
        type_name=item.id if final and many else "",
        danger=final,
    )


def _consequences(row: Transition, item: Item) -> list[str]:
    told = [f"State: {row.source} → {row.target}. {row.meaning}"]
    if item.message:
        told.append(f"Why it {FAILED if item.state == FAILED else f'is {item.state}'}: {item.message}")
    if item.crashes:
        told.append(f"{some(item.crashes, 'worker')} died on it; the count starts again.")
    if isinstance(item, IngestJob):
        told += (
            [f"It has been resumed {some(item.retry_count, 'time')} before."]
            if Also.COUNT_RETRY in row.also and item.retry_count
            else []
        )
    elif Also.DROP_ALL in row.also:
        jobs = item.jobs
        ends = f"{jobs.processing:,} in progress, {jobs.failed:,} failed, {jobs.completed:,} completed"
        told.append(f"Its {some(item.made, 'job')} are deleted too: {ends}.")
    if Also.DROP_ALL in row.also:
        told.append("Only its history is kept. Objects that are already stored stay.")
    return told


def _rows(machine: Machine, state: str) -> Sequence[Transition]:
    """The rows for a user in a state, one for each event."""
    rows = {row.event: row for row in machine.rows if row.source == state and row.by is By.OPERATOR}
    return list(rows.values())


def _machine(queue: Queue, item: Item) -> Machine:
    batches, jobs = queue.tables()
    return batches if isinstance(item, Batch) else jobs


def _verb(event: str) -> str:
    return VERBS.get(event, event.capitalize())


def _held(queue: Queue, profile: str) -> list[Item]:
    """The items that a collection's hold has stopped, slightly more than one action moves; the queue's own hold stops
    nothing.
    """
    if profile == ALL:
        return []
    batches = queue.batches(HELD, profile=profile, limit=AT_ONCE + 1)
    held: list[Item] = [*batches, *queue.jobs(HELD, profile=profile, limit=AT_ONCE + 1)]
    return [item for item in held if not item.former]  # Items that kill their workers are decided one by one.


def _held_already(queue: Queue, profile: str) -> Iterable[str]:
    hold = queue.hold_of(profile) if profile else None
    return () if hold is None else (f"{_why_held(hold)} That reason is kept.",)


def _why_held(hold: Hold) -> str:
    return f"Held by {hold.who}: {hold.reason}."


def _collection(profile: str, *, begins: bool = True) -> str:
    """A collection in words, at the beginning or in the middle of a sentence."""
    words = "the whole queue" if profile == ALL else f"collection {profile}" if profile else "a collection"
    return words[0].upper() + words[1:] if begins else words


def some_of(found: Sequence[Item], noun: str, plural: str | None = None) -> str:
    return f"{AT_ONCE:,} or more {plural or noun + 's'}" if len(found) > AT_ONCE else some(len(found), noun, plural)


def on_each(items: Sequence[Item], move: Callable[[str], Item], word: str) -> str:
    """Move each; refusals are reported, and do not stop the others."""
    refused = []
    for item in items:
        try:
            move(item.id)
        except (BadProfiles, BadValue, Refused, UnknownName) as error:
            refused.append(f"{item.id}: {error}")
    said = f"{len(items) - len(refused):,} {word}"
    return said + (f", {len(refused):,} refused ({refused[0]})" if refused else "")
