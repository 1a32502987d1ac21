"""The page of a chunk: its status, why it waits, what it is made from and what is made from it; and a user's actions on
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from headgate.core.errors import NotAllowed, TransitionRefused, UnknownName
from headgate.core.ledger.fan import ChunkLink, FanIn
from headgate.core.ledger.model import (
    EXTERNAL,
    FORCE_EVENT,
    FORGET_EVENT,
    HOLD_EVENT,
    PUBLISH_EVENT,
    RESUBMIT,
    RESUBMIT_EVENT,
    RUNNING,
    UNHOLD_EVENT,
    Change,
    Job,
    Kind,
    Row,
)
from headgate.core.ledger.rules import ABSENT, state_of
from headgate.core.ledger.verdicts import Condition
from headgate.core.tables.machine import Also, By
from headgate.core.tables.states import CHUNK
from headgate.core.tables.tones import Tone
from headgate.gate import Gate
from headgate.http.access.auth import Caller, Reader, TheGate, TheService, needs
from headgate.http.dashboard.actions import Question, act, ask
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.pipeline.pages import chunk_page
from headgate.http.dashboard.words import duration, some

router = page_router()
Doer = Annotated[Caller, needs("operate", "admin:force", "data:publish")]
#: Number of history entries on a page, and of logs: two for each of the last attempts.
TOLD, MOST_LOGS = 50, 10
#: Lease of a forced claim in seconds: enough time to do the work by hand.
FORCED_LEASE = 3600.0
#: If more chunks than this are affected, the user has to type the name.
MANY = 10


@dataclass(frozen=True, slots=True)
class Story:
    """One chunk, by the job that makes it; EXTERNAL when it is made elsewhere."""

    job: str
    dataid: str
    #: The dataset whose rows keep the status.
    dataset: str
    #: The row with the status; None: there is none.
    row: Row | None
    #: Other chunks: its inputs, the other outputs, and its readers.
    inputs: Sequence[FanIn]
    outputs: Sequence[Row]
    readers: Sequence[ChunkLink]
    #: Whether it was made by fan-out, from a chunk with another data id.
    is_part: bool = False

    @property
    def status(self) -> str:
        """The status, or absent."""
        return self.row.status if self.row else ABSENT

    @property
    def alive(self) -> bool:
        """Whether a worker is processing it."""
        return self.row is not None and self.row.alive

    @property
    def page(self) -> str:
        """Its address."""
        return chunk_page(EXTERNAL if self.is_part else self.job, self.dataset, self.dataid)


@dataclass(frozen=True, slots=True)
class ChunkAction:
    """An action of an operator on a chunk, with the event of the table for it."""

    #: The table's event.
    event: str
    #: The scope that the API requires for it.
    scope: str
    label: str
    #: The label of the cancel button.
    keep: str
    #: The effects, in numbers.
    consequences: Callable[[Gate, Story], Sequence[str]]
    #: Executes it with a reason; returns the result.
    do: Callable[[Gate, Story, Caller, str], str]
    #: It may be taken from a living worker, by callers that may force.
    robs: bool = False
    danger: bool = False
    #: Only for chunks that others are made from.
    downstream: bool = False
    #: The question.
    heading: str = "{label} {chunk}?"


@router.get("/pipeline/datasets/{dataset}/chunks/{dataid}")
def dataset_chunk(request: Request, gate: TheGate, who: Reader, dataset: str, dataid: str) -> Response:
    """A chunk of a dataset: on the page of its job, or on its own when it is made elsewhere or by fan-out."""
    story = outside(gate, dataset, dataid)
    if story.job == EXTERNAL or story.is_part:
        return _page(request, gate, who, story)
    return RedirectResponse(story.page, 303)


@router.get("/pipeline/jobs/{job}/chunks/{dataid}")
def chunk(request: Request, gate: TheGate, who: Reader, job: str, dataid: str) -> Response:
    """A chunk of a job; one that was made by fan-out has a page by its dataset."""
    story = story_of(gate, job, dataid)
    return RedirectResponse(story.page, 303) if story.is_part else _page(request, gate, who, story)


@router.get("/pipeline/jobs/{job}/chunks/{dataid}/{name}")
def ask_to_act(request: Request, gate: TheGate, who: Doer, job: str, dataid: str, name: str) -> Response:
    """The effect of an action."""
    return ask(request, who, question_of(gate, who, story_of(gate, job, dataid), name))


@router.post("/pipeline/jobs/{job}/chunks/{dataid}/{name}")
async def act_on_chunk(request: Request, service: TheService, who: Doer, job: str, dataid: str, name: str) -> Response:
    """Do it, as the API does."""
    return await _act(request, service, who, lambda: story_of(service.gate, job, dataid), name)


@router.get("/pipeline/datasets/{dataset}/chunks/{dataid}/{name}")
def ask_to_publish(request: Request, gate: TheGate, who: Doer, dataset: str, dataid: str, name: str) -> Response:
    """The effect of an action on data made elsewhere."""
    return ask(request, who, question_of(gate, who, outside(gate, dataset, dataid), name))


@router.post("/pipeline/datasets/{dataset}/chunks/{dataid}/{name}")
async def act_on_data(
    request: Request, service: TheService, who: Doer, dataset: str, dataid: str, name: str
) -> Response:
    """Do it, as the API does."""
    return await _act(request, service, who, lambda: outside(service.gate, dataset, dataid), name)


async def _act(request: Request, service: TheService, who: Caller, find: Callable[[], Story], name: str) -> Response:
    def do(reason: str) -> str:
        story = find()
        return checked(who, story, name).do(service.gate, story, who, reason)

    then = request.url.path.rpartition("/")[0]
    return await act(request, who, lambda: question_of(service.gate, who, find(), name), do, then)


def _page(request: Request, gate: Gate, who: Caller, story: Story) -> Response:
    made_here = story.job != EXTERNAL and not story.is_part
    verdict = gate.ledger.explain(story.job, story.dataid) if made_here else None
    entries = list(gate.history(job=story.job, dataid=story.dataid, limit=TOLD))
    if not made_here:
        entries = [entry for entry in entries if entry.resource == f"data:{story.dataset}/{story.dataid}"]
    logs = gate.ledger.logs(story.job, story.dataid, limit=MOST_LOGS) if made_here else ()
    return render(
        request, "chunk.html", who, title=f"{story.dataset}/{story.dataid}", story=story, verdict=verdict, logs=logs,
        entries=entries, page_of=chunk_page, sign_of=sign_of, acts={name: ACTS[name] for name in allowed(story)},
        summary=f"{story.dataset}/{story.dataid} is {story.status}",
    )  # fmt: skip


class Sign(NamedTuple):
    """How a condition is displayed: its shape, its colour and the word for screen readers."""

    shape: str
    tone: str
    word: str


def sign_of(condition: Condition) -> Sign:
    """A failure that may be retried does not block, but is not met either."""
    if not condition.ok:
        return Sign("cross", Tone.FAILED, "blocks:")
    if condition.failed:
        return Sign("warn", Tone.HELD, "failed, may be retried:")
    return Sign("check", Tone.OK, "fine:")


# ---------------------------------------------------------------- reading


def story_of(gate: Gate, job: str, dataid: str) -> Story:
    """A chunk, by the job that makes it. UnknownName without such a job."""
    found, _ = gate.ledger.job(job)
    rows = gate.ledger.status(dataid=dataid)
    first = found.first
    made = {row.dataset: row for row in rows if row.kind is Kind.OUTPUT}
    own = next((r for r in rows if (r.job, r.dataset, r.kind) == (job, first, found.counted)), None)
    part = next((name for name in found.fan_out if name in made and made[name].job == job), None)
    if own is None and part is not None:
        return outside(gate, part, dataid)
    inputs = gate.ledger.fan_in(job, [dataid])
    outputs = [made.get(name, _absent(name, dataid, job)) for name in found.outputs if name != first]
    return Story(job, dataid, first, own, inputs, outputs, _made_of(gate, found, dataid))


def _made_of(gate: Gate, job: Job, dataid: str) -> list[ChunkLink]:
    """The readers of a data id's outputs, and the fan-out parts made from it."""
    links = _readers(gate, job.outputs, dataid)
    if job.fan_out and job.inputs and not job.mapped:
        links += [each for each in gate.ledger.readers(job.inputs[0], dataid) if each.dataset in job.fan_out]
    return links


