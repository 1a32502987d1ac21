"""The ports: what every store must do, in the words of the domain. No optional method.

All times and all expiry are judged by the store's own clock. Every method may raise StoreUnavailable. What changes
something that is held raises NotOwner when it is another principal's than the one that acts (calls/actor.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from headgate.core.faults import Fault
from headgate.core.filters import LockFilter, RowFilter, SpanFilter
from headgate.core.ledger import Asker, Change, Claim, Dataset, Defined, Job, Row
from headgate.core.locks import Lock, Mode, Request, Waiter
from headgate.core.tickets import Grant, Ticket

if TYPE_CHECKING:  # Whoever asks for one has loaded it: the command starts faster without the others.
    from headgate.core.census import Span, Tally
    from headgate.core.claims import Plan, Verdict
    from headgate.core.credentials import Custody, CustodyChange, MasterWrap

#: Calls that one process sends to a server at a time: more would only wait for each other's turn in the process.
SIDE_BY_SIDE = 8


class LockStore(Protocol):
    """Locks and their queues, clients and resources."""

    #: What errors call this store: its URL without a password.
    name: str
    #: Four letters that every lock id of this store begins with.
    tag: str

    def acquire(self, request: Request) -> Grant:
        """Free: all wanted resources become held. Otherwise LockRefused with every blocker, counted.

        A request id that was granted already, and is still held, gives the same grant again.
        """

    def queue_up(self, request: Request) -> Grant | Ticket:
        """As acquire, but a place at the end of the queue instead of a refusal."""

    def place_of(self, request: Request) -> Ticket | None:
        """The place that this very request has in the queue. None: it has none that is seen from here; `queue_up` finds
        what was granted, and any other place, or takes one.
        """

    def listen(self, ticket: Ticket, wake: Callable[[], None]) -> None:
        """Waiting: call `wake`, from any thread, when the ticket's turn may have come, until it leaves the queue.

        Wakes early rather than late. A second call replaces the first.
        """

    def look(self, ticket: Ticket) -> float:
        """Waiting: 0 when the ticket's turn may have come, else the seconds after which to look again if not woken."""

    def take_turn(self, ticket: Ticket) -> Grant | None:
        """Waiting: held if it is the ticket's turn, else None. Tells the store that the waiter lives."""

    def keep_places(self, tickets: Sequence[Ticket]) -> None:
        """Tell the store that these waiters live, when nobody sleeps at their places."""

    def give_up(self, ticket: Ticket) -> Grant:
        """The time is over: held if it is the ticket's turn after all, else out of the queue and LockRefused."""

    def withdraw(self, ticket: Ticket) -> None:
        """Out of the queue, whatever happened; a grant that was made meanwhile is given back. Never refuses."""

    def release(self, lock_id: str, token: int) -> None:
        """Held by that id and token, and alive: free (or one hold less). Otherwise LockLost, nothing changes."""

    def renew(self, lock_id: str, token: int, lease: float | None = None) -> Lock:
        """Held and alive: the lease begins anew (of that length, if given). Otherwise LockLost."""

    def check(self, lock_id: str, token: int) -> Lock:
        """Held and alive: the lock as it is. Otherwise LockLost. Writes nothing."""

    def upgrade(self, lock_id: str, token: int) -> Lock:
        """Shared and the sole holder: exclusive, with a new token.

        Otherwise LockRefused, LockLost, or TransitionRefused when it is exclusive already.
        """

    def downgrade(self, lock_id: str, token: int) -> Lock:
        """Exclusive: shared, same token. Otherwise LockLost, or TransitionRefused when it is shared already."""

    def hand_over(self, lock_id: str, to: str, reason: str) -> Lock:
        """Held, by the acting principal or anybody it may act for: it belongs to the other one, by a new token.

        UnknownName when there is none, NotOwner when it is another principal's.
        """

    def watch_loss(self, lock: Lock, lost: Callable[[str], None]) -> Callable[[], None]:
        """Call `lost(why)`, from any thread, as soon as the store itself learns that the lock is gone.

        Gives a function that ends the watch. A store that learns of it only when asked never calls.
        """

    def break_lock(self, lock_id: str, reason: str, by: str) -> Lock:
        """Held by anybody: free; gives what was broken. UnknownName when there is none."""

    def get(self, lock_id: str) -> Lock:
        """The live lock of that id. UnknownName when there is none."""

    def list(self, which: LockFilter) -> Sequence[Lock]:
        """Live locks, by id."""

    def summary(self) -> Sequence[tuple[str, Mode, int]]:
        """Each held resource with its mode and its number of locks, by resource."""

    def waiters(self, resource: str | None = None) -> Sequence[Waiter]:
        """Live waiters, earliest first, one entry for each resource that is waited for."""

    def expire(self, limit: int = 1000) -> int:
        """Held, but its lease has run out: free, told in the history. Gives how many."""

    def register_client(self, client: str) -> datetime:
        """Make the client known, if it is not; gives since when it is."""

    def clients(self) -> Sequence[tuple[str, datetime]]:
        """Registered clients and since when, by name."""

    def forget_client(self, client: str) -> None:
        """Known: unknown. UnknownName when there is none; Refused while it holds a lock."""

    def register_resource(self, resource: str) -> None:
        """Make the resource known, if it is not."""

    def resources(self) -> Sequence[str]:
        """Known resources, sorted: registered or ever locked, and not forgotten."""

    def forget_resource(self, resource: str) -> None:
        """Known: unknown, its token kept. UnknownName when there is none; Refused while it is held or waited for."""

    def faults(self) -> Sequence[Fault]:
        """Damage to locks, chunks, counters, history and clock, each with what a repair does. Writes nothing."""

    def repair(self, fault: Fault, who: str) -> bool:
        """Repair it as it says, if it is still so. False: it is no longer so, or cannot be repaired."""


