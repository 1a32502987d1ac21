"""Removing items: a job at once, a batch with all its jobs in portions that can be resumed after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core.queue.model import is_batch
from headgate.stores.zookeeper.ensemble.asking import children, look, read
from headgate.stores.zookeeper.ensemble.multi import Op, first_error, multi
from headgate.stores.zookeeper.ensemble.session import ZkSessions, windows
from headgate.stores.zookeeper.ensemble.tries import Tries
from headgate.stores.zookeeper.queue.questions import ItemQuestions
from headgate.stores.zookeeper.queue.records import BESIDE, MADE, ItemNodes
from headgate.stores.zookeeper.queue.tree import REMOVED, QueueTree, Unreadable, decode, encode

#: Number of jobs that are removed in one multi.
PORTION = 100


@dataclass(eq=False)
class Removing:
    """Removes the items of one queue."""

    _sessions: ZkSessions
    _tree: QueueTree
    _questions: ItemQuestions

    def ops(self, record: ItemNodes, state: str) -> list[Op]:
        """Remove every trace of a job except its batch's reference. A batch first gets this state, and is then removed.

        Such a batch is not listed, and any process that finds it continues its removal. Its status need not show it.
        """
        item, tree = record.item, self._tree
        status = tree.status(item.id)
        if is_batch(item.id):
            path, content = tree.made(item.id), encode({**record.own, REMOVED: state})
            marked = Op("set", path, content, record.versions[MADE]) if record.has(MADE) else Op("make", path, content)
            return [Op("set", status, tree.batch_status(state, item.since, item.message), record.version), marked]
        ops = [Op("remove", status, version=record.version)]
        ops += [Op("remove", each) for each in self.nodes(item.id) if each != status]
        ops += [Op("remove", tree.owner(item.id))] if record.owned or record.remains is not None else []
        ops += [Op("remove", tree.taking(item.id))] if record.noted else []
        ops += [Op("remove", tree.beside(item.id))] if record.has(BESIDE) else []
        if item.state in tree.entry_states:
            ops.append(Op("remove", tree.entry(item.state, record.job.priority, item.id)))
        return ops

    def drop_batch(self, batch_id: str) -> None:
        """Remove a marked batch, with all its jobs. Any process can resume it after an interruption."""
        for folder in self._tree.folders:
            for portion in windows(self._questions.refs(batch_id, folder), PORTION):
                refs = [Op("remove", f"{self._tree.folder(batch_id, folder)}/{job}") for job in portion]
                self._drop(lambda careful, jobs=portion, refs=refs: [*self._job_parts(jobs, careful=careful), *refs])  # type: ignore[misc]
        self._drop(lambda _: self._batch_parts(batch_id))

    def taken_job(self, batch_id: str) -> str:
        """A job of the batch that is taken; empty: there is none."""
        for folder in self._tree.folders:
            for portion in windows(self._questions.refs(batch_id, folder)):
                locks = self._sessions.base.ask(*(look(self._tree.lock(job)) for job in portion))
                for job, stat in zip(portion, locks, strict=True):
                    if stat is not None and (stat.ephemeralOwner or self._is_taken(job)):
                        return str(job)
        return ""

    def _is_taken(self, job_id: str) -> bool:
        record = self._questions.find(job_id)
        return record is not None and record.lock is not None

    def nodes(self, item_id: str) -> list[str]:
        """An item's node and everything below it, the deepest first."""
        return self.whole(self._tree.item(item_id))

    def whole(self, path: str) -> list[str]:
        """A node and everything below it, the deepest first."""
        return [*self._below([path]), path]

    def _below(self, paths: Sequence[str], *, deep: bool = True) -> list[str]:
        answers = self._sessions.base.ask(*(children(path) for path in paths))
        found = [
            f"{path}/{name}"
            for path, names in zip(paths, answers, strict=True)
            if not isinstance(names, Exception)
            for name in names
        ]
        return [*(self._below(found) if found and deep else []), *found]

    def _job_parts(self, jobs: Sequence[str], *, careful: bool) -> list[Op]:
        """All of these jobs, each at the version of its status, because its owner may change it meanwhile.

        `careful`: include nodes that another tool created below theirs.
        """
        tree = self._tree
        paths = [tree.item(job) for job in jobs]
        asked = [question for job in jobs for question in (read(tree.status(job)), read(f"{tree.item(job)}/priority"))]
        answers = self._sessions.base.ask(*asked)
        ops: list[Op] = []
        statuses: dict[str, int] = {}
        for job, status, priority in zip(jobs, answers[::2], answers[1::2], strict=True):
            if not isinstance(status, Exception):
                statuses[tree.status(job)] = status[1].version
                ops += [Op("remove", path) for path in self._entries(job, status, priority)]
        below = self._below(paths, deep=careful)
        ops += [Op("remove", path, version=statuses.get(path, -1)) for path in (*below, *paths)]
        ops += [Op("remove", tree.owner(job)) for job in jobs if careful or tree.lock(job) in below]
        own = [path for job in jobs for path in (tree.taking(job), tree.beside(job))]
        stats = self._sessions.base.ask(*map(look, own))
        return [*ops, *(Op("remove", path) for path, stat in zip(own, stats, strict=True) if stat)]

    def _entries(self, job: str, status: Any, priority: Any) -> list[str]:
        """A job's entries in the queue: where its status says or, if it is unreadable, all possible ones."""
        tree = self._tree
        try:
            state = tree.state(decode(status[0], "status").get("status"), tree.rules.job)
            return [tree.entry(state, int(priority[0]), job)]
        except (Unreadable, ValueError, TypeError):
            return [
                tree.entry(state, place, job)
                for state in tree.entry_states
                for place, each in self._questions.entries(state)
                if each == job
            ]

    def _batch_parts(self, batch_id: str) -> list[Op]:
        tree, path = self._tree, self._tree.item(batch_id)
        submission, made = self._sessions.base.ask(read(f"{path}/submission"), read(tree.made(batch_id)))
        nodes = [each for each in self.nodes(batch_id) if each != tree.status(batch_id)]
        others = [tree.owner(batch_id), tree.taking(batch_id), *self._below([tree.made(batch_id)]), tree.made(batch_id)]
        other_name = tree.uuid(_content(submission))
        request = _content(made).get("request_id")
        others += [other_name] if other_name else []
        others += [tree.request(request)] if request else []
        return [Op("remove", each) for each in (*others, *nodes[:-1], tree.status(batch_id), path)]

    def _drop(self, collect: Callable[[bool], list[Op]]) -> None:
        """All of it at once; with a careful look at what is there, while that does not go."""
        careful, tries = False, Tries(self._sessions.name)
        while True:
            ops = collect(careful)
            if careful:
                looks = [
                    stat for some in windows(ops) for stat in self._sessions.base.ask(*(look(o.path) for o in some))
                ]
                ops = [op for op, stat in zip(ops, looks, strict=True) if stat is not None]
            results: Any = self._sessions.base.ask(multi(ops))[0] if ops else []
            failed = first_error(results)
            if failed is None:
                return
            careful = True
            tries.again(f"cannot remove {ops[failed].path}: it has nodes that are not Headgate's, or is always changed")


def _content(answer: Any) -> dict[str, Any]:
    try:
        return {} if isinstance(answer, Exception) else decode(answer[0], "node")
    except Unreadable:
        return {}