def outside(gate: Gate, dataset: str, dataid: str) -> Story:
    """A chunk, by its dataset. UnknownName without such a dataset."""
    if not any(each.name == dataset for each in gate.ledger.datasets()):
        raise UnknownName("dataset", dataset)
    rows = gate.ledger.status(dataid=dataid)
    row = next((each for each in rows if each.dataset == dataset and each.kind is Kind.OUTPUT), None)
    maker = next((job for job in gate.ledger.jobs() if dataset in job.makes), None)
    job = row.job if row else maker.name if maker else EXTERNAL
    is_part = maker is not None and maker.name == job and dataset in maker.fan_out
    return Story(job, dataid, dataset, row, (), (), _readers(gate, [dataset], dataid), is_part)


def _readers(gate: Gate, made: Sequence[str], dataid: str) -> list[ChunkLink]:
    """The chunks that read one of these, or were made from it, each once."""
    return list(dict.fromkeys(each for dataset in made for each in gate.ledger.readers(dataset, dataid)))


def _absent(dataset: str, dataid: str, job: str) -> Row:
    return Row(dataset, dataid, job, Kind.OUTPUT, ABSENT)


# ---------------------------------------------------------------- acts


def allowed(story: Story) -> list[str]:
    """The actions that the table has in this state; a fan-out part follows the chunk that it was made from."""
    if story.is_part:
        return []
    state = state_of(story.status)
    rows = [row for row in CHUNK.rows if row.source == state and (row.also is not Also.NOTHING)]
    by_person = {row.event for row in rows if row.by is (By.CLIENT if story.job == EXTERNAL else By.OPERATOR)}
    return [
        name for name, each in ACTS.items()
        if each.event in by_person and (each.event == PUBLISH_EVENT) == (story.job == EXTERNAL)
        and (story.readers or not each.downstream)
    ]  # fmt: skip


