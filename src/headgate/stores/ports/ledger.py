"""The port of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from headgate.core.filters import RowFilter, SpanFilter
from headgate.core.ledger.model import Asker, Change, Claim, Dataset, Defined, Job, Recurrence, Row
from headgate.core.locks.model import Lock
from headgate.core.logs import Log, LogStream, LogText
from headgate.stores.ports.news import Listening

if TYPE_CHECKING:
    from headgate.stores.ports.expectations import ExpectationStore
    from headgate.stores.ports.incidents import IncidentStore

if TYPE_CHECKING:  # Callers have imported these already: the command starts faster without the others.
    from headgate.core.access.credentials import Custody, CustodyChange, MasterWrap
    from headgate.core.ledger.census import Span, Tally
    from headgate.core.ledger.fan import ChunkLink, FanIn
    from headgate.core.ledger.parts import Listed
    from headgate.core.ledger.selection import BulkRequest, BulkResult
    from headgate.core.ledger.verdicts import Plan, Verdict


class LedgerStore(Protocol):
    """Datasets, jobs, and the status of every chunk. Every method that writes is one transaction."""

    #: The name of this store in error messages.
    name: str

    @property
    def incidents(self) -> IncidentStore:
        """Incidents: what needs a person."""

    @property
    def expectations(self) -> ExpectationStore:
        """Expectations: which chunks are late."""

    def define(self, datasets: Sequence[Dataset], jobs: Sequence[Job]) -> Defined:
        """Define datasets and jobs, and recompute the claimable chunks of the jobs; all of them, or none.

        Refused when the order of existing chunks would change. UnknownName for unknown datasets, BadValue for a second
        producer.
        """

    def datasets(self) -> Sequence[Dataset]:
        """All datasets, by name."""

    def jobs(self) -> Sequence[Job]:
        """All jobs, by name."""

    def job(self, job: str) -> tuple[Job, Sequence[Dataset]]:
        """A job and its datasets. UnknownName when there is none."""

    def publish(self, dataset: str, dataids: Sequence[str], who: str) -> int:
        """Publish data made elsewhere as READY. Returns how many were not READY before. ClaimRefused, changing none,
        when one belongs to another job.
        """

    def find_next(self, job: str, asker: Asker) -> Claim | None:
        """The first claimable chunk becomes RUNNING. None when there is none. Secrets in the claim are sealed."""

    def listen(self, job: str, wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when there may be another chunk for the job, or one of its own has ended."""

    def claim(self, job: str, dataid: str, asker: Asker) -> Claim:
        """That chunk, claimable: RUNNING. Otherwise ClaimRefused with the verdict."""

    def force(self, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
        """From any status to RUNNING, marked as forced. ClaimRefused while a worker is on it, unless `steal`."""

    def success(self, job: str, dataid: str, token: int, who: str, listed: Listed | None = None) -> None:
        """If RUNNING with that token: READY and DONE. A repeat changes nothing. Otherwise ClaimLost.

        `listed`: its fan-out parts, by dataset: READY; parts listed before and not now: HOLD. ClaimRefused when one of
        them belongs to another job, or was made from another data id.
        """

    def fail(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        """If RUNNING with that token: ERROR, or HOLD. A repeat changes nothing. Otherwise ClaimLost."""

    def interrupt(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        """If RUNNING with that token: RESUBMIT, HOLD, or the former status. A repeat: nothing. Otherwise ClaimLost."""

    def heartbeat(self, job: str, dataid: str, token: int, lease: float) -> float:
        """If RUNNING with that token and alive: the lease is renewed. Returns its length in seconds. Otherwise
        ClaimLost.
        """

    def keep_log(self, job: str, dataid: str, token: int, texts: Sequence[LogText], *, ended: bool) -> None:
        """Store the end of the output of the worker with that token. ClaimLost when another claim was made since.

        While it is RUNNING, the row's message is the last line. `ended`: the log is complete.
        """

    def logs(self, job: str, dataid: str, attempt: int | None, stream: LogStream | None, limit: int) -> Sequence[Log]:
        """The stored logs of a job on a chunk, newest attempt first. UnknownName when there is no such job."""

    def resubmit(
        self, job: str, dataids: Sequence[str], reason: str, who: str, *, downstream: bool, steal: bool, dry_run: bool
    ) -> Sequence[Change]:
        """From any status to RESUBMIT, and with `downstream` also everything that was made from it. Returns the
        changes, or those that it would make.
        """

    def change_selected(self, job: str, wish: BulkRequest) -> BulkResult:
        """Apply an operation to one part of the selected chunks, with the effect of its own method on each. Refused
        chunks are unchanged, and are named.
        """

    def hold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        """From any status, or none, to HOLD. ClaimRefused while a worker is processing it."""

    def unhold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        """From HOLD to the former status. TransitionRefused otherwise."""

    def close(self, job: str, dataid: str, reason: str, who: str, *, reopen: bool) -> bool:
        """Record that nothing else arrives for a data id of a job with mapped inputs; `reopen`: more may. Returns what
        changed.
        """

    def forget(self, job: str, dataid: str, reason: str, who: str, *, steal: bool) -> Sequence[Change]:
        """Remove the row, whatever its status. ClaimRefused while a worker is processing it, unless `steal`.
        UnknownName without a row.
        """

    def set_status(self, row: Row, reason: str, who: str) -> Change:
        """Set the row's status directly, for support."""

    def pause(self, job: str, reason: str, who: str) -> Job:
        """Pause the job for that reason: it claims no chunks. An empty reason resumes it."""

    def note_commands(self, job: str, digest: str, who: str) -> bool:
        """Record the SHA-256 of the file with the job's commands. Returns whether it has changed. UnknownName."""

    def reap(self, who: str, limit: int = 1000) -> int:
        """RUNNING with an expired lease: ERROR, or HOLD. Returns the number of chunks."""

    def explain(self, job: str, dataid: str) -> Verdict:
        """Return whether the job may claim the chunk, and why."""

    def plan(self, job: str, limit: int) -> Plan:
        """Return the chunks that would run next, in order, and what blocks the others."""

    def left(self, job: str, most: int) -> int:
        """Return how many chunks the job can find, counted up to `most`."""

    def recurrences(self) -> Sequence[Recurrence]:
        """Return the jobs that process their chunks repeatedly, by name, each with its oldest chunk."""

    def fan_in(self, job: str, dataids: Sequence[str], most: int) -> Sequence[FanIn]:
        """The needs of these data ids of a job for each input, with at most `most` links each."""

    def readers(self, dataset: str, dataid: str, most: int) -> Sequence[ChunkLink]:
        """The chunks that read this one or were made from it, by job, up to a number for each."""

    def rows(self, which: RowFilter) -> Sequence[Row]:
        """Rows of chunks, by dataset and in its order."""

    def failures(self, limit: int, after: str | None = None) -> Sequence[Row]:
        """Chunks that are in ERROR, newest first, one row each; `after`: the `failure_cursor` of a row."""

    def standing(self) -> Sequence[Tally]:
        """Number of chunks of each job that are running, failed, held or waiting to be resubmitted; each chunk counts
        once.
        """

    def tallies(self, most: int) -> Sequence[Tally]:
        """Number of chunks by status, for each dataset and job; up to `most` of each dataset are counted, or all."""

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        """Spans of consecutive data ids, each with the number of chunks by status."""

    def running(self) -> Sequence[Lock]:
        """The running chunks, as the locks that they act as, by id."""

    def dataset_custody(self, dataset: str) -> Custody:
        """A dataset's secrets, all copies of them, and the keys of all jobs that use it. UnknownName without it."""

    def job_custody(self, job: str) -> Custody:
        """A job's keys, the secrets of its datasets, and the copies that it or the master key can open. UnknownName."""

    def change_custody(self, known: Custody, change: CustodyChange) -> bool:
        """If nothing has changed since it was read: apply the change. Otherwise change nothing and return False."""

    def master_wraps(self, before: int, limit: int) -> Sequence[MasterWrap]:
        """Everything wrapped for an earlier master key than that one."""

    def rewrap(self, pairs: Sequence[tuple[MasterWrap, MasterWrap]]) -> int:
        """Replace each first wrap that still exists by its second. Returns the number of replaced wraps."""

    def refuse_masters(self, before: int) -> None:
        """Copies under an earlier master key than that one are not opened any more. Never goes back."""

    def masters(self) -> Mapping[int, str]:
        """The master keys that seal secrets here: each number with the proof of the key."""

    def know_master(self, number: int, check: str) -> str:
        """Record the proof of a master key, unless there is one for that number; returns the recorded proof."""

    def forget_masters(self) -> int:
        """Drop everything that is wrapped for any master key, and their proofs. Returns the number of dropped wraps."""
