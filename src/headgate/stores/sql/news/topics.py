"""News: waiters in every process of the store learn which chunks and items can be claimed or taken.

A waiter for a chunk or an item subscribes to topics. A change is announced on its topic after the commit, if the
transaction found that another process listens. A wake-up may get lost, so a waiter also polls once a second.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from headgate.stores.sql.database.engine import Database
from headgate.stores.sql.database.transaction import Transaction
from headgate.stores.sql.database.wires import EVERYTHING
from headgate.stores.sql.news import listener
from headgate.stores.sql.news.listener import WakeupListener

T = TypeVar("T")

#: The topic of changes that may concern every waiter.
ANYTHING = ""
#: The longest pause between two checks of a waiter that is not woken.
LONGEST = 0.25


@lru_cache(maxsize=4096)
def number_of(topic: str) -> int:
    """The number that represents a topic in a wake-up. Two topics may have the same number: then a waiter checks in
    vain.
    """
    return int.from_bytes(hashlib.sha256(topic.encode()).digest()[:6]) + EVERYTHING + 1 if topic else EVERYTHING


def of_job(job: str) -> str:
    """The topic of a job's changes to its chunks."""
    return f"job {job}"


def of_dataset(dataset: str) -> str:
    """The topic of data made elsewhere, and of locks that end on a dataset's chunks."""
    return f"dataset {dataset}"


def of_data(dataid: str) -> str:
    """The topic of claims that end on the chunks with that id."""
    return f"data {dataid}"


class Subscription:
    """A waiter: it is woken until it ends."""

    def __init__(self, news: News, topics: Iterable[str], wake: Callable[[], None]) -> None:
        self.numbers = frozenset(map(number_of, topics))
        self.wake = wake
        self._news = news
        self._began = time.monotonic()

    @property
    def pause(self) -> float:
        """Seconds after which to check if it is not woken."""
        if self._news.told:
            return listener.LISTENING_PAUSE
        waited = time.monotonic() - self._began
        return max(min(waited * listener.PART, LONGEST), listener.SHORTEST)

    def end(self) -> None:
        """Stop waiting."""
        self._news.forget(self)


class News:
    """The news that one process sends and receives."""

    def __init__(self, database: Database, tag: str) -> None:
        self._database = database
        self._wire = database.dialect.wire()
        #: Every process of this store listens here.
        self.channel = f"hg_news_{tag}"
        self._listener = WakeupListener(database, self._heard, self._wire)
        self._listening: set[Subscription] = set()
        self._guard = threading.Lock()

    @property
    def told(self) -> bool:
        """Whether wake-ups reach this process, no other process could send one, or polling once a second has to
        suffice.
        """
        return self._wire is None or self._listener.listening or self._database.dialect.polls_slowly

    def listen(self, topics: Iterable[str], wake: Callable[[], None]) -> Subscription:
        """Call `wake`, from any thread, when there is news on one of the topics."""
        listening = Subscription(self, topics, wake)
        with self._guard:
            self._listening.add(listening)
        if self._wire is not None:
            self._listener.begin(self.channel)
        return listening

    def forget(self, listening: Subscription) -> None:
        """Stop waiting for these."""
        with self._guard:
            self._listening.discard(listening)

    def write(self, work: Callable[[Transaction], T], *topics: str, again: bool = False) -> T:
        """Run it in one transaction, as `Database.write_through` does, and then announce it on the topics."""
        result, listened = self.written(work, again=again)
        self.announce(topics, listened=listened)
        return result

    def written(self, work: Callable[[Transaction], T], *, again: bool = False) -> tuple[T, bool]:
        """The same, for a caller that announces it later. Also returns whether another process may be listening."""

        def noted(tx: Transaction) -> tuple[T, bool]:
            return work(tx), tx.listened

        return self._database.write_through(noted, again=again)

    def announce(self, topics: Iterable[str], *, listened: bool = True) -> None:
        """Wake the waiters for any of these. `listened`: there may be some in other processes."""
        numbers = {number_of(topic) for topic in topics}
        for number in numbers:
            self._heard(number)
        if listened and self._wire is not None:
            self._wire.send(self._database, self.channel, sorted(numbers))

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _heard(self, number: int) -> None:
        if not self._listening:
            return  # A process that starts listening later checks first.
        with self._guard:
            called = [each for each in self._listening if number == EVERYTHING or number in each.numbers]
        for each in called:
            each.wake()
