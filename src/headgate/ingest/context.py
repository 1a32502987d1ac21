"""The context of all ingest steps: the queue, the inventory, profiles, storages, and HTTP clients with their rules."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import unquote, urlsplit

from headgate import private
from headgate.core.errors import BadProfiles, BadValue, ServiceUnavailable
from headgate.core.inventory import Intake
from headgate.core.queue.model import DOWNLOADING, Batch, IngestJob
from headgate.core.values.redaction import remember
from headgate.ingest.mail_server import MailServer, mail_server
from headgate.ingest.profiles.profile import Profile, from_snapshot, read_secret
from headgate.ingest.profiles.snapshots import adopt_batch, read_profile, start_batch
from headgate.ingest.profiles.values import mail_address
from headgate.ingest.reservations import Reservations
from headgate.ingest.sources.fetch import Fetcher
from headgate.ingest.sources.guard import DEFAULT_PORTS, Rules
from headgate.ingest.stopping import Stop
from headgate.ingest.storage.port import Storage
from headgate.service.inventory import Inventory
from headgate.service.leases.clock import steady
from headgate.service.leases.renewal import ItemHold
from headgate.service.locks.use_cases import Locks
from headgate.service.queue.use_cases import Queue
from headgate.service.queue.work_folder import UPLOADS, state_of, upload_owner
from headgate.settings import Settings

T = TypeVar("T")

#: An institution's own networks; never those of machine metadata services (169.254.0.0/16).
PRIVATE_NETWORKS = ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
#: The profile of a batch is cached for this many seconds.
REMEMBERED_SECONDS = 30.0
#: Maximum number of batches with cached data.
_KEPT = 1000


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The settings of ingest."""

    profiles_folder: Path
    storage_root: Path
    #: Absolute: it becomes part of URLs.
    work_folder: Path
    #: Bytes that should stay free there.
    space_threshold: int = 0
    minter_key: bytes = field(default=b"", repr=False)
    mail_server: MailServer | None = None
    mail_from: str = "headgate@localhost"
    mail_reply_to: str = ""
    #: The group that shares new storage roots; None: they are private.
    store_group: int | None = None

    def __post_init__(self) -> None:
        """A report that cannot be written would keep its batch from ending, so this is checked at the start."""
        for address in filter(None, (self.mail_from, self.mail_reply_to)):
            mail_address(address)

    @property
    def uploads(self) -> Path:
        """The folder of submitted files."""
        return self.work_folder / UPLOADS


class Elsewhere(Protocol):
    """The service that a worker on another machine uses: only the service reads profiles and writes messages."""

    def profile(self, name: str) -> Profile:
        """The profile according to its current file at the service. BadProfiles with every mistake."""

    def announce(self, item: str, notice: str) -> bool:
        """Make the service put a notice into its outbox. False: it exists already, or the profile wants none."""


