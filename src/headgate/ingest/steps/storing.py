"""Storing a version: under an exclusive lock on the object, once, in the profile's storage."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from headgate.core.errors import BadPayload
from headgate.core.locks.model import Mode
from headgate.core.queue.model import IngestJob
from headgate.core.values.plurals import plural
from headgate.ingest.context import Context, now
from headgate.ingest.formats import manifest
from headgate.ingest.formats.descriptions import Description, read_dublin_core, read_erc
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.formats.manifest import ManifestEntry
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.steps.payload import JobFolder, folder_of, save
from headgate.ingest.steps.storage_workers import ask_workers
from headgate.ingest.steps.system_files import DUBLIN_CORE, ERC, STORAGE_MANIFEST, SYSTEM
from headgate.ingest.stopping import Stop
from headgate.ingest.storage.http import Addition, HttpStorage
from headgate.ingest.storage.port import Note, ObjectChange, StoredFile, Version
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.checks import DEFAULT_LEASE
from headgate.service.queue.outcomes import Done
from headgate.service.queue.step_logs import note as step_note
from headgate.telemetry import event

#: A storage service answers only after it has fetched and stored all of an object.
STORING_SECONDS = 48 * 3600.0
#: Records the answer of a storage service, because it cannot be requested again.
ANSWER = "stored.json"


def object_resource(ark: str) -> str:
    """The resource that is locked while a version is added (exclusive), or read (shared)."""
    return f"object:{ark}"


def operation_of(context: Context, job: IngestJob) -> str:
    """The operation id by which a storage recognises a job's version; other stores with the same root have different
    ones.
    """
    return f"{job.id}-{context.origin_of(job.batch)}"


@contextmanager
def locked_object(context: Context, job: IngestJob, ark: str, mode: str, hold: ItemHold) -> Iterator[Stop]:
    """The object, locked for a job; yields a check whether the lock or the job is lost. LockRefused when it is busy."""
    lease = hold.lease or DEFAULT_LEASE
    note = f"{job.state} of {job.batch}"
    with context.locks.held(job.id, object_resource(ark), mode, lease=lease, note=note) as lock:
        yield lambda: hold.lost is not None or lock.lost is not None


def store_version(
    context: Context, job: IngestJob, profile: Profile, change: Callable[[], ObjectChange], hold: ItemHold
) -> Done:
    """Store a version of a job's object. `change`: returns the version, called when the object is locked."""
    ark = job.identifiers.primary
    submitter = str(job.configuration["submitter"])
    note = Note(operation_of(context, job), now(), f"ingest job {job.id} of {job.batch}", submitter)
    # No other update may happen between reading the previous description and storing the new one.
    with locked_object(context, job, ark, Mode.EXCLUSIVE, hold) as stop:
        wanted = change()
        stored = store(context, job, profile, ark, wanted, note, stop)
    files = plural(len(wanted.files), "file")
    step_note(f"stored {ark} v{stored.version}{stored.by}: {files} in storage of kind {profile.storage.kind}")
    return Done(f"stored as {ark} v{stored.version}{stored.by}", configuration={"stored_version": stored.version})


@dataclass(frozen=True, slots=True)
class Stored:
    """A version, and the worker of the storage service that stored it; empty: there are no workers."""

    version: int
    by: str = ""


def store(
    context: Context, job: IngestJob, profile: Profile, ark: str, change: ObjectChange, note: Note, stop: Stop
) -> Stored:
    """Store a version of an object that is locked. A job stores its version once."""
    if profile.storage.kind == "http":
        return _send(context, job, profile, ark, change, stop)
    storage = context.storage(profile)
    versions = storage.list_versions(ark)
    for version in versions:
        if version.operation == note.operation:
            return Stored(version.number)
    if change.keep and not versions:
        raise BadPayload(ark, "it is not stored yet, so there is nothing to update; submit it with mode add")
    return Stored(storage.put_version(ark, change, note, stop).number)


