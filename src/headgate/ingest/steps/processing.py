"""Processing and storing: the object gets its name and its system files, and is stored as a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.core.errors import BadPayload, BadValue, Invalid
from headgate.core.queue.model import OBJECT_OWNER, Identifiers, IngestJob
from headgate.ingest.context import Context, stop_of
from headgate.ingest.formats import descriptions as describe
from headgate.ingest.formats.descriptions import Description
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.formats.hashing import data_digests
from headgate.ingest.formats.manifest import FoundFile
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.steps.object_name import name_object
from headgate.ingest.steps.payload import JobFolder, folder_of, gather, payload_name, save, write_again
from headgate.ingest.steps.payload_files import job_downloading
from headgate.ingest.steps.prepared import notes_for_services, prepared_elsewhere, stores_later
from headgate.ingest.steps.storing import store_version, stored_description, write_storage_manifest
from headgate.ingest.steps.system_files import (
    DUBLIN_CORE,
    ERC,
    PRODUCER,
    SUBMISSION_MANIFEST,
    SYSTEM,
    IngestRecord,
    ObjectModel,
    read_deletions,
    read_embargo,
    system_files,
)
from headgate.ingest.storage.port import NewFile, ObjectChange
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.outcomes import Done, Failed, NotNow, Outcome
from headgate.service.queue.step_logs import note

T = TypeVar("T")

#: Files of a depositor that describe the object, and their maximum size.
DATACITE, EMBARGO, DELETIONS = "mrt-datacite.xml", "mrt-embargo.txt", "mrt-delete.txt"
LARGEST_SAYING = 5_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """The depositor's description of the object: in the submission, and in files of the payload."""

    description: Description
    identifiers: Identifiers
    #: Names that an update removes.
    deletions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GatheredObject:
    """An object whose files are all in its working folder."""

    context: Context
    job: IngestJob
    profile: Profile
    folder: JobFolder
    found: Mapping[str, FoundFile]
    said: Said

    @property
    def is_update(self) -> bool:
        """Whether it updates an object, keeping values and files that are not given again."""
        return self.job.configuration.get("submission_mode") == "update"

    def describe(self, ark: str) -> Description:
        """The description of the new version: an update keeps values that are not given again."""
        if not (self.is_update and ark):
            return self.said.description
        return self.said.description.updating(stored_description(self.context, self.profile, ark))

    def change(self, identifiers: Identifiers) -> ObjectChange:
        """The new version, with its system files, which are written here."""
        description = self.describe(identifiers.primary)
        added = _write_system_files(self.job, self.profile, self.folder, description, identifiers)
        return _change(self.job, self.folder, self.found, added, self.said)


def job_processing(context: Context, job: IngestJob, hold: ItemHold) -> Outcome:
    """Read the description, fix the name, add the system files; and store, unless that is a separate step."""
    profile = context.profile(job)
    if stores_later(context.queue) and job.configuration.get(OBJECT_OWNER) != profile.owner:
        # Its local ids are locked by the owner's name, when it is taken.
        context.queue.change(job, configuration={OBJECT_OWNER: profile.owner})
        return NotNow("it is taken again with its local ids locked")
    gathered = _gathered(context, job, profile, hold)
    if isinstance(gathered, Failed):
        return gathered
    identifiers = name_object(context, job, profile, gathered.describe, gathered.said.identifiers)
    note(f"named {', '.join((identifiers.primary, *identifiers.local))}")
    if not stores_later(context.queue):
        return _store(gathered, identifiers, hold)
    change = gathered.change(identifiers)
    write_storage_manifest(gathered.folder, change)
    notes = notes_for_services(context, profile, gathered.folder, identifiers.primary, change)
    return Done(f"named {identifiers.primary}; it is ready to be stored", configuration=notes)


def job_storing(context: Context, job: IngestJob, hold: ItemHold) -> Outcome:
    """Store the version that processing has prepared, here or in another program."""
    profile = context.profile(job)
    if not job.identifiers.primary:
        raise BadValue("ingest job", job.id, "has no ARK; it was never processed")
    if prepared := prepared_elsewhere(context, job, profile, stop_of(hold)):
        return store_version(context, job, profile, lambda: prepared, hold)
    gathered = _gathered(context, job, profile, hold)
    return gathered if isinstance(gathered, Failed) else _store(gathered, job.identifiers, hold)


def _gathered(context: Context, job: IngestJob, profile: Profile, hold: ItemHold) -> GatheredObject | Failed:
    folder = folder_of(job)
    if not folder.gathered.is_file():
        # The working folder was lost: everything is fetched again.
        again = job_downloading(context, job, hold)
        if isinstance(again, Failed):
            return again
    found = gather(context, job, profile, stop_of(hold))
    return GatheredObject(context, job, profile, folder, found, read_sayings(job, profile, folder, found))


