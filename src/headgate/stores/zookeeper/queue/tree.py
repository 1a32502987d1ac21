"""Every node of the queue, in both spellings. Nobody else knows how they differ.

<chroot>/batches/bidNNNNNNNNNN                 made by number, empty
             /submission  /status              written together; the status's version is the token of the newest taking
             /states/batch-…/JID               the batch's reference to each of its jobs: empty
             /status-report                    the full lists of the newest report
             /lock                             somebody has taken it: ephemeral; through the service: persistent
<chroot>/jobs/jidNNNNNNNNNN                    likewise
             /configuration  /identifiers  /status  /priority  /space_needed  /lock
             /bid  /metadata  /store  /inventory    (spelling mrt-zk)
<chroot>/locks/localid|storage|inventory/…     somebody works on that object (spelling mrt-zk): empty
<chroot>/jobs/states/<state>/PP-JID            the queue: empty
<chroot>/headgate/queue                        all that is ours alone
    /batches/BID                               {"made", "request_id"}; its version guards the making of jobs; "said":
                                               what the submission has no key for; "removed": it is on its way out
    /jobs/JID                                  what the job's own nodes have no key for
    /requests/-<request id>                    the batch that it made
    /owners/<item>                             beside each lock, and made like it: {"worker", "lease", "mark"}; where
                                               it is persistent, it is renewed like a lock, and "left" like its data
    /takings/<item>                            persistent: {"worker", "token"} of the newest taking until it is
                                               reported; {"crashes", "state"} of workers that died
    /objects/<kind>%2F<name>                   beside each lock of an object that is ours (spelling mrt-zk), made in the
                                               same multi: {"job", "worker"}
    /arrivals/<state>/PP                       the newest job that came with that priority
    /holds/-<profile>                          {"reason", "who", "since"} (spelling design)
    /holds/<lock>                              the same, beside an empty lock of ours (spelling mrt-zk)
    /daemons/-<id>                             a daemon lives: {"worker", "steps", "lease"}; renewed at its mtime
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from headgate.core.queue.model import FIXED_KEYS, Batch, Folder, Identifiers, IngestJob, Item, Submission
from headgate.core.queue.rules import DESIGN, QUEUE_RULES, QueueRules
from headgate.core.tables.machine import Machine
from headgate.core.values.documents import read_document

_ENTRY = re.compile("([0-9]{2})-(jid[0-9]{10})")
_ITEM = re.compile("(bid|jid)[0-9]{10}")
_NUMBERED = re.compile(".*[0-9]{10}")
ERC = ("erc_what", "erc_who", "erc_when", "erc_where")
#: The node for a job's settings.
CONFIGURATION = "configuration"
#: The key of our record of a batch that marks its removal, with the reason.
REMOVED = "removed"
#: The key of a job's configuration for the folder of its files.
WORKING_FOLDER = "working_dir"

#: JSON objects by the names of their nodes.
Documents = Mapping[str, Mapping[str, Any]]


class Unreadable(Exception):
    """A node has foreign content. For the stores, never for callers."""


class Spread(NamedTuple):
    """The data of an item as stored in nodes."""

    #: In nodes of the item itself, by their names.
    nodes: Documents
    #: Under our own root, for values without a key elsewhere.
    beside: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The parameters of a tree besides its folder."""

    #: The active tables; None: those of the spelling.
    rules: QueueRules | None = None
    #: The offset from the version of a status to a token: a queue that was copied from another store continues after
    #: that store's tokens.
    token_base: int = 0
    #: The folder for jobs whose nodes do not name one; empty: none.
    work_folder: str = ""


