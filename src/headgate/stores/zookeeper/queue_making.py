"""New batches and their jobs, and the holds."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.errors import BadValue, ItemLost, StoreUnavailable, TransitionRefused
from headgate.core.machine import Transition
from headgate.core.queue import Batch, Hold, NewJob, Submission, Taken, job_configuration
from headgate.stores.zookeeper.asking import look, read, remove
from headgate.stores.zookeeper.changes import Plan
from headgate.stores.zookeeper.multi import MOST_BYTES, Op, first_error, multi, size_of
from headgate.stores.zookeeper.queue_commits import Commits
from headgate.stores.zookeeper.queue_history import Told
from headgate.stores.zookeeper.queue_moves import Moves
from headgate.stores.zookeeper.queue_questions import QueueQuestions
from headgate.stores.zookeeper.queue_records import Record
from headgate.stores.zookeeper.queue_taking import Taking
from headgate.stores.zookeeper.queue_tree import QueueTree, encode
from headgate.stores.zookeeper.session import Sessions
from headgate.stores.zookeeper.tree import name_of

#: Jobs that are made in one multi.
PORTION = 300
#: What the history keeps of a new job, at most.
TOLD_BYTES = 500


class Making:
    """Makes the items of one queue."""

    def __init__(
        self, sessions: Sessions, tree: QueueTree, questions: QueueQuestions, commits: Commits, moves: Moves,
        taking: Taking, number_base: Mapping[str, int],
    ) -> None:  # fmt: skip
        self._sessions = sessions
        self._tree = tree
        self._questions = questions
        self._commits = commits
        self._moves = moves
        self._taking = taking
        self._number_base = number_base
        self._create_row = tree.job_table.find(tree.job_table.start, "create")[0]

    # ------------------------------------------------------------------ batches

    def submit(self, submission: Submission, who: str) -> Batch:
        """A new batch; or the one that was made already by this very request."""
        if made := self._made_by(submission.request_id):
            return made
        batch_id = self._new_ids(f"{self._tree.batches}/bid", 1)[0]
        content = self._tree.submission(submission, f"bid-{uuid.uuid4()}")

        def build() -> Plan[str]:
            if made := self._made_by(submission.request_id):
                return Plan([], made.id)
            if self._sessions.base.ask(look(self._tree.status(batch_id)))[0] is not None:
                return Plan([], batch_id)
            row = self._tree.batch_table.find(self._tree.batch_table.start, "submit")[0]
            told = Told(row.event, who, row.source, row.target, batch=batch_id)
            return Plan(self._batch_ops(batch_id, submission, content, row), batch_id, [told])

        made_id = self._commits.run(build)
        if made_id != batch_id:
            self._sessions.base.ask(remove(self._tree.item(batch_id)))
        return self._questions.get(made_id).batch

    def _batch_ops(self, batch_id: str, submission: Submission, content: dict[str, Any], row: Transition) -> list[Op]:
        tree, path = self._tree, self._tree.item(batch_id)
        own = {"made": 0, **({"request_id": submission.request_id} if submission.request_id else {})}
        ops = [
            Op("make", f"{path}/submission", encode(content)),
            Op("make", f"{path}/status", tree.batch_status(row.target, self._commits.now(), row.meaning)),
            Op("make", tree.made(batch_id), encode(own)),
        ]
        if submission.request_id:
            ops.append(Op("make", tree.request(submission.request_id), batch_id.encode()))
        if other_name := tree.uuid(content):
            ops.append(Op("make", other_name, batch_id.encode()))
        return ops

    def _made_by(self, request_id: str) -> Batch | None:
        if not request_id:
            return None
        found: Any = self._sessions.base.ask(read(self._tree.request(request_id)))[0]
        record = None if isinstance(found, Exception) else self._questions.find(found[0].decode())
        return record.batch if record else None

    def _new_ids(self, prefix: str, count: int) -> list[str]:
        """Ids that nobody else gets, their nodes made alone and empty."""
        results = self._sessions.base.ask(multi([Op("tell", prefix, self._tree.empty)] * count))[0]
        if isinstance(results, Exception) or first_error(results) is not None:
            raise StoreUnavailable(self._tree.item(prefix), f"cannot be created: {results}")
        names = [name_of(str(path)) for path in results]
        kind = name_of(prefix)
        base = self._number_base.get(kind, 0)
        return self._behind(names, [f"{kind}{base + int(name[3:]):010d}" for name in names]) if base else names

    def _behind(self, names: Sequence[str], ids: list[str]) -> list[str]:
        """These ids in place of what ZooKeeper counted: the queue came from a store that had given more."""
        made = [Op("make", self._tree.item(each), self._tree.empty) for each in ids]
        results = self._sessions.base.ask(multi([*made, *(Op("remove", self._tree.item(name)) for name in names)]))[0]
        if isinstance(results, Exception) or first_error(results) is not None:
            raise StoreUnavailable(self._tree.item(ids[0]), f"cannot be created: {results}")
        return ids

    # ------------------------------------------------------------------ jobs

    def create_jobs(self, taken: Taken, position: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        """Those of these jobs that the batch does not have yet, in portions that are each made at once."""
        record = self._owned(taken)
        made = record.batch.made
        if position > made:
            raise BadValue("position", position, f"is beyond the {made} jobs of {taken.id}")
        while new := jobs[made - position :][:PORTION]:
            made = self._create_portion(taken, made, new, work_folder)
        self._taking.distrust(taken.id)
        return made

    def _owned(self, taken: Taken) -> Record:
        record = self._taking.owned(taken, remembered=False)
        if record.item.state != "pending":
            table = self._tree.batch_table
            raise TransitionRefused(table.name, record.item.state, "create jobs", table.allowed(record.item.state))
        return record

    def _create_portion(self, taken: Taken, made: int, jobs: Sequence[NewJob], work_folder: str) -> int:
        """As many of these as fit into one multi. Gives how many there are then."""
        ids = self._new_ids(f"{self._tree.jobs}/jid", len(jobs))

        def build() -> Plan[int]:
            record = self._owned(taken)
            if record.batch.made != made:  # An earlier try whose answer was lost.
                return Plan([], record.batch.made)
            guards = self._guards(record)
            parts = self._fitting(
                guards, [self._job_ops(record.batch, *new, work_folder) for new in zip(ids, jobs, strict=True)]
            )
            content = {"made": made + len(parts), "request_id": record.batch.submission.request_id}
            count = Op("set", self._tree.made(taken.id), encode(content), record.versions["made"])
            chosen = ids[: len(parts)]
            ops = [*guards, *(op for part in parts for op in part), count, *self._arrivals(chosen, jobs)]
            told = [self._told(record, job_id) for job_id in chosen]
            return Plan(ops, made + len(parts), told, self._taking.session_of(taken.id))

        try:
            count = self._commits.run(build)
        except ItemLost:
            self._drop_ids(ids)
            raise
        self._drop_ids(ids[count - made :])
        return count

    def _fitting(self, guards: Sequence[Op], parts: Sequence[list[Op]]) -> Sequence[list[Op]]:
        """As many of these as one multi can hold, and one at least."""
        size = sum(map(size_of, guards))
        for number, part in enumerate(parts):
            size += sum(map(size_of, part)) + TOLD_BYTES
            if number and size > MOST_BYTES * 0.9:
                return parts[:number]
        return parts

    def _guards(self, record: Record) -> list[Op]:
        tree, batch = self._tree, record.batch
        guards = [Op("check", tree.status(batch.id), version=record.version), Op("check", tree.lock(batch.id))]
        return [*guards, *(Op("make", path, data) for path, data in self._moves.missing_folders(record))]

    def _job_ops(self, batch: Batch, job_id: str, job: NewJob, work_folder: str) -> list[Op]:
        tree, path, now = self._tree, self._tree.item(job_id), self._commits.now()
        configuration = job_configuration(batch, job_id, job, work_folder)
        identifiers, row = tree.identifiers(job.identifiers), self._create_row
        nodes: list[tuple[str, bytes | None]] = [
            (f"{path}/configuration", encode(tree.configuration(configuration))),
            (f"{path}/status", tree.job_status(row.target, None, now, 0, row.meaning)),
            (f"{path}/priority", b"%d" % job.priority),
            *tree.job_nodes(job_id, batch.id),
            *([(f"{path}/identifiers", encode(identifiers))] if identifiers else []),
            (tree.entry(row.target, job.priority, job_id), tree.empty),
            (f"{tree.folder(batch.id, tree.folders[0])}/{job_id}", tree.empty),
        ]
        return [Op("make", *node) for node in nodes]

    def _told(self, record: Record, job_id: str) -> Told:
        row = self._create_row
        return Told(row.event, record.item.worker, row.source, row.target, batch=record.item.id, job=job_id)

    def _arrivals(self, ids: Sequence[str], jobs: Sequence[NewJob]) -> list[Op]:
        by_priority: dict[int, list[str]] = {}
        for job_id, job in zip(ids, jobs, strict=False):
            by_priority.setdefault(job.priority, []).append(job_id)
        return [
            self._commits.arrival("pending", priority, some[0] if len(some) == 1 else "")
            for priority, some in by_priority.items()
        ]

    def _drop_ids(self, ids: Sequence[str]) -> None:
        """They were not needed: a node with something below it is not removed."""
        if ids:
            self._sessions.base.ask(*(remove(self._tree.item(each)) for each in ids))

    # ------------------------------------------------------------------ holds

    def set_hold(self, hold: Hold) -> Hold:
        """The collection waits; the hold that stands."""

        def build() -> Plan[Hold | None]:
            if standing := self._questions.hold(hold.profile):
                return Plan([], standing)
            content = {"reason": hold.reason, "who": hold.who, "since": self._tree.time(self._commits.now())}
            told = Told("hold", hold.who, "", "held", hold.reason, profile=hold.profile)
            return Plan([Op("make", self._tree.hold(hold.profile), encode(content))], None, [told])

        return self._commits.run(build) or self._questions.hold(hold.profile) or hold

    def clear_hold(self, profile: str, who: str) -> bool:
        """The collection no longer waits. False: it did not."""

        def build() -> Plan[bool]:
            standing = self._questions.hold(profile)
            if standing is None:
                return Plan([], False)  # noqa: FBT003 - the answer
            told = Told("clear", who, "held", "", standing.reason, profile=profile)
            return Plan([Op("remove", self._tree.hold(profile))], True, [told])  # noqa: FBT003 - the answer

        return self._commits.run(build)
