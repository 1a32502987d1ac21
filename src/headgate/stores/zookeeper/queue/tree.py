"""Every node of the queue, in both spellings. Nobody else knows how they differ.

<chroot>/batches/bidNNNNNNNNNN                 made by number, empty
             /submission  /status              written together; the status's version is the token of the newest taking
             /states/batch-…/JID               the batch's reference to each of its jobs: empty
             /status-report                    the full lists of the newest report
             /lock                             somebody has taken it: ephemeral; through the service: persistent
<chroot>/jobs/jidNNNNNNNNNN                    likewise
             /configuration  /identifiers  /status  /priority  /space_needed  /lock
<chroot>/jobs/states/<state>/PP-JID            the queue: empty
<chroot>/headgate/queue                        all that is ours alone
    /batches/BID                               {"made", "request_id"}; its version guards the making of jobs
    /requests/-<request id>                    the batch that it made
    /owners/<item>                             beside each lock, and made like it: {"worker", "lease", "mark"}; where
                                               it is persistent, it is renewed like a lock, and "left" like its data
    /takings/<item>                            persistent: {"worker", "token"} of the newest taking until it is
                                               reported; {"crashes", "state"} of workers that died
    /arrivals/<state>/PP                       the newest job that came with that priority
    /holds/-<profile>                          {"reason", "who", "since"} (spelling design)
    /daemons/-<id>                             a daemon lives: {"worker", "steps", "lease"}; renewed at its mtime
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from headgate.core.queue.model import ALL, HELD, Batch, Folder, Identifiers, Item, Submission
from headgate.core.queue.rules import DESIGN, MERRITT, QUEUE_RULES, QueueRules
from headgate.core.tables.machine import Machine
from headgate.core.values.documents import read_document

_ENTRY = re.compile("([0-9]{2})-(jid[0-9]{10})")
_ITEM = re.compile("(bid|jid)[0-9]{10}")
_ERC = ("erc_what", "erc_who", "erc_when", "erc_where")


class Unreadable(Exception):
    """A node holds what nobody of ours wrote. For the stores, never for callers."""


class QueueTree:
    """The paths of one queue and what its nodes hold, in the words of the Merritt queue: spelling `design`."""

    spelling = DESIGN
    #: What a node holds that only has to be there.
    empty: bytes | None = b""
    folders: tuple[Folder, ...] = (Folder.PROCESSING, Folder.FAILED, Folder.COMPLETED)
    #: The key of a job's status that says since when it is so.
    _job_time = "last_modification_date"

    def __init__(self, chroot: str, rules: QueueRules | None = None, token_base: int = 0) -> None:
        #: What is added to the version of a status to get a token: a queue that was copied from another store goes on
        #: behind the tokens of that store.
        self.token_base = token_base
        #: The tables in force.
        self.rules = rules or QUEUE_RULES[self.spelling]
        self.batches = f"{chroot}/batches"
        self.jobs = f"{chroot}/jobs"
        self.states = f"{chroot}/jobs/states"
        self.own = f"{chroot}/headgate/queue"
        self._hold_folder = f"{self.own}/holds"
        self._chroot = chroot

    def with_rules(self, rules: QueueRules, token_base: int) -> QueueTree:
        """The same tree with other tables, and other tokens."""
        return type(self)(self._chroot, rules, token_base)

    @property
    def made_at_once(self) -> tuple[str, ...]:
        """The nodes that a queue begins with, in the order of their making."""
        own = (
            self.own,
            *(f"{self.own}/{name}" for name in ("batches", "requests", "owners", "takings", "arrivals")),
        )
        states = (f"{self.states}/{state}" for state in self.entry_states)
        arrivals = (f"{self.own}/arrivals/{state}" for state in self.entry_states)
        return (*own, self.batches, self.jobs, self.states, *states, *arrivals, *self._hold_folders)

    @cached_property
    def entry_states(self) -> tuple[str, ...]:
        """The states of which the queue keeps entries."""
        table = self.rules.job
        ends = (*table.ends, table.start)
        return tuple(state for state in table.states if state not in ends)

    @property
    def _hold_folders(self) -> tuple[str, ...]:
        return (self._hold_folder,)

    # ------------------------------------------------------------------ paths

    def item(self, item_id: str) -> str:
        """A batch's or job's node."""
        return f"{self.batches if item_id.startswith('bid') else self.jobs}/{item_id}"

    def lock(self, item_id: str) -> str:
        """Somebody has taken the item."""
        return f"{self.item(item_id)}/lock"

    def status(self, item_id: str) -> str:
        """Its state, and what goes with it."""
        return f"{self.item(item_id)}/status"

    def owner(self, item_id: str) -> str:
        """Who has taken it."""
        return f"{self.owners}/{item_id}"

    def taking(self, item_id: str) -> str:
        """Who took it last and did not report yet, and how many died on it."""
        return f"{self.takings}/{item_id}"

    @property
    def takings(self) -> str:
        """What was taken and not reported yet, and what workers died on."""
        return f"{self.own}/takings"

    @property
    def owners(self) -> str:
        """Who has what."""
        return f"{self.own}/owners"

    @property
    def daemons(self) -> str:
        """The daemons that live."""
        return f"{self.own}/daemons"

    def daemon(self, daemon_id: str) -> str:
        """A daemon's node. The dash keeps '.' and '..' from being names."""
        return f"{self.daemons}/-{quote(daemon_id, safe='')}"

    def daemon_id(self, node: str) -> str:
        """The id behind a node's name."""
        return unquote(node[1:])

    def entry(self, state: str, priority: int, job_id: str) -> str:
        """A job's place in the queue."""
        return f"{self.states}/{state}/{priority:02d}-{job_id}"

    def folder(self, batch_id: str, folder: Folder) -> str:
        """Where a batch keeps some of its jobs."""
        return f"{self.batches}/{batch_id}/states/{folder.value}"

    def arrivals(self, state: str, priority: int | None = None) -> str:
        """What came into a state, by priority."""
        folder = f"{self.own}/arrivals/{state}"
        return folder if priority is None else f"{folder}/{priority:02d}"

    def made(self, batch_id: str) -> str:
        """How many jobs were made of a batch."""
        return f"{self.own}/batches/{batch_id}"

    def request(self, request_id: str) -> str:
        """Which batch a request made."""
        return f"{self.own}/requests/-{quote(request_id, safe='')}"

    def uuid(self, submission: Mapping[str, Any]) -> str | None:
        """Another name of a batch, by what its submission holds; None: there is none."""
        del submission
        return None

    def hold(self, profile: str) -> str:
        """The hold of a collection, or of the whole queue."""
        return f"{self._hold_folder}/-{quote(profile, safe='')}"

    def held_profiles(self, names: Mapping[str, list[str]]) -> list[str]:
        """The collections that are held, by the children of the hold folders."""
        return [unquote(name[1:]) for name in names[self._hold_folder]]

    @property
    def hold_folders(self) -> tuple[str, ...]:
        """Where holds are."""
        return (self._hold_folder,)

    # ------------------------------------------------------------------ words

    def word(self, state: str) -> str:
        """A state as a status says it."""
        return state

    def state(self, word: object, table: Machine) -> str:
        """The state behind a word, or Unreadable."""
        if word in table.states and word != table.start:
            return str(word)
        raise Unreadable(f"its status is {word!r}, which does not exist")

    def time(self, at: datetime) -> str:
        """A time as nodes have it."""
        return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"

    def read_time(self, text: object) -> datetime:
        """The time behind a text, in either spelling's form."""
        try:
            at = datetime.fromisoformat(str(text))
        except ValueError:
            try:
                at = datetime.strptime(str(text), "%Y-%m-%d %H:%M:%S %z")
            except ValueError:
                raise Unreadable(f"it has {text!r} where a time is expected") from None
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    # ------------------------------------------------------------------ contents

    def status_of(self, item: Item) -> bytes:
        """An item's status. A cleaned job keeps the one that it had when it left the queue."""
        if isinstance(item, Batch):
            return self.batch_status(item.state, item.since, item.message)
        state = self.rules.cleaned.get(item.state, item.state)
        return self.job_status(state, item.last_successful, item.since, item.retry_count, item.message)

    def batch_status(self, state: str, at: datetime, message: str) -> bytes:
        """A batch's status."""
        return encode({"status": self.word(state), "last_modified": self.time(at), "message": message})

    def job_status(self, state: str, good: str | None, at: datetime, retries: int, message: str) -> bytes:
        """A job's status."""
        return encode(
            {
                "status": self.word(state),
                "last_successful_status": self.good_word(state, good),
                self._job_time: self.time(at),
                "retry_count": retries,
                "message": message,
            }
        )

    def status_time(self, content: Mapping[str, Any]) -> datetime:
        """Since when a status is so."""
        return self.read_time(content.get(self._job_time, content.get("last_modified")))

    def good_word(self, state: str, good: str | None) -> str | None:
        """The last good step as a status says it."""
        del state
        return good

    def good_step(self, word: object) -> str | None:
        """The last good step behind a word."""
        return None if word in (None, "") else str(word)

    def submission(self, submission: Submission, uuid: str) -> dict[str, Any]:
        """What a batch's submission holds."""
        del uuid
        return {
            **dict.fromkeys(_ERC),
            **submission.metadata,
            "profile_name": submission.profile,
            "submitter": submission.submitter,
            "payload_url": submission.payload_url,
            "type": submission.type,
            "submission_mode": submission.mode,
        }

    def read_submission(self, content: Mapping[str, Any], request_id: str) -> Submission:
        """The submission behind it."""
        own = ("profile_name", "submitter", "payload_url", "type", "submission_mode")
        metadata = {
            key: value for key, value in content.items() if key not in own and not (key in _ERC and value is None)
        }
        profile, submitter, payload_url, kind, mode = (str(content.get(key) or "") for key in own)
        return Submission(profile, submitter, payload_url, kind, mode, metadata, request_id)

    def configuration(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """What a job's configuration holds."""
        return dict(configuration)

    def read_configuration(self, content: Mapping[str, Any], batch_id: str) -> dict[str, Any]:
        """The configuration behind it."""
        del batch_id
        return dict(content)

    def identifiers(self, identifiers: Identifiers) -> dict[str, Any] | None:
        """What a job's identifiers hold; None: there is no such node."""
        return {"primary": identifiers.primary or None, "local_id": list(identifiers.local)}

    def read_identifiers(self, content: Mapping[str, Any]) -> Identifiers:
        """The identifiers behind it."""
        local = content.get("local_id") or ()
        local = (local,) if isinstance(local, str) else tuple(map(str, local))
        return Identifiers(str(content.get("primary") or content.get("primary_id") or ""), local)

    def batch_nodes(self, batch_id: str) -> list[tuple[str, bytes | None]]:
        """The nodes that the first job of a batch finds, or makes."""
        states = f"{self.item(batch_id)}/states"
        return [(states, self.empty), *((self.folder(batch_id, folder), self.empty) for folder in self.folders)]

    def job_nodes(self, job_id: str, batch_id: str) -> list[tuple[str, bytes | None]]:
        """Nodes of a new job that this spelling alone has."""
        del job_id, batch_id
        return []

    #: The node that names a job's batch, where its configuration does not.
    batch_node: str = ""


class MerrittTree(QueueTree):
    """The tree that Merritt's own library reads and writes: spelling `mrt-zk`."""

    spelling = MERRITT
    empty = None
    folders = (*QueueTree.folders, Folder.DELETED)
    batch_node = "bid"
    _job_time = "last_modified"
    #: Our keys and Merritt's, in submissions and configurations.
    _KEYS: ClassVar = {
        "profile_name": "profile", "payload_url": "filename", "erc_who": "creator", "erc_what": "title",
        "erc_when": "date", "response_type": "responseForm", "payload_type": "type", "batch_id": "batchID",
        "digest_type": "digestType", "digest_value": "digestValue", "notification_format": "notificationFormat",
        # Theirs is the payload's address; what its file is called stands beside it.
        "filename": "payloadFilename",
    }  # fmt: skip
    _TYPES: ClassVar = {"object_manifest": "manifest"}

    def __init__(self, chroot: str, rules: QueueRules | None = None, token_base: int = 0) -> None:
        super().__init__(chroot, rules, token_base)
        self._locks = f"{chroot}/locks"
        self._uuids = f"{chroot}/batch-uuids"

    @property
    def _hold_folders(self) -> tuple[str, ...]:
        return (self._uuids, self._locks, *self.hold_folders)

    @property
    def hold_folders(self) -> tuple[str, ...]:
        return (f"{self._locks}/queue", f"{self._locks}/collections")

    def hold(self, profile: str) -> str:
        if profile == ALL:
            return f"{self._locks}/queue/ingest"
        return f"{self._locks}/collections/{re.sub(':?/', '_', profile)}"

    def held_profiles(self, names: Mapping[str, list[str]]) -> list[str]:
        queue, collections = self.hold_folders
        return [*([ALL] if "ingest" in names[queue] else []), *names[collections]]

    def uuid(self, submission: Mapping[str, Any]) -> str | None:
        name = submission.get("batchID")
        return f"{self._uuids}/{name}" if name else None

    def word(self, state: str) -> str:
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

    def submission(self, submission: Submission, uuid: str) -> dict[str, Any]:
        given = {
            **submission.metadata,
            "profile_name": submission.profile,
            "submitter": submission.submitter,
            "payload_url": submission.payload_url,
        }
        own = {"batchID": submission.metadata.get("batch_id", uuid)}
        return {**self._spelt(given), "type": submission.type, "update": submission.mode == "update", **own}

    def read_submission(self, content: Mapping[str, Any], request_id: str) -> Submission:
        ours = self._unspelt(content)
        kind, update = ours.pop("payload_type", ""), ours.pop("update", False)
        return super().read_submission(
            {**ours, "type": kind, "submission_mode": "update" if update in (True, "true") else "add"}, request_id
        )

    def configuration(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        given = {key: value for key, value in configuration.items() if key not in ("batch_id", "submission_mode")}
        kind = given.pop("payload_type", "")
        update = configuration.get("submission_mode") == "update"
        return {**self._spelt(given), "type": self._TYPES.get(kind, kind), "update": update}

    def read_configuration(self, content: Mapping[str, Any], batch_id: str) -> dict[str, Any]:
        ours = self._unspelt(content)
        kind, update = ours.pop("payload_type", ""), ours.pop("update", False)
        types = {theirs: own for own, theirs in self._TYPES.items()}
        mode = "update" if update in (True, "true") else "add"
        return {**ours, "batch_id": batch_id, "payload_type": types.get(kind, kind), "submission_mode": mode}

    def identifiers(self, identifiers: Identifiers) -> dict[str, Any] | None:
        if not identifiers.primary and not identifiers.local:
            return None
        return {"primary_id": identifiers.primary, "local_id": list(identifiers.local)}

    def job_nodes(self, job_id: str, batch_id: str) -> list[tuple[str, bytes | None]]:
        return [(f"{self.item(job_id)}/bid", batch_id.encode()), (f"{self.item(job_id)}/space_needed", b"0")]

    def _spelt(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Our words come last: what an owner adds under one of theirs replaces nothing."""
        theirs = {key: value for key, value in content.items() if key not in self._KEYS}
        return theirs | {self._KEYS[key]: value for key, value in content.items() if key in self._KEYS}

    def _unspelt(self, content: Mapping[str, Any]) -> dict[str, Any]:
        ours = {theirs: own for own, theirs in self._KEYS.items()}
        return {ours.get(key, key): value for key, value in content.items()}


SPELLINGS: Mapping[str, type[QueueTree]] = {tree.spelling: tree for tree in (QueueTree, MerrittTree)}


def encode(content: Mapping[str, Any]) -> bytes:
    """A JSON object as nodes have it."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes | None, what: str) -> dict[str, Any]:
    """The JSON object that a node holds, or Unreadable."""
    try:
        content = read_document(data or b"")
    except ValueError:
        content = None
    if isinstance(content, dict):
        return content
    raise Unreadable(f"its {what} is not a JSON object")


def read_entry(name: str) -> tuple[int, str] | None:
    """Priority and job behind an entry's name; None: it is none."""
    found = _ENTRY.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def is_item(name: str) -> bool:
    """Whether a node is a batch's or job's."""
    return _ITEM.fullmatch(name) is not None
