"""What failed ingest jobs go on with: what they keep from their start, or the current profile and manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headgate.telemetry import event

if TYPE_CHECKING:
    from headgate.core.frozen import Frozen
    from headgate.core.queue import IngestJob, Item
    from headgate.wiring import Gate


def frozen_of(gate: Gate, job: IngestJob) -> Frozen | None:
    """Return what a job keeps from its start; None where no inventory keeps anything."""
    from headgate.ingest.frozen import frozen_of as find

    if gate.service:
        return gate.service.ingest.frozen(job.id)
    if not gate.keeps_inventory or gate.sight is not None or "working_dir" not in job.configuration:
        return None
    return find(gate.inventory, Path(gate.settings["profiles_folder"]), job)


def resume_refreshed(gate: Gate, jid: str, *, reason: str = "", by: str | None = None) -> Item:
    """Resume a failed job with the current profile, and its manifest and files fetched again.

    A job that cannot be resumed is left as it is, with the reason.
    """
    job = gate.queue.job(jid)
    if job.state == "failed" and job.last_successful is not None:
        refresh(gate, job)
    return gate.queue.resume(jid, reason=reason or "with the current profile and manifest", by=by)


def refresh(gate: Gate, job: IngestJob) -> Frozen:
    """Give a failed job the current profile, and let it fetch its manifest again. Done by the store's process."""
    from headgate.ingest.frozen import refresh as do

    if gate.service:
        return gate.service.ingest.refresh(job.id)
    done = do(gate.inventory, Path(gate.settings["profiles_folder"]), job)
    event("job.refreshed", job=job.id, batch=job.batch, profile=job.profile)
    return done
