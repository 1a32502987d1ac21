"""The first step: a batch is split into jobs, or its report says why not; a job is checked first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headgate.core.errors import BadProfiles, BadValue, Invalid, Refused, ServiceUnavailable
from headgate.core.queue.model import Batch, IngestJob, NewJob, Submission
from headgate.core.values.plurals import plural
from headgate.core.values.words import check_word
from headgate.ingest.context import Context, now, stop_of
from headgate.ingest.formats import manifest
from headgate.ingest.notices import messages
from headgate.ingest.profiles.profile import Profile, from_snapshot
from headgate.ingest.retries import Retries, retried
from headgate.ingest.steps.new_jobs import BATCHES, jobs_of, submission_type
from headgate.ingest.steps.payload import (
    check_data,
    check_sources,
    container_kind,
    expected_digest,
    make_folder,
    object_manifest,
    payload_name,
    save,
)
from headgate.ingest.stopping import Stop, waited
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.checks import PAYLOAD_TYPES
from headgate.service.queue.outcomes import Done, Held, Outcome

#: Errors that mean that a payload yields no jobs. An unavailable store does not.
NO_JOBS = (Invalid, Refused, ServiceUnavailable)


def batch_pending(context: Context, batch: Batch, hold: ItemHold) -> Outcome:
    """The payload is fetched and read, and each object in it becomes a job. No job is created twice."""
    # The cleaner finds items to forget by their folders, so it is created even if it stays empty.
    make_folder(context.options.work_folder / batch.id)
    try:
        profile = from_snapshot(context.start(batch).profile)
    except (BadProfiles, BadValue) as error:
        return _no_jobs(context, batch, str(error))
    if not batch.made and (why := context.hold_of(batch.profile)):
        return Held(f"collection {profile.collection} is on hold, set by its profile: {why}")
    try:
        rows = _rows(context, batch, profile, stop_of(hold))
    except NO_JOBS as error:
        return _no_jobs(context, batch, str(error))
    made = context.queue.create_jobs(batch, rows, max_crashes=profile.max_crashes)
    if profile.confirmation_mail:
        messages.announce(context, batch.id, messages.QUEUED)
    return Done(f"{made:,} jobs" if made != 1 else "1 job")


def job_pending(context: Context, job: IngestJob, hold: ItemHold) -> Outcome:
    """The checks of a payload before it is fetched; for an object manifest, all checks."""
    profile = context.profile(job)
    if why := context.hold_of(profile.name):
        return Held(f"collection {profile.collection} is on hold, set by its profile: {why}")
    kind = check_word("payload_type", str(job.configuration["payload_type"]), PAYLOAD_TYPES)
    if kind != "object_manifest":
        name = payload_name(job)
        if kind == "container":
            container_kind(name)
        return Done(f"{kind} {name}")
    try:
        found = object_manifest(context, job, profile, stop_of(hold))
    except ServiceUnavailable as error:
        return Done(f"its manifest cannot be fetched now and is fetched again with the files: {error}")
    return Done(f"{plural(len(found.entries), 'file')} listed")


def _no_jobs(context: Context, batch: Batch, problem: str) -> Outcome:
    """The batch continues without jobs to its report, which says why."""
    context.inventory.set_problem(batch.id, problem)
    return Done(problem)


def _rows(context: Context, batch: Batch, profile: Profile, stop: Stop) -> Sequence[NewJob]:
    # Another program may have written it, with its own keys.
    submission = replace(batch.submission, type=submission_type(batch.submission.type))
    uploaded = context.is_uploaded(submission.payload_url)
    if not uploaded and (why := profile.sources.refusal(submission.payload_url)):
        raise BadValue("payload", submission.payload_url, f"may not be fetched: {why}")
    found = None
    if submission.type in BATCHES:
        found = _batch_manifest(context, batch.id, submission, profile, stop, uploaded=uploaded)
    said: dict[str, Any] = {"submitted": now().isoformat(timespec="seconds"), "batch_type": submission.type}
    return [
        replace(row, settings={**row.settings, **said, "supplied_id": row.identifiers.primary})
        for row in jobs_of(submission, found, profile.priority)
    ]


def _batch_manifest(
    context: Context, batch_id: str, submission: Submission, profile: Profile, stop: Stop, *, uploaded: bool
) -> manifest.Manifest:
    """Fetched once and kept, so that jobs created after a restart come from the same rows."""
    place = context.options.work_folder / batch_id / "manifest.checkm"
    limits = profile.limits
    kept = place.is_file()
    if kept:
        data = place.read_bytes()
    else:
        fetcher = context.fetcher(profile, uploaded=uploaded)
        url = submission.payload_url
        data = retried(lambda: fetcher.read(url, limits.manifest_size, stop), Retries(limits.tries), waited(stop))
        check_data("the batch manifest", data, expected_digest(submission.metadata))
    expected = BATCHES[submission.type]
    found = manifest.parse(data, expected, limit=limits.manifest_size, most=limits.batch_jobs)
    check_sources(profile, found)
    if not kept:
        save(place, data)
    return found
