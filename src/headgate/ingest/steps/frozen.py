"""The frozen parts of a batch and its jobs: the profile and the manifest; and replacing them by the current ones."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headgate.core.errors import BadProfiles, QueueRefused
from headgate.core.inventory import Intake
from headgate.core.queue.frozen import Frozen
from headgate.core.queue.model import DOWNLOADING, FAILED, PROVISIONING, IngestJob
from headgate.core.values.wire import plain
from headgate.ingest.profiles.snapshots import read_profile
from headgate.ingest.steps.payload import expected_digest, folder_of
from headgate.service.inventory import Inventory

#: A later job has stored its files: another manifest would change nothing.
BEFORE_STORING = (PROVISIONING, DOWNLOADING)


def frozen_of(inventory: Inventory, profiles: Path, job: IngestJob) -> Frozen:
    """Return the frozen parts of a job, compared with the current ones. Fetches nothing."""
    kept = inventory.intake(job.batch)
    changes: tuple[str, ...] = ()
    problem = ""
    try:
        current = plain(read_profile(profiles, job.profile).snapshot())
        changes = _differences(plain(kept.profile), current) if kept and kept.profile else ()
    except BadProfiles as error:
        problem = str(error)
    manifest = folder_of(job).manifest
    try:
        fetched = datetime.fromtimestamp(manifest.stat().st_mtime, UTC)
    except OSError:
        fetched = None
    refreshable = fetched is not None and _can_refetch(job)
    return Frozen(job.id, kept.at if kept else None, changes, problem, fetched, refreshable)


def refresh(inventory: Inventory, profiles: Path, job: IngestJob) -> Frozen:
    """Give a failed job the current profile, and make it fetch its manifest and files again. Returns its new frozen
    parts.

    The profile belongs to the whole batch: all its unfinished jobs use it. BadProfiles when it cannot be used,
    QueueRefused when the job has not failed.
    """
    if job.state != FAILED or job.worker:
        raise QueueRefused(job.id, "refresh", f"it is {job.state}, and only failed jobs are given a new profile")
    profile = read_profile(profiles, job.profile)
    kept = inventory.intake(job.batch)
    inventory.keep_intake(Intake(job.batch, profile.snapshot(), kept.problem if kept else ""), anew=True)
    if _can_refetch(job):
        folder = folder_of(job)
        # The marker of completeness is removed first.
        for file in (folder.gathered, folder.manifest):
            file.unlink(missing_ok=True)
        for place in (folder.producer, folder.parts):
            shutil.rmtree(place, ignore_errors=True)
    return frozen_of(inventory, profiles, job)


def _can_refetch(job: IngestJob) -> bool:
    is_manifest = job.configuration.get("payload_type") == "object_manifest"
    return is_manifest and job.last_successful in BEFORE_STORING and not expected_digest(job.configuration)


def _differences(kept: Mapping[str, Any], current: Mapping[str, Any], prefix: str = "") -> tuple[str, ...]:
    """The names of the differing keys, those of tables as `table.key`."""
    found: list[str] = []
    for name in sorted({*kept, *current}):
        before, after = kept.get(name), current.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += _differences(before, after, f"{prefix}{name}.")
        elif before != after:
            found.append(f"{prefix}{name}")
    return tuple(found)
