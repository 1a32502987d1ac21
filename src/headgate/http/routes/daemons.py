"""Daemons that live, and what is stuck, over HTTP."""

from typing import Annotated, Any

from fastapi import Query, Response

from headgate.core.alarms import Alarm
from headgate.core.daemons import Daemon
from headgate.core.queue import Batch, IngestJob, for_readers
from headgate.core.wire import plain
from headgate.core.words import check_word
from headgate.daemons.names import DAEMONS
from headgate.http import direct
from headgate.http.auth import Caller, Reader, TheGate, needs
from headgate.http.queue_schemas import DaemonSignedOn
from headgate.http.schemas import After, Limit, Page, answer, documented, listing, nothing, page_after

router = direct.router("daemons")
Consumer = Annotated[Caller, needs("queue:work")]
Submitter = Annotated[Caller, needs("read", "queue:submit")]
ALARMS = documented(200, Page[dict[str, Any]], "Each with its sentence and the command that fixes it.")


@router.get("/alarms", responses=ALARMS)
def alarms(gate: TheGate, _who: Reader) -> Response:
    """List what is stuck: what waits for a consumer or daemon that does not run, for a profile that cannot be used, or
    far longer than usual. Empty for a caller whose `read` is limited.
    """
    return listing(gate.alarms(), None, alarm_data)


@router.get("/batches/{bid}/alarms", responses=ALARMS)
def batch_alarms(gate: TheGate, who: Submitter, bid: str) -> Response:
    """List what blocks a batch."""
    batch = gate.queue.batch(bid)
    who.must_see("batch", "queue:submit", batch.profile, bid)
    return listing([] if gate.sight else gate.alarms_of(batch), None, alarm_data)


@router.get("/daemons", responses=documented(200, Page[Daemon], "By id."))
def daemons(gate: TheGate, _who: Reader, after: After = None, limit: Limit = 100) -> Response:
    """List the running daemons, each with the steps that it handles."""
    found = sorted(gate.queue.presence.living(), key=lambda each: each.id)
    return page_after(found, after, limit, lambda each: each.id)


@router.put("/daemons/{daemon}", status_code=204)
def sign_on(gate: TheGate, who: Consumer, daemon: str, given: DaemonSignedOn) -> Response:
    """Register a daemon, or renew its lease (at most a day). An id belongs to the principal that uses it."""
    steps = tuple(check_word("steps", each, DAEMONS) for each in given.steps)
    gate.queue.presence.sign_on(Daemon(_own_id(who, daemon), given.worker, steps, given.lease))
    return nothing()


@router.delete("/daemons/{daemon}", status_code=204)
def sign_off(gate: TheGate, who: Consumer, daemon: str) -> Response:
    """Unregister a daemon."""
    gate.queue.presence.sign_off(_own_id(who, daemon))
    return nothing()


@router.get(
    "/queue/first-free", responses=documented(200, Batch | IngestJob, "The item.", nothing="No item is waiting.")
)
def first_free(
    gate: TheGate,
    who: Reader,
    noun: Annotated[str, Query(description="batch or ingest job.")],
    state: Annotated[str, Query(description="The state.", examples=["pending"])],
) -> Response:
    """Return the item in a state that would be taken next."""
    found = gate.queue.first_free(noun, state)
    if found is None:
        return nothing()
    return answer(found if who.reach.has("queue:work") else for_readers(found))


def alarm_data(alarm: Alarm) -> dict[str, Any]:
    """An alarm in JSON's own types, with its command."""
    return {**plain(alarm), "command": alarm.command}


def _own_id(who: Caller, daemon: str) -> str:
    """The id of a principal's daemon: nobody signs another one's on or off. No principal has a colon in its name."""
    return f"{who.principal}:{daemon}"
