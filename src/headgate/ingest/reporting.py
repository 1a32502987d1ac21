"""The end of a batch: what became of each job, saved with the batch and mailed to whom the profile names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.core.queue import Batch, IngestJob, Report, folder_of
from headgate.core.queue import Folder as BatchFolder
from headgate.ingest import messages, report
from headgate.ingest.context import Context
from headgate.ingest.profile import Profile
from headgate.service.outcomes import Done, Outcome
from headgate.service.renewal import ItemHold


def batch_reporting(context: Context, batch: Batch, _hold: ItemHold) -> Outcome:
    """The report of all jobs."""
    batch, jobs, profile = _of(context, batch)
    if profile and profile.notification:
        number = messages.report_number(context, batch)
        mail = report.batch_report(batch, jobs, number, messages.envelope(context, profile))
        messages.post_report(context, batch, mail, number)
    _tell_failures(context, jobs, profile)
    return _done(batch, jobs)


def batch_update_reporting(context: Context, batch: Batch, _hold: ItemHold) -> Outcome:
    """What changed since the last report; silent when nothing did."""
    batch, jobs, profile = _of(context, batch)
    if profile and profile.notification:
        number = messages.report_number(context, batch)
        before = batch.report or Report((), ())
        mail = report.update_report(batch, jobs, before, number, messages.envelope(context, profile))
        if mail is not None:
            messages.post_report(context, batch, mail, number)
    _tell_failures(context, jobs, profile)
    return _done(batch, jobs)


def _of(context: Context, batch: Batch) -> tuple[Batch, Sequence[IngestJob], Profile | None]:
    intake = context.inventory.intake(batch.id)
    problem = intake.problem if intake else ""
    return replace(batch, message=problem), context.queue.jobs(batch=batch.id), context.profile_of(batch.id)


def _tell_failures(context: Context, jobs: Sequence[IngestJob], profile: Profile | None) -> None:
    if profile and profile.callback_url and profile.callback_for_failed:
        for job in jobs:
            if folder_of(job.state) is BatchFolder.FAILED:
                context.inventory.post(messages.failure_message(context, job, profile))


def _done(batch: Batch, jobs: Sequence[IngestJob]) -> Outcome:
    found = report.status_report(jobs)
    counts = f"{len(found.successful):,} completed, {len(found.failed):,} failed"
    return Done(batch.message or counts, report=found)