def stored_description(context: Context, profile: Profile, ark: str) -> Description:
    """The description in the newest version of an object; empty when there is none."""
    if profile.storage.kind == "http":  # Nothing can be read back from there.
        found = context.inventory.objects(ark=ark, limit=1)
        return Description(found[0].who, found[0].what, found[0].when) if found else Description()
    storage = context.storage(profile)
    versions = storage.list_versions(ark)
    names = {file.name for file in versions[-1].files} if versions else set()

    def read(name: str, parse: Callable[[bytes], Description]) -> Description:
        if f"{SYSTEM}/{name}" not in names:
            return Description()
        with storage.read(ark, f"{SYSTEM}/{name}", versions[-1].number) as source:
            return parse(source.read())

    erc = read(ERC, lambda data: read_erc(data.decode()).description)
    return replace(erc, dublin_core=read(DUBLIN_CORE, read_dublin_core).dublin_core)


def stored_version(context: Context, job: IngestJob, profile: Profile, ark: str, hold: ItemHold) -> Version:
    """The version that a job has stored. BadPayload when it does not exist."""
    if profile.storage.kind == "http":
        return _answered(folder_of(job), ark, job.id)
    operation = operation_of(context, job)
    with locked_object(context, job, ark, Mode.SHARED, hold):
        for version in context.storage(profile).list_versions(ark):
            if version.operation == operation:
                return version
    raise BadPayload(ark, f"no stored version of it was made by {job.id}")


def read_stored(context: Context, job: IngestJob, profile: Profile, version: Version, name: str) -> bytes:
    """A small file of a version that a job has stored."""
    if profile.storage.kind == "http":
        return (folder_of(job).root / name).read_bytes()
    with context.storage(profile).read(version.object_id, name, version.number) as source:
        return source.read()


# ---------------------------------------------------------------- a storage service


def _send(context: Context, job: IngestJob, profile: Profile, ark: str, change: ObjectChange, stop: Stop) -> Stored:
    folder = folder_of(job)
    if (folder.root / ANSWER).is_file():
        return Stored(_answered(folder, ark, job.id).number)
    listing = write_storage_manifest(folder, change)
    remove = "\n".join(change.remove)
    addition = Addition(ark, listing.read_text(encoding="utf-8"), listing.as_uri(), job.id, change.keep, remove)
    node = str(profile.storage.node)
    number, by = ask_workers(
        context, profile, lambda url: HttpStorage(context.service(url, STORING_SECONDS), url, node).add(addition, stop)
    )
    files = tuple(StoredFile(name, file.size, file.digests[DEFAULT], number) for name, file in change.files.items())
    version = Version(ark, number, now(), f"ingest job {job.id}", job.id, files)
    save(folder.root / ANSWER, json.dumps(asdict(version), default=str).encode())
    event("object.sent", job=job.id, ark=ark, version=number, worker=by)
    return Stored(number, by and f" by {by}")


def write_storage_manifest(folder: JobFolder, change: ObjectChange) -> Path:
    """The manifest that a storage service receives or fetches. Returns its path."""
    listing = folder.system / STORAGE_MANIFEST
    save(listing, _storage_manifest(change))
    return listing


def _storage_manifest(change: ObjectChange) -> bytes:
    return manifest.write(
        manifest.STORAGE,
        (
            ManifestEntry(
                file.path.as_uri(), name, DEFAULT, file.digests[DEFAULT], file.size, _modified(file.path),
                mimetypes.guess_type(name)[0] or "application/octet-stream",
            )
            for name, file in change.files.items()
        ),
    )  # fmt: skip


def _modified(path: Path) -> datetime:
    return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)


def _answered(folder: JobFolder, ark: str, operation: str) -> Version:
    try:
        known = json.loads((folder.root / ANSWER).read_bytes())
    except FileNotFoundError:
        raise BadPayload(ark, f"it is unknown what the storage service stored for {operation}") from None
    files = tuple(StoredFile(**each) for each in known["files"])
    created = datetime.fromisoformat(known["created"])
    return Version(ark, int(known["number"]), created, known["message"], operation, files)
