"""Headgate: the system that every process touching shared data asks first.

import headgate

gate = headgate.connect("sqlite:///headgate.db")
with gate.locks.held("copy-core", "mysql://db1/core", mode="exclusive", wait=30) as lock:
    ...  # nobody else reads or writes it now; hand lock.token to what you write to
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from headgate.core.ledger import Claim, Dataset, Job
    from headgate.core.locks import Lock, Mode
    from headgate.core.queue import Batch, IngestJob
    from headgate.gate import Gate, connect
    from headgate.service.guards import GuardBusy

__version__ = "0.1.0"

__all__ = [
    "AlreadyDone",
    "BadManifest",
    "BadPayload",
    "BadProfiles",
    "BadValue",
    "Batch",
    "Claim",
    "ClaimLost",
    "ClaimRefused",
    "Dataset",
    "ForeignStore",
    "Gate",
    "GuardBusy",
    "HalfMoved",
    "HeadgateError",
    "HoldersUnconfirmed",
    "IngestJob",
    "Invalid",
    "ItemLost",
    "Job",
    "KeyInUse",
    "KeyReused",
    "Lock",
    "LockLost",
    "LockRefused",
    "Lost",
    "MissingExtra",
    "Mode",
    "NoStore",
    "NotAllowed",
    "NotOwner",
    "ObjectRefused",
    "QueueRefused",
    "Refused",
    "SchemaMismatch",
    "ServiceRefused",
    "ServiceUnavailable",
    "StorageGuardFailed",
    "StoreInUse",
    "StoreMisconfigured",
    "StoreUnavailable",
    "TransitionRefused",
    "Unavailable",
    "UnknownName",
    "VersionLost",
    "WorkStopped",
    "WrongKey",
    "__version__",
    "connect",
]


#: Where the names are that are not errors.
_HOMES = {
    "Gate": "gate",
    "GuardBusy": "service.guards",
    "connect": "gate",
    "Lock": "core.locks",
    "Mode": "core.locks",
    "Claim": "core.ledger",
    "Dataset": "core.ledger",
    "Job": "core.ledger",
    "Batch": "core.queue",
    "IngestJob": "core.queue",
}


def __getattr__(name: str) -> Any:
    # Importing costs time at start; who only asks for the version does not pay it.
    if name not in __all__:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"headgate.{_HOMES.get(name, 'core.errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
