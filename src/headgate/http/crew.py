"""Quick calls to the store, for many callers by few threads.

A thread of its own for each call would cost more than the call: handing over, and taking turns at the interpreter. Here
a thread goes on with what is waiting, and what it has done is handed back many at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Call = tuple[Callable[..., Any], tuple[Any, ...], "asyncio.Future[Any]"]


class Crew:
    """So many threads, for one event loop."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._waiting: SimpleQueue[Call | None] = SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._told = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """What the call gives, made in a thread. It is not undone when nobody waits for it any more."""
        if self._loop is None:
            self._start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.put((call, arguments, future))
        return await future

    async def run_to_its_end(self, call: Callable[..., T], *arguments: Any) -> T:
        """As `run`; but who is cancelled meanwhile goes on only when the call is over, and can undo what it did."""
        doing = asyncio.ensure_future(self.run(call, *arguments))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait({doing})
            raise
        finally:
            if doing.done() and not doing.cancelled():
                doing.exception()  # It is known: nobody has to be warned of it.

    def close(self) -> None:
        """What is waiting is done first."""
        if self._loop is not None:
            for _ in range(self._threads):
                self._waiting.put(None)
            self._loop = None

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for number in range(self._threads):
            threading.Thread(target=self._work, args=(self._loop,), name=f"headgate-crew-{number}", daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (todo := self._waiting.get()) is not None:
            call, arguments, future = todo
            try:
                self._done.append((future, call(*arguments), None))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                self._done.append((future, None, error))
            if not self._told:
                self._told = True
                try:
                    loop.call_soon_threadsafe(self._hand_back)
                except RuntimeError:  # The loop has ended, and nobody waits any more.
                    return

    def _hand_back(self) -> None:
        self._told = False  # Before they are taken: what is done from now on is told anew.
        while self._done:
            future, result, error = self._done.popleft()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
