"""A daemon registers as running, renews its registration, and deregisters at its end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from headgate.core.daemons import LEASE_SECONDS, Daemon
from headgate.core.errors import HeadgateError
from headgate.daemons.rounds import Rounds
from headgate.service.access.identity import owner
from headgate.service.queue.presence import Presence

#: A daemon that runs a single round, from cron for example, counts as alive for this many seconds.
ONCE_SECONDS = 3600.0


def sign_on(presence: Presence, steps: Sequence[str]) -> Rounds:
    """Register this process at once, and return the rounds that renew the registration. An unavailable store is
    retried.
    """

    def renew() -> int:
        if steps:
            presence.sign_on(Daemon(owner(), owner(), tuple(steps)))
        return 0

    with suppress(HeadgateError):
        renew()
    return Rounds("sign-on", renew, LEASE_SECONDS / 3)


def sign_off(presence: Presence) -> None:
    """Deregister this process. An unavailable store notices it when the lease expires."""
    with suppress(HeadgateError):
        presence.sign_off(owner())


def ran_once(presence: Presence, steps: Sequence[str]) -> None:
    """Record that these daemons ran one round: the next one may come from the same schedule."""
    with suppress(HeadgateError):
        presence.sign_on(Daemon(f"once {' '.join(steps)}"[:255], owner(), tuple(steps), ONCE_SECONDS))
