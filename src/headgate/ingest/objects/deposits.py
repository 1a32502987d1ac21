"""Files that are submitted, objects that are stored, and what failed ingest jobs keep: on the machine of the store."""

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

if TYPE_CHECKING:  # What needs the extra `ingest` is loaded when it is used.
    from headgate.core.queue.frozen import Frozen
    from headgate.core.queue.model import IngestJob, Item
    from headgate.ingest.context import Context
    from headgate.ingest.storage.port import Problem, Progress
    from headgate.service.inventory import Inventory


class Deposits(Protocol):
    """The use cases on files, here or at a service."""

    def hand_in(self, file: Path) -> str:
        """Put a file where the daemons find it. Returns the URL by which it is submitted."""

    def verify(
        self, client: str, ark: str, *, wait: float, progress: Progress, warnings: bool = False
    ) -> list[Problem]:
        """Read every stored byte of an object, where it is stored. Returns what is not as it was stored."""

    def unrecorded(self) -> list[Problem]:
        """Stored objects that the inventory does not know. Found only where the storage is."""

    def frozen_of(self, job: IngestJob) -> Frozen | None:
        """What a job keeps from its start; None where no inventory keeps anything."""

    def refresh(self, job: IngestJob) -> Frozen:
        """Give a failed job the current profile, and let it fetch its manifest again."""


class LocalDeposits:
    """The use cases on files of this machine."""

    def __init__(self, settings: Settings, inventory: Inventory | None, context: Callable[[], Context]) -> None:
        """`inventory`: None where none is kept, or the caller sees only a part. `context`: builds what steps need."""
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
        """Read every stored byte of an object. Returns what is not as it was stored."""
        from headgate.ingest.objects.reading import verify_object

        return verify_object(self._context(), client, ark, wait=wait, progress=progress, warnings=warnings)

    def unrecorded(self) -> list[Problem]:
        """Return stored objects that the inventory does not know."""
        from headgate.ingest.objects.reading import unrecorded

        return unrecorded(self._context())

    def frozen_of(self, job: IngestJob) -> Frozen | None:
        """Return what a job keeps from its start; None where no inventory keeps anything."""
        from headgate.ingest.steps.frozen import frozen_of

        if self._inventory is None or "working_dir" not in job.configuration:
            return None
        return frozen_of(self._inventory, self._profiles, job)

    def refresh(self, job: IngestJob) -> Frozen:
        """Give a failed job the current profile, and let it fetch its manifest again."""
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
    """Resume a failed job with the current profile, and its manifest and files fetched again.

    A job that cannot be resumed is left as it is, with the reason.
    """
    job = queue.job(jid)
    if job.state == FAILED and job.last_successful is not None:
        deposits.refresh(job)
    return queue.resume(jid, reason=reason or "with the current profile and manifest", by=by)