def _store(gathered: GatheredObject, identifiers: Identifiers, hold: ItemHold) -> Done:
    job = replace(gathered.job, identifiers=identifiers)
    try:
        return store_version(gathered.context, job, gathered.profile, lambda: gathered.change(identifiers), hold)
    except BadPayload:
        # A loss of power may have destroyed bytes in the working folder: a resume checks every file again.
        gathered.folder.gathered.unlink(missing_ok=True)
        raise


# ---------------------------------------------------------------- descriptions in files


def read_sayings(job: IngestJob, profile: Profile, folder: JobFolder, found: Mapping[str, FoundFile]) -> Said:
    """The description in the submission, and in the depositor's own files. BadPayload names the wrong one."""

    def read(name: str, parse: Callable[[bytes], T]) -> T | None:
        if name not in found:
            return None
        if found[name].size > LARGEST_SAYING:
            raise BadPayload(name, f"it has {found[name].size:,} bytes; at most {LARGEST_SAYING:,} are allowed")
        try:
            return parse((folder.producer / name).read_bytes())
        except Invalid as error:
            raise BadPayload(name, str(error)) from error

    erc = read(ERC, lambda data: describe.read_erc(_text(ERC, data)))
    read(EMBARGO, lambda data: read_embargo(_text(EMBARGO, data)))
    deletions = read(DELETIONS, lambda data: read_deletions(_text(DELETIONS, data)))
    dublin_core = read(DUBLIN_CORE, describe.read_dublin_core)
    description = describe.combined(
        describe.said(job.configuration),
        dublin_core,
        read(DATACITE, describe.read_datacite),
        erc.description if erc else None,
    )
    identifiers = erc.identifiers if erc else Identifiers()
    if profile.dublin_core_ids and dublin_core:
        local = (*identifiers.local, *describe.names_in(dublin_core))
        identifiers = Identifiers(identifiers.primary, tuple(dict.fromkeys(local)))
    return Said(description, identifiers, deletions or ())


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadValue(name, f"byte {error.start}", "is not UTF-8") from None


# ---------------------------------------------------------------- the system files


def _write_system_files(
    job: IngestJob, profile: Profile, folder: JobFolder, description: Description, identifiers: Identifiers
) -> Mapping[str, NewFile]:
    """The same job always writes the same content, so a repeat stores nothing new. Returns them by their names."""
    model = ObjectModel(primary_identifier=identifiers.primary, local_identifier="; ".join(identifiers.local))
    files = system_files(
        _record(job, profile, description, identifiers), model, description, profile.owner, profile.membership,
        identifiers.local,
    )  # fmt: skip
    if folder.manifest.is_file():
        files[SUBMISSION_MANIFEST] = folder.manifest.read_bytes()
    if profile.storage.kind == "http":
        # Nothing can be read back from there, so recording reads our copy.
        for name, content in files.items():
            save(folder.system / name, content)
    else:
        write_again(folder.system, files)
    return {
        name: NewFile(folder.system / name, len(content), data_digests(content, (DEFAULT,)))
        for name, content in files.items()
    }


def _record(job: IngestJob, profile: Profile, description: Description, identifiers: Identifiers) -> IngestRecord:
    said = {name: str(value) for name, value in job.configuration.items() if isinstance(value, str | int)}
    supplied = said.get("supplied_id", "")
    is_manifest = job.configuration["payload_type"] == "object_manifest"
    return IngestRecord(
        ingest="headgate", submission_date=said.get("submitted", ""), batch=job.batch, job=job.id,
        user_agent=said["submitter"], file=said.get("filename", "") if is_manifest else payload_name(job),
        type=said["payload_type"].replace("_", "-"), profile=profile.name, collection="; ".join(profile.membership),
        storage_service=profile.storage.url, notification=";".join(profile.notification), supplied_identifier=supplied,
        digest_type=said.get("digest_type", ""), digest_value=said.get("digest_value", ""),
        creator=description.who, title=description.what, date=description.when,
        local_identifier="; ".join(identifiers.local), note=said.get("note", ""),
        assigned_identifier="" if supplied else identifiers.primary,
    )  # fmt: skip


def _change(
    job: IngestJob, folder: JobFolder, found: Mapping[str, FoundFile], added: Mapping[str, NewFile], said: Said
) -> ObjectChange:
    """Build the new version. An update keeps files that it does not name."""
    update = job.configuration.get("submission_mode") == "update"
    files = {
        f"{PRODUCER}/{name}": NewFile(folder.producer / name, each.size, each.digests)
        for name, each in found.items()
        if not (update and name == DELETIONS)
    }
    files |= {f"{SYSTEM}/{name}": file for name, file in added.items()}
    return ObjectChange(files, keep=update, remove=said.deletions if update else ())
