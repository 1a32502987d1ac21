"""Recording and notify: first the inventory, then the recipients of notices."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from headgate.core.errors import BadValue, Invalid, ObjectRefused, ServiceRefused, ServiceUnavailable, UnknownName
from headgate.core.inventory import Delivery, InventoryFile, Recording
from headgate.core.queue.model import RECORDING, IngestJob
from headgate.core.values.redaction import redact, shown
from headgate.ingest.context import Context, stop_of
from headgate.ingest.formats.ark import dataid, parse_object
from headgate.ingest.formats.descriptions import read_erc
from headgate.ingest.formats.digests import DEFAULT
from headgate.ingest.notices import callback, messages
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.retries import Retries
from headgate.ingest.steps.payload import folder_of, kept_files, payload_url
from headgate.ingest.steps.storing import read_stored, stored_version
from headgate.ingest.steps.system_files import SYSTEM
from headgate.ingest.storage.port import Version
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.outcomes import Done, Failed, Outcome
from headgate.service.queue.step_logs import note


def job_recording(context: Context, job: IngestJob, hold: ItemHold) -> Outcome:
    """The stored version is recorded and published in the ledger, and its callback is prepared, all in one step."""
    profile = context.profile(job)
    ark = job.identifiers.primary
    if not ark:
        raise BadValue("ingest job", job.id, "has no ARK; it was never processed")
    version = stored_version(context, job, profile, ark, hold)
    new = record(context, _recording(context, job, profile, version))
    return Done(f"{ark} v{version.number} is in the inventory" + ("" if new else " already"))


def record(context: Context, recording: Recording, *, by: str | None = None) -> bool:
    """Record a stored version together with its callback. False: it was recorded already. `by`: default: this process.

    ObjectRefused when it contradicts its ingest job and the profile of its batch: a recording fixes owner, collection
    and storage of an object permanently, and determines what is published in the ledger.
    """
    if context.elsewhere is not None:
        return context.inventory.record(recording, by=by)
    job = context.queue.job(recording.job)
    profile = context.profile(job)
    expected = {
        "ark": job.identifiers.primary, "batch": job.batch, "profile": profile.name, "owner": profile.owner,
        "collection": profile.collection, "membership": profile.membership, "local": job.identifiers.local,
        "submitter": str(job.configuration["submitter"]),
    }  # fmt: skip
    for name, value in expected.items():
        if (given := getattr(recording, name)) != value:
            raise ObjectRefused(recording.ark, f"{job.id} has {name} {value!r}, not {given!r}")
    if recording.version < 1 or recording.dataid != dataid(parse_object(recording.ark), recording.version):
        raise ObjectRefused(recording.ark, f"{recording.dataid} is not the name of version {recording.version}")
    if job.state != RECORDING and context.inventory.recorded(job.id) is None:
        raise ObjectRefused(recording.ark, f"{job.id} is {job.state}, not recording")
    recording = replace(recording, payload=redact(recording.payload))
    told = [messages.callback_message(context, job, profile, recording)] if profile.callback_url else []
    return context.inventory.record(recording, told, by=by)


def job_notify(context: Context, job: IngestJob, hold: ItemHold) -> Outcome:
    """Call the profile's callback for the object, under an id that never changes."""
    profile = context.profile(job)
    if not profile.callback_url:
        return Done("stored and recorded")
    name = messages.callback_id(context, job)
    message = context.inventory.message(name)
    if message is None:  # Another service has recorded the object.
        messages.announce(context, job.id, messages.RECORDED)
        message = context.inventory.message(name)
    if message is None:
        raise BadValue("ingest job", job.id, "has no callback: the profile of its batch at the service names none")
    if message.state is Delivery.DELIVERED:
        return Done("stored, recorded and notified")
    try:
        sending = messages.callback_of(context, profile, message)
        callback.deliver(context.service(sending.url), sending, Retries(profile.limits.tries), stop_of(hold))
    except (ServiceUnavailable, ServiceRefused, Invalid) as error:
        if profile.callback_failure == "fail":
            return Failed(f"stored and recorded; the callback failed: {error}")
        refused = isinstance(error, ServiceRefused)
        context.inventory.undelivered(message, str(error), for_good=refused)
        later = "" if refused else " (the messenger retries it)"
        return Done(f"stored and recorded; the callback failed, which the profile allows{later}: {error}")
    note(f"delivered {message.id} to {shown(sending.url)}")
    context.inventory.delivered(message)
    return Done("stored, recorded and notified")


def _files(context: Context, job: IngestJob, version: Version) -> tuple[InventoryFile, ...]:
    """The files of a version, with every digest that was submitted, including those that OCFL cannot store."""
    known = _further_digests(context, job, version)
    return tuple(
        InventoryFile(each.name, each.size, each.digest, each.since, known.get(each.digest, {}))
        for each in version.files
    )


def _further_digests(context: Context, job: IngestJob, version: Version) -> dict[str, Mapping[str, str]]:
    """By sha256: of files in earlier versions, and of those that the job has fetched.

    The latter are missing only if the working folder was lost after storing; the object then keeps its sha256. This
    also applies if this inventory does not know an earlier version: its job has not recorded it yet, or used another
    store.
    """
    known: dict[str, Mapping[str, str]] = {}
    for number in {each.since for each in version.files} - {version.number}:
        with suppress(UnknownName):
            known |= {each.digest: each.digests for each in context.inventory.files(version.object_id, number)}
    if folder_of(job).gathered.is_file():
        for found in kept_files(folder_of(job)).values():
            further = {name: value.lower() for name, value in found.digests.items() if name != DEFAULT}
            known[found.digests[DEFAULT]] = {**known.get(found.digests[DEFAULT], {}), **further}
    return known


def _recording(context: Context, job: IngestJob, profile: Profile, version: Version) -> Recording:
    """The description comes from the object's own ERC, even if the working folder no longer exists."""
    erc = read_erc(read_stored(context, job, profile, version, f"{SYSTEM}/mrt-erc.txt").decode()).description
    ark = version.object_id
    return Recording(
        ark, profile.owner, profile.collection, version.number, dataid(parse_object(ark), version.number),
        version.created,
        _files(context, job, version),
        erc.who, erc.what, erc.when, profile.membership, job.identifiers.local,
        job.id, job.batch, profile.name, str(job.configuration["submitter"]), payload_url(job),
        str(job.configuration.get("batch_type", job.configuration["payload_type"])),
    )  # fmt: skip
