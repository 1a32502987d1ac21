"""Joins the parts: from settings to stores to services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headgate import private
from headgate.core.errors import BadValue
from headgate.core.redaction import remember
from headgate.gate_histories import GateHistories
from headgate.service.ledger import Ledger
from headgate.settings import Settings, load
from headgate.store_opening import open_named_service, open_stores, store_options
from headgate.stores.store import Store

if TYPE_CHECKING:
    from headgate.client.ingest import ServiceIngest
    from headgate.core.alarms import Alarm
    from headgate.core.counts import Counts
    from headgate.core.faults import Fault
    from headgate.core.queue import Batch
    from headgate.core.scopes import ApiToken
    from headgate.core.sights import Sight
    from headgate.ingest.context import Context
    from headgate.ingest.profiles_folder import ProfilesFolder
    from headgate.ingest.storage import Problem, Progress
    from headgate.service.alarms import Alarms
    from headgate.service.epochs import Epochs
    from headgate.service.inventory import Inventory
    from headgate.service.locks import Locks
    from headgate.service.overview import Overview
    from headgate.service.queue import Queue
    from headgate.service.repeats import RepeatRecords
    from headgate.service.secrets import Secrets
    from headgate.service.sessions import Sessions
    from headgate.service.tokens import Tokens
    from headgate.service.upkeep import Upkeep


class Gate(GateHistories):
    """Everything that may be asked, on one store."""

    def __init__(self, settings: Settings, *, create: bool = True) -> None:
        """`create`: create a store that was named for this run, if it does not exist yet."""
        settings.check()
        remember(each.value for each in settings.all() if each.known.secret)
        self._guards = _guards(settings["guards"])
        self._lock_delay = settings.seconds("lock_delay")
        self._resource_limit = settings.count("resource_limit")
        #: The service that this gate speaks to; None: it works on the store itself.
        self.service = open_named_service(settings)
        self._store = self.service.store if self.service else open_stores(settings, create=create)
        self._ledger = _ledger_beside(self._store, settings)
        #: What this gate was made of.
        self.settings = settings
        #: What it shows; None: everything.
        self.sight: Sight | None = None

    def narrowed(self, sight: Sight) -> Gate:
        """This gate for a caller whose `read` is limited: it shows what may be seen, and refuses everything else."""
        from headgate.service.narrowed import NarrowedStore

        view = object.__new__(type(self))
        view._guards, view.settings, view.sight, view.service = [], self.settings, sight, None
        view._lock_delay, view._resource_limit = self._lock_delay, self._resource_limit
        view._store = NarrowedStore(self._store, sight)
        view._ledger = _ledger_beside(view._store, self.settings)
        return view

    @cached_property
    def locks(self) -> Locks:
        """Shared and exclusive locks."""
        # Loaded when they are asked for: who works with the ledger starts faster without.
        from headgate.service.guard_keeper import GuardKeeper
        from headgate.service.guards import load_guards
        from headgate.service.locks import Locks

        guards = GuardKeeper(load_guards(self.guards))
        unguarded = self.service.unguarded if self.service else None
        return Locks(self._store.locks, guards, self._lock_delay, self.answer_within, self._resource_limit, unguarded)

    @cached_property
    def answer_within(self) -> float:
        """Seconds within which a call returns, besides those that it was asked to wait."""
        return store_options(self.settings).answer_within

    @property
    def guards(self) -> list[str]:
        """The URI schemes whose storage guards this process takes: not those that a service takes for it."""
        return [name for name in self._guards if self.service is None or name not in self.service.guards]

    @property
    def ledger(self) -> Ledger:
        """Datasets, jobs, and which chunk may be worked on next."""
        if self._ledger is None:
            raise BadValue(
                "url",
                self._store.name,
                ("does not support a ledger; name a SQL store in `url` and ZooKeeper in `coordination_url`"),
            )
        return self._ledger

    @property
    def keeps_ledger(self) -> bool:
        """Whether there is a database that a ledger can be kept in."""
        return self._ledger is not None

    @property
    def store(self) -> Store:
        """The store behind it."""
        return self._store

    @cached_property
    def tokens(self) -> Tokens:
        """Who may ask a service on this store for what."""
        from headgate.service.tokens import Tokens

        if self.service:
            return self.service.tokens
        if self._store.tokens is None:
            raise BadValue("url", self._store.name, "does not support API tokens; name a SQL store in `url`")
        return Tokens(self._store.tokens)

    @cached_property
    def sessions(self) -> Sessions:
        """The browsers that are signed in at a service on this store."""
        from headgate.service.sessions import Sessions

        if self.service:
            return self.service.sessions
        if self._store.sessions is None:
            raise BadValue("url", self._store.name, "does not support browser sessions; name a SQL store in `url`")
        return Sessions(self._store.sessions, self.tokens)

    def expiring_tokens(self) -> Sequence[ApiToken]:
        """API tokens that end within `token_warning`; of a service, within its own. Empty where none are kept."""
        if self.service is None and self._store.tokens is None:
            return []
        return self.tokens.expiring(self.settings.seconds("token_warning"))

    @property
    def epochs(self) -> Epochs:
        """Which server keeps each store behind it, and how to raise its tokens."""
        from headgate.service.epochs import epochs_of

        return epochs_of(self._store.parts)

    @property
    def keeps_repeats(self) -> bool:
        """Whether the store behind it keeps idempotency keys; what a service keeps is its own."""
        return self._store.repeats is not None

    @property
    def repeats(self) -> RepeatRecords:
        """The records of requests with an idempotency key."""
        from headgate.service.repeats import RepeatRecords

        if self._store.repeats is None:
            raise BadValue("url", self._store.name, "does not keep idempotency keys; use the store itself")
        return RepeatRecords(self._store.repeats)

    @cached_property
    def upkeep(self) -> Upkeep:
        """What a running service does for its store."""
        from headgate.service.upkeep import Upkeep

        return Upkeep(self._store)

    @property
    def secrets(self) -> Secrets:
        """Keys of jobs, and the master keys."""
        return self.ledger.secrets

    @cached_property
    def queue(self) -> Queue:
        """Batches and ingest jobs on their way through the states."""
        from headgate.service.queue import Queue

        if self._remote or self.sight:  # The service looks after the rest.
            return Queue(self._store.queue, str(self.work_folder))
        return Queue(self._store.queue, str(self.work_folder), self.profiles_folder)

    @property
    def work_folder(self) -> Path:
        """Where ingest jobs keep their files while they are worked on."""
        return Path(self.settings["work_folder"]).absolute()

    def make_work_folder(self) -> Path:
        """Make the work folder if it is missing, shared with `store_group` or private; return it."""
        private.make_root(self.work_folder, self.store_group)
        return self.work_folder

    @property
    def store_group(self) -> int | None:
        """The group that a new store, work folder or storage root is shared with; None: they are private."""
        return private.find_group(self.settings["store_group"])

    @property
    def keeps_inventory(self) -> bool:
        """Whether there is a database that an inventory can be kept in."""
        return self._store.inventory is not None

    @cached_property
    def inventory(self) -> Inventory:
        """What is stored, by which names, and what others are told of it."""
        from headgate.service.inventory import Inventory

        if self._store.inventory is None:
            raise BadValue(
                "url",
                self._store.name,
                ("does not support an inventory; name a SQL store in `url` and ZooKeeper in `coordination_url`"),
            )
        return Inventory(self._store.inventory)

    @cached_property
    def ingest(self) -> Context:
        """What the steps of ingest work with: profiles, storages, clients. Needs the extra `ingest`."""
        from headgate.ingest.context import Context, Options, mail_server

        settings = self.settings
        self.make_work_folder()
        options = Options(
            profiles_folder=Path(settings["profiles_folder"]),
            storage_root=Path(settings["storage_root"]).absolute(),
            work_folder=self.work_folder,
            space_threshold=settings.size("space_threshold"),
            minter_key=settings["minter_key"].encode(),
            mail_server=mail_server(settings["mail_server"], settings["mail_password"]),
            mail_from=settings["mail_from"],
            mail_reply_to=settings["mail_reply_to"],
            store_group=self.store_group,
        )
        return Context(self.queue, self.locks, self.inventory, options, self._remote)

    @property
    def _remote(self) -> ServiceIngest | None:
        """What does ingest's work elsewhere: the service that this gate speaks to."""
        return self.service.ingest if self.service else None

    def hand_in(self, file: Path) -> str:
        """Put a file where the daemons find it. Gives the URL by which it is submitted."""
        from headgate.service.work_folder import stage_upload

        if not file.is_file():
            raise BadValue("payload", str(file), "is neither an existing file nor a URL")
        return self._remote.upload(file) if self._remote else stage_upload(self.make_work_folder(), file)

    def verify(self, client: str, ark: str, *, wait: float, progress: Progress) -> list[Problem]:
        """Read every stored byte of an object, where it is stored. Gives what is not as it was stored."""
        if self._remote:
            problems, count = self._remote.verify(ark, wait)
            progress(count)
            return problems
        from headgate.ingest.reading import verify_object

        return verify_object(self.ingest, client, ark, wait=wait, progress=progress)

    def unrecorded(self) -> list[Problem]:
        """Stored objects of which the inventory knows nothing; where the storage is, only there."""
        if self._remote:
            return []
        from headgate.ingest.reading import unrecorded

        return unrecorded(self.ingest)

    def status(self, *, rich: bool = False) -> dict[str, Any]:
        """What runs, what is locked, what failed; `rich` adds counts, running chunks, holders, waiters, the queue."""
        from headgate.service.status import add_rich, short_status

        found = short_status(self.locks, self.queue, self._ledger, rich=rich)
        if not rich:
            return found
        return add_rich(found, self.queue, self._ledger, self.counts(), self.expiring_tokens(), self.alarms())

    def faults(self) -> list[Fault]:
        """Damage in the store, each with what a repair does."""
        from headgate.service import dead_workers, file_rights

        claims = () if self._ledger is None else dead_workers.faults(self._ledger)
        deliveries = self.inventory.faults() if self.keeps_inventory else ()
        return [
            *self.queue.faults(), *self.locks.faults(), *claims, *deliveries, *self.locks.tending.faults(),
            *file_rights.faults(self._files(), self.store_group),
        ]  # fmt: skip

    def _files(self) -> list[Path]:
        """The files and folders of this store that are on this machine; those of a service are its own affair."""
        if self._remote:
            return []
        storage = Path(self.settings["storage_root"]).absolute()
        folders = (self.work_folder, storage, storage.with_name(f"{storage.name}.staging"))
        return [*self._store.files(), *(path for path in folders if path.is_dir())]

    def notices(self) -> list[str]:
        """What is no fault, but worth knowing: how the store is reached, what kills its workers, and what ends soon."""
        from headgate.service import dead_workers
        from headgate.service.status import deadly_items
        from headgate.service.tokens import expiry_note

        deadly = deadly_items(self.queue)
        ending = [f"{expiry_note(each)}; create another with: headgate token new" for each in self.expiring_tokens()]
        return [*self._store.notices(), *(dead_workers.notices(self._ledger) if self._ledger else ()), *deadly, *ending]

    def alarms(self) -> list[Alarm]:
        """What is stuck; of a service, what it finds by itself. None for a caller whose `read` is limited."""
        if self.sight is not None:
            return []
        return self._remote.alarms() if self._remote else self._alarms.find()

    def alarms_of(self, batch: Batch) -> list[Alarm]:
        """What keeps a batch from being taken; nothing when nobody has to take it, or the store does not answer."""
        return self._remote.alarms_of(batch.id) if self._remote else self._alarms.of_batch(batch)

    @cached_property
    def _alarms(self) -> Alarms:
        from headgate.service.alarms import Alarms

        inventory = self.inventory if self.keeps_inventory else None
        return Alarms(self.queue, self._ledger, inventory, self.profiles_folder)

    @cached_property
    def profiles_folder(self) -> ProfilesFolder:
        """The ingest profiles of this process; those of a service are its own."""
        from headgate.ingest.profiles_folder import ProfilesFolder

        return ProfilesFolder(Path(self.settings["profiles_folder"]))

    def repair(self, fault: Fault, by: str) -> bool:
        """Repair it as it says, if it is still so. False: it is no longer so, or cannot be repaired."""
        from headgate.core.faults import OPEN_FILES, UNDELIVERED
        from headgate.service import dead_workers, file_rights

        if fault.kind == OPEN_FILES:
            return file_rights.repair(fault, self._files(), self.store_group)
        if fault.kind == dead_workers.DEAD_WORKER:
            return dead_workers.repair(self.ledger, fault)
        if fault.kind == UNDELIVERED:
            return self.inventory.repair(fault)
        return self.queue.repair(fault, by=by) or self.locks.repair(fault, by=by)

    def counts(self) -> Counts:
        """Every number that anybody shows: cheap, whatever the store holds."""
        from headgate.service.counts import count_all

        inventory = self.inventory if self.keeps_inventory else None
        return count_all(self.locks, self._ledger, self.queue, inventory, self.activity)

    def overview(self) -> Overview:
        """What runs, what waits, and what needs a person: cheap, whatever the store holds."""
        from headgate.service.overview import overview

        inventory = self.inventory if self.keeps_inventory else None
        found = overview(self.counts(), self.locks, self._ledger, self.queue, inventory, self.expiring_tokens())
        return replace(found, alarms=self.alarms())

    def close(self) -> None:
        """Close connections and release storage guards. On ZooKeeper, leased locks of this process end too."""
        if "ingest" in self.__dict__:
            self.ingest.close()
        if "locks" in self.__dict__:
            self.locks.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(url: str | None = None, *, token: str | None = None, **settings: str | None) -> Gate:
    """Connect to a store or a service, and return a Gate.

    `url` names the store or service; an empty database becomes a store. Without it the store is found as commands find
    it (HEADGATE_URL, `headgate.toml` or `headgate.db` in this folder or above it, the user's settings); raises NoStore
    if there is none. `token` is the API token for a service. Other arguments override settings.
    """
    known = load()
    for name in settings:
        if name not in {setting.known.name for setting in known.all()}:
            raise BadValue("setting", name, "is unknown; list settings with: headgate settings")
    return Gate(load({"url": url, "api_token": token, **settings}))


def _ledger_beside(store: Store, settings: Settings) -> Ledger | None:
    """The ledger in the database that locks on its chunks are kept in; None where that is no database."""
    from headgate.service.secrets import Secrets

    if store.ledger is None:
        return None
    return Ledger(store.ledger, Secrets(store.ledger, settings), settings.variables("job_variables"))


def _guards(names: str) -> list[str]:
    """The guards that are named; loaded only where there are some, since most have none."""
    if not names.strip():
        return []
    from headgate.service.guards import check_guards

    return check_guards(names)
