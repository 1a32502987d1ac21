"""Submitted files, stored objects, and the frozen parts of failed ingest jobs: on the store's machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.core.errors import BadValue
from headgate.core.queue.model import FAILED
from headgate.service.queue.use_cases import Queue
from headgate.service.queue.work_folder import make_work_folder, stage_upload
from headgate.settings import Settings
from headgate.telemetry import event

if TYPE_CHECKING:  # Modules that need the extra `ingest` are imported on use.
    from headgate.core.queue.frozen import Frozen
    from headgate.core.queue.model import IngestJob, Item
    from headgate.ingest.context import Context
    from headgate.ingest.storage.port import Problem, Progress
    from headgate.service.inventory import Inventory


class Deposits(Protocol):
    """The use cases about files, here or at a service."""

    def hand_in(self, file: Path) -> str:
        """Copy a file to where the daemons find it. Returns the URL by which it is submitted."""

    def verify(
        self, client: str, ark: str, *, wait: float, progress: Progress, warnings: bool = False
    ) -> list[Problem]:
        """Read every stored byte of an object, in its storage. Returns the differences from what was stored."""

    def unrecorded(self) -> list[Problem]:
        """Stored objects that the inventory does not know. Only found on the machine of the storage."""

    def frozen_of(self, job: IngestJob) -> Frozen | None:
        """The frozen parts of a job; None if there is no inventory."""

    def refresh(self, job: IngestJob) -> Frozen:
        """Give a failed job the current profile, and make it fetch its manifest again."""


class LocalDeposits:
    """The use cases about files on this machine."""

    def __init__(self, settings: Settings, inventory: Inventory | None, context: Callable[[], Context]) -> None:
        """`inventory`: None if there is none, or the caller has a limited view. `context`: builds that of steps."""
        self._settings = settings
        self._inventory = inventory
        self._context = context

    def hand_in(self, file: Path) -> str:
        """Copy a file into the work folder. Returns the URL by which it is submitted."""
        source = existing(file)
        return stage_upload(make_work_folder(self._settings), source)

    def verify(
        self, client: str, ark: str, *, wait: float, progress: Progress, warnings: bool = False
    ) -> list[Problem]:
        """Read every stored byte of an object. Returns the differences from what was stored."""
        from headgate.ingest.objects.reading import verify_object

        return verify_object(self._context(), client, ark, wait=wait, progress=progress, warnings=warnings)

    def unrecorded(self) -> list[Problem]:
        """Return stored objects that the inventory does not know."""
        from headgate.ingest.objects.reading import unrecorded

        return unrecorded(self._context())

    def frozen_of(self, job: IngestJob) -> Frozen | None:
        """Return the frozen parts of a job; None if there is no inventory."""
        from headgate.ingest.steps.frozen import frozen_of

        if self._inventory is None or "working_dir" not in job.configuration:
            return None
        return frozen_of(self._inventory, self._profiles, job)

    def refresh(self, job: IngestJob) -> Frozen:
        """Give a failed job the current profile, and make it fetch its manifest again."""
        from headgate.ingest.steps.frozen import refresh

        if self._inventory is None:
            raise BadValue("job", job.id, "keeps nothing to replace: the store has no inventory")
        done = refresh(self._inventory, self._profiles, job)
        event("job.refreshed", job=job.id, batch=job.batch, profile=job.profile)
        return done

    @property
    def _profiles(self) -> Path:
        return Path(self._settings["profiles_folder"])


def existing(file: Path) -> Path:
    """Return the file; BadValue when there is none."""
    if not file.is_file():
        raise BadValue("payload", str(file), "is neither an existing file nor a URL")
    return file


def resume_refreshed(queue: Queue, deposits: Deposits, jid: str, *, reason: str = "", by: str | None = None) -> Item:
    """Resume a failed job with the current profile, fetching its manifest and files again.

    A job that cannot be resumed is unchanged, and the reason is returned.
    """
    job = queue.job(jid)
    if job.state == FAILED and job.last_successful is not None:
        deposits.refresh(job)
    return queue.resume(jid, reason=reason or "with the current profile and manifest", by=by)
