"""Estimating, provisioning, downloading: from the payload's URL to its files in the working folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from headgate.core.errors import ServiceUnavailable
from headgate.core.queue.model import OBJECT_OWNER, IngestJob, later_priority
from headgate.core.values.plurals import plural
from headgate.core.values.redaction import redact
from headgate.ingest.context import Context, stop_of
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.sources.download import FailedDownload
from headgate.ingest.sources.fetch import ask_sizes
from headgate.ingest.steps.estimate import estimate, estimated_priority, measured_priority
from headgate.ingest.steps.payload import NotGathered, gather, make_folder, object_manifest, payload_url
from headgate.ingest.stopping import Stop
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.outcomes import Done, Failed, NotNow, Outcome

#: Maximum length of the list of failed downloads in the job's configuration, in characters.
LONGEST_LIST = 200_000


def job_estimating(context: Context, job: IngestJob, hold: ItemHold) -> Outcome:
    """Ask every server for the sizes of its files. Never fails: an unknown size counts as 0."""
    profile = context.profile(job)
    try:
        sizes = _sizes(context, job, profile, stop_of(hold))
    except ServiceUnavailable as error:
        return Done(f"its size is unknown: {error}", priority=later_priority(job.priority), space_needed=0)
    found = estimate(sizes)
    priority = estimated_priority(job.priority, found.space_needed, profile.limits.large_size)
    return Done(found.message, priority=priority, space_needed=found.space_needed)


def job_provisioning(context: Context, job: IngestJob, _hold: ItemHold) -> Outcome:
    """Whether there is space for it now. Waiting jobs are checked in every round, so that a small job can pass."""
    work = context.options.work_folder
    make_folder(work)
    why = context.reservations.ask(job, shutil.disk_usage(work).free)
    if why:
        return NotNow(why)
    return Done(
        f"{job.space_needed:,} bytes are reserved"
        if job.space_needed
        else ("its size is unknown; there is enough space")
    )


def job_downloading(context: Context, job: IngestJob, hold: ItemHold) -> Outcome:
    """All files, complete and checked, or a list of those that could not be downloaded."""
    profile = context.profile(job)
    try:
        found = gather(context, job, profile, stop_of(hold))
    except NotGathered as error:
        context.queue.change(job, configuration={"failed_files": _listed(error.failed)})
        return Failed(error.message)
    except OSError as error:
        return Failed(f"the working folder cannot be written: {error.strerror or error}")
    size = sum(each.size for each in found.values())
    priority = measured_priority(job.priority, job.space_needed, size, profile.limits.large_size)
    message = f"{size:,} bytes in {plural(len(found), 'file')}"
    return Done(
        message, priority=priority, space_needed=size, configuration={"failed_files": [], OBJECT_OWNER: profile.owner}
    )


def _listed(failed: Sequence[FailedDownload]) -> list[dict[str, Any]]:
    rows = [{"name": each.name, "why": redact(each.why), "tries": each.tries} for each in failed]
    lengths = accumulate(len(json.dumps(row)) for row in rows)
    return [row for row, length in zip(rows, lengths, strict=True) if length <= LONGEST_LIST]


def _sizes(context: Context, job: IngestJob, profile: Profile, stop: Stop) -> list[int | None]:
    if job.configuration["payload_type"] == "object_manifest":
        entries = object_manifest(context, job, profile, stop).entries
        told = ask_sizes(context.fetcher(profile), [each.url for each in entries], profile.limits.downloads, stop)
        return [size if size is not None else entry.size for size, entry in zip(told, entries, strict=True)]
    fetcher = context.fetcher(profile, uploaded=context.has_upload(job))
    return ask_sizes(fetcher, [payload_url(job)], 1, stop)
