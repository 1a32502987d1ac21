"""Headgate: the system that every process touching shared data asks first.

import headgate

gate = headgate.connect("sqlite:///headgate.db")
with gate.locks.held("copy-core", "mysql://db1/core", mode="exclusive", wait=30) as lock:
    ...  # nobody else reads or writes it now; hand lock.token to what you write to
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.core.access.scopes import ApiToken, NewToken
    from headgate.core.alarms import Alarm
    from headgate.core.counts import Counts
    from headgate.core.errors import (
        AlreadyDone,
        BadManifest,
        BadPayload,
        BadProfiles,
        BadValue,
        ClaimLost,
        ClaimRefused,
        ForeignStore,
        HalfMoved,
        HeadgateError,
        HoldersUnconfirmed,
        Invalid,
        ItemLost,
        KeyInUse,
        KeyReused,
        LockLost,
        LockRefused,
        Lost,
        MissingExtra,
        NoStore,
        NotAllowed,
        NotOwner,
        ObjectRefused,
        QueueRefused,
        Refused,
        SchemaMismatch,
        ServiceRefused,
        ServiceUnavailable,
        StorageGuardFailed,
        StoreInUse,
        StoreMisconfigured,
        StoreUnavailable,
        TransitionRefused,
        Unavailable,
        UnknownName,
        VersionLost,
        WorkStopped,
        WrongKey,
    )
    from headgate.core.faults import Fault
    from headgate.core.history import Entry, Happened, HistoryPage
    from headgate.core.incidents import Incident, OpenIncidents
    from headgate.core.inventory import (
        Delivery,
        Intake,
        InventoryFile,
        Message,
        MessageKind,
        ObjectVersion,
        Recipient,
        Recording,
        Sender,
        StoredObject,
    )
    from headgate.core.ledger.census import Tally
    from headgate.core.ledger.expectations.model import LateChunk, Lateness
    from headgate.core.ledger.fan import ChunkLink, FanIn
    from headgate.core.ledger.mappings.calendar import Unit
    from headgate.core.ledger.mappings.model import InputMap, MapKind, OnLate
    from headgate.core.ledger.model import (
        Change,
        Claim,
        Dataset,
        Defined,
        Job,
        Kind,
        OnFailure,
        Port,
        Recurrence,
        Row,
        StopExit,
    )
    from headgate.core.ledger.ordering import Order
    from headgate.core.ledger.progress import Failure, JobProgress
    from headgate.core.ledger.selection import BulkResult, RefusedChunk
    from headgate.core.ledger.verdicts import Answer, Condition, Plan, Verdict
    from headgate.core.locks.model import Blocker, Lock, Mode, Waiter
    from headgate.core.queue.model import (
        Batch,
        Folder,
        Hold,
        Identifiers,
        IngestJob,
        JobCounts,
        NewJob,
        Place,
        Report,
        Submission,
        Taken,
    )
    from headgate.core.queue.summary import CollectionSummary
    from headgate.gate import Gate, connect
    from headgate.ingest.objects.importing import ImportedObject
    from headgate.ingest.storage.port import Problem, Progress
    from headgate.service.access.tokens import Tokens
    from headgate.service.expectations import Expectations
    from headgate.service.guards.kinds import GuardBusy, StorageGuard, StorageLock
    from headgate.service.history import History
    from headgate.service.incidents import Incidents
    from headgate.service.inventory import Inventory
    from headgate.service.leases.renewal import ClaimHold, ItemHold, LockHold
    from headgate.service.ledger.use_cases import Ledger
    from headgate.service.ledger.working import Work
    from headgate.service.locks.use_cases import Locks
    from headgate.service.overview.glance import Overview
    from headgate.service.queue.outcomes import CanAbandon, CanFinish, Done, Failed, Handler, Held, NotNow, Outcome
    from headgate.service.queue.use_cases import Queue
    from headgate.service.secrets.use_cases import NewKey, Secrets
    from headgate.settings import Setting, Settings

__version__ = "0.1.0"

__all__ = [
    "Alarm",
    "AlreadyDone",
    "Answer",
    "ApiToken",
    "BadManifest",
    "BadPayload",
    "BadProfiles",
    "BadValue",
    "Batch",
    "Blocker",
    "BulkResult",
    "CanAbandon",
    "CanFinish",
    "Change",
    "ChunkLink",
    "Claim",
    "ClaimHold",
    "ClaimLost",
    "ClaimRefused",
    "CollectionSummary",
    "Condition",
    "Counts",
    "Dataset",
    "Defined",
    "Delivery",
    "Done",
    "Entry",
    "Expectations",
    "Failed",
    "Failure",
    "FanIn",
    "Fault",
    "Folder",
    "ForeignStore",
    "Gate",
    "GuardBusy",
    "HalfMoved",
    "Handler",
    "Happened",
    "HeadgateError",
    "Held",
    "History",
    "HistoryPage",
    "Hold",
    "HoldersUnconfirmed",
    "Identifiers",
    "ImportedObject",
    "Incident",
    "Incidents",
    "IngestJob",
    "InputMap",
    "Intake",
    "Invalid",
    "Inventory",
    "InventoryFile",
    "ItemHold",
    "ItemLost",
    "Job",
    "JobCounts",
    "JobProgress",
    "KeyInUse",
    "KeyReused",
    "Kind",
    "LateChunk",
    "Lateness",
    "Ledger",
    "Lock",
    "LockHold",
    "LockLost",
    "LockRefused",
    "Locks",
    "Log",
    "LogStream",
    "LogText",
    "Lost",
    "MapKind",
    "Message",
    "MessageKind",
    "MissingExtra",
    "Mode",
    "NewJob",
    "NewKey",
    "NewToken",
    "NoStore",
    "NotAllowed",
    "NotNow",
    "NotOwner",
    "ObjectRefused",
    "ObjectVersion",
    "OnFailure",
    "OnLate",
    "OpenIncidents",
    "Order",
    "Outcome",
    "Overview",
    "Place",
    "Plan",
    "Port",
    "Problem",
    "Progress",
    "Queue",
    "QueueRefused",
    "Recipient",
    "Recording",
    "Recurrence",
    "Refused",
    "RefusedChunk",
    "Report",
    "Row",
    "SchemaMismatch",
    "Secrets",
    "Sender",
    "ServiceRefused",
    "ServiceUnavailable",
    "Setting",
    "Settings",
    "StopExit",
    "StorageGuard",
    "StorageGuardFailed",
    "StorageLock",
    "StoreInUse",
    "StoreMisconfigured",
    "StoreUnavailable",
    "StoredObject",
    "Submission",
    "Taken",
    "Tally",
    "Tokens",
    "TransitionRefused",
    "Unavailable",
    "Unit",
    "UnknownName",
    "Verdict",
    "VersionLost",
    "Waiter",
    "Work",
    "WorkStopped",
    "WrongKey",
    "__version__",
    "connect",
]


#: The modules of the public names that are not errors.
_HOMES = {
    "core.alarms": ("Alarm",),
    "core.ledger.census": ("Tally",),
    "core.ledger.selection": ("BulkResult", "RefusedChunk"),
    "core.ledger.progress": ("Failure", "JobProgress"),
    "core.ledger.fan": ("ChunkLink", "FanIn"),
    "core.ledger.expectations.model": ("LateChunk", "Lateness"),
    "core.ledger.mappings.calendar": ("Unit",),
    "core.ledger.mappings.model": ("InputMap", "MapKind", "OnLate"),
    "core.ledger.verdicts": ("Answer", "Condition", "Plan", "Verdict"),
    "core.counts": ("Counts",),
    "core.faults": ("Fault",),
    "core.history": ("Entry", "Happened", "HistoryPage"),
    "core.incidents": ("Incident", "OpenIncidents"),
    "core.inventory": (
        "Delivery",
        "Intake",
        "InventoryFile",
        "Message",
        "MessageKind",
        "ObjectVersion",
        "Recipient",
        "Recording",
        "Sender",
        "StoredObject",
    ),
    "core.ledger.model": (
        "Change",
        "Claim",
        "Dataset",
        "Defined",
        "Job",
        "Kind",
        "OnFailure",
        "Port",
        "Recurrence",
        "Row",
        "StopExit",
    ),
    "core.locks.model": ("Blocker", "Lock", "Mode", "Waiter"),
    "core.ledger.ordering": ("Order",),
    "core.queue.model": (
        "Batch",
        "Folder",
        "Hold",
        "Identifiers",
        "IngestJob",
        "JobCounts",
        "NewJob",
        "Place",
        "Report",
        "Submission",
        "Taken",
    ),
    "core.queue.summary": ("CollectionSummary",),
    "core.logs": ("Log", "LogStream", "LogText"),
    "core.access.scopes": ("ApiToken", "NewToken"),
    "gate": ("Gate", "connect"),
    "ingest.objects.importing": ("ImportedObject",),
    "ingest.storage.port": ("Problem", "Progress"),
    "service.guards.kinds": ("GuardBusy", "StorageGuard", "StorageLock"),
    "service.history": ("History",),
    "service.expectations": ("Expectations",),
    "service.incidents": ("Incidents",),
    "service.inventory": ("Inventory",),
    "service.ledger.use_cases": ("Ledger",),
    "service.locks.use_cases": ("Locks",),
    "service.queue.outcomes": ("CanAbandon", "CanFinish", "Done", "Failed", "Handler", "Held", "NotNow", "Outcome"),
    "service.overview.glance": ("Overview",),
    "service.queue.use_cases": ("Queue",),
    "service.leases.renewal": ("ClaimHold", "ItemHold", "LockHold"),
    "service.secrets.use_cases": ("NewKey", "Secrets"),
    "service.access.tokens": ("Tokens",),
    "service.ledger.working": ("Work",),
    "settings": ("Setting", "Settings"),
}


def __getattr__(name: str) -> Any:
    # Importing everything takes time; `headgate --version` does not need it.
    if name not in __all__:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    from importlib import import_module

    home = next((module for module, names in _HOMES.items() if name in names), "core.errors")
    return getattr(import_module(f"headgate.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
