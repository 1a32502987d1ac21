"""Who does the work of each consumer, by the consumer's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.core.errors import Invalid, LockRefused, Refused, ServiceUnavailable
from headgate.core.queue import IngestJob, Item
from headgate.ingest.context import Context
from headgate.ingest.fetching import job_downloading, job_estimating, job_provisioning
from headgate.ingest.intake import batch_pending, job_pending
from headgate.ingest.processing import job_processing
from headgate.ingest.recording import job_notify, job_recording
from headgate.ingest.reporting import batch_reporting, batch_update_reporting
from headgate.service.outcomes import Done, Failed, Handler, NotNow, Outcome
from headgate.service.renewal import ItemHold

Step = Callable[[Context, Any, ItemHold], Outcome]


def job_storing(_context: Context, job: IngestJob, _hold: ItemHold) -> Outcome:
    """In the spelling mrt-zk there is a state for it; processing has stored the object already."""
    return Done(job.message)


STEPS: Mapping[str, Step] = {
    "batch-pending": batch_pending,
    "batch-reporting": batch_reporting,
    "batch-update-reporting": batch_update_reporting,
    "job-pending": job_pending,
    "job-estimating": job_estimating,
    "job-provisioning": job_provisioning,
    "job-downloading": job_downloading,
    "job-processing": job_processing,
    "job-storing": job_storing,
    "job-recording": job_recording,
    "job-notify": job_notify,
}


def handlers(context: Context) -> dict[str, Handler]:
    """Every consumer's handler."""
    return {name: _bound(step, context) for name, step in STEPS.items()}


def _bound(step: Step, context: Context) -> Handler:
    def handle(item: Item, hold: ItemHold) -> Outcome:
        try:
            return step(context, item, hold)
        except LockRefused as error:
            return NotNow(str(error))
        except (Invalid, Refused, ServiceUnavailable) as error:
            # Each says in its own words what is wrong; a person decides whether to resume. A store that is away,
            # or an item that is lost, is not for them: the consumer knows what to do then.
            return Failed(str(error))

    return handle
