"""Items whose owner died: counted, and held when that happens too often.

A lock ends with the session of whoever took the item; a second node does not. So an item without a lock, whose node
still names the taking at the version of its status, was taken by somebody who died.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from headgate.calls.actor import acting
from headgate.core.errors import ItemLost, StoreUnavailable, Unavailable
from headgate.core.owners import Actor
from headgate.core.queue import REAP_EVENT, Changes, Item, Taken, choose, reap_facts, reap_message
from headgate.stores.zookeeper.changes import Plan
from headgate.stores.zookeeper.multi import Op, first_error, multi
from headgate.stores.zookeeper.queue_commits import Commits
from headgate.stores.zookeeper.queue_moves import Moves
from headgate.stores.zookeeper.queue_questions import QueueQuestions
from headgate.stores.zookeeper.queue_records import Record, taking_note
from headgate.stores.zookeeper.queue_tree import QueueTree
from headgate.stores.zookeeper.session import Interrupted, Session, Sessions


class Reaping:
    """Reaps the items of one queue."""

    def __init__(
        self, sessions: Sessions, tree: QueueTree, questions: QueueQuestions, commits: Commits, moves: Moves
    ) -> None:
        self._sessions = sessions
        self._tree = tree
        self._questions = questions
        self._commits = commits
        self._moves = moves

    def reap(self, record: Record) -> Item | None:
        """Nobody's in the same state, or held, as its table says. None: somebody else was first, or it lives."""

        def build() -> Plan[Item | None]:
            found = self._questions.find(record.item.id)
            if found is None or found.died is None or found.version != record.version:
                return Plan([], None)
            item, worker = found.item, found.died[0] or "somebody"
            table, most = self._questions.table(item.id), self._sessions.options.max_crashes
            row = choose(table, item.id, item.state, REAP_EVENT, reap_facts(item, most))
            message = reap_message(row, item, worker)
            new = self._moves.after(found, row, message, Changes())
            return Plan(self._moves.move(found, new, row), new, [self._moves.told(found, row, worker, message)])

        with acting(Actor()):  # Whoever notices it has not done it.
            return self._commits.run(build)

    def expire(self, limit: int) -> Iterator[Record]:
        """Reap what was taken by somebody who died. Yields what was reaped."""
        self._questions.catch_up()
        count = 0
        for record in self._questions.records(self._questions.noted()):
            if count < limit and record.died is not None and self.reap(record) is not None:
                count += 1
                yield record

    def end(self, record: Record, session: Session) -> bool:
        """A lease that ran out though its session lives: nobody has the item, and whoever comes by counts it as dead.

        Its status is written anew, so that the token is dead for good.
        """
        status = Op("set", self._tree.status(record.item.id), record.status, record.version)
        note = {**taking_note(record.item), "token": record.version + 1, "was": record.version}
        gone = replace(record.item, crashes=0)  # Its note is the last one.
        ops = [status, *self._moves.free(replace(record, noted=False), gone), *self._moves.note(record, note)]
        try:
            results = session.change(multi(ops))[0]
        except Interrupted as error:
            raise StoreUnavailable(self._sessions.name, str(error)) from error
        return not isinstance(results, Exception) and first_error(results) is None

    @contextmanager
    def late(self, taken: Taken) -> Iterator[None]:
        """A report that is refused still says that whoever sends it lives."""
        try:
            yield
        except ItemLost:
            with suppress(Unavailable):
                self.report_late(taken.id, taken.token)
            raise

    def report_late(self, item_id: str, token: int) -> None:
        """An owner that lost the item reports that it lives: it did not die, if nobody has noticed meanwhile."""
        record = self._questions.find(item_id)
        if record is None or record.died is None or record.died[1] != token:
            return
        status = Op("check", self._tree.status(item_id), version=record.version)
        self._sessions.base.ask(multi([status, *self._moves.free(record, record.item)]))