def checked(who: Caller, story: Story, name: str) -> ChunkAction:
    """The action with that name, if the table has it now and the caller may execute it."""
    found = ACTS.get(name)
    if found is None:
        raise UnknownName("act", name)
    if found.downstream and not story.readers:
        raise UnknownName("action", name, "No job reads this chunk: there is nothing downstream")
    if name not in allowed(story):
        raise TransitionRefused(CHUNK.name, story.status, found.event, tuple(allowed(story)))
    scope = "admin:force" if story.alive and found.robs else found.scope
    if not who.reach.has(scope):
        raise NotAllowed(f"the API token of {who.token.name} does not allow this; it takes {scope}", scope)
    if found.event == PUBLISH_EVENT:
        who.must_reach("data:publish", story.dataset)
    return found


def question_of(gate: Gate, who: Caller, story: Story, name: str) -> Question:
    """The question before an action, with its effects in numbers."""
    found = checked(who, story, name)
    told = list(found.consequences(gate, story))
    if story.alive and story.row:
        told.insert(0, _robbed(story.row))
    return Question(
        heading=found.heading.format(label=found.label, chunk=f"{story.dataset}/{story.dataid}"),
        consequences=told,
        verb=found.label,
        keep=found.keep,
        back=story.page,
        final="This cannot be undone." if found.danger else "",
        type_name=story.dataid if story.alive and found.robs else "",
        asks_why=found.event != PUBLISH_EVENT,
    )


def _robbed(row: Row) -> str:
    """The effect on the worker."""
    silent = None if row.lease is None or row.expires_in is None else duration(row.lease - row.expires_in)
    sign = "" if silent is None else f" (last renewed {silent} ago)"
    return f"{row.worker} is working on it{sign}. Its report will be refused: token {row.token} becomes stale."


def _resubmitted(gate: Gate, story: Story, *, downstream: bool) -> Sequence[str]:
    """The changes that the service itself would make."""
    changes = gate.ledger.resubmit(
        story.job, story.dataid, reason="a preview", downstream=downstream, steal=story.alive, dry_run=True
    )
    made = _by_job(changes)
    told = [f"{some(sum(made.values()), 'chunk')} will run again: {_listed(made)}."]
    others = {(each.job, each.dataid) for each in changes if each.before == RUNNING} - {(story.job, story.dataid)}
    if others:
        told.append(f"{some(len(others), 'other chunk')} that are running are taken from their workers.")
    told.append("Failures and attempts are counted from zero, and it runs before all other chunks.")
    if not downstream and story.readers:
        told.append("Chunks that were made from it stay as they are.")
    return told


def _by_job(changes: Sequence[Change]) -> Counter[str]:
    """The number of data ids of each job."""
    return Counter(job for job, _ in {(each.job, each.dataid) for each in changes if each.after == RESUBMIT})


def _listed(made: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} of {job}" for job, count in made.items()) or "none"


