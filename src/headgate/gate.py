"""The public object, with all operations on one store or service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from headgate import private, wiring
from headgate.core.errors import BadValue
from headgate.core.values.redaction import remember
from headgate.settings import Settings, load
from headgate.store_opening import open_named_service, open_stores, store_options
from headgate.stores.store import Store

if TYPE_CHECKING:
    from headgate.client.service import RemoteService
    from headgate.core.access.scopes import ApiToken
    from headgate.core.access.sights import Sight
    from headgate.core.alarms import Alarm
    from headgate.core.counts import Counts
    from headgate.core.faults import Fault
    from headgate.core.queue.model import Batch
    from headgate.ingest.context import Context
    from headgate.ingest.objects.deposits import Deposits
    from headgate.ingest.objects.importing import ImportedObject
    from headgate.ingest.profiles.folder import ProfilesFolder
    from headgate.ingest.storage.port import Problem, Progress
    from headgate.service.access.sessions import BrowserSessions
    from headgate.service.access.tokens import Tokens
    from headgate.service.doctor import Doctor
    from headgate.service.epochs import Epochs
    from headgate.service.expectations import Expectations
    from headgate.service.history import History
    from headgate.service.incidents import Incidents
    from headgate.service.inventory import Inventory
    from headgate.service.ledger.use_cases import Ledger
    from headgate.service.ledger.watches import Watches
    from headgate.service.locks.use_cases import Locks
    from headgate.service.overview.alarms import FindsAlarms
    from headgate.service.overview.glance import Overview
    from headgate.service.overview.reports import OverviewReports
    from headgate.service.queue.use_cases import Queue
    from headgate.service.repeats import RepeatRecords
    from headgate.service.secrets.use_cases import Secrets
    from headgate.service.upkeep import Upkeep


class Gate:
    """One store or service, with all its operations. Its parts are built on first use."""

    def __init__(self, settings: Settings, *, create: bool = True) -> None:
        """`create`: create a store that was named for this run, if it does not exist yet."""
        guards = wiring.check_settings(settings)
        remember(each.value for each in settings.all() if each.known.secret)
        #: The parts that this gate was built from.
        self.settings = settings
        #: The service that this gate uses; None: it works on the store itself.
        self.service = open_named_service(settings)
        #: The store, or the service.
        self.root: Store | RemoteService = self.service or open_stores(settings, create=create)
        #: URI schemes whose storage guards this process keeps itself, rather than a service.
        self.guards = [name for name in guards if self.service is None or name not in self.service.guards]
        #: What it shows; None: everything.
        self.sight: Sight | None = None

    def narrowed(self, sight: Sight) -> Gate:
        """Return this gate for a caller whose `read` is limited: it shows what the caller may see, and refuses the
        rest.
        """
        from headgate.service.access.narrowed import NarrowedStore

        view = object.__new__(type(self))
        view.settings, view.service, view.guards, view.sight = self.settings, None, [], sight
        view.root = NarrowedStore(self.store, sight)
        return view

    @property
    def store(self) -> Store:
        """The store that this gate works on; BadValue if it uses a service."""
        if self.service:
            raise BadValue("url", self.service.name, "is a service; name its store to work on the store itself")
        return cast("Store", self.root)

    # ---------------------------------------------------------------- nouns

    @cached_property
    def locks(self) -> Locks:
        """Shared and exclusive locks."""
        if self.service:
            return self.service.locks(self.settings, self.guards)
        return wiring.build_locks(self.settings, self.store, self.guards)

    @cached_property
    def _ledger(self) -> Ledger | None:
        if self.service:
            return self.service.ledger(self.settings)
        return wiring.build_ledger(self.settings, self.store)

    @property
    def ledger(self) -> Ledger:
        """Datasets, jobs and chunks. Raises BadValue if there is no SQL store for them."""
        return wiring.needed(self._ledger, self.root, f"a ledger; {wiring.BESIDE}")

    @property
    def keeps_ledger(self) -> bool:
        """Whether there is a SQL store that keeps a ledger."""
        return self.service.keeps_ledger if self.service else self.store.ledger is not None

    @cached_property
    def incidents(self) -> Incidents:
        """Problems that need a person: chunks that failed permanently, and others."""
        if self.service:
            return self.service.incidents
        return wiring.build_incidents(self.store)

    @cached_property
    def expectations(self) -> Expectations:
        """Which chunks are late: expected, and not READY in time."""
        if self.service:
            return self.service.expectations
        return wiring.build_expectations(self.store)

    @cached_property
    def _watches(self) -> Watches | None:
        return self.service.watches if self.service else wiring.build_watches(self.store)

    @property
    def watches(self) -> Watches:
        """Watchers, which publish datasets by the files that arrive. Raises BadValue if there is no ledger."""
        return wiring.needed(self._watches, self.root, f"a ledger; {wiring.BESIDE}")

    @property
    def secrets(self) -> Secrets:
        """Secrets of datasets, keys of jobs, and master keys."""
        return self.ledger.secrets

    @cached_property
    def queue(self) -> Queue:
        """Batches and ingest jobs."""
        if self.service:
            return self.service.queue
        return wiring.build_queue(self.settings, self.store, None if self.sight else self.profiles_folder)

    @cached_property
    def _inventory(self) -> Inventory | None:
        return self.service.inventory if self.service else wiring.build_inventory(self.settings, self.store)

    @property
    def inventory(self) -> Inventory:
        """Stored objects, and the messages about them."""
        return wiring.needed(self._inventory, self.root, f"an inventory; {wiring.BESIDE}")

    @property
    def keeps_inventory(self) -> bool:
        """Whether there is a SQL store that keeps an inventory."""
        return self.root.inventory is not None

    @cached_property
    def _tokens(self) -> Tokens | None:
        return self.service.tokens if self.service else wiring.build_tokens(self.store)

    @cached_property
    def history(self) -> History:
        """The history of all nouns."""
        from headgate.service.history import History

        return self.service.history if self.service else History(self.store.history)

    @property
    def tokens(self) -> Tokens:
        """API tokens of a service on this store."""
        return wiring.needed(self._tokens, self.root, "API tokens; name a SQL store in `url`")

    @cached_property
    def sessions(self) -> BrowserSessions:
        """Browser sessions of a service on this store."""
        return self.service.sessions if self.service else wiring.build_sessions(self.store, self.tokens)

    def expiring_tokens(self) -> Sequence[ApiToken]:
        """List API tokens that expire within the setting `token_warning` (of a service: within its own)."""
        within = self.settings.seconds("token_warning")
        return [] if self._tokens is None else self._tokens.expiring(within)

    # ---------------------------------------------------------------- the store itself

    @property
    def epochs(self) -> Epochs:
        """Which server keeps each store behind it, and how to raise its tokens."""
        from headgate.service.epochs import epochs_of

        return epochs_of((self.service,) if self.service else self.store.parts)

    @property
    def keeps_repeats(self) -> bool:
        """Whether the store keeps idempotency keys; a service keeps its own."""
        return self.service is None and self.store.repeats is not None

    @cached_property
    def repeats(self) -> RepeatRecords:
        """Records of requests with an idempotency key."""
        from headgate.service.repeats import RepeatRecords

        return RepeatRecords(wiring.needed(self.store.repeats, self.store, "idempotency keys; use the store itself"))

    @cached_property
    def upkeep(self) -> Upkeep:
        """What a running service does for its store."""
        from headgate.service.upkeep import Upkeep

        return Upkeep(self.store, self.settings.keep("history_keep"), self.settings.keep("log_keep_for"))

    @cached_property
    def answer_within(self) -> float:
        """Seconds within which a call returns, in addition to its `wait` time."""
        return store_options(self.settings).answer_within

    # ---------------------------------------------------------------- files

    @cached_property
    def ingest(self) -> Context:
        """Profiles, storages and clients for the steps of ingest. Needs the extra `ingest`."""
        return wiring.build_context(self.settings, self.queue, self.locks, self.inventory, self.service)

    @cached_property
    def deposits(self) -> Deposits:
        """Uploaded files, stored objects, and the frozen parts of failed ingest jobs."""
        from headgate.ingest.objects.deposits import LocalDeposits

        inventory = None if self.sight else self._inventory
        return self.service.ingest if self.service else LocalDeposits(self.settings, inventory, lambda: self.ingest)

    @cached_property
    def profiles_folder(self) -> ProfilesFolder:
        """The ingest profiles of this process; those of a service are its own."""
        from headgate.ingest.profiles.folder import ProfilesFolder

        return ProfilesFolder(Path(self.settings["profiles_folder"]))

    @property
    def work_folder(self) -> Path:
        """The folder in which ingest jobs keep their files while they run."""
        from headgate.service.queue.work_folder import work_folder

        return work_folder(self.settings)

    @property
    def store_group(self) -> int | None:
        """The group that a new store, work folder or storage root is shared with; None: they are private."""
        return private.find_group(self.settings["store_group"])

    def make_work_folder(self) -> Path:
        """Create the work folder if it is missing, shared with `store_group` or private; return it."""
        from headgate.service.queue.work_folder import make_work_folder

        return make_work_folder(self.settings)

    def hand_in(self, file: Path) -> str:
        """Copy a file to where the daemons find it. Returns the URL to submit it by.

        :param file: Path of the file.
        """
        return self.deposits.hand_in(file)

    def verify(
        self, client: str, ark: str, *, wait: float, progress: Progress, warnings: bool = False
    ) -> list[Problem]:
        """Read every stored byte of an object, in its storage, and check every rule of OCFL. Returns the problems, each
        with the code of its rule.

        :param client: Name of the client that holds the object's lock.
        :param ark: ARK of the object.
        :param wait: Seconds to wait for its lock.
        :param progress: Called with the bytes read so far.
        :param warnings: Include violations of OCFL's recommendations.
        """
        return self.deposits.verify(client, ark, wait=wait, progress=progress, warnings=warnings)

    def import_objects(
        self,
        client: str,
        folder: Path,
        profile: str,
        *,
        arks: Mapping[str, str] | None = None,
        dry_run: bool = False,
        wait: float = 0,
        progress: Progress | None = None,
    ) -> Iterator[ImportedObject]:
        """Import OCFL objects from other tools, with all their versions, one after another.

        Objects that violate a rule of OCFL are refused, with its code. A repeat stores nothing twice. Needs access to
        the store and the storage: it is not offered by a service.

        :param client: Name of the client that holds each object's lock.
        :param folder: An object root, or a storage root with many.
        :param profile: Name of the profile that determines owner, collection, storage and minter.
        :param arks: ARKs for objects by their OCFL ids. Without one, an id that is an ARK is kept, and any other
        becomes the local id of an ARK derived from it.
        :param dry_run: Only check and name the objects.
        :param wait: Seconds to wait for the lock of an object.
        :param progress: Called with the bytes read so far.
        """
        from headgate.ingest.objects.importing import import_folder

        return import_folder(
            self.ingest, client, folder, profile, arks=arks, dry_run=dry_run, wait=wait, progress=progress
        )

    def unrecorded(self) -> list[Problem]:
        """List stored objects that the inventory does not know; needs access to the storage."""
        return self.deposits.unrecorded()

    # ---------------------------------------------------------------- reports

    @property
    def _doctor(self) -> Doctor:
        from headgate.service.doctor import Doctor

        folders = wiring.own_folders(self.settings, self.service)
        return Doctor(self.root, self.locks, self.queue, self._ledger, self._inventory, folders, self.store_group)

    def faults(self) -> list[Fault]:
        """List damage in the store, each fault with the effect of a repair. Changes nothing."""
        return self._doctor.faults()

    def notices(self) -> list[str]:
        """List warnings that are not faults: about connections, steps that kill their workers, and expiring tokens."""
        return self._doctor.notices(self.expiring_tokens())

    def repair(self, fault: Fault, by: str) -> bool:
        """Repair a fault, if it still exists. Returns False if it does not, or cannot be repaired.

        :param fault: One of those that `faults` returned.
        :param by: Name of the operator.
        """
        return self._doctor.repair(fault, by)

    @cached_property
    def _alarms(self) -> FindsAlarms:
        from headgate.service.overview.alarms import Alarms

        if self.service:
            return self.service.alarms
        return Alarms(
            self.queue, self._ledger, self._inventory, self.profiles_folder, self.store.history, self.upkeep,
            self._watches, self.expectations if self.keeps_ledger else None,
        )  # fmt: skip

    def alarms(self) -> list[Alarm]:
        """List what is stuck; for a service, what it finds. Empty for a caller whose `read` is limited."""
        return [] if self.sight else self._alarms.find()

    def alarms_of(self, batch: Batch) -> list[Alarm]:
        """List what blocks a batch. Empty if nothing does, or the store does not answer.

        :param batch: The batch.
        """
        return self._alarms.of_batch(batch)

    @property
    def _reports(self) -> OverviewReports:
        from headgate.service.overview.reports import OverviewReports

        found = (self.locks, self.queue, self._ledger, self._inventory, self.history.activity)
        return OverviewReports(*found, self.expectations if self.keeps_ledger else None)

    def status(self, *, rich: bool = False) -> dict[str, Any]:
        """Return running work, locks and failures.

        :param rich: Add counts, running chunks, holders, waiters and the queue.
        """
        reports = self._reports
        return reports.rich_status(self.expiring_tokens(), self.alarms()) if rich else reports.status()

    def counts(self) -> Counts:
        """Return every count that commands, API and dashboard show. Cheap, however large the store is."""
        return self._reports.counts()

    def overview(self) -> Overview:
        """Return running work, waiting work, and problems that need an operator. Cheap, however large the store is."""
        return self._reports.overview(self.expiring_tokens(), self.alarms())

    # ---------------------------------------------------------------- its end

    def close(self) -> None:
        """Close connections and release storage guards. On ZooKeeper, leased locks of this process end as well."""
        if "ingest" in self.__dict__:
            self.ingest.close()
        if "locks" in self.__dict__:
            self.locks.close()
        self.root.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(url: str | None = None, *, token: str | None = None, **settings: str | None) -> Gate:
    """Connect to a store or a service, and return a Gate.

    :param url: URL of the store or service; an empty database becomes a store. None: the store is found as commands
        find it (HEADGATE_URL, `headgate.toml` or `headgate.db` in this folder or above it, the user's settings); raises
        NoStore if there is none.
    :param token: API token for a service.
    :param settings: Settings by name; they override files and environment.
    """
    known = load()
    for name in settings:
        if name not in {setting.known.name for setting in known.all()}:
            raise BadValue("setting", name, "is unknown; list settings with: headgate settings")
    return Gate(load({"url": url, "api_token": token, **settings}))