class Context:
    """One for each process; its parts are created on first use, and shared by all threads."""

    def __init__(
        self,
        queue: Queue,
        locks: Locks,
        inventory: Inventory,
        options: IngestOptions,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        #: The service that keeps the store; None: this process keeps it.
        self.elsewhere = elsewhere
        self.queue = queue
        self.locks = locks
        self.inventory = inventory
        self.options = options
        #: Jobs that have space reserved in the working folder.
        self.reservations = Reservations(
            lambda: queue.jobs(DOWNLOADING), lambda job: state_of(queue, job), options.space_threshold
        )
        #: Distinguishes a batch from another store's batch with the same id; it never changes.
        self.origin_of: Callable[[str], str] = lru_cache(_KEPT)(lambda batch: queue.batch(batch).submission.origin)
        self._payload_of: Callable[[str], str] = lru_cache(_KEPT)(
            lambda batch: queue.batch(batch).submission.payload_url
        )
        self._made: dict[Hashable, Any] = {}
        self._making = threading.RLock()
        #: The profile of each batch, and until when it is cached.
        self._profiles: OrderedDict[str, tuple[Profile, float]] = OrderedDict()
        self._reading = threading.Lock()

    # ---------------------------------------------------------------- profiles

    def current_profile(self, name: str) -> Profile:
        """The profile according to its current file. BadProfiles with every mistake."""
        if self.elsewhere is not None:
            return self.elsewhere.profile(name)
        return read_profile(self.options.profiles_folder, name)

    def start(self, batch: Batch) -> Intake:
        """The profile with which a taken, pending batch starts. BadProfiles when there is no usable profile."""
        if self.elsewhere is None:
            return start_batch(self.inventory, self.options.profiles_folder, batch)
        found = self.inventory.intake(batch.id)
        if found is None or not found.profile:
            self.current_profile(batch.profile)
            raise ServiceUnavailable(
                "the service", (f"it had kept no profile when {batch.id} was taken; the batch is taken again")
            )
        return found

    def profile_of(self, batch: str, *, anew: bool = False) -> Profile | None:
        """The profile that a batch started with; None when there was no usable one. `anew`: read it from the store
        again.
        """
        with self._reading:
            found, until = self._profiles.get(batch, (None, 0.0))
            if found is not None and steady() < until and not anew:
                return found
        intake = self.inventory.intake(batch)
        return from_snapshot(intake.profile) if intake and intake.profile else None

    def profile(self, job: IngestJob) -> Profile:
        """The profile of a job."""
        # A resumed job may have been given the current one.
        found = self.profile_of(job.batch, anew=job.retry_count > 0)
        if found is None:
            found = self.adopted(job.batch, job.profile)
        # Once a batch has jobs, its profile rarely changes, and is cached. Until then each start replaces it.
        with self._reading:
            self._profiles[job.batch] = (found, steady() + REMEMBERED_SECONDS)
            while len(self._profiles) > _KEPT:
                self._profiles.popitem(last=False)
        return found

    def adopted(self, batch: str, name: str) -> Profile:
        """The profile of a batch that another program has started, stored from now on. BadProfiles when that is not
        possible.
        """
        if self.elsewhere is not None:
            self.current_profile(name)
            raise BadValue("batch", batch, "was started without a profile; submit it again")
        return from_snapshot(adopt_batch(self.inventory, self.options.profiles_folder, batch, name).profile)

    def hold_of(self, name: str) -> str:
        """Why a collection is currently on hold by its profile; empty: it is not."""
        try:
            return self.current_profile(name).hold
        except BadProfiles:
            return ""

    # ---------------------------------------------------------------- clients

    def fetcher(self, profile: Profile, *, uploaded: bool = False) -> Fetcher:
        """Fetches payloads, by the profile's rules. `uploaded`: uploaded files may be read too."""
        rules = rules_of(profile, self.options.uploads if uploaded else None)
        return self._once(("fetcher", rules), lambda: Fetcher(rules))

    def service(self, url: str, patience: float = 60.0) -> Fetcher:
        """For a service that a profile names (callback, EZID, storage): only that host and port.

        `patience`: seconds that an answer may take.
        """
        rules = service_rules(url, patience)
        return self._once(("service", rules), lambda: Fetcher(rules))

    def storage(self, profile: Profile) -> Storage:
        """The storage of the profile's objects, in a folder or a bucket."""
        kind, url = profile.storage.kind, profile.storage.url
        return self._once(("storage", kind, url), lambda: open_storage(kind, url, self.options))

    def secret(self, reference: str) -> str:
        """A secret that a profile refers to. It is masked in all texts from then on."""
        found = read_secret(reference, os.environ)
        remember([found])
        return found

    def has_upload(self, job: IngestJob) -> bool:
        """Whether a job's payload is the file that was submitted with its batch. A job may read no other upload."""
        url = str(job.configuration["payload_url"])
        return self.is_uploaded(url) and url == self._payload_of(job.batch)

    def is_uploaded(self, url: str) -> bool:
        """Whether a URL names an uploaded file."""
        return upload_owner(self.options.work_folder, url) is not None

    def close(self) -> None:
        """Close connections."""
        with self._making:
            for made in self._made.values():
                if isinstance(made, Fetcher):
                    made.close()
            self._made.clear()

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._making:
            if key not in self._made:
                self._made[key] = make()
            return cast("T", self._made[key])


def stop_of(hold: ItemHold) -> Stop:
    """Long work stops when its item is lost."""
    return lambda: hold.lost is not None


def now() -> datetime:
    return datetime.now(UTC)


def service_rules(url: str, patience: float = 60.0) -> Rules:
    """For requests to a service that a profile or a setting names: only that host and port."""
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    return Rules(
        schemes=frozenset({parts.scheme}), ports=frozenset({port}), hosts=(parts.hostname or "",),
        private_networks=PRIVATE_NETWORKS, answer_seconds=patience, idle_seconds=patience, total_seconds=2 * patience,
    )  # fmt: skip


def rules_of(profile: Profile, uploads: Path | None) -> Rules:
    """A profile's sources and limits, as rules of the HTTP client."""
    sources, limits = profile.sources, profile.limits
    schemes = set(sources.schemes)
    roots = tuple(Path(root) for root in sources.roots)
    return Rules(
        schemes=frozenset(schemes | ({"file"} if uploads else set())),
        ports=frozenset(sources.ports),
        hosts=sources.hosts,
        private_networks=PRIVATE_NETWORKS if sources.private_addresses else (),
        roots=(*roots, uploads) if uploads else roots,
        redirects=sources.redirects,
        connect_seconds=limits.connect_timeout,
        answer_seconds=limits.idle_timeout,
        idle_seconds=limits.idle_timeout,
        total_seconds=limits.total_timeout,
        min_rate=limits.minimum_rate,
        max_bytes=limits.file_size,
    )


def open_storage(kind: str, url: str, options: IngestOptions) -> Storage:
    """The storage that a profile names; of kind `http` it cannot be read back."""
    if kind == "ocfl":
        from headgate.ingest.storage.ocfl import OcflStorage

        root = Path(unquote(urlsplit(url).path)) if url else options.storage_root
        return OcflStorage(root, group=options.store_group)
    if kind == "s3":
        from headgate.ingest.storage.s3 import open_bucket

        return open_bucket(url)
    raise BadValue("storage", url, "is a storage service; its contents cannot be read back here")


def options_from(settings: Settings, work_folder: Path) -> IngestOptions:
    """Return the options that settings name."""
    return IngestOptions(
        profiles_folder=Path(settings["profiles_folder"]),
        storage_root=Path(settings["storage_root"]).absolute(),
        work_folder=work_folder,
        space_threshold=settings.size("space_threshold"),
        minter_key=settings["minter_key"].encode(),
        mail_server=mail_server(settings["mail_server"], settings["mail_password"]),
        mail_from=settings["mail_from"],
        mail_reply_to=settings["mail_reply_to"],
        store_group=private.find_group(settings["store_group"]),
    )
