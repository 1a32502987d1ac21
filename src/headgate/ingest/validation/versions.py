"""The block of versions of an inventory: their names, and their values besides the state."""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from typing import Any

from headgate.ingest.validation.findings import Findings
from headgate.ingest.validation.version_names import VersionNames, name_faults, number_of, sequence_faults

_VERSION_KEYS = frozenset(["created", "state", "message", "user"])
_USER_KEYS = frozenset(["name", "address"])
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-]([0-9]{2}):([0-9]{2}))"
)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:\S+")


def check_versions(document: Mapping[str, Any], names: VersionNames, path: str, findings: Findings) -> None:
    """Check the block, and collect the names of its versions."""
    versions = document.get("versions")
    if "versions" not in document:
        findings.add("E043", path, "it has no versions")
    elif not isinstance(versions, dict):
        findings.add("E045", path, "its versions are not an object")
    elif not versions:
        findings.add("E008", path, "it has no version")
    else:
        _check_names(versions, names, path, findings)
        for name, block in versions.items():
            _check_version(name, block, path, findings)


def _check_names(versions: Mapping[str, Any], names: VersionNames, path: str, findings: Findings) -> None:
    for name in versions:
        if fault := name_faults(name):
            findings.add(fault[0], path, fault[1])
    for name in sorted(filter(number_of, versions), key=lambda name: (number_of(name), name)):
        names.all[name] = number_of(name)
    for code, why in sequence_faults(names):
        findings.add(code, path, why)


def _check_version(name: str, block: Any, path: str, findings: Findings) -> None:
    if not isinstance(block, dict):
        findings.add("E047", path, f"the version {name!r} is not an object")
        return
    _check_keys(name, block, path, findings)
    if "created" in block and not is_time(block["created"]):
        findings.add("E049", path, f"the version {name!r} was created at {block['created']!r}, which is no such time")
    if not isinstance(block.get("message", ""), str):
        findings.add("E094", path, f"the message of the version {name!r} is not a text")
    if "user" in block:
        _check_user(name, block["user"], path, findings)


def _check_keys(name: str, block: Mapping[str, Any], path: str, findings: Findings) -> None:
    for key in block.keys() - _VERSION_KEYS:
        findings.add("E102", path, f"the version {name!r} has the key {key!r}")
    for key in sorted(_VERSION_KEYS - block.keys()):
        findings.add("E048" if key in ("created", "state") else "W007", path, f"the version {name!r} has no {key}")


def _check_user(name: str, user: Any, path: str, findings: Findings) -> None:
    if not isinstance(user, dict):
        findings.add("E054", path, f"the user of the version {name!r} is not an object")
        return
    for key in user.keys() - _USER_KEYS:
        findings.add("E102", path, f"the user of the version {name!r} has the key {key!r}")
    if not isinstance(user.get("name"), str) or not user["name"]:
        findings.add("E054", path, f"the user of the version {name!r} has no name")
    address = user.get("address")
    if "address" not in user:
        findings.add("W008", path, f"the user of the version {name!r} has no address")
    elif not isinstance(address, str):
        findings.add("E054", path, f"the address of the user of the version {name!r} is not a text")
    elif not _URI.fullmatch(address):
        findings.add("W009", path, f"the address of the user of the version {name!r} is not a URI: {address!r}")


def is_time(value: object) -> bool:
    """Whether it is a time by RFC 3339."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return False
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    hours, minutes = int(match[7] or 0), int(match[8] or 0)
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return False
    # The calendar repeats every 400 years, and has a year 0.
    last = calendar.monthrange(2000 + year % 400, month)[1]
    return day <= last and hour < 24 and minute < 60 and second <= 60 and hours < 24 and minutes < 60
