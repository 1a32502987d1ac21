"""The handler of each consumer, by the consumer's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.errors import Invalid, LockRefused, Refused, ServiceUnavailable
from headgate.core.queue.model import Folder, IngestJob, Item, folder_of
from headgate.ingest.context import Context
from headgate.ingest.steps.intake import batch_pending, job_pending
from headgate.ingest.steps.payload_files import job_downloading, job_estimating, job_provisioning
from headgate.ingest.steps.processing import job_processing, job_storing
from headgate.ingest.steps.recording import job_notify, job_recording
from headgate.ingest.steps.reporting import batch_reporting
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.outcomes import Failed, Handler, NotNow, Outcome
from headgate.service.queue.work_folder import remove_working_folder

Step = Callable[[Context, Any, ItemHold], Outcome]


STEPS: Mapping[str, Step] = {
    "batch-pending": batch_pending,
    "batch-reporting": batch_reporting,
    "batch-update-reporting": batch_reporting,
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
    return {name: BoundStep(step, context) for name, step in STEPS.items()}


@dataclass(frozen=True, slots=True)
class BoundStep:
    """A step together with its context: a consumer's handler."""

    step: Step
    context: Context

    def __call__(self, item: Item, hold: ItemHold) -> Outcome:
        """Process an item; a refusal becomes the corresponding outcome."""
        try:
            return self.step(self.context, item, hold)
        except LockRefused as error:
            return NotNow(str(error))
        except (Invalid, Refused, ServiceUnavailable) as error:
            # Each has its own message; an operator decides whether to resume. Unavailable stores and lost items are
            # left to the consumer.
            return Failed(str(error))

    def finished(self, item: Item) -> None:
        """Release the space of a completed job, because others may wait for it."""
        if isinstance(item, IngestJob) and folder_of(item.state) is Folder.COMPLETED:
            remove_working_folder(item)
