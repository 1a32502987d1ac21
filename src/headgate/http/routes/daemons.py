"""Running daemons and stuck work, over HTTP: operations that need more than a call of the service."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.alarms import Alarm
from headgate.core.daemons import Daemon
from headgate.core.values.words import check_word
from headgate.daemons.names import DAEMONS
from headgate.http.api.handlers import ApiCall, Handlers
from headgate.operations import daemons
from headgate.operations.declaring import Page

handlers = Handlers(daemons.declared)


@handlers.of(daemons.batch_alarms)
def batch_alarms(call: ApiCall, *, bid: str) -> Page[Alarm]:
    """For a batch that the caller may see."""
    batch = call.gate.queue.batch(bid)
    call.who.must_see("batch", "queue:submit", batch.profile, bid)
    return Page([] if call.gate.sight else call.gate.alarms_of(batch))


@handlers.of(daemons.sign_on)
def sign_on(call: ApiCall, *, daemon: str, worker: str, steps: Sequence[str], lease: float) -> None:
    """Under the caller's own name."""
    known = tuple(check_word("steps", each, DAEMONS) for each in steps)
    call.gate.queue.presence.sign_on(Daemon(_own_id(call, daemon), worker, known, lease))


@handlers.of(daemons.sign_off)
def sign_off(call: ApiCall, *, daemon: str) -> None:
    """The same."""
    call.gate.queue.presence.sign_off(_own_id(call, daemon))


def _own_id(call: ApiCall, daemon: str) -> str:
    """The id of a principal's daemon: no principal can register or deregister another one's. Principal names contain no
    colon.
    """
    return f"{call.who.principal}:{daemon}"
