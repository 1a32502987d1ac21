"""The tree that Merritt's own library reads and writes: spelling `mrt-zk`."""

from __future__ import annotations

import re
import uuid as uuids
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from headgate.core.queue.model import (
    ALL,
    COMPLETED,
    HELD,
    OBJECT_OWNER,
    PROCESSING,
    RECORDING,
    STORING,
    Batch,
    Folder,
    Identifiers,
    IngestJob,
    Submission,
)
from headgate.core.queue.rules import MERRITT
from headgate.core.tables.machine import Machine
from headgate.stores.zookeeper.queue.tree import (
    CONFIGURATION,
    ERC,
    Documents,
    QueueTree,
    Spread,
    TreeOptions,
)

_DUBLIN_CORE = (
    "contributor", "coverage", "creator", "date", "description", "format", "identifier", "language", "publisher",
    "relation", "rights", "source", "subject", "title", "type",
)  # fmt: skip
#: Our keys and Merritt's, in submissions and configurations.
_KEYS: Mapping[str, str] = {
    "profile_name": "profile", "payload_url": "filename", "payload_type": "type", "response_type": "responseForm",
    "erc_who": "creator", "erc_what": "title", "erc_when": "date", "digest_type": "digestType",
    "digest_value": "digestValue", "notification_format": "notificationFormat", "submitted": "submissionDate",
    "resource_type": "DataCiteResourceType", **{f"dc_{word}": f"DC{word}" for word in _DUBLIN_CORE},
}  # fmt: skip
#: The names of the object's identifiers, which its own node contains if there is one.
_JOB_KEYS = {**_KEYS, "supplied_id": "objectID", "submission_mode": "update"}
_BATCH_KEYS = {**_KEYS, "batch_id": "batchID", "primary_id": "objectID", "local_id": "localID"}
#: Keys with the same name in both.
_ALIKE = ("submitter", "note", "notification")
#: The data about a job's notices that Merritt's services read from the job; otherwise it is the batch's.
_NOTICES = ("notification", "notification_format")
#: Kinds of payload with different names.
_TYPES = {"object_manifest": "manifest"}
#: Nodes of a job that correspond to one key each of its configuration.
METADATA, STORE, INVENTORY = "metadata", "store", "inventory"
#: Locks of objects: of a local id, and of the object by the state in which it is needed.
_LOCAL_ID, _OBJECT_LOCKS = "localid", {STORING: "storage", RECORDING: "inventory"}
#: What has the node of a lock in place of what a path cannot hold: as Merritt's, and what ZooKeeper refuses (it looks
#: at UTF-16).
_NOT_IN_NAMES = re.compile(":?/|[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")


