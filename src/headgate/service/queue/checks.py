"""Checks of the arguments of the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from headgate.core.errors import BadValue
from headgate.core.queue.model import (
    FIXED_KEYS,
    MAX_CRASHES,
    Batch,
    Changes,
    Hold,
    Identifiers,
    IngestJob,
    NewJob,
    Report,
    Taken,
    check_item_id,
    check_priority,
    work_states,
)
from headgate.core.tables.machine import Machine
from headgate.core.values.names import check_resource
from headgate.core.values.words import check_word
from headgate.service.checks import check_positive_lease, check_token

#: Default lease: short enough to notice a dead consumer, long enough for a slow store.
DEFAULT_LEASE = 60.0
#: Maximum size of a submission or of a job's configuration, in bytes: a node of a tree holds no more.
LARGEST_DOCUMENT = 500_000
#: The types of payload.
TYPES = (
    "file", "container", "object-manifest",
    "batch-manifest", "container-batch-manifest", "single-file-batch-manifest",
)  # fmt: skip
PAYLOAD_TYPES = ("file", "container", "object_manifest")
MODES = ("add", "update")
DUBLIN_CORE = (
    "contributor", "coverage", "creator", "date", "description", "format", "identifier", "language", "publisher",
    "relation", "rights", "source", "subject", "title", "type",
)  # fmt: skip
#: The additional fields of a submission, with their meanings.
METADATA: Mapping[str, str] = {
    "erc_who": "Creator of the object.",
    "erc_what": "Title of the object.",
    "erc_when": "Date of the object.",
    "erc_where": "Kept with the batch. `where` in the object's own ERC file is always its ARK and local ids.",
    "primary_id": "The object's ARK, if it has one already.",
    "local_id": "Local ids of the object, separated by `;`.",
    "digest_type": "Algorithm of the payload's digest.",
    "digest_value": "The payload's digest in hexadecimal digits. It is compared if both are given.",
    "size": "The payload's size in bytes.",
    "filename": "The payload's file name; the default is the last part of its URL.",
    "note": "Free text, kept in the object's `mrt-ingest.txt`.",
    "notification": "Accepted from older forms and kept with the batch; reports go to the profile's recipients.",
    "notification_format": "Accepted from older forms and kept with the batch.",
    "response_type": "Accepted from older forms and kept with the batch.",
    "resource_type": "Kept with the batch.",
    "batch_id": "Accepted from older forms and ignored: Headgate numbers batches itself.",
    **{f"dc_{word}": f"Dublin Core `{word}` of the object." for word in DUBLIN_CORE},
}


def taken_of(item: object) -> Taken:
    """An owner's proof: an item that it took, or its id, token and state."""
    if isinstance(item, Batch | IngestJob):
        return Taken(item.id, item.token, item.state, item.worker, item.lease or DEFAULT_LEASE)
    if not isinstance(item, Taken):
        raise BadValue("item", item, "is not a batch or ingest job that was acquired")
    return item


def check_taken(item: object) -> Taken:
    """The same, checked."""
    taken = taken_of(item)
    check_token(taken.token)
    item, lease = check_item_id(taken.id), check_positive_lease(taken.lease)
    return Taken(item, taken.token, taken.state, taken.worker, lease)


def check_state(machine: Machine, value: object) -> str:
    """A state in which an item can be taken."""
    return check_word("state", value, work_states(machine))


def check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The additional data of a submission: known names, each with a text, a number or a list of texts."""
    for name, value in metadata.items():
        check_word("metadata", name, tuple(METADATA))
        texts = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in texts):
            raise BadValue(f"metadata {name}", value, "is not a text, number or list of texts")
    return check_document("metadata", metadata)


def check_document(what: str, document: object) -> dict[str, Any]:
    """A JSON object of a size that every store can keep."""
    if not isinstance(document, Mapping) or not all(isinstance(key, str) for key in document):
        raise BadValue(what, document, "is not a mapping of names to values")
    try:
        size = len(json.dumps(dict(document), allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise BadValue(what, document, f"cannot be written as JSON: {error}") from None
    if size > LARGEST_DOCUMENT:
        raise BadValue(what, document, f"has {size:,} bytes; at most {LARGEST_DOCUMENT:,} are allowed")
    return dict(document)


def check_settings(what: str, document: object) -> dict[str, Any]:
    """An owner's additions to a job's configuration: keys that neither the store nor the profile determines."""
    found = check_document(what, document)
    if fixed := [name for name in FIXED_KEYS if name in found]:
        raise BadValue(what, ", ".join(fixed), "cannot be set; it is fixed when the job is created")
    if MAX_CRASHES in found:
        raise BadValue(what, MAX_CRASHES, "cannot be set; it is taken from the profile of the batch")
    return found


def check_identifiers(value: object) -> Identifiers:
    """A primary id and local ids: Identifiers, or a mapping with `primary` and `local`."""
    if isinstance(value, Mapping) and set(value) <= {"primary", "local"}:
        local = value.get("local", ())
        if isinstance(local, str | list | tuple):
            value = Identifiers(value.get("primary", ""), (local,) if isinstance(local, str) else tuple(local))
    if not isinstance(value, Identifiers):
        raise BadValue("identifiers", value, "must be given as {'primary': …, 'local': [ … ]}")
    for each in (value.primary, *value.local):
        if each != "":
            check_resource(each)
    return value


def check_new_job(row: NewJob | Mapping[str, Any]) -> NewJob:
    """One object of a batch, given as a NewJob or as a mapping with its fields."""
    if isinstance(row, Mapping):
        fields = ("payload_url", "payload_type", "identifiers", "priority", "settings")
        for name in row:
            check_word("row", name, fields)
        given = {"payload_url": "", **row}
        given["identifiers"] = check_identifiers(given.get("identifiers", {}))
        row = NewJob(**given)
    if not isinstance(row, NewJob):
        raise BadValue("row", row, "is not a new job: give at least a payload_url")
    check_resource(row.payload_url)
    check_word("payload_type", row.payload_type, PAYLOAD_TYPES)
    check_priority(row.priority)
    return replace(
        row, identifiers=check_identifiers(row.identifiers), settings=check_settings("settings", row.settings)
    )


def check_changes(
    priority: object, space_needed: object, identifiers: object, configuration: object, report: object
) -> Changes:
    """Values that an owner updates."""
    if space_needed is not None and (
        isinstance(space_needed, bool) or not isinstance(space_needed, int) or not 0 <= space_needed < 2**63
    ):
        raise BadValue("space_needed", space_needed, "is not a number of bytes; 0 means unknown")
    if report is not None and not isinstance(report, Report):
        raise BadValue("report", report, "is not a Report")
    return Changes(
        priority=None if priority is None else check_priority(priority),
        space_needed=space_needed,
        identifiers=None if identifiers is None else check_identifiers(identifiers),
        configuration=None if configuration is None else check_settings("configuration", configuration),
        report=report,
    )


class KnownProfiles(Protocol):
    """The ingest profiles of the process that keeps the store."""

    @property
    def exists(self) -> bool:
        """Whether there is a folder of profiles."""

    def holds(self) -> Sequence[Hold]:
        """The collections that are on hold by their profiles."""

    def names(self) -> Sequence[str]:
        """All of them."""

    def hint(self, name: str, known: Sequence[str] = ()) -> str:
        """The advice for a name without a profile."""
