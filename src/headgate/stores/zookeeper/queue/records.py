"""Batches and ingest jobs as stored in their nodes, with the versions that guard every change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kazoo.exceptions import NoNodeError

from headgate.core.access.owners import LOCAL
from headgate.core.queue.model import Batch, Folder, IngestJob, Item, JobCounts, Report, is_batch
from headgate.stores.zookeeper.ensemble.asking import Question, look, read
from headgate.stores.zookeeper.ensemble.clock import Now
from headgate.stores.zookeeper.ensemble.session import ZkSession
from headgate.stores.zookeeper.queue.tree import (
    CONFIGURATION,
    REMOVED,
    Documents,
    QueueTree,
    Spread,
    Unreadable,
    decode,
    encode,
)

#: In place of a version: any version, and no node.
ANY, ABSENT = -1, -2
#: Keys of a job's identifiers, in either spelling.
IDENTIFIERS = ("primary", "primary_id", "local_id")
_JOB_PARTS = ("status", "identifiers", "priority", "space_needed")
#: The key for a job's node under our own root, among the versions of its nodes.
BESIDE = "beside"
#: The same for the record of a batch under our own root.
MADE = "made"
_BATCH_PARTS = ("status", "submission", "status-report")


@dataclass(frozen=True, slots=True)
class ItemNodes:
    """An item, and the values that a write compares."""

    item: Item
    #: The content of the status, and its version: the token of the newest take, minus the tree's offset.
    status: bytes
    version: int
    #: The session of its owner; 0: a lock without a session, because it was taken through the service; None: it is
    #: free.
    lock: int | None
    #: There is an owner's node, and this is the mark of that take.
    owned: bool
    mark: str
    #: Versions of the other nodes; ABSENT: it does not exist.
    versions: dict[str, int]
    #: The number of additional nodes of its report, and their names.
    parts: int = 0
    parts_name: str = ""
    #: The remaining seconds of a lease without a session; None: it is bound to a session, or free.
    left: float | None = None
    #: It was taken, its lease expired, and its nodes still exist: the version of the owner's node.
    remains: int | None = None
    #: There is a node that records who took it last, or how many workers died.
    noted: bool = False
    #: The owner that died, and its token, until the death is counted.
    died: tuple[str, int] | None = None
    #: Locks of its object that its owner holds.
    locks: tuple[str, ...] = ()
    #: The content of a job's documents, and our record of the item under our own root.
    documents: Documents = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    #: Keys of a job's identifiers that are not ours.
    more_names: Mapping[str, Any] = field(default_factory=dict)

    @property
    def job(self) -> IngestJob:
        """The job that it belongs to."""
        assert isinstance(self.item, IngestJob)  # noqa: S101 - its id says so
        return self.item

    @property
    def batch(self) -> Batch:
        """The batch that it belongs to."""
        assert isinstance(self.item, Batch)  # noqa: S101 - its id says so
        return self.item

    def has(self, node: str) -> bool:
        """Whether the item has such a node."""
        return self.versions.get(node, ABSENT) != ABSENT


def ask_job(tree: QueueTree, job_id: str) -> list[Question]:
    """All nodes of a job."""
    path = tree.item(job_id)
    own = [read(tree.owner(job_id)), read(tree.taking(job_id)), read(tree.beside(job_id))]
    return [look(f"{path}/lock"), *own, *(read(f"{path}/{part}") for part in (*_JOB_PARTS, *_documents(tree)))]


def _documents(tree: QueueTree) -> tuple[str, ...]:
    return (*tree.documents, tree.batch_node) if tree.batch_node else tree.documents


def read_job(tree: QueueTree, job_id: str, answers: Sequence[Any]) -> ItemNodes | None:
    """A job; None: it does not exist. Unreadable when a node has foreign content."""
    lock, owner, taking, beside, status, identifiers, priority, space, *rest = answers
    if isinstance(status, Exception):
        return None
    content = decode(status[0], "status")
    documents = _read_documents(tree, rest)
    own = decode(_data(beside) or b"{}", "settings")
    batch_id = _text(rest[-1]) if tree.batch_node else str(documents[CONFIGURATION].get("batch_id", ""))
    worker, lease, mark, principal = _owner(lock, owner)
    named = _optional(identifiers, "identifiers")
    state, version = _job_state(tree, content.get("status")), status[1].version
    job = IngestJob(
        job_id, batch_id, state,
        tree.good_step(content.get("last_successful_status")), _number(content.get("retry_count", 0), "retry_count"),
        _number(_text(priority), "priority"), max(_number(_text(space) or 0, "space_needed"), 0),
        tree.read_identifiers(named, documents[CONFIGURATION]),
        tree.gathered(Spread(documents, own), batch_id, job_id), str(content.get("message") or ""),
        tree.status_time(content),
        worker, version + tree.token_base, lease, principal, *_crashes(tree, job_id, taking, state),
    )  # fmt: skip
    names = (BESIDE, *_JOB_PARTS, *tree.documents)
    return ItemNodes(
        job, status[0], version, _session(lock), not isinstance(owner, Exception), mark,
        dict(zip(names, map(_version, answers[3:]), strict=False)),
        noted=not isinstance(taking, Exception),
        died=_died(lock, taking, version + tree.token_base), documents=documents, own=own, locks=_locks(taking),
        more_names={key: value for key, value in (named or {}).items() if key not in IDENTIFIERS},
    )  # fmt: skip


def _read_documents(tree: QueueTree, answers: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The JSON objects of a job's nodes; missing ones are left out, except its configuration."""
    found = {name: _optional(answer, name) for name, answer in zip(tree.documents, answers, strict=False)}
    there = {name: content for name, content in found.items() if content is not None}
    return {CONFIGURATION: decode(None, CONFIGURATION), **there} if CONFIGURATION not in there else there


