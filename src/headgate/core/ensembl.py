"""Ensembl's resource locks: how rows of its tables are converted, decided without touching a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headgate.core.errors import BadValue
from headgate.core.locks.model import COMPATIBLE, Mode
from headgate.core.locks.parsing import parse_mode
from headgate.core.values.names import NAME_LENGTH, RESOURCE_LENGTH

#: The original tables, each with the columns that identify it.
COLUMNS: Mapping[str, frozenset[str]] = {
    "client": frozenset({"client_id", "name"}),
    "resource": frozenset({"resource_id", "uri"}),
    "resource_lock": frozenset({"resource_lock_id", "lock_type", "created", "client_id", "resource_id"}),
}
#: The original names of the modes.
LOCK_TYPES: Mapping[Mode, str] = {Mode.SHARED: "read", Mode.EXCLUSIVE: "write"}
#: The history's text for each lock that was taken over.
REASON = "imported from resource_lock"
#: The holder of a lock whose client no longer exists: the lock was blocking before, so it still blocks.
UNKNOWN_CLIENT = "unknown"
_REQUEST = "resource_lock "
#: The original numbered its rows from 1 in a 32-bit column; ours start above that, and fit into a JSON number.
_LOWEST, _BEYOND = 2**31, 2**53


@dataclass(frozen=True, slots=True)
class OldLock:
    """A row of resource_lock, with its client and resource."""

    #: Its resource_lock_id.
    id: int
    #: The client's name; None: the client is missing (the original allowed deleting a holder) or has no name.
    client: str | None
    #: The resource's URI; None: the resource is missing or has no URI.
    resource: str | None
    #: read or write.
    lock_type: str
    #: When it was acquired, in UTC; None: the value is not a time.
    created: datetime | None


@dataclass(frozen=True, slots=True)
class Original:
    """Everything that the original tables hold."""

    clients: tuple[str, ...]
    resources: tuple[str, ...]
    locks: tuple[OldLock, ...]
    #: Rows that cannot be read, each with the reason: NULL where a name is required.
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedLock:
    """A lock as it will be stored here."""

    #: The row that it comes from.
    row: OldLock
    client: str
    resource: str
    mode: Mode


@dataclass(slots=True)
class Takeover:
    """The changes of a takeover; a dry run returns the same."""

    clients: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    locks: list[ImportedLock] = field(default_factory=list)
    #: A line for every row that is left out or changed.
    lines: list[str] = field(default_factory=list)


def plan_takeover(original: Original, held: Mapping[str, Sequence[tuple[Mode, str]]]) -> Takeover:
    """The imports for the original rows, given what is held here already: (mode, client) by resource.

    On each resource the oldest lock is kept, and every later one that is compatible with those kept.
    """
    plan = Takeover(lines=[f"skipped {each}" for each in original.unreadable])
    plan.clients = _renamed(plan, "client", original.clients)
    plan.resources = _renamed(plan, "resource", original.resources)
    present = {uri: list(here) for uri, here in held.items()}
    for row in sorted(original.locks, key=_age):
        taken = _read(row)
        why = taken if isinstance(taken, str) else _conflict(taken, present.get(taken.resource, ()))
        if why or isinstance(taken, str):
            plan.lines.append(f"skipped {_shown(row)}: {why}")
            continue
        plan.locks.append(taken)
        present.setdefault(taken.resource, []).append((taken.mode, taken.client))
        plan.lines += _guesses(row)
    if any(lock.row.client is None for lock in plan.locks) and UNKNOWN_CLIENT not in plan.clients:
        plan.clients.append(UNKNOWN_CLIENT)
    return plan


def request_id(row: OldLock) -> str:
    """The request that an imported lock counts as granted to; it keeps the original number."""
    return f"{_REQUEST}{row.id}"


def lock_number(lock_id: str, request: str) -> int:
    """The number by which the original's programs know a lock: that of the imported row, or one of its own."""
    digits = request.removeprefix(_REQUEST)
    if digits != request and digits.isascii() and digits.isdigit() and int(digits) < _LOWEST:
        return int(digits)
    return number("lock", lock_id)


def number(kind: str, name: str) -> int:
    """A number for something that only has a name here: always the same, and never one that the original used."""
    digest = hashlib.sha256(f"{kind} {name}".encode()).digest()
    return _LOWEST + int.from_bytes(digest[:8]) % (_BEYOND - _LOWEST)


def client_name(name: str) -> str:
    """A client's name in the form that is valid here: '_' replaces '/' and characters that cannot be printed."""
    return _usable(name.replace("/", "_"), NAME_LENGTH)


def resource_name(uri: str) -> str:
    """A resource's URI in the form that is valid here: '_' replaces characters that cannot be printed."""
    return _usable(uri, RESOURCE_LENGTH)


def _renamed(plan: Takeover, what: str, names: Iterable[str]) -> list[str]:
    rule = client_name if what == "client" else resource_name
    usable: dict[str, str] = {}
    for name in names:
        new = rule(name)
        if new != name:
            plan.lines.append(f"{what} {name!r} is named {new!r} here, because its name is not valid here")
        if new in usable:
            plan.lines.append(f"{what}s {usable[new]!r} and {name!r} have the same name here")
        usable.setdefault(new, name)
    return list(usable)


def _usable(text: str, most: int) -> str:
    printable = "".join(letter if letter.isprintable() else "_" for letter in text)[:most]
    return printable if printable.strip() else "_"


def _age(row: OldLock) -> tuple[bool, float, int]:
    """Oldest first; a row without a time is the youngest."""
    return row.created is None, row.created.timestamp() if row.created else 0.0, row.id


def _read(row: OldLock) -> ImportedLock | str:
    """The lock, or why the row cannot be read."""
    if row.resource is None:
        return "its resource does not exist"
    try:
        mode = parse_mode(row.lock_type)
    except BadValue:
        return "its type is neither read nor write"
    client = UNKNOWN_CLIENT if row.client is None else client_name(row.client)
    return ImportedLock(row, client, resource_name(row.resource), mode)


def _conflict(taken: ImportedLock, here: Iterable[tuple[Mode, str]]) -> str:
    """Why it conflicts with what is held already; empty: it does not."""
    for mode, client in here:
        if not COMPATIBLE[taken.mode, mode]:
            return f"{client} holds {taken.resource} {mode}, and that lock is kept"
    return ""


def _guesses(row: OldLock) -> list[str]:
    """The value that was filled in where the row has none."""
    lines = []
    if row.client is None:
        lines.append(f"{_shown(row)} has no existing client; it is held by {UNKNOWN_CLIENT!r} here")
    if row.created is None:
        lines.append(f"{_shown(row)} has no readable time; it starts now")
    return lines


def _shown(row: OldLock) -> str:
    since = f" since {row.created:%Y-%m-%d %H:%M:%S} UTC" if row.created else ""
    what = f"{row.lock_type or 'no type'} on {row.resource or 'no resource'} by {row.client or UNKNOWN_CLIENT}"
    return f"resource_lock {row.id} ({what}{since})"
