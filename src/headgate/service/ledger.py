"""The ledger: what may be asked of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.core.claims import Plan, Verdict
from headgate.core.errors import BadValue, WrongKey
from headgate.core.filters import RowFilter
from headgate.core.ledger import (
    RUNNING,
    STATUS_WORDS,
    Change,
    Claim,
    Dataset,
    Defined,
    Job,
    Port,
    Row,
    parse_kind,
    parse_status,
)
from headgate.core.names import check_name, check_note, check_reason
from headgate.core.variables import NO_MORE, NamePatterns
from headgate.core.words import unknown_word
from headgate.service.checks import check_limit, check_positive_lease, check_span, printable
from headgate.service.claim_reports import ClaimLike, reference, without_secrets
from headgate.service.claim_secrets import with_secrets
from headgate.service.custody import CustodyRecords
from headgate.service.definitions import Definitions
from headgate.service.identity import actor, asker_for
from headgate.service.looking import Looking
from headgate.service.secrets import Opened, Secrets
from headgate.service.working import Work
from headgate.stores.base import LedgerStore, Listening
from headgate.telemetry import event

if TYPE_CHECKING:
    from threading import Event

    from headgate.core.census import Tally
    from headgate.core.locks import Lock
    from headgate.service.job_waiting import JobProgress

#: Leases of claims: short enough that a dead worker is noticed, long enough for a slow store.
DEFAULT_LEASE = 60.0
#: Data ids that are published in one transaction.
PUBLISH_BATCH = 5000
#: What is left to do is not counted further: beyond this nobody waits for its end.
LEFT_MOST = 100_000


class Ledger:
    """Datasets, jobs, and which chunk may be worked on next."""

    def __init__(self, store: LedgerStore, secrets: Secrets, variables: NamePatterns = NO_MORE) -> None:
        """`variables`: what jobs may set for their commands, beside PARAM_…."""
        self._store = store
        self._variables = variables
        #: Keys of jobs, and secrets of datasets.
        self.secrets = secrets
        #: Sealed secrets and proofs of keys, as the store keeps them.
        self.custody = CustodyRecords(store)

    @property
    def store(self) -> LedgerStore:
        """The port behind it, for who speaks for callers elsewhere."""
        return self._store

    # ---------------------------------------------------------------- definitions

    def define_dataset(
        self,
        name: str,
        *,
        uri: str = "",
        order: str = "natural",
        settings: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        secret_jobs: Sequence[str] | None = None,
        holders: Iterable[str] = (),
    ) -> Defined:
        """A dataset as it shall be; the same again changes nothing. Gives what changed.

        `secrets` are sealed for every job that uses it, which takes the master key or those jobs' keys; they are
        exactly these from then on. None: they stay as they are. `secret_jobs`: the jobs that may hold them, others get
        them masked; None: any. `holders`: jobs that become holders by this, as DATASET/JOB; else HoldersUnconfirmed.
        """
        dataset = {"uri": uri, "order": order, "settings": settings, "secret_jobs": secret_jobs}
        body = dataset if secrets is None else {**dataset, "secrets": secrets}
        return self.define({name: body}, holders=holders)

    def define_job(  # noqa: PLR0913 - each is a property by its name
        self,
        name: str,
        *,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        max_attempts: int = 3,
        max_crashes: int = 3,
        max_interruptions: int = 10,
        retry_delay: float = 0,
        on_failure: str = "rerun",
        stop_exit: str = "interrupt",
        share: bool = True,
        holders: Iterable[str] = (),
    ) -> Defined:
        """A job as it shall be; the same again changes nothing. Gives what changed, and what looks like a mistake.

        `share`: its keys open the secrets of datasets that it has gained, as far as the keys at hand allow. `holders`:
        those of which that is meant, as DATASET/JOB; else HoldersUnconfirmed.
        """
        job = {
            "inputs": inputs, "outputs": outputs, "environment": environment, "max_attempts": max_attempts,
            "max_crashes": max_crashes, "max_interruptions": max_interruptions, "retry_delay": retry_delay,
            "on_failure": on_failure, "stop_exit": stop_exit,
        }  # fmt: skip
        return self.define(jobs={name: job}, share=share, holders=holders)

    def define(
        self,
        datasets: Mapping[str, Mapping[str, Any]] | None = None,
        jobs: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        share: bool = True,
        holders: Iterable[str] = (),
    ) -> Defined:
        """Datasets and jobs as they shall be, each by its name with what define_dataset and define_job take.

        Everything is checked first, keys and secrets too; then all of it is defined in one transaction.
        """
        plan = Definitions(datasets or {}, jobs or {}, self._variables)
        plan.check(self.secrets, holders, share=share)
        defined = self._store.define(plan.datasets, plan.jobs)
        return self._defined(plan.seal(self.secrets, defined, holders, share=share))

    def datasets(self) -> Sequence[Dataset]:
        """All datasets, by name; of their secrets, the names."""
        return self._store.datasets()

    def jobs(self) -> Sequence[Job]:
        """All jobs, by name."""
        return self._store.jobs()

    def job(self, name: str) -> tuple[Job, Sequence[Dataset]]:
        """One job and its datasets. UnknownName when there is none."""
        return self._store.job(check_name("job", name))

    def connections(self, job: str, key: str | None = None) -> dict[str, dict[str, Port]]:
        """How to reach a job's inputs and outputs, without a claim. Secrets as in a claim."""
        opened = self._open(check_name("job", job), key)
        found, datasets = self._store.job(job)
        bare = {each.name: Port(each.name, "", each.uri, each.settings, each.secrets) for each in datasets}
        ports = with_secrets(self.secrets, job, bare, opened, key)
        return {
            "inputs": {name: ports[name] for name in found.inputs},
            "outputs": {name: ports[name] for name in found.outputs},
        }

    # ---------------------------------------------------------------- work

    def publish(self, dataset: str, dataids: str | Iterable[str], *, by: str | None = None) -> int:
        """Data made elsewhere is READY. Gives how many were not; doing it again does no harm.

        Many at once go in batches: when it is interrupted, run it again.
        """
        name, who = check_name("dataset", dataset), actor(by)
        given = [dataids] if isinstance(dataids, str) else list(dataids)
        checked = list(dict.fromkeys(check_name("dataid", each) for each in given))
        if not checked:
            raise BadValue("dataids", given, "are missing; name at least one")
        batches = (checked[start : start + PUBLISH_BATCH] for start in range(0, len(checked), PUBLISH_BATCH))
        count = sum(self._store.publish(name, batch, who) for batch in batches)
        event("chunk.published", dataset=name, count=count)
        return count

    def find_next(
        self,
        job: str,
        *,
        key: str | None = None,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        wait: float = 0,
        request_id: str | None = None,
    ) -> Claim | None:
        """The next chunk to work on, claimed; None when there is nothing to do, also within `wait` seconds.

        `key`: the job's, which opens its secrets; None: that of the settings; empty: they stay masked. With a wrong
        one nothing is claimed.
        """
        looking = self.looking_for_next(job, key=key, worker=worker, lease=lease, request_id=request_id)
        return looking.within(check_span("wait", wait))

    def looking_for_next(
        self, job: str, *, key: str | None, worker: str | None, lease: float, request_id: str | None
    ) -> Looking[Claim]:
        """The same in steps, for who sleeps in another way."""
        asker = asker_for(worker, lease, request_id)
        opened = self._open(check_name("job", job), key)

        def look() -> Claim | None:
            claim = self._store.find_next(job, asker)
            return None if claim is None else self._handed(claim, opened, key)

        return Looking(look, partial(self.listen, job))

    def listen(self, job: str, wake: Callable[[], None]) -> Listening:
        """Call `wake`, from any thread, when the job may have another chunk, or one of its own has ended."""
        return self._store.listen(job, wake)

    def claim(
        self,
        job: str,
        dataid: str,
        *,
        key: str | None = None,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        request_id: str | None = None,
    ) -> Claim:
        """That very chunk, claimed; ClaimRefused with every reason when it may not be."""
        asker = asker_for(worker, lease, request_id)
        job, dataid = check_name("job", job), check_name("dataid", dataid)
        opened = self._open(job, key)
        return self._handed(self._store.claim(job, dataid, asker), opened, key)

    def force(
        self,
        job: str,
        dataid: str,
        *,
        reason: str,
        steal: bool = False,
        key: str | None = None,
        worker: str | None = None,
        lease: float = DEFAULT_LEASE,
        request_id: str | None = None,
    ) -> Claim:
        """Support's act: that very chunk, claimed whatever the rules say. `steal`: from a living worker, too."""
        job, dataid, reason = check_name("job", job), check_name("dataid", dataid), check_reason(reason)
        asker = asker_for(worker, lease, request_id)
        opened = self._open(job, key)
        return self._handed(self._store.force(job, dataid, asker, reason, steal=bool(steal)), opened, key)

    def success(
        self, claim: ClaimLike | str, dataid: str | None = None, token: int | None = None, *, by: str | None = None
    ) -> None:
        """The chunk is done. Saying so twice does no harm; ClaimLost, and nothing changes, when it is not yours."""
        job, dataid, token = reference(claim, dataid, token)
        self._store.success(job, dataid, token, actor(by))
        event("chunk.success", job=job, dataid=dataid, token=token)

    def fail(
        self,
        claim: ClaimLike | str,
        message: str = "",
        dataid: str | None = None,
        token: int | None = None,
        *,
        by: str | None = None,
    ) -> None:
        """The chunk could not be done, and why. ClaimLost, and nothing changes, when it is not yours.

        Secrets of the claim that stand in the message are masked: it is kept for all to see.
        """
        why = printable(without_secrets(claim, message))
        job, dataid, token = reference(claim, dataid, token)
        self._store.fail(job, dataid, token, why, actor(by))
        event("chunk.failed", logging.WARNING, job=job, dataid=dataid, token=token)

    def interrupt(
        self, claim: ClaimLike | str, message: str = "", dataid: str | None = None, token: int | None = None, *,
        by: str | None = None,
    ) -> None:  # fmt: skip
        """Report that the worker was asked to stop before the chunk was done: neither an attempt nor a failure.

        The chunk is claimed again before all others, or held after `max_interruptions`. Reporting it twice changes
        nothing. Raises ClaimLost, and changes nothing, when the claim is not yours.
        """
        why = printable(without_secrets(claim, message or "interrupted"))
        job, dataid, token = reference(claim, dataid, token)
        self._store.interrupt(job, dataid, token, why, actor(by))
        event("chunk.interrupted", job=job, dataid=dataid, token=token)

    def heartbeat(
        self,
        claim: ClaimLike | str,
        dataid: str | None = None,
        token: int | None = None,
        *,
        lease: float | None = None,
    ) -> float:
        """The worker lives: the lease begins anew. Gives its seconds; ClaimLost when it has run out."""
        length = claim.lease if isinstance(claim, Claim) and lease is None else lease
        job, dataid, token = reference(claim, dataid, token)
        return self._store.heartbeat(job, dataid, token, check_positive_lease(length or DEFAULT_LEASE))

    def work(
        self, job: str, *, key: str | None = None, worker: str | None = None, lease: float = DEFAULT_LEASE,
        stop: Event | None = None,
    ) -> Work:  # fmt: skip
        """Claim after claim until nothing is left: each is kept alive, and reported as done when the next is asked for.

        `stop`: no chunk is claimed once it is set, and the chunk at hand is reported as interrupted, unless its job
        says `stop_exit = "trust"` and the body ends. Used with `with`, the errors of the body decide as well; see Work.
        """
        return Work(self, lambda: self.find_next(job, key=key, worker=worker, lease=lease), stop)

    # ---------------------------------------------------------------- support

    def resubmit(
        self,
        job: str,
        dataid: str | Iterable[str],
        *,
        reason: str,
        downstream: bool = False,
        steal: bool = False,
        dry_run: bool = False,
        by: str | None = None,
    ) -> Sequence[Change]:
        """Make it again, first; with `downstream` all that was made from it too. Gives what changed, or would."""
        given = [dataid] if isinstance(dataid, str) else list(dataid)
        dataids = list(dict.fromkeys(check_name("dataid", each) for each in given))
        changes = self._store.resubmit(
            check_name("job", job), dataids, check_reason(reason), actor(by),
            downstream=bool(downstream), steal=bool(steal), dry_run=bool(dry_run),
        )  # fmt: skip
        if not dry_run:
            event("chunk.resubmitted", job=job, count=len(changes), reason=reason)
        return changes

    def hold(self, job: str, dataid: str, *, reason: str, by: str | None = None) -> Sequence[Change]:
        """Nobody makes or reads it until it is let go. ClaimRefused while a worker is on it."""
        names = check_name("job", job), check_name("dataid", dataid)
        return self._store.hold(*names, check_reason(reason), actor(by))

    def unhold(self, job: str, dataid: str, *, reason: str = "", by: str | None = None) -> Sequence[Change]:
        """As it was before it was held."""
        names = check_name("job", job), check_name("dataid", dataid)
        return self._store.unhold(*names, check_note("reason", reason), actor(by))

    def forget(
        self, job: str, dataid: str, *, reason: str, steal: bool = False, by: str | None = None
    ) -> Sequence[Change]:
        """As if it never was: the job's rows go, never those of what it reads."""
        names = check_name("job", job), check_name("dataid", dataid)
        return self._store.forget(*names, check_reason(reason), actor(by), steal=bool(steal))

    def set_status(
        self, dataset: str, dataid: str, job: str, kind: str, status: str, *, reason: str, by: str | None = None
    ) -> Change:
        """Support's hand: that row has that status. A word that nobody knows is kept, and blocks."""
        row = Row(
            check_name("dataset", dataset), check_name("dataid", dataid), check_name("job", job), parse_kind(kind),
            parse_status(status),
        )  # fmt: skip
        change = self._store.set_status(row, check_reason(reason), actor(by))
        event("chunk.set", logging.WARNING, job=job, dataset=dataset, dataid=dataid, status=row.status, reason=reason)
        return change

    def pause(self, job: str, *, reason: str, by: str | None = None) -> Job:
        """The job gets no more chunks; what runs ends normally."""
        return self._store.pause(check_name("job", job), check_reason(reason), actor(by))

    def unpause(self, job: str, *, by: str | None = None) -> Job:
        """The job gets chunks again."""
        return self._store.pause(check_name("job", job), "", actor(by))

    def reap(self, *, limit: int = 1000, by: str | None = None) -> int:
        """Turn up to `limit` claims of dead workers into errors. Workers that need such a chunk do so anyway."""
        count = self._store.reap(actor(by), check_limit(limit))
        if count:
            event("chunk.reaped", logging.WARNING, count=count)
        return count

    def running(self) -> list[Row]:
        """The claims that there are, those of the dead among them: one row for each, its OUTPUT if it has one."""
        found: dict[tuple[str, str], Row] = {}
        for job in self.jobs():
            rows = self._store.rows(RowFilter(job=job.name, status=RUNNING))
            for row in sorted(rows, key=lambda row: row.kind != "OUTPUT"):
                found.setdefault((row.job, row.dataid), row)
        return list(found.values())

    # ---------------------------------------------------------------- questions

    def explain(self, job: str, dataid: str) -> Verdict:
        """May the job claim the chunk? Each condition with its answer and the row behind it."""
        return self._store.explain(check_name("job", job), check_name("dataid", dataid))

    def plan(self, job: str, limit: int = 20) -> Plan:
        """What would run next, in order, and what blocks the rest."""
        return self._store.plan(check_name("job", job), check_limit(limit))

    def left(self, job: str) -> int:
        """How many chunks wait for the job, counted up to LEFT_MOST."""
        return self._store.left(check_name("job", job), LEFT_MOST)

    def wait(self, job: str, dataids: Sequence[str] = (), *, timeout: float | None = None) -> JobProgress:
        """Wait until these chunks, or all that the job may claim, are finished or failed for good, or for `timeout`
        seconds. Returns how far they are then.
        """
        from headgate.service.job_waiting import JobWait

        waiting = JobWait(self, job, [check_name("dataid", each) for each in dataids])
        return waiting.until_ended(None if timeout is None else check_span("timeout", timeout))

    def status(
        self,
        dataset: str | None = None,
        job: str | None = None,
        dataid: str | None = None,
        *,
        kind: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Row]:
        """Rows of chunks, by dataset and in its order; page on with `after` the last data id.

        BadValue for a status that Headgate does not know and that no chunk has.
        """
        if after is not None and dataset is None:
            raise BadValue("after", after, "needs a dataset, because each dataset has its own order")
        which = RowFilter(
            dataset=None if dataset is None else check_name("dataset", dataset),
            job=None if job is None else check_name("job", job),
            dataid=None if dataid is None else check_name("dataid", dataid),
            kind=None if kind is None else parse_kind(kind),
            status=None if status is None else parse_status(status),
            after=None if after is None else check_name("dataid", after),
            limit=None if limit is None else check_limit(limit),
        )
        rows = self._store.rows(which)
        unknown = which.status is not None and which.status not in STATUS_WORDS.values()
        if unknown and not rows and not self._store.rows(RowFilter(status=which.status, limit=1)):
            raise unknown_word("status", status, STATUS_WORDS)
        return rows

    def standing(self) -> Sequence[Tally]:
        """How many chunks of each job run, failed, are held or wait to be resubmitted; each chunk once."""
        return self._store.standing()

    def claims(self) -> Sequence[Lock]:
        """Running claims as the locks that they act as, by id."""
        return self._store.running()

    def failures(self, limit: int = 100, after: str | None = None) -> Sequence[Row]:
        """Chunks that are in ERROR, newest first; `after`: the `failure_cursor` of the last one."""
        return self._store.failures(check_limit(limit), after)

    def _defined(self, defined: Defined) -> Defined:
        for line in defined.changes:
            event("ledger.defined", change=line)
        for line in defined.warnings:
            event("ledger.doubtful", logging.WARNING, what=line)
        return defined

    def _open(self, job: str, key: str | None) -> Opened | None:
        """The job's secrets, by its key, before anything is claimed; None without a key."""
        text = self.secrets.key(key)
        return self.secrets.open(job, text) if text else None

    def _handed(self, claim: Claim, opened: Opened | None, key: str | None) -> Claim:
        """The claim as the worker gets it: its secrets opened with the key, or masked."""
        event("chunk.claimed", job=claim.job, dataid=claim.dataid, token=claim.token, attempt=claim.attempt)
        bare = {**claim.inputs, **claim.outputs}
        if not any(port.secrets for port in bare.values()):
            return claim
        try:
            ports = with_secrets(self.secrets, claim.job, bare, opened, key)
        except WrongKey:
            # Keys were changed between the proof and the claim. What cannot be worked on is given back.
            self.fail(claim, "the key was replaced while the chunk was being claimed")
            raise
        return replace(
            claim,
            inputs={name: ports[name] for name in claim.inputs},
            outputs={name: ports[name] for name in claim.outputs},
        )
