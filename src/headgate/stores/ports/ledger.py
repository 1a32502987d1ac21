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

if TYPE_CHECKING:  # A caller that asks for one has loaded it: the command starts faster without the others.
    from headgate.core.access.credentials import Custody, CustodyChange, MasterWrap
    from headgate.core.ledger.census import Span, Tally
    from headgate.core.ledger.fan import ChunkLink, FanIn
    from headgate.core.ledger.parts import Listed
    from headgate.core.ledger.selection import BulkRequest, BulkResult
    from headgate.core.ledger.verdicts import Plan, Verdict


class LedgerStore(Protocol):
    """Datasets, jobs, and the status of every chunk. Every method that writes is one transaction."""

    #: What errors call this store.
    name: str

    @property
    def incidents(self) -> IncidentStore:
        """What needs a person."""

    @property
    def expectations(self) -> ExpectationStore:
        """Which chunks are late."""

    def define(self, datasets: Sequence[Dataset], jobs: Sequence[Job]) -> Defined:
        """Unknown or other: as defined, the claimable chunks of the jobs found; all of them, or none.

        Refused when the chunks of a dataset would change their order. UnknownName, BadValue for a second producer.
        """

    def datasets(self) -> Sequence[Dataset]:
        """All datasets, by name."""

    def jobs(self) -> Sequence[Job]:
        """All jobs, by name."""

    def job(self, job: str) -> tuple[Job, Sequence[Dataset]]:
        """A job and its datasets. UnknownName when there is none."""

    def publish(self, dataset: str, dataids: Sequence[str], who: str) -> int:
        """Not there: READY. Returns how many were not READY. ClaimRefused, changing none, when one is another job's."""

    def find_next(self, job: str, asker: Asker) -> Claim | None:
        """The first claimable chunk: RUNNING. None when there is none. Secrets in the claim are sealed."""

    def listen(self, job: str, wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when there may be another chunk for the job, or one of its own has ended."""

    def claim(self, job: str, dataid: str, asker: Asker) -> Claim:
        """That chunk, claimable: RUNNING. Otherwise ClaimRefused with the verdict."""

    def force(self, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
        """Whatever it is: RUNNING, forced. ClaimRefused while a worker is on it, unless `steal`."""

    def success(self, job: str, dataid: str, token: int, who: str, listed: Listed | None = None) -> None:
        """RUNNING by that token: READY and DONE. Already so: nothing changes. Otherwise ClaimLost.

        `listed`: what it made by fan-out, by dataset: READY; what it listed before and does not now: HOLD. ClaimRefused
        when one of them is another job's, or was made from another data id.
        """

    def fail(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        """RUNNING by that token: ERROR, or HOLD. Already so: nothing changes. Otherwise ClaimLost."""

    def interrupt(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        """RUNNING by that token: RESUBMIT, HOLD, or the former word. Already so: nothing. Otherwise ClaimLost."""

    def heartbeat(self, job: str, dataid: str, token: int, lease: float) -> float:
        """RUNNING by that token and alive: the lease is renewed. Returns its length in seconds. Otherwise ClaimLost."""

    def keep_log(self, job: str, dataid: str, token: int, texts: Sequence[LogText], *, ended: bool) -> None:
        """Keep the end of what the worker of that token wrote. ClaimLost when another claim was made since.

        While it runs, the row's message is the last line. `ended`: no more will be kept of it.
        """

    def logs(self, job: str, dataid: str, attempt: int | None, stream: LogStream | None, limit: int) -> Sequence[Log]:
        """The kept logs of a job on a chunk, newest attempt first. UnknownName when there is no such job."""

    def resubmit(
        self, job: str, dataids: Sequence[str], reason: str, who: str, *, downstream: bool, steal: bool, dry_run: bool
    ) -> Sequence[Change]:
        """Made: RESUBMIT, and with `downstream` all that was made from it. Returns what changed, or would."""

    def change_selected(self, job: str, wish: BulkRequest) -> BulkResult:
        """Do that to one part of the selected chunks, as the act's own method would to each. Chunks that are refused
        stay as they are, and are named.
        """

    def hold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        """Any status, or none: HOLD. ClaimRefused while a worker is on it."""

    def unhold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        """HOLD: what it was before. TransitionRefused otherwise."""

    def close(self, job: str, dataid: str, reason: str, who: str, *, reopen: bool) -> bool:
        """Nothing else arrives for a data id of a job with mapped inputs; `reopen`: more may. Returns what changed."""

    def forget(self, job: str, dataid: str, reason: str, who: str, *, steal: bool) -> Sequence[Change]:
        """Any status: no row. ClaimRefused while a worker is on it, unless `steal`. UnknownName without a row."""

    def set_status(self, row: Row, reason: str, who: str) -> Change:
        """Set the row's status by hand, as support does."""

    def pause(self, job: str, reason: str, who: str) -> Job:
        """Pause the job for that reason: it claims no chunks. An empty reason resumes it."""

    def note_commands(self, job: str, digest: str, who: str) -> bool:
        """Note the SHA-256 of the file that says what the job runs. Returns whether it is another one. UnknownName."""

    def reap(self, who: str, limit: int = 1000) -> int:
        """RUNNING, but its lease has expired: ERROR, or HOLD. Returns how many chunks."""

    def explain(self, job: str, dataid: str) -> Verdict:
        """Return whether the job may claim the chunk, and why."""

    def plan(self, job: str, limit: int) -> Plan:
        """Return what would run next, in order, and what blocks the rest."""

    def left(self, job: str, most: int) -> int:
        """Return how many chunks the job may find, counted up to `most`."""

    def recurrences(self) -> Sequence[Recurrence]:
        """Return the jobs that do their chunks again, by name, each with its oldest chunk."""

    def fan_in(self, job: str, dataids: Sequence[str], most: int) -> Sequence[FanIn]:
        """What these data ids of a job need of each input, with at most `most` links for each."""

    def readers(self, dataset: str, dataid: str, most: int) -> Sequence[ChunkLink]:
        """The chunks that read this one or were made from it, by job, of each at most so many."""

    def rows(self, which: RowFilter) -> Sequence[Row]:
        """Rows of chunks, by dataset and in its order."""

    def failures(self, limit: int, after: str | None = None) -> Sequence[Row]:
        """Chunks that are in ERROR, newest first, one row each; `after`: the `failure_cursor` of a row."""

    def standing(self) -> Sequence[Tally]:
        """How many chunks of each job run, failed, are held or wait to be resubmitted; each chunk once."""

    def tallies(self, most: int) -> Sequence[Tally]:
        """How many chunks of each dataset and job have which status; of each dataset `most` are counted, or all."""

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        """Spans of consecutive data ids, each with how many of them have which status."""

    def running(self) -> Sequence[Lock]:
        """What runs now, as the locks that it acts as, by id."""

    def dataset_custody(self, dataset: str) -> Custody:
        """A dataset's secrets, every copy of them, and the keys of all jobs that use it. UnknownName without it."""

    def job_custody(self, job: str) -> Custody:
        """A job's keys, the secrets of its datasets, and the copies that it or the master key opens. UnknownName."""

    def change_custody(self, known: Custody, change: CustodyChange) -> bool:
        """Still as it is known: as the change says. Otherwise nothing, and False."""

    def master_wraps(self, before: int, limit: int) -> Sequence[MasterWrap]:
        """What is wrapped for a master key before that one."""

    def rewrap(self, pairs: Sequence[tuple[MasterWrap, MasterWrap]]) -> int:
        """Replace each first wrap that is still there by its second. Returns how many were replaced."""

    def refuse_masters(self, before: int) -> None:
        """Copies under a master key before that one are not opened any more. Never goes back."""

    def masters(self) -> Mapping[int, str]:
        """The master keys that seal here: each number with what proves the key."""

    def know_master(self, number: int, check: str) -> str:
        """Remember what proves a master key, unless one of that number is known; returns what is known then."""

    def forget_masters(self) -> int:
        """Drop all that is wrapped for any master key, and what proves them. Returns how many wraps that were."""
