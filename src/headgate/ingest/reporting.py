"""The end of a batch: what became of each job, saved with the batch and mailed to whom the profile names."""

from __future__ import annotations

from headgate.core.queue import Batch, folder_of
from headgate.core.queue import Folder as BatchFolder
from headgate.ingest import messages, report
from headgate.ingest.context import Context
from headgate.service.outcomes import Done, Outcome
from headgate.service.renewal import ItemHold


def batch_reporting(context: Context, batch: Batch, _hold: ItemHold) -> Outcome:
    """The report of all jobs, or what changed since the last one."""
    messages.announce(context, batch.id, messages.REPORT)
    jobs = context.queue.jobs(batch=batch.id)
    profile = context.profile_of(batch.id)
    if profile and profile.callback_url and profile.callback_for_failed:
        for job in jobs:
            if folder_of(job.state) is BatchFolder.FAILED:
                messages.announce(context, job.id, messages.FAILED)
    found = report.status_report(jobs)
    counts = f"{len(found.successful):,} completed, {len(found.failed):,} failed"
    return Done(messages.problem_of(context, batch.id) or counts, report=found)
