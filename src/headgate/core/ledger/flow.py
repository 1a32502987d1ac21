"""The flow of data through the datasets of a pipeline. Pure; used by both the command and the dashboard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.core.layout import Edge, layout
from headgate.core.ledger.model import Dataset, Job


def edges_of(jobs: Iterable[Job]) -> list[Edge]:
    """For each job, every pair of an input and an output dataset."""
    return [(source, target) for job in jobs for source in job.inputs for target in job.makes]


def flow_order(datasets: Iterable[Dataset], jobs: Sequence[Job]) -> list[str]:
    """Names of datasets, each before those made from it; datasets that no job uses come last."""
    used = {name for job in jobs for name in job.uses}
    found = layout([each.name for each in datasets], edges_of(jobs))
    return sorted(found.order, key=lambda name: name not in used)


def made_from(name: str, edges: Sequence[Edge]) -> set[str]:
    """Every dataset downstream of one; itself only if the flow leads back to it."""
    found, ahead = set[str](), [name]
    while ahead:
        here = ahead.pop()
        made = {target for source, target in edges if source == here} - found
        found |= made
        ahead += made
    return found
