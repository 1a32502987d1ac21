"""Options that every kind of store is opened with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.errors import NoStore
from headgate.core.ledger.model import DEFAULT_MAX_INPUT_IDS
from headgate.core.ledger.rules import CHUNK_RULES, ChunkRules
from headgate.core.locks.rules import LOCK_RULES, LockRules
from headgate.core.queue.model import DEFAULT_MAX_CRASHES
from headgate.core.queue.rules import QUEUE_RULES, QueueRules

#: Number of calls that one process sends to a server at a time: more would only wait for each other in the process.
SIDE_BY_SIDE = 8
#: Replication modes of the database in `url` (setting `replication`).
ASYNCHRONOUS, SYNCHRONOUS = "asynchronous", "synchronous"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of a store, apart from its location."""

    #: Seconds within which a call that does not wait must return; a call with `wait=N` returns within N plus this.
    answer_within: float = 2.0
    #: A direct connection for notifications, where `url` points to a pooler; empty: `url` itself.
    listen_url: str = ""
    #: `asynchronous`: a failover may lose the newest commits. `synchronous`: it loses none, so leases are kept.
    replication: str = ASYNCHRONOUS
    #: The group that shares a new file-based store; None: it is private.
    store_group: int | None = None
    #: Whether a missing store is created; otherwise opening it raises NoStore.
    create: bool = True
    #: Number of worker deaths in one state after which a batch or ingest job is held; 0: no limit. A profile may
    #: override it.
    max_crashes: int = DEFAULT_MAX_CRASHES
    #: Number of data ids that one claim may read by mappings.
    max_input_ids: int = DEFAULT_MAX_INPUT_IDS
    #: Folder for ingest jobs that another program created, whose record does not name one; empty: none.
    work_folder: str = ""
    #: The tables that decide about locks.
    lock_rules: LockRules = LOCK_RULES
    #: The tables that decide about chunks.
    chunk_rules: ChunkRules = CHUNK_RULES
    #: The tables that decide about batches and ingest jobs, by the spelling of their tree.
    queue_rules: Mapping[str, QueueRules] = field(default_factory=lambda: QUEUE_RULES)


DEFAULT_OPTIONS = StoreOptions()


def no_store(name: str) -> NoStore:
    """Return the error for a location in which no store was created yet."""
    return NoStore(f"{name} holds no store yet. Create it with: headgate init")
