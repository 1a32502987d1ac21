"""Consumers: they take items in some states, run a handler on each, and fire the events of the table.

Every worker is a thread. A worker that is asked to stop takes nothing more; running work may finish within a grace
period, and is then released: an item is moved by its outcome, or keeps its state.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.errors import HeadgateError, Unavailable
from headgate.core.queue.model import PROVISIONING, Item
from headgate.daemons.lanes import Lane
from headgate.daemons.reporting import Reporter
from headgate.service.leases.clock import steady
from headgate.service.leases.renewal import ItemHold
from headgate.service.queue.checks import DEFAULT_LEASE
from headgate.service.queue.outcomes import CanAbandon, Handler
from headgate.service.queue.use_cases import Queue
from headgate.telemetry import event

#: An idle worker checks at least this often, even if it is not woken.
POLL_SECONDS = 5.0
#: The pause while the store is unavailable, at first and at most; it doubles each time.
FIRST_BACK_OFF_SECONDS, LONGEST_BACK_OFF_SECONDS = 0.5, 30.0
#: The time that handlers have to end after the grace period, once they are notified that the item is released.
LAST_SECONDS = 3.0
#: Deferred jobs stay in this state, and all are checked in every round.
ROUNDS_STATE = PROVISIONING


@dataclass(frozen=True, slots=True)
class Post:
    """How to process the items in one state."""

    #: `batch` or `ingest job`.
    noun: str
    state: str
    handler: Handler
    #: Number of items at a time.
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a consumer, in seconds."""

    #: Seconds after which an item is free again if this process dies.
    lease: float = DEFAULT_LEASE
    #: Between two rounds, while there are items that cannot be done yet.
    round_pause: float = 10.0
    #: From the request to stop until running items are released.
    grace: float = 30.0


class Consumers:
    """Several posts, each with its workers."""

    def __init__(
        self, queue: Queue, posts: Sequence[Post], pace: Pace | None = None, stop: threading.Event | None = None
    ) -> None:
        self._pace = pace or Pace()
        #: Set: no worker takes anything more. Call `stop` after setting it, to wait for running work.
        self._stop = stop or threading.Event()
        self._workers: list[Worker] = []
        for post in posts:
            lane = Lane(self._pace.round_pause, grows=post.state != ROUNDS_STATE)
            self._workers += [Worker(queue, post, lane, self._pace.lease, self._stop) for _ in range(post.workers)]

    def start(self) -> None:
        """Begin to take."""
        for worker in self._workers:
            threading.Thread(target=worker.run, name=f"headgate-{worker.post.state}", daemon=True).start()

    def stop(self, hurry: threading.Event | None = None) -> None:
        """Take nothing more, wait for running work, and release what does not end in time. `hurry` ends the grace
        period.
        """
        self._stop.set()
        running = [worker for worker in self._workers if worker.busy]
        event("consumer.stopping", running=len(running), grace=self._pace.grace)
        self._await_idle(self._pace.grace, hurry)
        for worker in self._workers:
            worker.give_up()
        self._await_idle(LAST_SECONDS, None)
        for worker in self._workers:
            worker.hand_back()
        event("consumer.stopped")

    def _await_idle(self, seconds: float, hurry: threading.Event | None) -> None:
        deadline = steady() + seconds
        for worker in self._workers:
            while not worker.idle.wait(0.05):
                if steady() >= deadline or (hurry is not None and hurry.is_set()):
                    return


