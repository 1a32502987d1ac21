"""What a service does again and again beside its requests: nothing that goes wrong ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headgate.core.errors import HeadgateError
from headgate.telemetry import event

Work = Callable[[], Awaitable[object]]


async def repeat(seconds: float, work: Work, failed: str, first: float | None = None) -> None:
    """Do it once in that many seconds, at first after `first`, until it is cancelled. `failed`: an error's event."""
    await asyncio.sleep(seconds if first is None else first)
    while True:
        await attempt(work, failed)
        await asyncio.sleep(seconds)


async def attempt(work: Work, failed: str) -> None:
    """Do it once. An error is logged: a store that does not answer, or a bug, which callers must not pay for twice."""
    try:
        await work()
    except HeadgateError as error:
        event(failed, why=str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, the next time is due
        event(failed, logging.ERROR, why=repr(error))
