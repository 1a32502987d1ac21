"""Storing as a separate step, as in Merritt: notes for its storage and inventory services, and their prepared versions.

The notes are two nodes of the job, which are `store` and `inventory` in the configuration.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from headgate.core.errors import BadPayload, BadValue
from headgate.core.queue.model import PROCESSING, RECORDING, IngestJob, forward_states
from headgate.ingest.context import Context
from headgate.ingest.formats import manifest
from headgate.ingest.formats.file_names import check_file_name
from headgate.ingest.profiles.profile import Profile
from headgate.ingest.retries import Retries
from headgate.ingest.sources.download import DownloadOptions, Wanted, download
from headgate.ingest.steps.payload import JobFolder, NotGathered, folder_of, make_folder
from headgate.ingest.steps.system_files import STORAGE_MANIFEST
from headgate.ingest.stopping import Stop
from headgate.ingest.storage.port import NewFile, ObjectChange
from headgate.service.queue.questions import QueueReader

#: Keys of a job's configuration.
STORE, INVENTORY = "store", "inventory"
#: A storage service's word for an update; otherwise it is `add`.
UPDATE = "update"


def stores_later(queue: QueueReader) -> bool:
    """Whether a processed job is stored in a separate state."""
    _, jobs = queue.tables()
    return RECORDING not in forward_states(jobs, PROCESSING)


def notes_for_services(
    context: Context, profile: Profile, folder: JobFolder, ark: str, change: ObjectChange
) -> dict[str, Any]:
    """The data that a storage service and an inventory need to continue a job."""
    place = f"{profile.storage.node}/{quote(ark, safe='')}"
    address = profile.storage.url or context.options.storage_root.as_uri()
    removed = "".join(f"{name}\n" for name in change.remove)
    store = {
        "manifest_url": _listing_url(folder), "mode": f"{UPDATE if change.keep else 'add'}/{place}", "delete": removed,
    }  # fmt: skip
    return {STORE: store, INVENTORY: {"manifest_url": f"{address.rstrip('/')}/manifest/{place}", "mode": ""}}


def prepared_elsewhere(context: Context, job: IngestJob, profile: Profile, stop: Stop) -> ObjectChange | None:
    """The version that another program has prepared, fetched by the profile's rules; None: we prepared it."""
    note, folder = job.configuration.get(STORE), folder_of(job)
    url = str(note.get("manifest_url") or "") if isinstance(note, dict) else ""
    if not isinstance(note, dict) or url in ("", _listing_url(folder)):
        return None
    if why := profile.sources.refusal(url):
        raise BadValue("manifest_url", url, f"of {job.id} may not be fetched: {why}")
    fetcher, limits = context.fetcher(profile), profile.limits
    data = fetcher.read(url, limits.manifest_size, stop)
    listed = manifest.parse(data, [manifest.STORAGE], limit=limits.manifest_size, most=limits.files)
    wanted = [
        Wanted(each.url, check_file_name(each.name), each.size, {each.algorithm: each.digest} if each.algorithm else {})
        for each in listed.entries
        if not (why := profile.sources.refusal(each.url)) or _refuse(each.name, why)
    ]
    make_folder(folder.root)
    options = DownloadOptions(limits.downloads, Retries(limits.tries))
    outcome = download(fetcher, wanted, folder.root, folder.parts, options=options, stop=stop)
    if outcome.failed:
        raise BadPayload(job.id, NotGathered(outcome.failed).message)
    files = {each.name: NewFile(folder.root / each.name, each.size, each.digests) for each in outcome.fetched}
    removed = tuple(str(note.get("delete") or "").split("\n"))
    is_update = str(note.get("mode", "")).startswith(UPDATE)
    return ObjectChange(files, keep=is_update, remove=tuple(filter(None, removed)) if is_update else ())


def _refuse(name: str, why: str) -> bool:
    raise BadPayload(name, why)


def _listing_url(folder: JobFolder) -> str:
    return (folder.system / STORAGE_MANIFEST).as_uri()
