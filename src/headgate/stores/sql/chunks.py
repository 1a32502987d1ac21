"""One job's chunk, held still within one transaction: everything is read, decided by the core, and written back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from headgate.calls.actor import actor, must_own
from headgate.core.claims import (
    ABSENT,
    Answer,
    Outcome,
    View,
    after_crash,
    claim_modes,
    missing_inputs,
    own_answer,
    worst_row,
)
from headgate.core.errors import ClaimLost
from headgate.core.ledger import (
    DONE,
    ERROR,
    MESSAGE_LENGTH,
    READY,
    RESUBMIT,
    RUNNING,
    STATUS_WORDS,
    Asker,
    Claim,
    Kind,
    Row,
)
from headgate.core.locks import Lock, resource_digest
from headgate.core.ordering import order_key
from headgate.stores.sql import ledger_statements as sql
from headgate.stores.sql import lock_statements
from headgate.stores.sql.candidates import batches, became_ready, became_unready
from headgate.stores.sql.engine import Duplicate, Transaction
from headgate.stores.sql.lock_snapshots import BESIDE, read_lock
from headgate.stores.sql.moments import MICROSECONDS, moment, to_micro, to_seconds
from headgate.stores.sql.running import ENDLESS
from headgate.stores.sql.shapes import Claimed, Shape
from headgate.stores.sql.statement import Row as SqlRow

#: A lease that was set by hand: it ends in seventy thousand years.
BY_HAND = 2**61


def read_row(row: SqlRow, datasets: dict[int, str], jobs: dict[int, str]) -> Row:
    """Columns of a chunk as a row; numbers become names."""
    (dataset, dataid, job, kind, status, former, attempt, failures, crashes, token, worker, lease, left, forced,
     retry, since, started, message, principal, interruptions) = row  # fmt: skip
    expires = to_seconds(left)
    return Row(
        dataset=datasets[int(dataset)],
        dataid=str(dataid),
        # A job whose definition was lost: the doctor reports it, and lists must not fail.
        job=jobs.get(int(job), f"lost job {job}"),
        kind=Kind(kind),
        status=str(status),
        former=str(former),
        attempt=int(attempt),
        failures=int(failures),
        crashes=int(crashes),
        token=int(token),
        worker=str(worker),
        lease=to_seconds(lease),
        expires_in=None if expires is None or expires > ENDLESS else expires,
        forced=bool(forced),
        retry_in=to_seconds(retry),
        since=moment(since),
        started=None if started is None else moment(started),
        message=str(message),
        principal=str(principal),
        interruptions=int(interruptions),
    )


def job_names(tx: Transaction) -> dict[int, str]:
    """Every job's name by its number, with that of data made elsewhere."""
    return {0: "external", **{int(number): str(name) for number, name in tx.all(sql.READ_JOB_NAMES)}}


