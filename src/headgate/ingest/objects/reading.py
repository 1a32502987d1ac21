"""Reading stored objects: their files, and whether every byte matches the inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headgate.core.errors import BadProfiles
from headgate.core.inventory import InventoryFile
from headgate.core.locks.model import Mode
from headgate.ingest.context import Context
from headgate.ingest.formats.ark import parse_object
from headgate.ingest.steps.storing import object_resource
from headgate.ingest.stopping import Stop
from headgate.ingest.storage.port import Problem, Progress, Storage, Version, export


def storage_of(context: Context, ark: str) -> Storage:
    """Return the storage of an object, by the profile of its newest version. UnknownName when it is unknown."""
    newest = context.inventory.versions(ark)[-1]
    try:
        profile = context.profile_of(newest.batch) if newest.batch else None
    except BadProfiles:
        profile = None
    # The profile that a batch started with is removed when the batch is cleaned up.
    return context.storage(profile or context.current_profile(newest.profile))


@contextmanager
def read_locked(context: Context, client: str, ark: str, wait: float) -> Iterator[None]:
    """The object under a lock shared with other readers: meanwhile it cannot be extended or deleted."""
    with context.locks.held(client, object_resource(ark), Mode.SHARED, wait=wait, note="reading"):
        yield


def export_object(
    context: Context,
    client: str,
    name: str,
    folder: Path,
    version: int | None = None,
    *,
    wait: float = 0,
    progress: Progress | None = None,
) -> Version:
    """Copy a version, or the newest, into a new folder, which appears completely and checked or not at all."""
    ark = str(parse_object(name))
    storage = storage_of(context, ark)
    with read_locked(context, client, ark, wait):
        return export(storage, ark, folder, version, progress=progress)


def verify_object(
    context: Context,
    client: str,
    name: str,
    *,
    wait: float = 0,
    stop: Stop | None = None,
    progress: Progress | None = None,
    warnings: bool = False,
) -> list[Problem]:
    """Read every stored byte of an object, check every rule of OCFL, and compare storage and inventory.

    Returns the problems; with `warnings` also violations of OCFL's recommendations.
    """
    ark = str(parse_object(name))
    storage = storage_of(context, ark)
    with read_locked(context, client, ark, wait):
        recorded = {each.number: context.inventory.files(ark, each.number) for each in context.inventory.versions(ark)}
        known = {file.digest: file.digests for files in recorded.values() for file in files if file.digests}
        problems = storage.verify(ark, stop, progress, known, warnings=warnings)
        damaged = any(not each.is_warning for each in problems)
        return problems if damaged else [*problems, *_differences(storage, ark, recorded)]


def _differences(storage: Storage, ark: str, recorded: Mapping[int, Sequence[InventoryFile]]) -> list[Problem]:
    stored = {version.number: version for version in storage.list_versions(ark)}
    found = [
        Problem(ark, f"v{number}", "it is in the inventory, but not stored") for number in set(recorded) - set(stored)
    ]
    for number, version in stored.items():
        if number not in recorded:
            found.append(Problem(ark, f"v{number}", f"it is stored by {version.operation}, but not in the inventory"))
            continue
        there = {(file.name, file.size, file.digest) for file in version.files}
        listed = {(file.name, file.size, file.digest) for file in recorded[number]}
        names = sorted({name for name, _, _ in there ^ listed})
        found += [Problem(ark, f"v{number}/{name}", "storage and inventory differ") for name in names]
    return found


def unrecorded(context: Context) -> list[Problem]:
    """Objects in the storages of the current profiles that the inventory does not know."""
    from headgate.ingest.profiles.profile import load_profiles

    if not context.options.profiles_folder.is_dir():
        return []
    known = {each.ark for each in context.inventory.objects()}
    profiles = load_profiles(context.options.profiles_folder).values()
    places = {(each.storage.kind, each.storage.url): each for each in profiles if each.storage.kind != "http"}
    stored = {ark for profile in places.values() for ark in context.storage(profile).objects()}
    return [Problem(ark, "", "it is stored, but not in the inventory") for ark in sorted(stored - known)]
