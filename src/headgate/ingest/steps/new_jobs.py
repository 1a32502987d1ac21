"""The jobs of a submission: one for each object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.core.queue.model import DEFAULT_PRIORITY, FIXED_KEYS, MAX_CRASHES, Identifiers, NewJob, Submission
from headgate.core.values.words import unknown_word
from headgate.ingest.formats import ark
from headgate.ingest.formats.manifest import (
    BATCH,
    CONTAINERS,
    OBJECT,
    SINGLE_FILES,
    Manifest,
    ManifestEntry,
    ManifestLayout,
    local_ids,
)

#: The kinds of manifest for a type of submission, its own first; none: the payload is one object.
BATCHES: Mapping[str, tuple[ManifestLayout, ...]] = {
    "batch-manifest": (BATCH, CONTAINERS, SINGLE_FILES),
    "container-batch-manifest": (CONTAINERS, SINGLE_FILES, BATCH),
    "single-file-batch-manifest": (SINGLE_FILES, CONTAINERS, BATCH),
}
#: The payload type of the single job of any other submission.
SINGLE = {"file": "file", "container": "container", "object-manifest": "object_manifest"}
#: The kind of manifest that an object's payload is.
OBJECT_LAYOUTS = (OBJECT,)

#: Words of older forms, with the corresponding types.
_FORM_WORDS = {
    "manifest": "object-manifest",
    "batchManifest": "batch-manifest",
    "batchManifestContainer": "container-batch-manifest",
    "batchManifestFile": "single-file-batch-manifest",
}
#: Metadata of a submission that is not copied to its jobs, because it belongs to the batch, the store or the profile.
_OF_THE_BATCH = frozenset(["primary_id", "local_id", "notification", "notification_format", MAX_CRASHES, *FIXED_KEYS])
#: Metadata about the submission's own payload, which does not apply to the payloads in a batch manifest.
_OF_THE_PAYLOAD = frozenset(["digest_type", "digest_value", "size", "filename"])


def submission_type(word: str) -> str:
    """The type for a form's word, including those of Merritt's forms."""
    if word in BATCHES or word in SINGLE:
        return word
    if word in _FORM_WORDS:
        return _FORM_WORDS[word]
    for kind in ("single-file-batch-manifest", "container-batch-manifest", "batch-manifest"):
        if kind in word:
            return kind
    raise unknown_word("type", word, [*SINGLE, *BATCHES])


def jobs_of(submission: Submission, manifest: Manifest | None, priority: int = DEFAULT_PRIORITY) -> list[NewJob]:
    """The jobs of a submission. The manifest's own head determines its rows, not the submission's type."""
    settings = {name: value for name, value in submission.metadata.items() if name not in _OF_THE_BATCH}
    if manifest is None:
        ids = _identifiers(submission.metadata)
        return [NewJob(submission.payload_url, SINGLE[submission.type], ids, priority, settings)]
    settings = {name: value for name, value in settings.items() if name not in _OF_THE_PAYLOAD}
    return [
        NewJob(entry.url, manifest.layout.payload, _entry_ids(entry), priority, settings | _entry_settings(entry))
        for entry in manifest.entries
    ]


def _identifiers(metadata: Mapping[str, Any]) -> Identifiers:
    primary = metadata.get("primary_id") or ""
    local = metadata.get("local_id") or ()
    texts = [local] if isinstance(local, str | int) else local
    ids = dict.fromkeys(each for text in texts for each in local_ids(str(text)))
    return Identifiers(str(ark.parse_object(primary)) if primary else "", tuple(ids))


def _entry_ids(entry: ManifestEntry) -> Identifiers:
    return Identifiers(entry.primary, entry.local)


def _entry_settings(entry: ManifestEntry) -> dict[str, Any]:
    said = {
        "filename": entry.name,
        "digest_type": entry.algorithm,
        "digest_value": entry.digest,
        "size": entry.size,
        "erc_who": entry.creator,
        "erc_what": entry.title,
        "erc_when": entry.date,
    }
    return {name: value for name, value in said.items() if value not in ("", None)}
