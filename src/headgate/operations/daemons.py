"""Daemons that are running, and what is stuck."""

from __future__ import annotations

from typing import Annotated

from headgate.core.alarms import Alarm
from headgate.core.daemons import Daemon
from headgate.core.errors import BadValue, UnknownName
from headgate.core.ledger.watches.model import Watcher
from headgate.core.queue.model import PENDING, Batch, IngestJob
from headgate.operations.arguments import USUAL, After, By, Lease, Limit, Reason
from headgate.operations.declaring import About, Declarations, Idempotency, Page

declared = Declarations("daemons", "queue")
ALARMS = "Each with its sentence and the command that fixes it."


@declared.get("/alarms", "read", answer=ALARMS, call="alarms")
def alarms() -> Page[Alarm]:
    """List what is stuck: items that wait for a consumer or daemon that is not running, for a profile that cannot be
    used, or far longer than usual, and history that is overdue for removal. Empty for a caller whose `read` is limited.
    """


@declared.get("/batches/{bid}/alarms", "read", "queue:submit", answer=ALARMS, errors=(UnknownName,))
def batch_alarms(bid: str) -> Page[Alarm]:
    """List what blocks a batch."""


@declared.get("/daemons", "read", answer="By id.", call="queue.presence.living", whole=True)
def daemons(after: After = None, limit: Limit = USUAL) -> Page[Daemon]:
    """List the running daemons, each with the steps that it handles."""


@declared.put("/daemons/{daemon}", "queue:work", errors=(BadValue,))
def sign_on(
    daemon: str,
    worker: Annotated[str, About(example="archive-2 pid 4711 #a1b2c3")],
    steps: Annotated[list[str], About(max_length=100, example=["job-downloading", "job-processing"])],
    lease: Lease = 60,
) -> None:
    """Register a daemon, or renew its lease (at most a day). An id belongs to the principal that uses it."""


@declared.delete("/daemons/{daemon}", "queue:work", repeat=Idempotency.SAFE, call="queue.presence.sign_off")
def sign_off(daemon: str) -> None:
    """Unregister a daemon."""


@declared.get("/watchers", "read", answer="By dataset.", call="watches.list", whole=True, cursor="dataset")
def watchers(after: After = None, limit: Limit = USUAL) -> Page[Watcher]:
    """List the watchers of datasets, with the times of the last poll and of the last new file."""


@declared.post(
    "/watchers/{dataset}/forget", "operate", repeat=Idempotency.KEY, call="watches.forget", errors=(UnknownName,)
)
def forget_watcher(dataset: str, reason: Reason, by: By = None) -> None:
    """Remove a watcher that will not come back, so that no alarm is raised. The files that were counted are kept."""


@declared.get("/queue/first-free", "read", answer="The item.", nothing="No item is waiting.", errors=(BadValue,))
def first_free(
    noun: Annotated[str, About("batch or ingest job.")], state: Annotated[str, About("The state.", example=PENDING)]
) -> Batch | IngestJob | None:
    """Return the item in a state that would be taken next."""
