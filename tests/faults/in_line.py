"""Processes that wait, or end what others wait for, and that may crash at that moment."""

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

import headgate
from headgate.service.locks import waiting as service_waiting
from headgate.stores.sql.locks import changes as lock_changes
from headgate.stores.sql.locks import turns as queueing
from headgate.stores.sql.locks import waiting
from headgate.stores.sql.news import listener
from headgate.stores.sql.news import topics as news
from tests.faults.processes import Channel, now

#: Longer than any test.
NEVER = 1000.0


def wait_in_line(
    channel: Channel, url: str, resource: str, client: str, lease: float, *, polls: bool = True, breaks: str = ""
) -> None:
    """Wait for the lock, report the grant, and release it on request; `breaks`: die by that signal instead.

    It checks only when it is woken or polls: it sends no keep-alives, and none are expected. Without `polls` it checks
    only when it is woken.
    """
    service_waiting.SIGN_OF_LIFE_SECONDS = NEVER
    for module in (lock_changes, queueing):
        module.WAITER_LEASE = int(NEVER * 1e6)  # type: ignore[attr-defined] # a constant otherwise
    if not polls:
        listener.SHORTEST = listener.LISTENING_PAUSE = NEVER
    gate = headgate.connect(url)
    channel.send("ready")
    lock = gate.locks.acquire(client, resource, "exclusive", wait=NEVER, lease=lease)
    channel.ask("held", at=now(), token=lock.token)

    def fail(*_: object, **__: Any) -> None:
        os.kill(os.getpid(), signal.Signals[breaks])

    if breaks:
        waiting.Wakeups.wake = waiting.Wakeups.ring = fail  # type: ignore[method-assign] # after the commit
    gate.locks.release(lock)
    if breaks:  # There the store itself wakes the next one, in the same step.
        fail()
    channel.send("released", at=now())
    gate.close()


def wait_for_chunk(channel: Channel, url: str, job: str) -> None:
    """Wait for a chunk of a job; report as soon as wake-ups reach this process."""
    gate = headgate.connect(url)
    listen = news.News.listen

    def listen_and_tell(self: news.News, topics: Iterable[str], wake: Callable[[], None]) -> news.Subscription:
        listening = listen(self, topics, wake)
        channel.send("listens")
        return listening

    news.News.listen = listen_and_tell  # type: ignore[method-assign] # to know when
    gate.ledger.find_next(job, wait=NEVER)


def publish_unheard(channel: Channel, url: str, dataset: str, dataid: str, breaks: str) -> None:
    """Publish a chunk, and die by that signal after the commit, before other processes are notified."""
    gate = headgate.connect(url)

    def fail(*_: object, **__: Any) -> None:
        channel.send("committed", at=now())
        os.kill(os.getpid(), signal.Signals[breaks])

    news.News.announce = fail  # type: ignore[method-assign] # after the commit
    gate.ledger.publish(dataset, dataid)
