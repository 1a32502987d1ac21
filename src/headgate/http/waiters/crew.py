"""Fast calls to the store, for many callers with few threads.

A thread for each call would cost more than the call itself: switching, and contention for the interpreter. Here all
calls from one iteration of the event loop are passed on together, and the results of fast calls are returned together:
the loop and the threads run for longer, and do not interrupt each other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from headgate.calls.deadlines import asked_at
from headgate.service.leases.clock import steady

#: A faster call did not wait for a disk or a server.
NO_TIME_SECONDS = 0.0005
T = TypeVar("T")
#: The function, its arguments, its caller, the time of the request (monotonic: deadlines run from then), and the
#: context.
Call = tuple[Callable[..., Any], tuple[Any, ...], "asyncio.Future[Any]", float, Context]


class Crew:
    """A fixed number of threads for one event loop."""

    def __init__(self, threads: int) -> None:
        #: Number of concurrent calls.
        self.threads = threads
        #: In this iteration of the loop.
        self._asked: list[Call] = []
        self._waiting: SimpleQueue[Call | None] = SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._told = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """The result of the call, made in a thread. It is not undone when the caller no longer waits for it."""
        if self._loop is None:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        # The store must know the acting caller, and the request whose effect it writes.
        self._asked.append((call, arguments, future, time.monotonic(), copy_context()))
        if len(self._asked) == 1:
            loop.call_soon(self._hand_over)
        return await future

    async def run_to_its_end(self, call: Callable[..., T], *arguments: Any) -> T:
        """Like `run`; but a cancelled caller continues only when the call has ended, and can undo its effect."""
        doing = asyncio.ensure_future(self.run(call, *arguments))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait({doing})
            raise
        finally:
            if doing.done() and not doing.cancelled():
                doing.exception()  # It is handled: no warning is needed.

    def close(self) -> None:
        """Queued calls are made first."""
        if self._loop is not None:
            for _ in range(self.threads):
                self._waiting.put(None)
            self._loop = None

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for number in range(self.threads):
            threading.Thread(target=self._work, args=(self._loop,), name=f"headgate-crew-{number}", daemon=True).start()

    def _hand_over(self) -> None:
        for each in self._asked:
            self._waiting.put(each)
        self._asked.clear()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (todo := self._waiting.get()) is not None:
            call, arguments, future, asked, context = todo
            began = steady()
            try:
                self._done.append((future, context.run(_call, call, arguments, asked), None))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                self._done.append((future, None, error))
            if not self._may_wait(steady() - began) and not self._return_results(loop):
                return

    def _may_wait(self, seconds: float) -> bool:
        """Whether a result waits for the next one, which arrives immediately; slow calls do not delay results."""
        return self.threads == 1 and seconds < NO_TIME_SECONDS and not self._waiting.empty()

    def _return_results(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the loop is about to collect results."""
        if not self._told:
            self._told = True
            try:
                loop.call_soon_threadsafe(self._hand_back)
            except RuntimeError:  # It has ended, and no caller waits any more.
                return False
        return True

    def _hand_back(self) -> None:
        self._told = False  # Before they are collected: later results are announced again.
        while self._done:
            future, result, error = self._done.popleft()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


def _call(call: Callable[..., T], arguments: tuple[Any, ...], asked: float) -> T:
    with asked_at(asked):
        return call(*arguments)