class QueueTree:
    """The paths of one queue and the content of its nodes, in the words of the Merritt queue: spelling `design`."""

    spelling = DESIGN
    #: The content of a node that only has to exist.
    empty: bytes | None = b""
    folders: tuple[Folder, ...] = (Folder.PROCESSING, Folder.FAILED, Folder.COMPLETED)
    #: The key of a job's status for the time of the last change.
    _job_time = "last_modification_date"
    #: The nodes of a job with JSON objects for its owners.
    documents: tuple[str, ...] = (CONFIGURATION,)
    #: Other programs' nodes that are not part of the ingest queue: they are shown, and left alone.
    foreign: tuple[str, ...] = ()

    def __init__(self, chroot: str, options: TreeOptions = TreeOptions()) -> None:  # noqa: B008 - frozen
        self.token_base = options.token_base
        self.rules = options.rules or QUEUE_RULES[self.spelling]
        self._work_folder = options.work_folder
        self.batches = f"{chroot}/batches"
        self.jobs = f"{chroot}/jobs"
        self.states = f"{chroot}/jobs/states"
        self.own = f"{chroot}/headgate/queue"
        self._hold_folder = f"{self.own}/holds"
        self._chroot = chroot

    def with_options(self, options: TreeOptions) -> QueueTree:
        """The same tree with other tables, tokens and folders."""
        return type(self)(self._chroot, options)

    @property
    def made_at_once(self) -> tuple[str, ...]:
        """The nodes that a queue starts with, in the order of their creation."""
        own = (
            self.own,
            *(f"{self.own}/{name}" for name in ("batches", "jobs", "requests", "owners", "takings", "arrivals")),
        )
        states = (f"{self.states}/{state}" for state in self.entry_states)
        arrivals = (f"{self.own}/arrivals/{state}" for state in self.entry_states)
        return (*own, self.batches, self.jobs, self.states, *states, *arrivals, *self._hold_folders)

    @cached_property
    def entry_states(self) -> tuple[str, ...]:
        """The states for which the queue keeps entries."""
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
        """The lock of a taken item."""
        return f"{self.item(item_id)}/lock"

    def status(self, item_id: str) -> str:
        """Its status, with the state."""
        return f"{self.item(item_id)}/status"

    def owner(self, item_id: str) -> str:
        """The node of its owner."""
        return f"{self.owners}/{item_id}"

    def taking(self, item_id: str) -> str:
        """The record of who took it last and did not report yet, and of how many workers died on it."""
        return f"{self.takings}/{item_id}"

    @property
    def takings(self) -> str:
        """The folder of these records."""
        return f"{self.own}/takings"

    @property
    def owners(self) -> str:
        """The folder of owners."""
        return f"{self.own}/owners"

    @property
    def daemons(self) -> str:
        """The folder of running daemons."""
        return f"{self.own}/daemons"

    def daemon(self, daemon_id: str) -> str:
        """A daemon's node. The dash prevents the names '.' and '..'."""
        return f"{self.daemons}/-{quote(daemon_id, safe='')}"

    def daemon_id(self, node: str) -> str:
        """The id in a node's name."""
        return unquote(node[1:])

    def entry(self, state: str, priority: int, job_id: str) -> str:
        """A job's entry in the queue."""
        return f"{self.states}/{state}/{priority:02d}-{job_id}"

    def folder(self, batch_id: str, folder: Folder) -> str:
        """The folder in which a batch keeps some of its jobs."""
        return f"{self.batches}/{batch_id}/states/{folder.value}"

    def arrivals(self, state: str, priority: int | None = None) -> str:
        """The arrivals in a state, by priority."""
        folder = f"{self.own}/arrivals/{state}"
        return folder if priority is None else f"{folder}/{priority:02d}"

    def made(self, batch_id: str) -> str:
        """The record of how many jobs a batch has."""
        return f"{self.batch_notes}/{batch_id}"

    @property
    def batch_notes(self) -> str:
        """The folder of our records of batches."""
        return f"{self.own}/batches"

    def beside(self, job_id: str) -> str:
        """The values of a job that its own nodes have no key for."""
        return f"{self.job_notes}/{job_id}"

    @property
    def job_notes(self) -> str:
        """The folder of our records of jobs."""
        return f"{self.own}/jobs"

    @property
    def requests(self) -> str:
        """The requests that created batches."""
        return f"{self.own}/requests"

    def request(self, request_id: str) -> str:
        """Which batch a request made."""
        return f"{self.requests}/-{quote(request_id, safe='')}"

    def uuid(self, submission: Mapping[str, Any]) -> str | None:
        """Another name of a batch, by what its submission holds; None: there is none."""
        del submission
        return None

    #: The folder of those names; empty: there are none.
    uuids: str = ""

    def hold(self, profile: str) -> str:
        """The hold of a collection, or of the whole queue."""
        return f"{self._hold_folder}/-{quote(profile, safe='')}"

    def object_locks(self, job: IngestJob) -> tuple[str, ...]:
        """The locks of its object that a job needs in its state, each as kind and name."""
        del job
        return ()

    def all_object_locks(self, job: IngestJob) -> tuple[str, ...]:
        """The locks that a job's object may have in any state."""
        del job
        return ()

    def outlives_sessions(self, lock: str) -> bool:
        """Whether a lock of an object stays when the session of its owner ends."""
        del lock
        return False

    #: The folders of locks of objects.
    object_folders: tuple[str, ...] = ()

    def object_lock(self, lock: str) -> str:
        """The node of a lock of an object."""
        return f"{self._chroot}/locks/{lock}"

    @property
    def object_notes(self) -> str:
        """The folder of owners of object locks."""
        return f"{self.own}/objects"

    def object_note(self, lock: str) -> str:
        """The node of the owner of an object's lock."""
        return f"{self.object_notes}/{quote(lock, safe='')}"

    def noted_object(self, node: str) -> str:
        """The lock behind a node's name."""
        return unquote(node)

    def foreign_path(self, name: str) -> str:
        """A folder of other programs."""
        return f"{self._chroot}/{name}"

    def hold_note(self, profile: str) -> str:
        """Who set a hold and why, where the hold's own node has no place for it; empty: it has."""
        del profile
        return ""

    #: The folder of those notes; empty: there are none.
    hold_notes: str = ""

    def noted_hold(self, node: str) -> str:
        """The hold behind the name of its note."""
        return f"{self._hold_folder}/{node}"

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

    def submission(self, submission: Submission, uuid: str) -> Spread:
        """What a batch's submission holds, and what is kept beside it."""
        del uuid
        said = {key: value for key, value in submission.metadata.items() if key in ERC}
        content = {
            **dict.fromkeys(ERC),
            **said,
            "profile_name": submission.profile,
            "submitter": submission.submitter,
            "payload_url": submission.payload_url,
            "type": submission.type,
            "submission_mode": submission.mode,
        }
        return Spread({"submission": content}, {k: v for k, v in submission.metadata.items() if k not in said})

    def read_submission(self, content: Mapping[str, Any], own: Mapping[str, Any]) -> Submission:
        """The submission behind it; `own`: what is known of its batch under our own root."""
        fixed = ("profile_name", "submitter", "payload_url", "type", "submission_mode")
        said = own.get("said")
        metadata = {
            **(said if isinstance(said, dict) else {}),
            **{key: value for key, value in content.items() if key not in fixed and not (key in ERC and value is None)},
        }
        profile, submitter, payload_url, kind, mode = (str(content.get(key) or "") for key in fixed)
        return Submission(profile, submitter, payload_url, kind, mode, metadata, str(own.get("request_id", "")))

    def spread(self, configuration: Mapping[str, Any], kept: Documents) -> Spread:
        """A job's configuration as its nodes have it. What they have already (`kept`) is never dropped."""
        there = kept[CONFIGURATION]
        content = {key: value for key, value in configuration.items() if key in FIXED_KEYS or key in there}
        beside = {key: value for key, value in configuration.items() if key not in content}
        return Spread({CONFIGURATION: {**there, **content}}, beside)

    def gathered(self, found: Spread, batch_id: str, job_id: str) -> dict[str, Any]:
        """The configuration behind it."""
        return {**self.working_folder(batch_id, job_id), **found.beside, **found.nodes[CONFIGURATION]}

    def working_folder(self, batch_id: str, job_id: str) -> dict[str, Any]:
        """Where a job is worked on whose nodes do not say it."""
        return {WORKING_FOLDER: f"{self._work_folder}/{batch_id}/{job_id}"} if self._work_folder else {}

    def new_documents(self, batch: Batch, identifiers: Identifiers) -> Documents:
        """What the nodes of a new job hold beside its configuration."""
        del batch, identifiers
        return {CONFIGURATION: {}}

    def identifiers(self, identifiers: Identifiers) -> dict[str, Any]:
        """What a job's identifiers hold."""
        return {"primary": identifiers.primary or None, "local_id": list(identifiers.local)}

    def read_identifiers(self, content: Mapping[str, Any] | None, configuration: Mapping[str, Any]) -> Identifiers:
        """The identifiers behind it; None: there is no such node."""
        del configuration
        content = content or {}
        local = content.get("local_id") or ()
        local = (local,) if isinstance(local, str) else tuple(map(str, local))
        return Identifiers(str(content.get("primary") or content.get("primary_id") or ""), local)

    def batch_nodes(self, batch_id: str) -> list[tuple[str, bytes | None]]:
        """The folders of a batch that its first job finds, or makes."""
        states = f"{self.item(batch_id)}/states"
        return [(states, self.empty), *((self.folder(batch_id, folder), self.empty) for folder in self.folders)]

    def job_nodes(self, job_id: str, batch_id: str) -> list[tuple[str, bytes | None]]:
        """Nodes of a new job that this spelling alone has."""
        del job_id, batch_id
        return []

    #: The node that names a job's batch, where its configuration does not.
    batch_node: str = ""


def made_content(made: int, request_id: str, spread: Spread) -> dict[str, Any]:
    """What is known of a batch under our own root."""
    request = {"request_id": request_id} if request_id else {}
    return {"made": made, **request, **({"said": dict(spread.beside)} if spread.beside else {})}


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


def is_numbered(name: str) -> bool:
    """Whether a node is one of a sequence, of whatever kind."""
    return _NUMBERED.fullmatch(name) is not None


def is_item(name: str) -> bool:
    """Whether a node is a batch's or job's."""
    return _ITEM.fullmatch(name) is not None
