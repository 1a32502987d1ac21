"""Creating batches and their jobs, and setting holds."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headgate.calls.actor import actor
from headgate.core.errors import HeadgateError, StoreUnavailable
from headgate.core.queue import work as queue_work
from headgate.core.queue.model import Batch, Hold, NewJob, Submission, Taken, folder_of, job_configuration
from headgate.core.queue.snapshot import AddJobs, QueueRecord
from headgate.stores.zookeeper.ensemble.asking import look, read, remove
from headgate.stores.zookeeper.ensemble.multi import MOST_BYTES, Op, first_error, multi, size_of
from headgate.stores.zookeeper.ensemble.session import ZkSessions
from headgate.stores.zookeeper.guarded import ChangePlan
from headgate.stores.zookeeper.queue.changes import ChangeOps
from headgate.stores.zookeeper.queue.commits import Commits
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.records import MADE, ItemNodes
from headgate.stores.zookeeper.queue.taking import Taking
from headgate.stores.zookeeper.queue.tree import QueueTree, Spread, encode, made_content
from headgate.stores.zookeeper.tree import name_of

#: Maximum number of jobs that are created in one multi.
PORTION = 300
#: Maximum size of a new job's history entry.
TOLD_BYTES = 500


@dataclass(eq=False)
class Making:
    """Creates the items of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree
    _questions: ItemQuestions
    _commits: Commits
    _ops: ChangeOps
    _taking: Taking
    _number_base: Mapping[str, int]

    # ------------------------------------------------------------------ batches

    def submit(self, submission: Submission, who: str) -> Batch:
        """A new batch, or the one that this request has created already."""
        if made := self._made_by(submission.request_id):
            return made
        batch_id = self._new_ids(f"{self._tree.batches}/bid", 1)[0]
        uuid_of_batch = f"bid-{uuid.uuid4()}"

        def build() -> ChangePlan[str]:
            if made := self._made_by(submission.request_id):
                return ChangePlan([], made.id)
            if self._sessions.base.ask(look(self._tree.status(batch_id)))[0] is not None:
                return ChangePlan([], batch_id)
            now = self._commits.now()
            outcome = queue_work.submit(self._tree.rules, batch_id, submission, who, now, actor())
            told = [change for change in outcome.changes if isinstance(change, QueueRecord)]
            return ChangePlan(self._batch_ops(outcome.result, uuid_of_batch), batch_id, told)

        made_id = self._commits.run(build)
        if made_id != batch_id:
            self._sessions.base.ask(remove(self._tree.item(batch_id)))
        return self._questions.get(made_id).batch

    def _batch_ops(self, batch: Batch, uuid_of_batch: str) -> list[Op]:
        tree, path, submission = self._tree, self._tree.item(batch.id), batch.submission
        spread = self._spread(submission, uuid_of_batch)
        content = spread.nodes["submission"]
        ops = [
            Op("make", f"{path}/submission", encode(content)),
            Op("make", f"{path}/status", tree.status_of(batch)),
            Op("make", tree.made(batch.id), encode(made_content(0, submission.request_id, spread))),
        ]
        if submission.request_id:
            ops.append(self._request_op(tree.request(submission.request_id), batch.id))
        if other_name := tree.uuid(content):
            ops.append(Op("make", other_name, batch.id.encode()))
        return ops

    def _spread(self, submission: Submission, uuid_of_batch: str) -> Spread:
        """What the batch's nodes hold. A name of the submitter's own is not used where another batch has it."""
        tree, said = self._tree, submission.metadata
        spread = tree.submission(submission, uuid_of_batch)
        name = tree.uuid(spread.nodes["submission"]) if "batch_id" in said else None
        if name and self._sessions.base.ask(look(name))[0] is not None:
            without = {key: value for key, value in said.items() if key != "batch_id"}
            spread = tree.submission(replace(submission, metadata=without), uuid_of_batch)
        return spread

    def _request_op(self, path: str, batch_id: str) -> Op:
        """Record which batch a request created. The earlier one no longer exists: another program has removed it."""
        found: Any = self._sessions.base.ask(look(path))[0]
        return (
            Op("make", path, batch_id.encode()) if found is None else Op("set", path, batch_id.encode(), found.version)
        )

    def _made_by(self, request_id: str) -> Batch | None:
        if not request_id:
            return None
        found: Any = self._sessions.base.ask(read(self._tree.request(request_id)))[0]
        record = None if isinstance(found, Exception) else self._questions.find(found[0].decode())
        return record.batch if record else None

    def _new_ids(self, prefix: str, count: int) -> list[str]:
        """Unique ids, whose nodes are created alone and empty."""
        results = self._sessions.base.ask(multi([Op("tell", prefix, self._tree.empty)] * count))[0]
        if first_error(results) is not None:
            raise StoreUnavailable(self._tree.item(prefix), f"cannot be created: {results}")
        names = [name_of(str(path)) for path in results]
        kind = name_of(prefix)
        base = self._number_base.get(kind, 0)
        return self._behind(names, [f"{kind}{base + int(name[3:]):010d}" for name in names]) if base else names

    def _behind(self, names: Sequence[str], ids: list[str]) -> list[str]:
        """The ids for ZooKeeper's numbers: higher ones, if the queue came from a store that had issued more."""
        made = [Op("make", self._tree.item(each), self._tree.empty) for each in ids]
        results = self._sessions.base.ask(multi([*made, *(Op("remove", self._tree.item(name)) for name in names)]))[0]
        if first_error(results) is not None:
            raise StoreUnavailable(self._tree.item(ids[0]), f"cannot be created: {results}")
        return ids

    # ------------------------------------------------------------------ jobs

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        """Those of these jobs that the batch does not have yet, in portions that are each created at once."""
        loaded = self._taking.load(taken)
        queue_work.create_jobs(loaded.snapshot, taken, position, jobs, work_folder)
        made = loaded.found.batch.made
        while new := jobs[made - position :][:PORTION]:
            made = self._create_portion(taken, made, new, work_folder)
        self._taking.distrust(taken.id)
        return made

    def _create_portion(self, taken: Taken, made: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        """Create as many of these as fit into one multi. Returns how many the batch has then."""
        ids = self._new_ids(f"{self._tree.jobs}/jid", len(jobs))

        def build() -> ChangePlan[int]:
            loaded = self._taking.load(taken)
            outcome = queue_work.create_jobs(loaded.snapshot, taken, made, jobs, work_folder)
            record = loaded.found
            if record.batch.made != made:  # An earlier try whose answer was lost.
                return ChangePlan([], record.batch.made)
            (new,) = (change for change in outcome.changes if isinstance(change, AddJobs))
            guards = self._guards(record)
            parts = self._fitting(guards, [self._job_ops(new, *each) for each in zip(ids, jobs, strict=True)])
            count = self._count(record, made + len(parts))
            chosen = ids[: len(parts)]
            ops = [*guards, *(op for part in parts for op in part), count, *self._arrivals(new, chosen)]
            told = [replace(new.entry, job=job_id) for job_id in chosen] if new.entry else []
            return ChangePlan(ops, made + len(parts), told, self._taking.session_of(taken.id))

        try:
            count = self._commits.run(build)
        except HeadgateError:
            with suppress(HeadgateError):  # A search for damage finds them.
                self._drop_ids(ids)
            raise
        self._drop_ids(ids[count - made :])
        return count

    def _count(self, record: ItemNodes, made: int) -> Op:
        """Number of jobs that we have created for a batch. For a batch of another program nothing was recorded yet."""
        path, content = self._tree.made(record.item.id), encode({**record.own, "made": made})
        return Op("set", path, content, record.versions[MADE]) if record.has(MADE) else Op("make", path, content)

    def _fitting(self, guards: Sequence[Op], parts: Sequence[list[Op]]) -> Sequence[list[Op]]:
        """As many of these as fit into one multi, and at least one."""
        size = sum(map(size_of, guards))
        for number, part in enumerate(parts):
            size += sum(map(size_of, part)) + TOLD_BYTES
            if number and size > MOST_BYTES * 0.9:
                return parts[:number]
        return parts

    def _guards(self, record: ItemNodes) -> list[Op]:
        tree, batch = self._tree, record.batch
        guards = [Op("check", tree.status(batch.id), version=record.version), Op("check", tree.lock(batch.id))]
        return [*guards, *(Op("make", path, data) for path, data in self._ops.missing_folders(record))]

    def _job_ops(self, new: AddJobs, job_id: str, job: NewJob) -> list[Op]:
        tree, path, batch = self._tree, self._tree.item(job_id), new.batch
        configuration = job_configuration(batch, job_id, job, new.work_folder)
        spread = tree.spread(configuration, tree.new_documents(batch, job.identifiers))
        nodes: list[tuple[str, bytes | None]] = [
            *((f"{path}/{name}", encode(content)) for name, content in spread.nodes.items() if content),
            *([(tree.beside(job_id), encode(spread.beside))] if spread.beside else []),
            (f"{path}/status", tree.job_status(new.state, None, self._commits.now(), 0, new.message)),
            (f"{path}/priority", b"%d" % job.priority),
            *tree.job_nodes(job_id, batch.id),
            (f"{path}/identifiers", encode(tree.identifiers(job.identifiers))),
            (tree.entry(new.state, job.priority, job_id), tree.empty),
            (f"{tree.folder(batch.id, folder_of(new.state))}/{job_id}", tree.empty),
        ]
        return [Op("make", *node) for node in nodes]

    def _arrivals(self, new: AddJobs, ids: Sequence[str]) -> list[Op]:
        by_priority: dict[int, list[str]] = {}
        for job_id, job in zip(ids, new.jobs, strict=False):
            by_priority.setdefault(job.priority, []).append(job_id)
        return [
            self._commits.arrival(new.state, priority, some[0] if len(some) == 1 else "")
            for priority, some in by_priority.items()
        ]

    def _drop_ids(self, ids: Sequence[str]) -> None:
        """They were not needed: a node with children is not removed."""
        if ids:
            self._sessions.base.ask(*(remove(self._tree.item(each)) for each in ids))

    # ------------------------------------------------------------------ holds

    def set_hold(self, hold: Hold) -> Hold:
        """The hold of the collection."""

        def build() -> ChangePlan[Hold | None]:
            if standing := self._questions.hold(hold.profile):
                return ChangePlan([], standing)
            content = {"reason": hold.reason, "who": hold.who, "since": self._tree.time(self._commits.now())}
            if self._tree.hold_note(hold.profile):  # The hold's own node may be named otherwise.
                content["profile"] = hold.profile
            told = queue_work.record_hold(hold, actor())
            return ChangePlan(self._hold_ops(hold.profile, encode(content)), None, [told])

        return self._commits.run(build) or self._questions.hold(hold.profile) or hold

    def _hold_ops(self, profile: str, content: bytes) -> list[Op]:
        path, note = self._tree.hold(profile), self._tree.hold_note(profile)
        if not note:
            return [Op("make", path, content)]
        return [*self._note_removal(profile), Op("make", path, self._tree.empty), Op("make", note, content)]

    def _note_removal(self, profile: str) -> list[Op]:
        """Remove the record of a hold: another program may have removed the hold itself."""
        note = self._tree.hold_note(profile)
        return [Op("remove", note)] if note and self._sessions.base.ask(look(note))[0] is not None else []

    def clear_hold(self, profile: str, who: str) -> bool:
        """Clear the hold of the collection. False: there was none."""

        def build() -> ChangePlan[bool]:
            standing = self._questions.hold(profile)
            if standing is None:
                return ChangePlan([], False)  # noqa: FBT003 - the answer
            told = queue_work.record_clearing(standing, who, actor())
            ops = [Op("remove", self._tree.hold(profile)), *self._note_removal(profile)]
            return ChangePlan(ops, True, [told])  # noqa: FBT003 - the answer

        return self._commits.run(build)
