"""What a caller with a limited `read` can see: locks by resource, data by dataset, the queue by profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.core.history import Entry
from headgate.core.ledger.model import Job, parse_chunk_resource

#: What `read` can be limited to, with a description of each: `read:data:climate*` reads the datasets whose names begin
#: with climate.
NAMESPACES = {
    "lock": "locks on resources",
    "data": "datasets, their chunks, and jobs that use only these",
    "queue": "batches and ingest jobs of profiles",
}


@dataclass(frozen=True, slots=True)
class Sight:
    """Visible names, by namespace. A pattern that ends in * matches every name with that prefix."""

    lock: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    #: Jobs that are visible whatever they read and make: those that the caller works on.
    jobs: tuple[str, ...] = ()

    def resource(self, resource: str) -> bool:
        """Whether locks on a resource are visible; locks on a chunk are also visible with its dataset."""
        chunk = parse_chunk_resource(resource)
        return _matches(self.lock, resource) or (chunk is not None and self.dataset(chunk[0]))

    def dataset(self, name: str) -> bool:
        """Whether a dataset and its chunks are visible."""
        return _matches(self.data, name)

    def profile(self, name: str) -> bool:
        """Whether the batches of a profile are visible."""
        return _matches(self.queue, name)

    def job(self, job: Job) -> bool:
        """Whether a job is visible: all datasets that it reads and makes must be, unless the caller works on it."""
        return job.name in self.jobs or all(self.dataset(name) for name in job.uses)

    def entry(self, entry: Entry) -> bool:
        """Whether a history entry is visible. Entries about a job as a whole are not."""
        if entry.noun in ("lock", "chunk"):
            return self.resource(entry.resource)
        return entry.noun != "job" and self.profile(entry.resource)


def check_sight(limit: str) -> bool:
    """Whether this is valid after `read:`."""
    namespace, _, pattern = limit.partition(":")
    return namespace in NAMESPACES and bool(pattern) and "*" not in pattern[:-1]


def sight_of(
    limits: Iterable[str], resources: Iterable[str] = (), jobs: Iterable[str] = (), profiles: Iterable[str] = ()
) -> Sight:
    """Return what the limits of `read` allow together, and what the caller may act on: resources with a prefix, jobs,
    profiles.
    """
    found: dict[str, tuple[str, ...]] = {
        "lock": tuple(f"{each}*" for each in resources), "data": (), "queue": tuple(profiles), "jobs": tuple(jobs)
    }  # fmt: skip
    for each in limits:
        namespace, _, pattern = each.partition(":")
        found[namespace] += (pattern,)
    return Sight(**found)


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)