def ask_queued(tree: QueueTree, job_id: str) -> list[Question]:
    """Everything needed to take a job that its queue entry lacks: each read costs as much as a write."""
    path = tree.item(job_id)
    parts = ("status", "identifiers", "space_needed", *_documents(tree))
    return [look(f"{path}/lock"), read(tree.beside(job_id)), *(read(f"{path}/{part}") for part in parts)]


def read_queued(tree: QueueTree, name: str, answers: Sequence[Any]) -> ItemNodes | None:
    """The job behind an entry. Its priority is the entry's: every change of state removes exactly that entry."""
    lock, beside, status, identifiers, *rest = answers
    priority = (name[:2].encode(), None)
    return read_job(tree, name[3:], [lock, NoNodeError(), NoNodeError(), beside, status, identifiers, priority, *rest])


def ask_batch(tree: QueueTree, batch_id: str) -> list[Question]:
    """All nodes of a batch."""
    path = tree.item(batch_id)
    return [
        look(f"{path}/lock"), read(tree.owner(batch_id)), read(tree.taking(batch_id)),
        *(read(f"{path}/{part}") for part in _BATCH_PARTS),
        read(tree.made(batch_id)), look(f"{path}/states"),
        *(look(tree.folder(batch_id, folder)) for folder in tree.folders),
    ]  # fmt: skip


def read_batch(tree: QueueTree, batch_id: str, answers: Sequence[Any]) -> ItemNodes | None:
    """A batch; None: it does not exist. Unreadable when a node has foreign content."""
    lock, owner, taking, status, submission, report, made, states, *folders = answers
    if isinstance(status, Exception):
        return None
    content = decode(status[0], "status")
    own = decode(_data(made) or b"{}", "count of jobs")
    counts = {folder: stat.numChildren if stat else 0 for folder, stat in zip(tree.folders, folders, strict=True)}
    worker, lease, mark, principal = _owner(lock, owner)
    state, version = tree.state(own.get(REMOVED) or content.get("status"), tree.rules.batch), status[1].version
    batch = Batch(
        batch_id, state,
        tree.read_submission(decode(_data(submission), "submission"), own),
        str(content.get("message") or ""), tree.status_time(content),
        JobCounts(counts[Folder.PROCESSING], counts[Folder.FAILED], counts[Folder.COMPLETED]),
        _made(tree, state, own, sum(counts.values())), _report(tree, report), worker,
        version + tree.token_base, lease, principal, *_crashes(tree, batch_id, taking, state),
    )  # fmt: skip
    versions = dict(zip((*_BATCH_PARTS, MADE), map(_version, answers[3:]), strict=False))
    present = {folder.value: 0 for folder, stat in zip(tree.folders, folders, strict=True) if stat}
    versions |= present | ({"states": 0} if states else {})
    more = {} if isinstance(report, Exception) else decode(report[0], "status-report")
    return ItemNodes(
        batch, status[0], version, _session(lock), not isinstance(owner, Exception), mark, versions,
        _number(more.get("parts", 0), "status-report"), str(more.get("continued", "")),
        noted=not isinstance(taking, Exception),
        died=_died(lock, taking, version + tree.token_base), own=own,
    )  # fmt: skip


def _made(tree: QueueTree, state: str, own: Mapping[str, Any], there: int) -> int:
    """Number of jobs created for a batch. Another program creates some without our record, which count too.

    While we create them, our own count shows where to continue.
    """
    made = _number(own.get("made", there), "count of jobs")
    return made if state in tree.rules.before_jobs else max(made, there)