class Worker:
    """One thread: takes an item, runs the handler, reports, and looks for the next one."""

    def __init__(self, queue: Queue, post: Post, lane: Lane, lease: float, stop: threading.Event) -> None:
        self.post = post
        #: Set while this worker has no item and takes none.
        self.idle = threading.Event()
        self.idle.set()
        self._queue = queue
        self._lane = lane
        self._lease = lease
        self._stop = stop
        self._reporter = Reporter(queue, post.handler, lane, stop)
        self._hold: ItemHold | None = None
        self._failures = 0

    @property
    def busy(self) -> bool:
        """Whether it has an item, or is about to take one."""
        return not self.idle.is_set()

    def run(self) -> None:
        """Run until asked to stop. Nothing else ends it."""
        event("consumer.started", noun=self.post.noun, state=self.post.state)
        while not self._stop.is_set():
            try:
                if not self._work_once():
                    self._rest()
                self._store_answers()
            except Unavailable as error:
                self._back_off("consumer.store_away", str(error))
            except HeadgateError as error:
                self._back_off("consumer.error", str(error))
            except Exception as error:  # noqa: BLE001 - one bad item or a bug of ours must not end the daemon
                self._back_off("consumer.error", f"{type(error).__name__}: {error}", traceback.format_exc())

    def give_up(self) -> None:
        """The grace period is over: the handler is notified that its item is lost."""
        hold = self._hold
        if hold is not None:
            hold.give_up("the consumer is stopping, and its grace period is over")

    def hand_back(self) -> None:
        """Release items that are still taken: a later report of the handler will be refused."""
        hold = self._hold
        if hold is None:
            return
        handler: object = self.post.handler
        if isinstance(handler, CanAbandon):
            handler.abandon(hold.item)
        hold.stop()
        try:
            self._queue.give_back(hold.item, "its consumer stopped before it finished")
            event("consumer.handed_back", logging.WARNING, item=hold.item.id, state=hold.item.state)
        except HeadgateError as error:
            event("consumer.not_handed_back", logging.WARNING, item=hold.item.id, why=str(error))

    def _work_once(self) -> bool:
        """One item, from taking it to the report. False: there is none now."""
        if self._lane.resting() or not self._begin():
            return False
        try:
            sent = steady()
            item = self._take()
            if item is None:
                return False
            self._keep_and_work(item, sent)
            return True
        finally:
            self.idle.set()

    def _begin(self) -> bool:
        """From here on the worker counts as busy, unless it has already been asked to stop."""
        self.idle.clear()
        if self._stop.is_set():
            self.idle.set()
            return False
        return True

    def _take(self) -> Item | None:
        place = self._lane.place()
        item: Item | None
        if self.post.noun == "batch":
            behind = None if place is None else place.id
            item = self._queue.acquire_batch(self.post.state, lease=self._lease, after=behind)
        else:
            after = None if place is None else getattr(place, "place", None)
            item = self._queue.acquire_job(self.post.state, lease=self._lease, after=after)
        if item is None and place is not None:
            self._lane.end_round()
        return item

    def _keep_and_work(self, item: Item, sent: float) -> None:
        if self._stop.is_set() or self._lane.too_early(item):
            self._queue.give_back(item)
            return
        with self._queue.kept(item, sent) as hold:
            self._hold = hold
            try:
                self._reporter.work(item, hold)
            finally:
                self._hold = None

    def _rest(self) -> None:
        """Wait until there may be work. Deferred items wake nobody, because they are free all the time."""
        pause = self._lane.resting()
        if pause:
            self._stop.wait(min(pause, POLL_SECONDS))
        elif self.post.noun == "batch":
            self._queue.await_work([self.post.state], [], POLL_SECONDS)
        else:
            self._queue.await_work([], [self.post.state], POLL_SECONDS)

    def _back_off(self, name: str, why: str, trace: str = "") -> None:
        self._failures += 1
        pause = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(self._failures - 1, 10), LONGEST_BACK_OFF_SECONDS)
        more = {"traceback": trace} if trace else {}
        event(name, logging.WARNING, state=self.post.state, why=why, failures=self._failures, again_in=pause, **more)
        self._stop.wait(pause)

    def _store_answers(self) -> None:
        if self._failures:
            event("consumer.store_back", state=self.post.state, failures=self._failures)
            self._failures = 0
