"""The queue in the terms of Merritt's operators: jobs and bytes by collection and batch, and metrics by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.queue.model import Batch, Folder, IngestJob, folder_of

#: A gigabyte, as Merritt counts it.
GIGABYTE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """A batch in the summary of its collection."""

    profile: str  #: The ingest profile.
    batch: str  #: Its id.
    state: str  #: A state of the table.
    since: datetime  #: Since when it is in this state.
    submitter: str  #: Name of the submitter.
    processing: int  #: Jobs that have not ended.
    failed: int  #: Jobs that failed.
    completed: int  #: Jobs that are done.
    bytes: int  #: Bytes of its jobs, as far as they are known.


@dataclass(frozen=True, slots=True)
class CollectionTotal:
    """The sums of a collection's batches."""

    profile: str  #: The ingest profile.
    batches: int  #: How many there are.
    processing: int  #: Jobs that have not ended.
    failed: int  #: Jobs that failed.
    completed: int  #: Jobs that are done.
    bytes: int  #: Bytes of all these jobs, as far as they are known.


def totalled(found: Sequence[CollectionSummary]) -> list[CollectionTotal]:
    """The sums of each collection, by its name."""
    by_profile: dict[str, list[CollectionSummary]] = {}
    for each in found:
        by_profile.setdefault(each.profile, []).append(each)
    return [
        CollectionTotal(
            profile, len(some), sum(each.processing for each in some), sum(each.failed for each in some),
            sum(each.completed for each in some), sum(each.bytes for each in some),
        )
        for profile, some in sorted(by_profile.items())
    ]  # fmt: skip


def summarized(batches: Sequence[Batch], jobs: Sequence[IngestJob]) -> list[CollectionSummary]:
    """Each batch with its jobs, by collection and id."""
    counts = Counter((job.batch, folder_of(job.state)) for job in jobs)
    sizes: Counter[str] = Counter()
    for job in jobs:
        sizes[job.batch] += job.space_needed
    found = [
        CollectionSummary(
            each.profile, each.id, each.state, each.since, each.submission.submitter,
            counts[each.id, Folder.PROCESSING], counts[each.id, Folder.FAILED], counts[each.id, Folder.COMPLETED],
            sizes[each.id],
        )
        for each in batches
    ]  # fmt: skip
    return sorted(found, key=lambda each: (each.profile, each.batch))


def merritt_metrics(
    batches: Sequence[Batch], jobs: Sequence[IngestJob], foreign: Mapping[str, Mapping[str, int]]
) -> dict[str, int | float]:
    """Counts by the names under which Merritt's admin tool reports them."""
    of_jobs = Counter(folder_of(job.state) for job in jobs)
    of_batches = Counter(folder_of(each.state) for each in batches)
    in_process = sum(job.space_needed for job in jobs if folder_of(job.state) is Folder.PROCESSING)
    found: dict[str, int | float] = {
        **{f"num_jobs_{word}": of_jobs[folder] for word, folder in _WORDS.items()},
        "gb_in_process": round(in_process / GIGABYTE, 2),
        **{f"num_batches_{word}": of_batches[folder] for word, folder in _WORDS.items()},
    }
    assemblies = [counts for place, counts in foreign.items() if place.startswith(_ASSEMBLIES)]
    if assemblies:
        named = {word: sum(each.get(word.capitalize(), 0) for each in assemblies) for word in _WORDS}
        found |= {f"num_assemblies_{word}": count for word, count in named.items()}
    return found


#: The folder that a metric counts, by the last word of its name.
_WORDS = {"processing": Folder.PROCESSING, "completed": Folder.COMPLETED, "failed": Folder.FAILED}
#: The node in which Merritt keeps requests for objects to be assembled.
_ASSEMBLIES = "access/"
