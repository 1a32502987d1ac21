"""The end of a batch: the outcome of each job, saved with the batch and mailed to the profile's recipients."""

from __future__ import annotations

from contextlib import suppress

from headgate.core.errors import BadProfiles, BadValue
from headgate.core.queue.model import Batch, folder_of
from headgate.core.queue.model import Folder as BatchFolder
from headgate.ingest.context import Context
from headgate.ingest.notices import batch_mails as report
from headgate.ingest.notices import messages
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.outcomes import Done, NotNow, Outcome


def batch_reporting(context: Context, batch: Batch, _hold: ItemHold) -> Outcome:
    """The report of all jobs, or the changes since the last one."""
    with suppress(BadProfiles, BadValue):  # Another program may have started it, without any of our workers.
        context.profile_of(batch.id) or context.adopted(batch.id, batch.profile)
    jobs = context.queue.jobs(batch=batch.id)
    if running := [job.id for job in jobs if folder_of(job.state) is BatchFolder.PROCESSING]:
        # Merritt's programs add and resume jobs even while the report is being made.
        return NotNow(f"reported when its jobs have ended: {running[0]} is in the queue")
    messages.announce(context, batch.id, messages.REPORT)
    profile = context.profile_of(batch.id)
    if profile and profile.callback_url and profile.callback_for_failed:
        for job in jobs:
            if folder_of(job.state) is BatchFolder.FAILED:
                messages.announce(context, job.id, messages.FAILED)
    found = report.status_report(jobs)
    counts = f"{len(found.successful):,} completed, {len(found.failed):,} failed"
    return Done(messages.problem_of(context, batch.id) or counts, report=found)
