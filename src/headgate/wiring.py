"""Joins the parts of a gate: its settings, its store or service, and the services on it. Each part is imported when it
is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headgate.core.errors import BadValue
from headgate.settings import Settings
from headgate.store_opening import store_options
from headgate.stores.store import Root, Store

if TYPE_CHECKING:
    from headgate.client.service import RemoteService
    from headgate.ingest.context import Context
    from headgate.ingest.profiles.folder import ProfilesFolder
    from headgate.service.access.sessions import BrowserSessions
    from headgate.service.access.tokens import Tokens
    from headgate.service.expectations import Expectations
    from headgate.service.incidents import Incidents
    from headgate.service.inventory import Inventory
    from headgate.service.ledger.use_cases import Ledger
    from headgate.service.ledger.watches import Watches
    from headgate.service.locks.use_cases import Locks
    from headgate.service.queue.use_cases import Queue

#: What a store without a database lacks, and how to have it.
BESIDE = "name a SQL store in `url` and ZooKeeper in `coordination_url`"
T = TypeVar("T")


def needed(part: T | None, root: Root, lack: str) -> T:
    """Return a part; BadValue when the store has none. `lack`: what it does not support, and how to have it."""
    if part is None:
        raise BadValue("url", root.name, f"does not support {lack}")
    return part


def check_settings(settings: Settings) -> list[str]:
    """Refuse settings that cannot be used, before anything is opened. Returns the storage guards that they name."""
    settings.check()
    settings.seconds("lock_delay")
    settings.count("resource_limit")
    if settings["notices"]:
        from headgate.core.notices import parse_routes

        parse_routes(settings["notices"])
    if not settings["guards"].strip():
        return []
    from headgate.service.guards.kinds import check_guards

    return check_guards(settings["guards"])


def build_locks(settings: Settings, store: Store, guards: Sequence[str]) -> Locks:
    """Build the locks, with the storage guards that this process keeps."""
    from headgate.service.guards.keeper import GuardKeeper
    from headgate.service.guards.kinds import load_guards
    from headgate.service.locks.use_cases import Locks

    keeper, most = GuardKeeper(load_guards(list(guards))), settings.count("resource_limit")
    return Locks(store.locks, keeper, settings.seconds("lock_delay"), store_options(settings).answer_within, most)


def build_ledger(settings: Settings, store: Store) -> Ledger | None:
    """Build the ledger; None where the store keeps none."""
    from headgate.service.ledger.use_cases import Ledger
    from headgate.service.secrets.custody import CustodyRecords
    from headgate.service.secrets.use_cases import Secrets

    if store.ledger is None:
        return None
    secrets = Secrets(CustodyRecords(store.ledger), settings)
    return Ledger(store.ledger, secrets, settings.variables("job_variables"), settings.log_keep)


def build_incidents(store: Store) -> Incidents:
    """Build the incidents. Raises BadValue where the store keeps no ledger."""
    from headgate.service.incidents import Incidents

    return Incidents(needed(store.ledger, store, f"incidents; {BESIDE}").incidents)


def build_expectations(store: Store) -> Expectations:
    """Build the expectations. Raises BadValue where the store keeps no ledger."""
    from headgate.service.expectations import Expectations

    return Expectations(needed(store.ledger, store, f"expectations; {BESIDE}").expectations)


def build_watches(store: Store) -> Watches | None:
    """Build the watchers; None where the store keeps no ledger."""
    from headgate.service.ledger.watches import Watches

    return None if store.watches is None else Watches(store.watches)


def build_queue(settings: Settings, store: Store, profiles: ProfilesFolder | None) -> Queue:
    """Build the queue."""
    from headgate.service.queue.use_cases import Queue
    from headgate.service.queue.work_folder import work_folder

    return Queue(store.queue, str(work_folder(settings)), profiles)


def build_inventory(settings: Settings, store: Store) -> Inventory | None:
    """Build the inventory; None where the store keeps none."""
    from headgate.service.inventory import Inventory

    return None if store.inventory is None else Inventory(store.inventory, settings.log_keep)


def build_tokens(store: Store) -> Tokens | None:
    """Build the API tokens; None where the store keeps none."""
    from headgate.service.access.tokens import Tokens

    return None if store.tokens is None else Tokens(store.tokens)


def build_sessions(store: Store, tokens: Tokens) -> BrowserSessions:
    """Build the browser sessions: where tokens are kept, sessions are."""
    from headgate.service.access.sessions import BrowserSessions

    return BrowserSessions(needed(store.sessions, store, "browser sessions; name a SQL store in `url`"), tokens)


def build_context(
    settings: Settings, queue: Queue, locks: Locks, inventory: Inventory, service: RemoteService | None
) -> Context:
    """Build what the steps of ingest work with. Needs the extra `ingest`."""
    from headgate.ingest.context import Context, options_from
    from headgate.service.queue.work_folder import make_work_folder

    options = options_from(settings, make_work_folder(settings))
    return Context(queue, locks, inventory, options, service.ingest if service else None)


def own_folders(settings: Settings, service: RemoteService | None) -> Sequence[Path]:
    """Return the folders of work and storage on this machine; those of a service are its own affair."""
    from headgate.service.queue.work_folder import work_folder

    storage = Path(settings["storage_root"]).absolute()
    return () if service else (work_folder(settings), storage, storage.with_name(f"{storage.name}.staging"))