def _resubmit(gate: Gate, story: Story, who: Caller, reason: str, *, downstream: bool = False) -> str:
    changes = gate.ledger.resubmit(
        story.job, story.dataid, reason=reason, downstream=downstream, steal=story.alive, by=who.by()
    )
    made = _by_job(changes)
    return f"{some(sum(made.values()), 'chunk')} will run again: {_listed(made)}."


def _hold(gate: Gate, story: Story, who: Caller, reason: str) -> str:
    changes = gate.ledger.hold(story.job, story.dataid, reason=reason, by=who.by())
    return f"{story.dataid} of {story.job} is held; it was {changes[0].before if changes else story.status}."


def _unhold(gate: Gate, story: Story, who: Caller, reason: str) -> str:
    changes = gate.ledger.unhold(story.job, story.dataid, reason=reason, by=who.by())
    return f"{story.dataid} of {story.job} is {changes[0].after if changes else 'released'} again."


def _forget(gate: Gate, story: Story, who: Caller, reason: str) -> str:
    changes = gate.ledger.forget(story.job, story.dataid, reason=reason, steal=story.alive, by=who.by())
    return f"{story.dataid} of {story.job} is forgotten: {some(len(changes), 'row')} removed."


def _force(gate: Gate, story: Story, who: Caller, reason: str) -> str:
    claim = gate.ledger.force(
        story.job, story.dataid, reason=reason, steal=story.alive, key="", worker=who.by(), lease=FORCED_LEASE
    )
    return (
        f"You have claimed the chunk for {duration(FORCED_LEASE)}, token {claim.token}. When it is done, run: "
        f"headgate job success {story.job} {story.dataid} --token {claim.token}"
    )


def _publish(gate: Gate, story: Story, who: Caller, _reason: str) -> str:
    gate.ledger.publish(story.dataset, story.dataid, by=who.by())
    return f"{story.dataset}/{story.dataid} is READY."


def _reading(story: Story) -> str:
    jobs = list(dict.fromkeys(each.job for each in story.readers))
    if not jobs:
        return "No job reads it."
    return f"{some(len(jobs), 'job')} read{'s' if len(jobs) == 1 else ''} it: {', '.join(jobs)}."


#: By the last word of their addresses, in the order of the buttons.
ACTS: Mapping[str, ChunkAction] = {
    RESUBMIT_EVENT: ChunkAction(
        RESUBMIT_EVENT, "operate", "Resubmit", "Leave it",
        lambda gate, story: _resubmitted(gate, story, downstream=False), _resubmit, robs=True,
    ),
    "resubmit-downstream": ChunkAction(
        RESUBMIT_EVENT, "operate", "Resubmit downstream too", "Leave it",
        lambda gate, story: _resubmitted(gate, story, downstream=True),
        lambda gate, story, who, reason: _resubmit(gate, story, who, reason, downstream=True), robs=True,
        downstream=True, heading="Resubmit {chunk} and everything that was made from it?",
    ),
    HOLD_EVENT: ChunkAction(
        HOLD_EVENT, "operate", "Hold", "Leave it",
        lambda _gate, story: ["No job runs or reads it until it is released.", _reading(story)], _hold,
    ),
    UNHOLD_EVENT: ChunkAction(
        UNHOLD_EVENT, "operate", "Release", "Keep it held",
        lambda _gate, story: [
            f"It is {(story.row and story.row.former) or ABSENT} again, as before the hold.", _reading(story),
        ],
        _unhold,
    ),
    PUBLISH_EVENT: ChunkAction(
        PUBLISH_EVENT, "data:publish", "Publish", "Leave it",
        lambda _gate, story: [
            "The data was made elsewhere and is complete: the chunk becomes READY.", _reading(story),
        ],
        _publish,
    ),
    FORCE_EVENT: ChunkAction(
        FORCE_EVENT, "admin:force", "Force", "Leave it",
        lambda _gate, _story: [
            "You become its worker, whatever the rules say: do the work by hand and report the result with the token.",
            f"If you do not report within {duration(FORCED_LEASE)}, it fails.",
        ],
        _force, robs=True, danger=True,
    ),
    FORGET_EVENT: ChunkAction(
        FORGET_EVENT, "admin:force", "Forget", "Keep it",
        lambda _gate, story: [
            f"The rows of job {story.job} are removed, as if it had never run. It runs again if its inputs are READY.",
            _reading(story),
        ],
        _forget, robs=True, danger=True,
    ),
}  # fmt: skip