def answers_of(session: ZkSession, tree: QueueTree, ids: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """All nodes of these items, read in one trip, for `read_item`."""
    questions = [ask_batch(tree, each) if is_batch(each) else ask_job(tree, each) for each in ids]
    answers = iter(session.ask(*(question for some in questions for question in some)))
    for item_id, some in zip(ids, questions, strict=True):
        yield item_id, [next(answers) for _ in some]


def read_item(tree: QueueTree, item_id: str, answers: Sequence[Any]) -> ItemNodes | None:
    """A batch or job; None: it does not exist. Unreadable when a node has foreign content."""
    return read_batch(tree, item_id, answers) if is_batch(item_id) else read_job(tree, item_id, answers)


def judged(record: ItemNodes, owner: Any, now: Now) -> ItemNodes:
    """An item whose lock has no session, with the remaining time of its lease; free, if nothing remains."""
    if isinstance(owner, Exception):
        return record  # A foreign node: see the faults.
    data, stat = owner
    content = decode(data, "owner")
    worker, lease, mark, principal = _read_owner(content)
    span = content.get("left")
    left = now.left(lease if span is None else float(span), stat)
    if left > 0:
        item = replace(record.item, worker=worker, lease=lease, principal=principal)
        return replace(record, item=item, owned=True, mark=mark, left=left)
    item = replace(record.item, worker="", lease=None, principal="")
    return replace(
        record, item=item, lock=None, owned=False, mark="", remains=stat.version, died=(worker, record.item.token)
    )


def as_cleaned(record: ItemNodes, state: str) -> ItemNodes:
    """A job that has left the queue, in its last state."""
    return replace(record, item=replace(record.job, state=state))


def _job_state(tree: QueueTree, word: object) -> str:
    """A cleaned job's status is that of a completed one; no other final state leaves a status behind."""
    state = tree.state(word, tree.rules.job)
    if state in tree.entry_states:
        return state
    raise Unreadable(f"its status is {word!r}, which is not a state of a job")


def _report(tree: QueueTree, answer: Any) -> Report | None:
    """The content of the node itself; the rest of a long one is read where it is needed."""
    if isinstance(answer, Exception):
        return None
    content = decode(answer[0], "status-report")
    failed, successful = (tuple(map(str, content.get(key) or ())) for key in ("failed_jobs", "successful_jobs"))
    return Report(failed, successful, tree.read_time(content.get("last_modified")))


def _owner(lock: Any, owner: Any) -> tuple[str, float | None, str, str]:
    """Its owner, lease, token and principal."""
    if lock is None:
        return "", None, "", ""
    if isinstance(owner, Exception):  # Another tool's, which works on the ensemble directly.
        return f"session {lock.ephemeralOwner:#x}", None, "", LOCAL
    return _read_owner(decode(owner[0], "owner"))


def taking_note(item: Item, locks: Sequence[str] = ()) -> dict[str, Any]:
    """The record of a take that outlives its session: the worker, its token, and its object locks."""
    return {"worker": item.worker, "token": item.token, **crash_note(item, locks)}


def crash_note(item: Item, locks: Sequence[str] = ()) -> dict[str, Any]:
    """The record of workers that died on an item, and of their object locks; empty: none did."""
    crashes = {"crashes": item.crashes, "state": item.former or item.state} if item.crashes else {}
    return {**crashes, **({"locks": list(locks)} if locks else {})}


def _locks(taking: Any) -> tuple[str, ...]:
    if isinstance(taking, Exception):
        return ()
    return tuple(map(str, decode(taking[0], "taking").get("locks") or ()))


def _crashes(tree: QueueTree, item_id: str, taking: Any, state: str) -> tuple[int, str]:
    """How many workers died, and in which state, if it is held for that. The count restarts at 0 for items that another
    tool has changed since.
    """
    if isinstance(taking, Exception):
        return 0, ""
    content = decode(taking[0], "taking")
    count, where = _number(content.get("crashes", 0), "count of crashes"), str(content.get("state", ""))
    if where == state:
        return count, ""
    return (count, where) if count and tree.rules.reaps_into(item_id, where, state) else (0, "")


def _died(lock: Any, taking: Any, token: int) -> tuple[str, int] | None:
    """The worker that took an item and died silently: its session ended, and the status has not changed since."""
    if lock is not None or isinstance(taking, Exception):
        return None
    content = decode(taking[0], "taking")
    if content.get("token") != token:
        return None
    return str(content.get("worker", "")), int(content.get("was", token))


def _read_owner(content: dict[str, Any]) -> tuple[str, float, str, str]:
    worker, mark, principal = (str(content.get(key, "")) for key in ("worker", "mark", "principal"))
    return worker, float(content.get("lease", 0)), mark, principal


def owner_content(item: Item, lease: float, mark: str) -> bytes:
    """The content of an item's owner node."""
    return encode({"worker": item.worker, "lease": lease, "mark": mark, "principal": item.principal})


def _session(lock: Any) -> int | None:
    return None if lock is None else int(lock.ephemeralOwner)


def _data(answer: Any) -> bytes | None:
    return None if isinstance(answer, Exception) else answer[0]


def _optional(answer: Any, what: str) -> dict[str, Any] | None:
    """A JSON object; None: it does not exist, or is empty, as Merritt's library creates it."""
    data = _data(answer)
    return decode(data, what) if data else None


def _text(answer: Any) -> str:
    return (_data(answer) or b"").decode(errors="replace").strip()


def _version(answer: Any) -> int:
    if isinstance(answer, Exception) or answer is None:
        return ABSENT
    return ANY if answer[1] is None else int(answer[1].version)


def _number(value: object, what: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise Unreadable(f"its {what} is {value!r}, which is not a number") from None