class Chunk:
    """The rows that decide about one job and one data id, and what becomes of them."""

    def __init__(
        self, tx: Transaction, shape: Shape, dataid: str, *, look: bool = False, found: Sequence[SqlRow] | None = None
    ) -> None:
        self._tx = tx
        self.shape = shape
        self.job = shape.job
        self.dataid = dataid
        if found is None and not look:
            tx.one(sql.LOCK_CANDIDATE, job=shape.id, dataid=dataid)
        if found is None:
            found = tx.all(sql.READ_ROWS if look else sql.LOCK_ROWS, datasets=shape.numbers, dataid=dataid)
        self._found = {(int(row[0]), int(row[2]), str(row[3])): row for row in found}
        datasets = {number: name for name, number in shape.ids.items()}
        jobs = self._job_names()
        rows = tuple(read_row(row, datasets, jobs) for row in found)
        #: What the core decides by; kept in line with what is written.
        self.view = View(self.job, dataid, rows)

    def with_locks(self) -> Chunk:
        """Look at the explicit locks on the chunks too: a claim must meet them."""
        self.view = replace(self.view, locks=self._locks())
        return self

    @property
    def status(self) -> str:
        """The status that the job's rows tell; absent when there is none."""
        row = worst_row([row for row in self.view.counted() if row])
        return ABSENT if row is None else row.status

    @property
    def state(self) -> str:
        """The same, as a state of the chunk's table."""
        status = self.status
        known = status in STATUS_WORDS.values() and status != DONE
        return status if known or status == ABSENT else "other"

    @property
    def alive(self) -> bool:
        """Whether a worker is on it now."""
        return any(row.alive for row in self.view.owned())

    def claim(self, asker: Asker, event: str, reason: str = "") -> Claim:
        """RUNNING with a new token: the right to work on it."""
        before = self.status
        was_ready = self.ready_outputs()
        prior = worst_row(self.view.owned()) or Row("", self.dataid, self.job.name, Kind.OUTPUT, ABSENT)
        token, forced = self._tx.next_token(), event == "force"
        running = replace(
            prior, status=RUNNING, former=self._blocking_word(), attempt=prior.attempt + 1, token=token,
            worker=asker.worker, lease=asker.lease, expires_in=asker.lease, forced=forced, retry_in=None, message="",
            principal=actor().principal,
        )  # fmt: skip
        for kind, names in ((Kind.OUTPUT, self.job.outputs), (Kind.INPUT, self.job.inputs)):
            for name in names:
                self.put(replace(running, dataset=name, kind=kind), request_id=asker.request_id, starts=True)
        self._tx.run(sql.DROP_CANDIDATES, job=self.shape.id, dataids=[self.dataid])
        self.tell(event, asker.worker, token, before, RUNNING, reason)
        became_unready(self._tx, was_ready, [self.dataid])
        return self.as_claim()

    def _blocking_word(self) -> str:
        """HOLD, PENDING or an unknown word, which comes back when the claim is interrupted; else nothing."""
        row = worst_row([row for row in self.view.counted() if row])
        if row is not None and row.status == RUNNING:  # Taken from another forced claim.
            return row.former
        return "" if row is None or row.status in (READY, DONE, ERROR, RESUBMIT) else row.status

    def as_claim(self) -> Claim:
        """The running rows as the worker gets them; secrets are still sealed."""
        row = self.view.owned()[0]
        lease = row.lease or 0.0
        claimed = Claimed(
            self.dataid, row.attempt, row.token, row.worker, lease, row.expires_in or lease, row.forced
        )  # fmt: skip
        return self.shape.claim(claimed)

    def verify(self, token: int, reported: Callable[[Row], bool]) -> bool:
        """Whether the token's claim runs: False when it was reported so already. ClaimLost when it is another's."""
        rows = self.view.owned()
        row = worst_row([each for each in self.view.counted() if each])
        if row is None:
            raise ClaimLost(self.job.name, self.dataid, token, "there is no such claim")
        if row.status == RUNNING and row.token == token:  # An older one is lost, whoever has the newest.
            must_own(f"the claim of {self.job.name} on {self.dataid}", row.principal)
        if row.token != token:
            now = f"the newest claim has token {row.token}"
            raise ClaimLost(self.job.name, self.dataid, token, f"{now}; it is {row.status}")
        if row.status == RUNNING and all(each.token == token for each in rows):
            return True
        if reported(row):
            return False
        raise ClaimLost(self.job.name, self.dataid, token, f"it is not running: it is {row.status}")

    def succeed(self, who: str) -> None:
        """The worker is done: READY and DONE."""
        for row in self._running():
            status = READY if row.kind is Kind.OUTPUT else DONE
            self.put(_ended(row, status))
        token = self.view.owned()[0].token
        self.tell("success", who, token, RUNNING, READY if self.job.outputs else DONE, "")
        self._tx.run(sql.DROP_CANDIDATES, job=self.shape.id, dataids=[self.dataid])
        became_ready(self._tx, [self.shape.ids[name] for name in self.job.outputs], [self.dataid])

    def end(self, outcome: Outcome, event: str, who: str, message: str) -> None:
        """The worker failed, died or was interrupted: the rows are what the outcome says."""
        running = self._running()
        # A dead worker that wakes up finds its token stale.
        token = self._tx.next_token() if event == "reap" else running[0].token
        for row in running if event == "interrupt" else ():
            if row.kind is not self.job.counted or outcome.status == ABSENT:
                self.drop(row)
        for row in self.ended(outcome, message, token):
            self.put(row)
        self.tell(event, who, token, RUNNING, outcome.status, message)
        self.refresh_candidate()

    def ended(self, outcome: Outcome, message: str, token: int) -> list[Row]:
        """What becomes of the running rows when the worker failed, died or was interrupted."""
        return [
            replace(
                _ended(row, outcome.status if row.kind is self.job.counted else ERROR),
                former=outcome.former if row.kind is self.job.counted else "", failures=outcome.failures,
                crashes=outcome.crashes, interruptions=outcome.interruptions, attempt=outcome.attempt,
                retry_in=outcome.delay or None, message=message[:MESSAGE_LENGTH], token=token,
            )
            for row in self._running()
        ]  # fmt: skip

    def crash(self) -> tuple[Outcome, str] | None:
        """What a claim whose lease has expired becomes, and why; None when there is none."""
        dead = worst_row([row for row in self.view.owned() if row.expired])
        if dead is None or self.alive:
            return None
        return after_crash(self.job, dead), f"lease expired: {dead.worker or 'its worker'} died"

    def reap(self, who: str) -> bool:
        """A claim whose lease has run out becomes ERROR, or HOLD. False when there is none."""
        crash = self.crash()
        if crash is None:
            return False
        outcome, message = crash
        self.end(outcome, "reap", who, message)
        return True

    def put(self, row: Row, *, request_id: str | None = None, starts: bool = False) -> None:
        """Write a row as it shall be: a new one, or what was read is changed."""
        number = self.shape.ids[row.dataset]
        old = self.view.own(row.kind, row.dataset)
        found = self._found.get((number, self.shape.id, row.kind.value))
        columns: dict[str, Any] = {
            "dataset": number, "dataid": self.dataid, "job": self.shape.id, "kind": row.kind.value,
            "status": row.status, "former": row.former, "attempt": row.attempt, "failures": row.failures,
            "crashes": row.crashes, "interruptions": row.interruptions, "token": row.token, "worker": row.worker,
            "request_id": request_id or "", "lease": to_micro(row.lease), "lease_left": _lease_left(row),
            "forced": row.forced,
            "delay": to_micro(row.retry_in), "message": row.message, "starts": starts, "principal": row.principal,
        }  # fmt: skip
        if old is None or found is None:
            key = order_key(self.dataid, self.shape.datasets[row.dataset].order)
            self._tx.run(sql.ADD_ROW, order_key=key, **columns)
        elif not self._tx.count(sql.CHANGE_ROW, was=old.status, was_token=old.token, **columns):
            raise Duplicate("the row was changed at the same time")
        self._found[number, self.shape.id, row.kind.value] = ()
        self._replace(old, replace(row, job=self.job.name, dataid=self.dataid))

    def drop(self, row: Row) -> None:
        """A row goes."""
        number = self.shape.ids[row.dataset]
        gone = self._tx.count(
            sql.DROP_ROW, dataset=number, dataid=self.dataid, job=self.shape.id, kind=row.kind.value, was=row.status,
            was_token=row.token,
        )  # fmt: skip
        if not gone:
            raise Duplicate("the row was changed at the same time")
        del self._found[number, self.shape.id, row.kind.value]
        self._replace(row, None)

    def imagine(self, wanted: Iterable[tuple[Kind, str, Row | None]]) -> None:
        """See the rows as if they were what is wanted. Nothing is written."""
        for kind, name, new in wanted:
            self._replace(self.view.own(kind, name), new)

    def candidate(self) -> tuple[int, int, int] | None:
        """The chunk's place among what may be claimable, what is missing, and the delay; None: it is not among it."""
        missing = missing_inputs(self.view)
        answer = own_answer(self.view)
        unknown = self.status == ABSENT and missing == (1 << len(self.job.inputs)) - 1
        if answer is Answer.NO or unknown:
            return None
        delays = [row.retry_in or 0.0 for row in self.view.owned()]
        first = any(row is not None and row.status == RESUBMIT for row in self.view.counted())
        return 0 if first else 1, missing, round(max([0.0, *delays]) * MICROSECONDS)

    def refresh_candidate(self) -> None:
        """Bring the chunk's place among what may be claimable into line with its rows."""
        write_candidates(self._tx, self.shape, [self.dataid], self.candidate())

    def settle(self, ready_before: Iterable[int]) -> None:
        """After rows were changed by hand: tell who reads the outputs, and find the chunk's own place."""
        before, after = set(ready_before), set(self.ready_outputs())
        became_unready(self._tx, sorted(before - after), [self.dataid])
        became_ready(self._tx, sorted(after - before), [self.dataid])
        self.refresh_candidate()

    def ready_outputs(self) -> list[int]:
        """The numbers of its outputs that are READY."""
        rows = (self.view.own(Kind.OUTPUT, name) for name in self.job.outputs)
        return sorted(self.shape.ids[row.dataset] for row in rows if row and row.status == READY)

    def tell(self, event: str, who: str, token: int, before: str, after: str, reason: str) -> None:
        """Into the history, with the change that it tells of."""
        self._tx.run(
            sql.TELL, event=event, job=self.shape.id, dataset=self.shape.told, dataid=self.dataid, who=who,
            token=token, before=before, after=after, reason=actor().reason(reason)[:MESSAGE_LENGTH],
        )  # fmt: skip

    def _running(self) -> list[Row]:
        return [row for row in self.view.owned() if row.status == RUNNING]

    def _job_names(self) -> dict[int, str]:
        known = {0: "external", self.shape.id: self.job.name}
        others = {job for _, job, _ in self._found} - set(known)
        return {**known, **job_names(self._tx)} if others else known

    def _locks(self) -> tuple[Lock, ...]:
        keys = [resource_digest(resource) for resource in claim_modes(self.job, self.dataid)]
        rows = self._tx.all(lock_statements.READ_LOCKS, keys=keys)
        return tuple(read_lock(row) for row in rows if row[BESIDE] is None or int(row[BESIDE]) > 0)

    def _replace(self, old: Row | None, new: Row | None) -> None:
        rows = [row for row in self.view.rows if row is not old]
        self.view = replace(self.view, rows=tuple([*rows, new] if new else rows))


def write_candidates(
    tx: Transaction, shape: Shape, dataids: Sequence[str], candidate: tuple[int, int, int] | None
) -> None:
    """The same place among what may be claimable for many chunks; None: none of them is among it."""
    if candidate is None:
        for batch in batches(dataids):
            tx.run(sql.DROP_CANDIDATES, job=shape.id, dataids=batch)
        return
    place, missing, delay = candidate
    keys = [shape.order_key(dataid) for dataid in dataids]
    tx.many(
        sql.PUT_CANDIDATE, {"dataid": dataids, "order_key": keys}, job=shape.id, place=place, missing=missing,
        delay=delay,
    )  # fmt: skip


def _ended(row: Row, status: str) -> Row:
    """What runs no longer: no lease."""
    return replace(row, status=status, former="", lease=None, expires_in=None, retry_in=None, message="")


def _lease_left(row: Row) -> int | None:
    if row.status != RUNNING:
        return None
    return BY_HAND if row.lease is None else to_micro(row.lease)
