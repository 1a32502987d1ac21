"""The ledger: what may be asked of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.core.errors import BadValue, WrongKey
from headgate.core.ledger import (
    Change,
    Claim,
    Defined,
    Job,
    Port,
    Row,
    parse_kind,
    parse_status,
)
from headgate.core.names import check_name, check_note, check_reason
from headgate.core.variables import NO_MORE, NamePatterns
from headgate.service.checks import check_limit, check_positive_lease, check_span, printable
from headgate.service.claim_reports import ClaimLike, check_reference, without_secrets
from headgate.service.claim_secrets import with_secrets
from headgate.service.definitions import Definitions
from headgate.service.identity import actor, asker_for
from headgate.service.ledger_questions import LedgerQuestions
from headgate.service.looking import Looking
from headgate.service.secrets import Opened, Secrets
from headgate.service.working import Work
from headgate.stores.base import LedgerStore, Listening
from headgate.telemetry import event

if TYPE_CHECKING:
    from threading import Event

    from headgate.service.job_waiting import JobProgress

#: Leases of claims: short enough that a dead worker is noticed, long enough for a slow store.
DEFAULT_LEASE = 60.0
#: Data ids that are published in one transaction.
PUBLISH_BATCH = 5000


class Ledger(LedgerQuestions):
    """Datasets, jobs, and which chunk may be worked on next.

    Public methods do what belongs to the caller's process: open and seal secrets, keep claims alive, wait. Those with a
    leading underscore check, record and ask the store; `headgate.client.ledger` has a service do that.
    """

    def __init__(self, store: LedgerStore, secrets: Secrets, variables: NamePatterns = NO_MORE) -> None:
        """`variables`: what jobs may set for their commands, beside PARAM_…."""
        self._store = store
        self._variables = variables
        #: Keys of jobs, and secrets of datasets.
        self.secrets = secrets
        #: Sealed secrets and proofs of keys, as the store keeps them.
        self.custody = secrets.custody

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
        defined = self._define(plan)
        sealed = _told(plan.seal(self.secrets, holders, share=share))
        warnings = dict.fromkeys((*defined.warnings, *sealed.warnings))
        return Defined((*defined.changes, *sealed.changes), tuple(warnings))

    def _define(self, plan: Definitions) -> Defined:
        return _told(self._store.define(plan.datasets, plan.jobs))

    def connections(self, job: str, key: str | None = None) -> dict[str, dict[str, Port]]:
        """How to reach a job's inputs and outputs, without a claim. Secrets as in a claim."""
        opened = self._open(job, key)
        bare = self._connections(job)
        ports = self._ports(job, {**bare["inputs"], **bare["outputs"]}, opened, key)
        return {side: {name: ports[name] for name in found} for side, found in bare.items()}

    def _connections(self, job: str) -> dict[str, dict[str, Port]]:
        found, datasets = self.job(job)
        bare = {each.name: Port(each.name, "", each.uri, each.settings, each.secrets) for each in datasets}
        return {
            "inputs": {name: bare[name] for name in found.inputs},
            "outputs": {name: bare[name] for name in found.outputs},
        }

    # ---------------------------------------------------------------- work

    def publish(self, dataset: str, dataids: str | Iterable[str], *, by: str | None = None) -> int:
        """Data made elsewhere is READY. Gives how many were not; doing it again does no harm.

        Many at once go in batches: when it is interrupted, run it again.
        """
        found = self._distinct(dataids)
        if not found:
            raise BadValue("dataids", found, "are missing; name at least one")
        batches = (found[start : start + PUBLISH_BATCH] for start in range(0, len(found), PUBLISH_BATCH))
        return sum(self._publish(dataset, batch, by) for batch in batches)

    def _publish(self, dataset: str, dataids: Sequence[str], by: str | None) -> int:
        count = self._store.publish(check_name("dataset", dataset), dataids, actor(by))
        event("chunk.published", dataset=dataset, count=count)
        return count

    def _distinct(self, dataids: str | Iterable[str]) -> list[str]:
        given = [dataids] if isinstance(dataids, str) else dataids
        return list(dict.fromkeys(check_name("dataid", each) for each in given))

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
            return None if claim is None else self._with_secrets(_taken(claim), opened, key)

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
        opened = self._open(job, key)
        found = self._claim(job, dataid, worker=worker, lease=lease, request_id=request_id)
        return self._with_secrets(found, opened, key)

    def _claim(self, job: str, dataid: str, **asked: Any) -> Claim:
        names = check_name("job", job), check_name("dataid", dataid)
        return _taken(self._store.claim(*names, asker_for(**asked)))

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
        opened = self._open(job, key)
        asked = {"worker": worker, "lease": lease, "request_id": request_id}
        return self._with_secrets(self._force(job, dataid, reason, steal=bool(steal), **asked), opened, key)

    def _force(self, job: str, dataid: str, reason: str, *, steal: bool, **asked: Any) -> Claim:
        names = check_name("job", job), check_name("dataid", dataid)
        return _taken(self._store.force(*names, asker_for(**asked), check_reason(reason), steal=steal))

    def success(
        self, claim: ClaimLike | str, dataid: str | None = None, token: int | None = None, *, by: str | None = None
    ) -> None:
        """The chunk is done. Saying so twice does no harm; ClaimLost, and nothing changes, when it is not yours."""
        self._success(*self._reference(claim, dataid, token), by)

    def _success(self, job: str, dataid: str, token: int, by: str | None) -> None:
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
        self._fail(*self._reference(claim, dataid, token), why, by)

    def _fail(self, job: str, dataid: str, token: int, message: str, by: str | None) -> None:
        self._store.fail(job, dataid, token, message, actor(by))
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
        self._interrupt(*self._reference(claim, dataid, token), why, by)

    def _interrupt(self, job: str, dataid: str, token: int, message: str, by: str | None) -> None:
        self._store.interrupt(job, dataid, token, message, actor(by))
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
        return self._heartbeat(*self._reference(claim, dataid, token), length or DEFAULT_LEASE)

    def _heartbeat(self, job: str, dataid: str, token: int, lease: float) -> float:
        return self._store.heartbeat(job, dataid, token, check_positive_lease(lease))

    def _reference(self, claim: ClaimLike | str, dataid: str | None, token: int | None) -> tuple[str, str, int]:
        return check_reference(claim, dataid, token)

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
        how = {"downstream": bool(downstream), "steal": bool(steal), "dry_run": bool(dry_run)}
        return self._resubmit(job, self._distinct(dataid), reason, by, **how)

    def _resubmit(
        self, job: str, dataids: Sequence[str], reason: str, by: str | None, *, dry_run: bool, **how: bool
    ) -> Sequence[Change]:
        name, why, who = check_name("job", job), check_reason(reason), actor(by)
        changes = self._store.resubmit(name, dataids, why, who, dry_run=dry_run, **how)
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

    # ---------------------------------------------------------------- questions

    def wait(self, job: str, dataids: Sequence[str] = (), *, timeout: float | None = None) -> JobProgress:
        """Wait until these chunks, or all that the job may claim, are finished or failed for good, or for `timeout`
        seconds. Returns how far they are then.
        """
        from headgate.service.job_waiting import JobWait

        waiting = JobWait(self, job, [check_name("dataid", each) for each in dataids])
        return waiting.until_ended(None if timeout is None else check_span("timeout", timeout))

    def _open(self, job: str, key: str | None) -> Opened | None:
        """The job's secrets, by its key, before anything is claimed; None without a key."""
        text = self.secrets.key(key)
        return self.secrets.open(job, text) if text else None

    def _with_secrets(self, claim: Claim, opened: Opened | None, key: str | None) -> Claim:
        """The claim as the worker gets it: its secrets opened with the key, or masked."""
        bare = {**claim.inputs, **claim.outputs}
        if not any(port.secrets for port in bare.values()):
            return claim
        try:
            ports = self._ports(claim.job, bare, opened, key)
        except WrongKey:
            # Keys were changed between the proof and the claim. What cannot be worked on is given back.
            self.fail(claim, "the key was replaced while the chunk was being claimed")
            raise
        return replace(
            claim,
            inputs={name: ports[name] for name in claim.inputs},
            outputs={name: ports[name] for name in claim.outputs},
        )

    def _ports(self, job: str, ports: Mapping[str, Port], opened: Opened | None, key: str | None) -> Mapping[str, Port]:
        return with_secrets(self.secrets, job, ports, opened, key)


def _taken(claim: Claim) -> Claim:
    event("chunk.claimed", job=claim.job, dataid=claim.dataid, token=claim.token, attempt=claim.attempt)
    return claim


def _told(defined: Defined) -> Defined:
    for line in defined.changes:
        event("ledger.defined", change=line)
    for line in defined.warnings:
        event("ledger.doubtful", logging.WARNING, what=line)
    return defined
