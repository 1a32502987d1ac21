"""The messenger: sends the mails and callbacks that wait in the outbox."""

from __future__ import annotations

from collections.abc import Callable

from headgate.daemons.rounds import Rounds

#: Somebody waits for the report: look at least this often.
INTERVAL_SECONDS = 1.0


def messenger(send: Callable[[], int], interval: float) -> list[Rounds]:
    """Several may run at once: what is sent twice has one id."""
    return [Rounds("messenger", send, min(interval, INTERVAL_SECONDS))]