# ---------------------------------------------------------------- the ledger


class Listening(Protocol):
    """One who waits for news."""

    @property
    def pause(self) -> float:
        """Seconds after which to look, if nobody calls."""
        ...

    def end(self) -> None:
        """Nobody waits any more."""
        ...


class LedgerStore(Protocol):
    """Datasets, jobs, and the status of every chunk. Every method that writes is one transaction."""

    #: What errors call this store.
    name: str

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
        """Not there: READY. Gives how many were not READY. ClaimRefused, and none is, when one is another job's."""

    def find_next(self, job: str, asker: Asker) -> Claim | None:
        """The first claimable chunk: RUNNING. None when there is none. Secrets in the claim are sealed."""

    def listen(self, job: str, wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when there may be another chunk for the job, or one of its own has ended."""

    def claim(self, job: str, dataid: str, asker: Asker) -> Claim:
        """That chunk, claimable: RUNNING. Otherwise ClaimRefused with the verdict."""

    def force(self, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
        """Whatever it is: RUNNING, forced. ClaimRefused while a worker is on it, unless `steal`."""

    def success(self, job: str, dataid: str, token: int, who: str) -> None:
        """RUNNING by that token: READY and DONE. So already: nothing. Otherwise ClaimLost."""

    def fail(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        """RUNNING by that token: ERROR, or HOLD. So already: nothing. Otherwise ClaimLost."""

    def interrupt(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        """RUNNING by that token: RESUBMIT, HOLD, or the word before. So already: nothing. Otherwise ClaimLost."""

    def heartbeat(self, job: str, dataid: str, token: int, lease: float) -> float:
        """RUNNING by that token and alive: the lease begins anew. Gives its seconds. Otherwise ClaimLost."""

    def resubmit(
        self, job: str, dataids: Sequence[str], reason: str, who: str, *, downstream: bool, steal: bool, dry_run: bool
    ) -> Sequence[Change]:
        """Made: RESUBMIT, and with `downstream` all that was made from it. Gives what changed, or would."""

    def hold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        """Any status, or none: HOLD. ClaimRefused while a worker is on it."""

    def unhold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        """HOLD: what it was before. TransitionRefused otherwise."""

    def forget(self, job: str, dataid: str, reason: str, who: str, *, steal: bool) -> Sequence[Change]:
        """Any status: no row. ClaimRefused while a worker is on it, unless `steal`. UnknownName without a row."""

    def set_status(self, row: Row, reason: str, who: str) -> Change:
        """Support's hand: that row has that status."""

    def pause(self, job: str, reason: str, who: str) -> Job:
        """The job gets no chunk, for that reason; with an empty one it gets them again."""

    def reap(self, who: str, limit: int = 1000) -> int:
        """RUNNING, but its lease has run out: ERROR, or HOLD. Gives how many chunks."""

    def explain(self, job: str, dataid: str) -> Verdict:
        """May the job claim the chunk, and why."""

    def plan(self, job: str, limit: int) -> Plan:
        """What would run next, in order, and what blocks the rest."""

    def left(self, job: str, most: int) -> int:
        """How many chunks the job may find, counted up to `most`."""

    def rows(self, which: RowFilter) -> Sequence[Row]:
        """Rows of chunks, by dataset and in its order."""

    def failures(self, limit: int, after: str | None = None) -> Sequence[Row]:
        """Chunks that are in ERROR, newest first, one row each; `after`: the `failure_cursor` of a row."""

    def standing(self) -> Sequence[Tally]:
        """How many chunks of each job run, failed, are held or wait to be resubmitted; each chunk once."""

    def tallies(self, most: int) -> Sequence[Tally]:
        """How many chunks of each dataset and job have which status; of each dataset `most` are counted, or all."""

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        """Data ids that follow each other, so many to a span, with how many of them have which status."""

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
        """Still the first: the second. Gives how many were."""

    def refuse_masters(self, before: int) -> None:
        """Copies under a master key before that one are not opened any more. Never goes back."""

    def masters(self) -> Mapping[int, str]:
        """The master keys that seal here: each number with what proves the key."""

    def know_master(self, number: int, check: str) -> str:
        """Remember what proves a master key, unless one of that number is known; returns what is known then."""

    def forget_masters(self) -> int:
        """Drop all that is wrapped for any master key, and what proves them. Returns how many wraps that were."""
