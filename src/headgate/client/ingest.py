"""What a service does for ingest: takes files, tells its profiles, reads its storage."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headgate.client.connection import Connection
from headgate.core.alarms import Alarm
from headgate.core.errors import Unavailable
from headgate.core.frozen import Frozen
from headgate.core.queue import Batch, IngestJob
from headgate.core.wire import parse
from headgate.ingest.deposits import existing
from headgate.ingest.profile import Profile, from_snapshot
from headgate.ingest.storage import Problem, Progress
from headgate.stores.deadlines import within

#: Reading a whole object may take this long.
READING_SECONDS = 24 * 3600.0


class ServiceIngest:
    """Ingest behind a service."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def profiles(self) -> list[Profile]:
        """As their files are at the service."""
        return [from_snapshot(each) for each in self._connection.pages("profiles")]

    def profile(self, name: str) -> Profile:
        """One of them. BadProfiles with every mistake."""
        return from_snapshot(self._connection.get("profiles", name))

    def frozen_of(self, job: IngestJob) -> Frozen | None:
        """What an ingest job keeps from its start."""
        found = self._connection.get("ingest-jobs", job.id, "frozen")
        return None if found is None else _frozen(found)

    def refresh(self, job: IngestJob) -> Frozen:
        """Have the service give a failed job the current profile and manifest."""
        return _frozen(self._connection.once("ingest-jobs", job.id, "refresh"))

    def announce(self, item: str, notice: str) -> bool:
        """Have the service put a notice about a batch or ingest job into its outbox."""
        return bool(self._connection.once("messages", body={"item": item, "notice": notice})["new"])

    def hand_in(self, file: Path) -> str:
        """Send a file to the service. Returns the URL by which it is submitted."""
        return str(self._connection.upload(existing(file), "uploads", name=file.name)["payload_url"])

    def verify(self, client: str, ark: str, *, wait: float, progress: Progress) -> list[Problem]:
        """Have the service read every stored byte of an object. Returns what is not as it was stored."""
        del client  # The service reads under its own name.
        body = {"ark": ark, "wait": wait}
        with within(READING_SECONDS + wait):
            found = self._connection.send("POST", "objects", "verify", body=body, again=False)
        progress(int(found["bytes"]))
        return [parse(Problem, each) for each in found["problems"]]

    def unrecorded(self) -> list[Problem]:
        """Return nothing: the storage is the service's."""
        return []


class RemoteAlarms:
    """What the service finds by itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self) -> list[Alarm]:
        """Return what is stuck at the service."""
        return [parse(Alarm, each) for each in self._connection.pages("alarms")]

    def of_batch(self, batch: Batch) -> list[Alarm]:
        """Return what keeps a batch from going on; nothing while the service does not answer."""
        with suppress(Unavailable):
            return [parse(Alarm, each) for each in self._connection.pages("batches", batch.id, "alarms")]
        return []


def _frozen(document: object) -> Frozen:
    found: Frozen = parse(Frozen, document)
    return found
