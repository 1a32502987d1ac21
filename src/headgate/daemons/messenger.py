"""The messenger: sends the mails and callbacks that wait in the outbox."""

from __future__ import annotations

from collections.abc import Callable

from headgate.daemons.rounds import Rounds

#: A recipient waits for the report: check at least this often.
INTERVAL_SECONDS = 1.0


def messenger(send: Callable[[], int], interval: float) -> list[Rounds]:
    """Several can run at once: a message that is sent twice has the same id."""
    return [Rounds("messenger", send, min(interval, INTERVAL_SECONDS))]
