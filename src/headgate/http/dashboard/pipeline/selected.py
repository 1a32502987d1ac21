"""Actions on the chunks that are checked in a list, or on all that match its filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import Request, Response

from headgate.core.errors import NotAllowed, UnknownName
from headgate.core.ledger.model import (
    EXTERNAL,
    FORGET_EVENT,
    HOLD_EVENT,
    RESUBMIT_EVENT,
    UNHOLD_EVENT,
    Job,
)
from headgate.core.ledger.selection import BulkResult
from headgate.gate import Gate
from headgate.http.access.auth import Caller, Operator, TheGate, TheService
from headgate.http.access.sessions import form_of
from headgate.http.dashboard.actions import Field, Question, act, ask, own_path
from headgate.http.dashboard.frame import page_router
from headgate.http.dashboard.tables import Column
from headgate.http.dashboard.words import some

router = page_router()
PATH = "/pipeline/selected"
#: The column with the check boxes.
PICK = Column("Select", lambda _row: None, sorts=False)
#: Above this number of chunks the operator must type a name to confirm.
MANY = 10
#: Number of refusals that the answer names.
NAMED = 3


@dataclass(frozen=True, slots=True)
class BulkAction:
    """An action on many chunks."""

    event: str
    label: str
    #: The effect on them.
    meaning: str
    scope: str = "operate"
    downstream: bool = False
    danger: bool = False


#: By the value of their buttons, in that order.
ACTS: Mapping[str, BulkAction] = {
    RESUBMIT_EVENT: BulkAction(RESUBMIT_EVENT, "Resubmit", "will run again, before all other chunks"),
    "resubmit-downstream": BulkAction(
        RESUBMIT_EVENT, "Resubmit downstream too", "will run again, before all other chunks", downstream=True
    ),
    HOLD_EVENT: BulkAction(HOLD_EVENT, "Hold", "will be held: no job can make or read them"),
    UNHOLD_EVENT: BulkAction(UNHOLD_EVENT, "Release", "will get back the status that they had before"),
    FORGET_EVENT: BulkAction(
        FORGET_EVENT, "Forget", "will be forgotten, as if the job had never run on them", "admin:force", danger=True
    ),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The selected chunks, from the address or the form."""

    act: str
    #: JOB/DATAID of each checked one.
    chunks: Sequence[str]
    #: All that match, instead of the checked ones.
    all: bool
    job: str
    dataset: str
    statuses: Sequence[str]
    back: str

    @property
    def fields(self) -> Sequence[Field]:
        """The same, sent with the answer."""
        values = {
            "act": self.act, "chunks": "\n".join(self.chunks), "all": "1" if self.all else "", "job": self.job,
            "dataset": self.dataset, "status": ",".join(self.statuses), "back": self.back,
        }  # fmt: skip
        return [Field(name, name, value, hidden=True) for name, value in values.items()]

    def by_job(self, jobs: Sequence[Job]) -> dict[str, Mapping[str, Any]]:
        """The query of the ledger, for each job."""
        if self.all:
            named = {"dataids": ["*"], "status": self.statuses}
            return {each.name: named for each in jobs if self._covers(each)}
        picked: dict[str, list[str]] = {}
        for chunk in self.chunks:
            job, _, dataid = chunk.partition("/")
            picked.setdefault(job, []).append(dataid)
        return {
            job: {"dataids": dataids, "status": self.statuses, "exact": True} for job, dataids in picked.items()
        }  # fmt: skip

    def _covers(self, job: Job) -> bool:
        return self.job in ("", job.name) and self.dataset in ("", *(job.outputs or job.inputs))


def choice_of(said: Mapping[str, str], chunks: Sequence[str] = ()) -> Choice:
    """From an address or a form."""
    picked = chunks or said.get("chunks", "").splitlines()
    wanted = [each for each in picked if "/" in each and not each.startswith(f"{EXTERNAL}/")]
    statuses = [each for each in said.get("status", "").split(",") if each]
    return Choice(
        said.get("act", ""), wanted, bool(said.get("all")), said.get("job", ""), said.get("dataset", ""), statuses,
        own_path(said.get("back", ""), "/pipeline/grid"),
    )  # fmt: skip