class MerrittTree(QueueTree):
    """The tree that Merritt's own library reads and writes: spelling `mrt-zk`."""

    spelling = MERRITT
    empty = None
    folders = (*QueueTree.folders, Folder.DELETED)
    batch_node = "bid"
    _job_time = "last_modified"
    documents = (CONFIGURATION, METADATA, STORE, INVENTORY)
    foreign = ("access", "migration")

    def __init__(self, chroot: str, options: TreeOptions = TreeOptions()) -> None:  # noqa: B008 - frozen
        super().__init__(chroot, options)
        self._locks = f"{chroot}/locks"
        self.uuids = f"{chroot}/batch-uuids"
        self.hold_notes = self._hold_folder
        self.object_folders = tuple(f"{self._locks}/{kind}" for kind in (_LOCAL_ID, *_OBJECT_LOCKS.values()))

    @property
    def _hold_folders(self) -> tuple[str, ...]:
        return (self.uuids, self._locks, *self.hold_folders, self.hold_notes, *self.object_folders, self.object_notes)

    @property
    def hold_folders(self) -> tuple[str, ...]:
        return (f"{self._locks}/queue", f"{self._locks}/collections")

    def hold(self, profile: str) -> str:
        if profile == ALL:
            return f"{self._locks}/queue/ingest"
        return f"{self._locks}/collections/{lock_name(profile)}"

    def hold_note(self, profile: str) -> str:
        # Merritt's own holds are empty nodes.
        return f"{self.hold_notes}/{quote(self.hold(profile).removeprefix(f'{self._locks}/'), safe='')}"

    def noted_hold(self, node: str) -> str:
        return f"{self._locks}/{unquote(node)}"

    def held_profiles(self, names: Mapping[str, list[str]]) -> list[str]:
        queue, collections = self.hold_folders
        return [*([ALL] if "ingest" in names[queue] else []), *names[collections]]

    def object_locks(self, job: IngestJob) -> tuple[str, ...]:
        if job.state == PROCESSING:
            return () if job.identifiers.primary else self._local_ids(job)
        return tuple(each for each in self._of_object(job) if each.startswith(f"{_OBJECT_LOCKS.get(job.state)}/"))

    def all_object_locks(self, job: IngestJob) -> tuple[str, ...]:
        return (*self._local_ids(job), *self._of_object(job))

    def outlives_sessions(self, lock: str) -> bool:
        # Merritt's services keep an object locked for storage when their session is lost.
        return lock.startswith(f"{_OBJECT_LOCKS[STORING]}/")

    @staticmethod
    def _local_ids(job: IngestJob) -> tuple[str, ...]:
        owner = job.configuration.get(OBJECT_OWNER)
        names = {lock_name(f"{local}_{owner}") for local in job.identifiers.local} if owner else ()
        return tuple(sorted(f"{_LOCAL_ID}/{name}" for name in names))

    @staticmethod
    def _of_object(job: IngestJob) -> tuple[str, ...]:
        primary = job.identifiers.primary
        return tuple(f"{kind}/{lock_name(primary)}" for kind in _OBJECT_LOCKS.values()) if primary else ()

    def uuid(self, submission: Mapping[str, Any]) -> str | None:
        name = submission.get("batchID")
        return f"{self.uuids}/{lock_name(str(name))}" if name else None

    def word(self, state: str) -> str:
        if state in self.rules.batch.ends:
            # It is being removed. With any other status Merritt's programs would send a report that is due.
            state = COMPLETED
        return "".join(part.capitalize() for part in state.split("-"))

    def state(self, word: object, table: Machine) -> str:
        return super().state(re.sub("(?<=[a-z])(?=[A-Z])", "-", str(word)).lower(), table)

    def time(self, at: datetime) -> str:
        return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} +0000"

    def good_word(self, state: str, good: str | None) -> str | None:
        if good is not None:
            return self.word(good)
        first = self.rules.create.target
        return None if state == first else self.word(first)

    def good_step(self, word: object) -> str | None:
        # Merritt writes Pending for none, and Held when a job is released.
        none = (None, "", self.word(self.rules.create.target), self.word(HELD))
        return None if word in none else str(word).lower()

    def submission(self, submission: Submission, uuid: str) -> Spread:
        said = dict(submission.metadata)
        content = {
            "batchID": said.pop("batch_id", uuid),
            "profile": submission.profile,
            "submitter": submission.submitter,
            "filename": submission.payload_url,
            **{
                _BATCH_KEYS.get(key, key): said.pop(key)
                for key in list(said)
                if key in _BATCH_KEYS or key in (*_ALIKE, "size")
            },
            "type": submission.type,
            "update": submission.mode == "update",
        }
        return Spread({"submission": content}, said)

    def read_submission(self, content: Mapping[str, Any], own: Mapping[str, Any]) -> Submission:
        ours = _ours(content, _BATCH_KEYS)
        kind, update = ours.pop("payload_type", ""), ours.pop("update", False)
        return super().read_submission({**ours, "type": kind, "submission_mode": _mode(update)}, own)

    def spread(self, configuration: Mapping[str, Any], kept: Documents) -> Spread:
        there, beside = dict(kept[CONFIGURATION]), dict(configuration)
        beside.pop("batch_id", None)
        documents = {name: beside.pop(name) for name in (STORE, INVENTORY) if isinstance(beside.get(name), dict)}
        erc = {key: beside[key] for key in ERC if beside.get(key)}
        if METADATA in kept and (erc or kept[METADATA]):
            documents[METADATA] = {**kept[METADATA], **erc}
            beside.pop("erc_where", None)
        known = self._read_configuration(there)
        for key in list(beside):
            name = _JOB_KEYS.get(key, key)
            if key not in _JOB_KEYS and key not in _ALIKE and not _is_kept(key, there):
                continue
            value = beside.pop(key)
            # Values that are equivalent stay as another program wrote them.
            if value is not None if name not in there else known.get(key) != value:
                there |= _spelt(key, name, value)
        return Spread({CONFIGURATION: there, **documents}, beside)

    def gathered(self, found: Spread, batch_id: str, job_id: str) -> dict[str, Any]:
        erc = {key: value for key, value in found.nodes.get(METADATA, {}).items() if key in ERC and value}
        documents = {name: dict(found.nodes[name]) for name in (STORE, INVENTORY) if name in found.nodes}
        return {
            **self.working_folder(batch_id, job_id), **erc, **found.beside,
            **self._read_configuration(found.nodes[CONFIGURATION]), **documents, "batch_id": batch_id,
        }  # fmt: skip

    @staticmethod
    def _read_configuration(content: Mapping[str, Any]) -> dict[str, Any]:
        ours = _ours(content, _JOB_KEYS)
        types = {theirs: own for own, theirs in _TYPES.items()}
        kind, mode = str(ours.get("payload_type") or "file"), _mode(ours.get("submission_mode"))
        fixed = {key: str(ours.get(key) or "") for key in ("profile_name", "submitter", "payload_url")}
        return {**ours, **fixed, "payload_type": types.get(kind, kind), "submission_mode": mode}

    def new_documents(self, batch: Batch, identifiers: Identifiers) -> Documents:
        names = {"objectID": identifiers.primary, "localID": ";".join(identifiers.local)}
        said = batch.submission.metadata
        own = {"batchID": said.get("batch_id", ""), "jobID": f"jid-{uuids.uuid4()}"}
        own |= {_KEYS.get(key, key): said[key] for key in _NOTICES if said.get(key)}
        return {CONFIGURATION: {**own, **{key: value for key, value in names.items() if value}}, METADATA: {}}

    def identifiers(self, identifiers: Identifiers) -> dict[str, Any]:
        return {"primary_id": identifiers.primary, "local_id": list(identifiers.local)}

    def read_identifiers(self, content: Mapping[str, Any] | None, configuration: Mapping[str, Any]) -> Identifiers:
        if content is None:  # Their library creates such a node only if it has content.
            local = [each.strip() for each in str(configuration.get("localID") or "").split(";")]
            content = {"primary_id": configuration.get("objectID"), "local_id": [each for each in local if each]}
        return super().read_identifiers(content, configuration)

    def batch_nodes(self, batch_id: str) -> list[tuple[str, bytes | None]]:
        # Each other folder is created for the first job in it.
        first, *_ = self.folders
        return [(f"{self.item(batch_id)}/states", self.empty), (self.folder(batch_id, first), self.empty)]

    def job_nodes(self, job_id: str, batch_id: str) -> list[tuple[str, bytes | None]]:
        return [(f"{self.item(job_id)}/bid", batch_id.encode()), (f"{self.item(job_id)}/space_needed", b"0")]


def lock_name(text: str) -> str:
    """What the node of a lock is called."""
    name = _NOT_IN_NAMES.sub("_", text)
    return name if name.strip(".") else "_"


def _ours(content: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Our keys come last: the same key from the node itself replaces none of them."""
    names = {theirs: own for own, theirs in keys.items()}
    others = {key: value for key, value in content.items() if key not in names}
    return others | {names[key]: value for key, value in content.items() if key in names}


def _is_kept(key: str, there: Mapping[str, Any]) -> bool:
    """Whether the node contains an unknown key that is not one of Merritt's other names for ours."""
    return key in there and key not in _JOB_KEYS.values()


def _spelt(key: str, name: str, value: Any) -> dict[str, Any]:
    if key == "submission_mode":
        return {"update": value == "update"}
    return {name: _TYPES.get(str(value), value) if key == "payload_type" else value}


def _mode(update: object) -> str:
    return "update" if update in (True, "true") else "add"
