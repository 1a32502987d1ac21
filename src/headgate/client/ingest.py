"""Ingest at a service: uploads, profiles, and the storage."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headgate.calls.deadlines import within
from headgate.client.sending import ServicePart, send, send_file
from headgate.core.alarms import Alarm
from headgate.core.errors import Unavailable
from headgate.core.queue.frozen import Frozen
from headgate.core.queue.model import Batch, IngestJob
from headgate.core.values.wire import parse
from headgate.ingest.objects.deposits import existing
from headgate.ingest.profiles.profile import Profile, from_snapshot
from headgate.ingest.storage.port import Problem, Progress
from headgate.operations import daemons, ingest, inventory

#: Reading a whole object may take this long.
READING_SECONDS = 24 * 3600.0


class ServiceIngest(ServicePart):
    """Ingest behind a service."""

    def profiles(self) -> list[Profile]:
        """List the profiles of the service."""
        return [from_snapshot(each) for each in send(self.connection, ingest.profiles)]

    def profile(self, name: str) -> Profile:
        """Return a profile. Raises BadProfiles with all errors in its file."""
        return from_snapshot(send(self.connection, ingest.profile, name=name))

    def frozen_of(self, job: IngestJob) -> Frozen | None:
        """Return the parts of an ingest job that were fixed at its start."""
        found: Frozen | None = send(self.connection, ingest.frozen, jid=job.id)
        return found

    def refresh(self, job: IngestJob) -> Frozen:
        """Make the service give a failed job the current profile and manifest."""
        found: Frozen = send(self.connection, ingest.refresh, jid=job.id)
        return found

    def announce(self, item: str, notice: str) -> bool:
        """Make the service put a notice about a batch or ingest job into its outbox."""
        return bool(send(self.connection, inventory.announce, item=item, notice=notice))

    def hand_in(self, file: Path) -> str:
        """Upload a file to the service. Returns the URL by which it is submitted."""
        found: ingest.Uploaded = send_file(self.connection, ingest.upload, existing(file), name=file.name)
        return found.payload_url

    def verify(
        self, client: str, ark: str, *, wait: float, progress: Progress, warnings: bool = False
    ) -> list[Problem]:
        """Make the service read every stored byte of an object. Returns the files that differ from what was stored."""
        del client  # The service reads under its own name.
        with within(READING_SECONDS + wait):
            found: ingest.Verified = send(self.connection, ingest.verify, ark=ark, wait=wait, warnings=warnings)
        progress(found.bytes)
        return [parse(Problem, each) for each in found.problems]

    def unrecorded(self) -> list[Problem]:
        """Return None: the storage belongs to the service."""
        return []


class RemoteAlarms(ServicePart):
    """Alarms of a service."""

    def find(self) -> list[Alarm]:
        """Return what is stuck at the service."""
        return list(send(self.connection, daemons.alarms))

    def of_batch(self, batch: Batch) -> list[Alarm]:
        """Return what blocks a batch; nothing while the service does not answer."""
        with suppress(Unavailable):
            return list(send(self.connection, daemons.batch_alarms, bid=batch.id))
        return []