def bulk_form(who: Caller, back: str, **where: str) -> dict[str, Any] | None:
    """Data for the check boxes of a list: the actions of this caller, and the list's filters. None: the caller may
    execute none. `all`: the label of the box for all matches; without it there is no such box.
    """
    acts = {name: each for name, each in ACTS.items() if who.reach.has(each.scope)}
    return {"path": PATH, "acts": acts, "back": back, "where": where} if acts else None


@router.get(PATH)
def ask_about(request: Request, gate: TheGate, who: Operator) -> Response:
    """The number of chunks, and the effect on them."""
    query = request.query_params
    return ask(request, who, question_of(gate, who, choice_of(query, query.getlist("chunk"))))


@router.post(PATH)
async def act_on(request: Request, service: TheService, who: Operator) -> Response:
    """Execute it, part by part, as the API does."""
    choice = choice_of(await form_of(request))

    def do(reason: str) -> str:
        action = checked(who, choice)
        return done_text(action, change(service.gate, choice, action, reason=reason, by=who.by()))

    return await act(request, who, partial(question_of, service.gate, who, choice), do, choice.back)


def checked(who: Caller, choice: Choice) -> BulkAction:
    """The action with that name, if the caller may execute it."""
    found = ACTS.get(choice.act)
    if found is None:
        raise UnknownName("act", choice.act)
    if not who.reach.has(found.scope):
        raise NotAllowed(f"the API token of {who.token.name} does not allow this; it takes {found.scope}", found.scope)
    return found


def change(gate: Gate, choice: Choice, action: BulkAction, **how: Any) -> BulkResult:
    """Execute or preview it, job by job."""
    found = BulkResult(action.event)
    for job, which in choice.by_job(gate.ledger.jobs()).items():
        found = found.joined(
            gate.ledger.change_selected(job, action.event, downstream=action.downstream, **which, **how)
        )  # fmt: skip
    return found


def question_of(gate: Gate, who: Caller, choice: Choice) -> Question:
    """The question before the action, with its numbers."""
    action = checked(who, choice)
    found = change(gate, choice, action, reason="a preview", dry_run=True)
    told = [f"{some(found.count, 'chunk')} selected: {_listed(found.selected)}."]
    told.append(f"{some(found.total, 'chunk')} {action.meaning}: {_listed(found.changed)}.")
    if found.refused:
        told.append(f"{some(found.refused, 'chunk')} will be left alone: {_refusals(found)}.")
    if action.event == RESUBMIT_EVENT and not action.downstream:
        told.append("Chunks that were made from them stay as they are.")
    names = choice.by_job(gate.ledger.jobs())
    return Question(
        heading=f"{action.label}: {some(found.total, 'chunk')}?",
        consequences=told if found.count else ["No chunk is selected: check some in the list, or all that match."],
        verb=action.label,
        keep="Leave them",
        back=choice.back,
        final="This cannot be undone." if action.danger else "",
        type_name=(next(iter(names)) if len(names) == 1 else "all") if found.total > MANY else "",
        fields=choice.fields,
        danger=action.danger,
    )


def done_text(action: BulkAction, found: BulkResult) -> str:
    """The changed chunks, and those that were left alone."""
    text = f"{action.label}: {some(found.total, 'chunk')} changed ({_listed(found.changed)})."
    if found.refused:
        text += f" {some(found.refused, 'chunk')} left alone: {_refusals(found)}."
    return text


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


def _refusals(found: BulkResult) -> str:
    named = "; ".join(f"{each.dataid}: {each.why}" for each in found.refusals[:NAMED])
    return named + (" …" if found.refused > NAMED else "")
