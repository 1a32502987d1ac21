"""The pipeline: the graph of datasets and jobs with numbers of chunks, and the same as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from fastapi import Request, Response

from headgate.core.layout import layout
from headgate.core.ledger.census import EXPIRED, Tally
from headgate.core.ledger.model import ERROR, EXTERNAL, HOLD, READY, RESUBMIT, RUNNING, Dataset, Job, Kind
from headgate.gate import Gate
from headgate.http.access.auth import Reader, TheGate
from headgate.http.dashboard.frame import page_router, render
from headgate.http.dashboard.pipeline.drawing import HEAD, LINE, WIDTH, draw
from headgate.http.dashboard.tables import link
from headgate.http.dashboard.words import number, some
from headgate.service.ledger import census

router = page_router()
#: Statuses in the order of the page: those that need an operator first.
ORDER = (ERROR, EXPIRED, HOLD, RUNNING, RESUBMIT, READY)
#: Statuses that a node shows; the table below has all of them.
TOLD = 4
#: Number of characters of a name that fit into a node.
LETTERS = 17
#: Sizes of the graph in percent; without one it fits the page.
ZOOMS = (50, 75, 100, 150, 200)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of chunks with a status."""

    word: str
    count: int
    more: bool
    href: str

    @property
    def text(self) -> str:
        """5,000+"""
        return f"{self.count // 1000 * 1000 or self.count:,}+" if self.more else number(self.count)


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A dataset or a job."""

    id: str
    name: str
    kind: str
    href: str
    counts: Sequence[Count]
    #: Why the job gets no chunks; empty: it does.
    paused: str = ""
    #: Its inputs and outputs, or its maker and readers.
    before: Sequence[str] = ()
    after: Sequence[str] = ()

    @property
    def shown(self) -> str:
        """The name, cut if it is too long."""
        return self.name if len(self.name) <= LETTERS else f"{self.name[: LETTERS - 1]}…"

    @property
    def lines(self) -> Sequence[tuple[str, str]]:
        """A word and a text for each line below the name."""
        told = [(each.word, f"{each.text} {each.word}") for each in self.counts]
        told = [("paused", "paused"), *told] if self.paused else told
        return told[:TOLD] or [("", "no chunks" if self.kind == "dataset" else "nothing to do")]

    @property
    def label(self) -> str:
        """The node in words."""
        counts = ", ".join(f"{each.text} {each.word}" for each in self.counts) or "no chunks"
        return f"{self.kind.capitalize()} {self.name}: {'paused, ' if self.paused else ''}{counts}"


@router.get("/pipeline")
def pipeline(request: Request, gate: TheGate, who: Reader) -> Response:
    """How chunks flow through datasets and jobs."""
    nodes, edges = graph_of(gate)
    found = layout(list(nodes), edges)
    jobs = sum(1 for node in nodes.values() if node.kind == "job")
    paused = sum(1 for node in nodes.values() if node.paused)
    summary = f"{some(len(nodes) - jobs, 'dataset')}, {some(jobs, 'job')}{f', {paused} paused' if paused else ''}"
    picture = draw(found, nodes, edges)
    return render(request, "pipeline.html", who, title="Pipeline", summary=summary, picture=picture,
                  rows=[nodes[name] for name in found.order], most=census.MOST_TALLIED, head=HEAD, line=LINE,
                  box_width=WIDTH, zoom=zoom_of(request.query_params.get("zoom", "")))  # fmt: skip


class Zoom(NamedTuple):
    """The size of the graph in percent, and the next smaller and larger ones; None: it fits the page."""

    now: int | None
    smaller: int | None
    larger: int | None


def zoom_of(text: str) -> Zoom:
    """From the address; any other value fits the graph to the page."""
    now = int(text) if text.isdecimal() and len(text) < 4 and int(text) in ZOOMS else None
    at = ZOOMS.index(now or 100)
    return Zoom(now, ZOOMS[at - 1] if at else None, ZOOMS[at + 1] if at + 1 < len(ZOOMS) else None)


def job_page(job: str) -> str:
    """The page of a job."""
    return f"/pipeline/jobs/{quote(job, safe='')}"


def chunk_page(row_job: str, dataset: str, dataid: str) -> str:
    """The page of a chunk: by the job that makes it, or by its dataset when it was made elsewhere."""
    whose = f"/pipeline/datasets/{quote(dataset, safe='')}" if row_job == EXTERNAL else job_page(row_job)
    return f"{whose}/chunks/{quote(dataid, safe='')}"


def graph_of(gate: Gate) -> tuple[dict[str, FlowNode], list[tuple[str, str]]]:
    """Every dataset and job as a node, by its key, and the edges."""
    datasets, jobs, tallies = gate.ledger.datasets(), gate.ledger.jobs(), census.tallies(gate.ledger)
    edges = [(f"dataset {name}", f"job {job.name}") for job in jobs for name in job.inputs]
    edges += [(f"job {job.name}", f"dataset {name}") for job in jobs for name in job.makes]
    nodes = {f"dataset {each.name}": _dataset_node(each, jobs, tallies) for each in datasets}
    standing = gate.ledger.standing()
    nodes |= {f"job {each.name}": _job_node(gate, each, standing) for each in jobs}
    return nodes, edges


def _dataset_node(dataset: Dataset, jobs: Sequence[Job], tallies: Sequence[Tally]) -> FlowNode:
    own = [each for each in tallies if each.dataset == dataset.name and each.kind is Kind.OUTPUT]
    counts = counted(own, lambda status: link("/pipeline/grid", {"dataset": dataset.name, "status": status}))
    return FlowNode(
        f"dataset-{quote(dataset.name, safe='')}", dataset.name, "dataset",
        link("/pipeline/grid", {"dataset": dataset.name}), counts,
        before=[job.name for job in jobs if dataset.name in job.makes],
        after=[job.name for job in jobs if dataset.name in job.inputs],
    )  # fmt: skip


def _job_node(gate: Gate, job: Job, standing: Sequence[Tally]) -> FlowNode:
    busy = [each for each in standing if each.job == job.name and each.status in (RUNNING, EXPIRED, ERROR, HOLD)]
    counts = counted(busy, lambda status: link("/pipeline/grid", {"job": job.name, "status": status}))
    waiting = census.waiting(gate.ledger, job.name)
    if waiting.count:
        counts = [*counts, Count(waiting.status, waiting.count, waiting.more, job_page(job.name))]
    return FlowNode(
        f"job-{quote(job.name, safe='')}", job.name, "job", job_page(job.name), counts, job.paused, job.inputs,
        job.outputs,
    )  # fmt: skip


def counted(tallies: Sequence[Tally], href: Callable[[str], str]) -> list[Count]:
    """Counts added up by status, those that need an operator first."""
    sums: dict[str, tuple[int, bool]] = {}
    for each in tallies:
        count, more = sums.get(each.status, (0, False))
        sums[each.status] = (count + each.count, more or each.more)
    rank = {status: place for place, status in enumerate(ORDER)}
    ordered = sorted(sums, key=lambda status: (rank.get(status, 2), status))
    return [Count(status, *sums[status], href(RUNNING if status == EXPIRED else status)) for status in ordered]
