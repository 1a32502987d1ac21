"""Consistency of an object's inventories: earlier ones must agree with the current one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from headgate.ingest.validation.findings import Findings
from headgate.ingest.validation.inventories import CheckedInventory

#: By the names of version directories.
Inventories = dict[str, CheckedInventory]
_NOTES = ("created", "message", "user")


def check_history(current: CheckedInventory, priors: Mapping[str, CheckedInventory], findings: Findings) -> None:
    """Compare each earlier inventory with the current one, and with the one after it."""
    for name, prior in priors.items():
        for code, why in (*_identity(current, prior), *_states(current, prior), *_notes(current, prior)):
            findings.add(code, prior.path, why)
        if prior.names.newest and prior.names.newest != name:
            findings.add("E040", prior.path, f"it ends with {prior.names.newest!r}, not with {name!r}")
    row = [*(priors[name] for name in current.names.all if name in priors), current]
    for before, after in pairwise(row):
        if before.specification > after.specification > "":
            why = f"it is of OCFL {after.specification}; {before.path} is of {before.specification}"
            findings.add("E103", after.path, why)
        for path in sorted(before.content.keys() - after.content.keys()):
            findings.add("E023", path, f"it is in {before.path}, but not in {after.path}")
    _check_directory(current, row, findings)


def _check_directory(current: CheckedInventory, row: list[CheckedInventory], findings: Findings) -> None:
    earliest = row[0]
    is_first = earliest.names.newest == current.names.first
    for later in row[1:]:
        if is_first and later.sets_directory and not earliest.sets_directory:
            findings.add("E019", later.path, f"it sets contentDirectory, and {earliest.path} does not")
        if later.content_directory != earliest.content_directory:
            why = f"its contentDirectory is {later.content_directory!r}; in {earliest.path} it is "
            findings.add("E020", later.path, f"{why}{earliest.content_directory!r}")


def _identity(current: CheckedInventory, prior: CheckedInventory) -> Iterator[tuple[str, str]]:
    if current.id and prior.id and current.id != prior.id:
        yield "E110", f"its id is {prior.id!r}; the object's is {current.id!r}"


def _states(current: CheckedInventory, prior: CheckedInventory) -> Iterator[tuple[str, str]]:
    for name in prior.names.all:
        if name not in current.names.all:
            yield "E066", f"it has the version {name!r}, which the current inventory does not have"
    places, earlier = _paths_by_digest(current), _paths_by_digest(prior)
    for name, state in prior.states.items():
        now = current.states.get(name)
        if now is None:
            continue
        for path in sorted(state.keys() ^ now.keys()):
            yield "E066", f"the logical path {path!r} of {name} is only in one of it and the current inventory"
        for path in sorted(state.keys() & now.keys()):
            same = (
                state[path] == now[path]
                if prior.algorithm == current.algorithm
                else earlier.get(state[path], set()) <= places.get(now[path], set())
            )
            if not same:
                yield "E066", f"the logical path {path!r} of {name} has other content than in the current inventory"


def _paths_by_digest(found: CheckedInventory) -> dict[str, set[str]]:
    by_digest: dict[str, set[str]] = {}
    for path, digest in found.content.items():
        by_digest.setdefault(digest, set()).add(path)
    return by_digest


def _notes(current: CheckedInventory, prior: CheckedInventory) -> Iterator[tuple[str, str]]:
    before, now = prior.document.get("versions"), current.document.get("versions")
    if not isinstance(before, dict) or not isinstance(now, dict):
        return
    for name, block in before.items():
        other = now.get(name)
        if isinstance(block, dict) and isinstance(other, dict):
            for key in _NOTES:
                if block.get(key) != other.get(key):
                    yield "W011", f"{key!r} of {name} is not that of the current inventory"
