"""What a service does for ingest: takes files, tells its profiles, reads its storage."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headgate.client.connection import Connection
from headgate.core.alarms import Alarm
from headgate.core.errors import Unavailable
from headgate.core.frozen import Frozen
from headgate.core.wire import parse
from headgate.ingest.profile import Profile, from_snapshot
from headgate.ingest.storage import Problem
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

    def alarms(self) -> list[Alarm]:
        """What is stuck at the service."""
        return [parse(Alarm, each) for each in self._connection.pages("alarms")]

    def alarms_of(self, batch: str) -> list[Alarm]:
        """What keeps a batch from going on; nothing while the service does not answer."""
        with suppress(Unavailable):
            return [parse(Alarm, each) for each in self._connection.pages("batches", batch, "alarms")]
        return []

    def frozen(self, job: str) -> Frozen | None:
        """What an ingest job keeps from its start."""
        found = self._connection.get("ingest-jobs", job, "frozen")
        return None if found is None else _frozen(found)

    def refresh(self, job: str) -> Frozen:
        """Have the service give a failed job the current profile and manifest."""
        return _frozen(self._connection.once("ingest-jobs", job, "refresh"))

    def announce(self, item: str, notice: str) -> bool:
        """Have the service put a notice about a batch or ingest job into its outbox."""
        return bool(self._connection.once("messages", body={"item": item, "notice": notice})["new"])

    def upload(self, file: Path) -> str:
        """Hand a file to the service. Gives the URL by which it is submitted."""
        return str(self._connection.upload(file, "uploads", name=file.name)["payload_url"])

    def verify(self, ark: str, wait: float) -> tuple[list[Problem], int]:
        """What is wrong with an object, and how many bytes were read."""
        body = {"ark": ark, "wait": wait}
        with within(READING_SECONDS + wait):
            found = self._connection.send("POST", "objects", "verify", body=body, again=False)
        return [parse(Problem, each) for each in found["problems"]], int(found["bytes"])


def _frozen(document: object) -> Frozen:
    found: Frozen = parse(Frozen, document)
    return found
