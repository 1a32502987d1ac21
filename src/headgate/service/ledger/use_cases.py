"""The ledger: the use cases."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.core.errors import BadValue, WrongKey
from headgate.core.ledger.model import Change, Claim, Defined, Job, Port, Row
from headgate.core.ledger.parsing import parse_kind, parse_status
from headgate.core.logs import LogText
from headgate.core.values.log_text import readable
from headgate.core.values.names import check_name, check_note, check_reason
from headgate.core.values.redaction import redact
from headgate.core.values.variables import NO_MORE, NamePatterns
from headgate.service.access.identity import actor, asker_for
from headgate.service.checks import check_limit, check_positive_lease, check_span, printable
from headgate.service.leases.looking import Looking
from headgate.service.ledger.chunk_waits import LedgerWaits
from headgate.service.ledger.claim_reports import ClaimLike, check_outputs, check_reference, without_secrets
from headgate.service.ledger.definitions import Definitions
from headgate.service.ledger.selected import SelectedChunks
from headgate.service.ledger.working import Work
from headgate.service.logs import fit_texts
from headgate.service.secrets.claim_secrets import with_secrets
from headgate.service.secrets.use_cases import Opened, Secrets
from headgate.stores.ports.ledger import LedgerStore
from headgate.telemetry import event

if TYPE_CHECKING:
    from threading import Event

#: Default lease of claims: short enough to notice a dead worker, long enough for a slow store.
DEFAULT_LEASE = 60.0
#: A SHA-256.
DIGEST = re.compile("[0-9a-f]{64}")
#: Number of data ids that are published in one transaction.
PUBLISH_BATCH = 5000


class Ledger(LedgerWaits, SelectedChunks):
    """Datasets, jobs, and the chunks that jobs claim; `gate.ledger`.

    Public methods do the work of the caller's process: they open and seal secrets, renew claims and wait. Those with a
    leading underscore check, log and call the store; `headgate.client.ledger` sends them to a service.

    :param job: Name of the job.
    :param dataset: Name of the dataset.
    :param dataid: Data id of the chunk.
    :param key: The job's key, which opens its secrets; None: the key of the settings; empty: secrets stay masked.
    :param worker: Name of the worker (default: this process).
    :param lease: Lease length in seconds (default: 60).
    :param request_id: Id of this request; a repeat with the same id returns the same claim (default: a new id).
    :param wait: Seconds to wait for a chunk (default: 0).
    :param claim: The claim, its hold, or the name of its job; a name needs `dataid` and `token`.
    :param token: Token of the claim (default: that of `claim`).
    :param message: Reason of the failure or interruption. Secrets of the claim are masked in it.
    :param reason: Reason, recorded in the history.
    :param by: Name of the operator or process (default: this process).
    :param steal: Even if a running worker holds the chunk.
    :param holders: Jobs that may read secrets they could not read before, each as DATASET/JOB.
    :param share: Let the job's keys open the secrets of its new datasets, as far as the available keys allow.
    :param kind: `INPUT` or `OUTPUT`.
    :param status: Status of the chunk, such as `READY` or `ERROR`.
    :param limit: Largest number of results.
    """

    def __init__(
        self, store: LedgerStore, secrets: Secrets, variables: NamePatterns = NO_MORE, log_keep: int = 0
    ) -> None:
        """`variables`: the variables that jobs may set for their commands, besides PARAM_…."""
        self._store = store
        #: Number of bytes kept of the end of each output of an attempt; 0: none.
        self.log_keep = log_keep
        self._variables = variables
        #: Keys of jobs, and secrets of datasets.
        self.secrets = secrets
        #: Sealed secrets and proofs of keys, as the store keeps them.
        self.custody = secrets.custody

    # ---------------------------------------------------------------- definitions

    def define_dataset(
        self, name: str, *, uri: str = "", order: str = "natural", settings: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None, secret_jobs: Sequence[str] | None = None,
        expect: Mapping[str, Any] | None = None, holders: Iterable[str] = (),
    ) -> Defined:  # fmt: skip
        """Define a dataset, and return what changed. Repeating a definition changes nothing.

        Raises HoldersUnconfirmed if a job would read secrets that it could not read before and `holders` does not name
        it.

        :param name: Name of the dataset.
        :param uri: Location of the data.
        :param order: Order of its data ids: `natural` (9 before 10) or `text`.
        :param settings: Other data needed to reach it; visible to everyone.
        :param secrets: All secrets of the dataset by name, sealed for every job that uses it; needs the master key or
            the keys of those jobs. None: unchanged.
        :param secret_jobs: Jobs that may read the secrets; None: any job that uses the dataset.
        :param expect: Which data ids it should have, and when, such as `{"every": "day", "from": "2026-01-01"}`; None:
        no expectation.
        """
        dataset = {"uri": uri, "order": order, "settings": settings, "secret_jobs": secret_jobs, "expect": expect}
        body = dataset if secrets is None else {**dataset, "secrets": secrets}
        return self.define({name: body}, holders=holders)

    def define_job(  # noqa: PLR0913 - each is a property by its name
        self, name: str, *, inputs: Sequence[str] = (), outputs: Sequence[str] = (),
        environment: Mapping[str, str] | None = None, max_attempts: int = 3, max_crashes: int = 3,
        max_interruptions: int = 10, retry_delay: float = 0, on_failure: str = "rerun", stop_exit: str = "interrupt",
        recur: float | str = 0, maps: Mapping[str, Mapping[str, Any]] | None = None, fan_out: Sequence[str] = (),
        share: bool = True, holders: Iterable[str] = (),
    ) -> Defined:  # fmt: skip
        """Define a job, and return what changed and what looks like a mistake. Repeating a definition changes nothing.

        Raises HoldersUnconfirmed as `define_dataset` does.

        :param name: Name of the job.
        :param inputs: Datasets that it reads; the order of the first one decides which chunk is next.
        :param outputs: Datasets that it produces. A dataset has one producing job.
        :param environment: Variables for its commands.
        :param max_attempts: Failures after which a chunk is not retried; 0: no limit.
        :param max_crashes: Crashes of workers after which a chunk is held; 0: no limit.
        :param max_interruptions: Interruptions after which a chunk is held; 0: no limit.
        :param retry_delay: Seconds before a failed chunk is retried; doubles with each failure.
        :param on_failure: `rerun`: retry a failed chunk; `hold`: hold it.
        :param stop_exit: `interrupt`: a worker that was asked to stop reports an interruption; `trust`: its exit code
            counts.
        :param recur: Without outputs: seconds, or a text such as `90d`, after which a DONE chunk is processed again (0:
        never).
        :param maps: By input: which of its data ids one data id of the job reads, with the keys of a pipeline file, for
            example `{"days": {"kind": "period", "period": "month", "unit": "day"}}`. The same one where none is given.
        :param fan_out: Datasets for which one chunk yields several data ids. Its worker lists them: see `success`.
        """
        job = {
            "inputs": inputs, "outputs": outputs, "environment": environment, "max_attempts": max_attempts,
            "max_crashes": max_crashes, "max_interruptions": max_interruptions, "retry_delay": retry_delay,
            "on_failure": on_failure, "stop_exit": stop_exit, "recur": recur, "maps": maps, "fan_out": fan_out,
        }  # fmt: skip
        return self.define(jobs={name: job}, share=share, holders=holders)

    def define(
        self, datasets: Mapping[str, Mapping[str, Any]] | None = None,
        jobs: Mapping[str, Mapping[str, Any]] | None = None, *, share: bool = True, holders: Iterable[str] = (),
    ) -> Defined:  # fmt: skip
        """Define datasets and jobs in one transaction, and return what changed.

        Everything is checked first, keys and secrets included.

        :param datasets: The arguments of `define_dataset`, by the name of the dataset.
        :param jobs: The arguments of `define_job`, by the name of the job.
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
        """Return how to reach the inputs and outputs of a job, without a claim. Secrets are as in a claim."""
        opened = self._open(job, key)
        bare = self._connections(job)
        ports = self._ports(job, {**bare["inputs"], **bare["outputs"]}, opened, key)
        return {side: {name: ports[name] for name in found} for side, found in bare.items()}

    def _connections(self, job: str) -> dict[str, dict[str, Port]]:
        found, datasets = self.job(job)
        bare = {each.name: Port(each.name, "", each.uri, each.settings, each.secrets) for each in datasets}
        return {
            "inputs": {name: bare[name] for name in found.inputs},
            "outputs": {name: bare[name] for name in found.makes},
        }

    # ---------------------------------------------------------------- work

    def publish(self, dataset: str, dataids: str | Iterable[str], *, by: str | None = None) -> int:
        """Mark chunks that were made outside Headgate as READY. Returns how many were not READY before.

        Many data ids are published in several transactions; repeat the call if it was interrupted.

        :param dataids: One or more data ids.
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

    def find_next(
        self, job: str, *, key: str | None = None, worker: str | None = None, lease: float = DEFAULT_LEASE,
        wait: float = 0, request_id: str | None = None,
    ) -> Claim | None:  # fmt: skip
        """Claim the next chunk of a job; None if none is left. Raises WrongKey, and claims nothing, for a wrong key."""
        looking = self.looking_for_next(job, key=key, worker=worker, lease=lease, request_id=request_id)
        return looking.within(check_span("wait", wait))

    def looking_for_next(
        self, job: str, *, key: str | None, worker: str | None, lease: float, request_id: str | None
    ) -> Looking[Claim]:
        """Claim the next chunk in steps, for callers that wait without a thread."""
        asker = asker_for(worker, lease, request_id)
        opened = self._open(check_name("job", job), key)

        def look() -> Claim | None:
            claim = self._store.find_next(job, asker)
            return None if claim is None else self._with_secrets(_taken(claim), opened, key)

        return Looking(look, partial(self._store.listen, job))

    def claim(
        self, job: str, dataid: str, *, key: str | None = None, worker: str | None = None, lease: float = DEFAULT_LEASE,
        request_id: str | None = None,
    ) -> Claim:  # fmt: skip
        """Claim this chunk. Raises ClaimRefused, with every reason, if it cannot be claimed."""
        opened = self._open(job, key)
        found = self._claim(job, dataid, worker=worker, lease=lease, request_id=request_id)
        return self._with_secrets(found, opened, key)

    def _claim(self, job: str, dataid: str, **asked: Any) -> Claim:
        names = check_name("job", job), check_name("dataid", dataid)
        return _taken(self._store.claim(*names, asker_for(**asked)))

    def force(
        self, job: str, dataid: str, *, reason: str, steal: bool = False, key: str | None = None,
        worker: str | None = None, lease: float = DEFAULT_LEASE, request_id: str | None = None,
    ) -> Claim:  # fmt: skip
        """Claim this chunk regardless of the rules, as an operator. A running worker keeps it unless you `steal` it."""
        opened = self._open(job, key)
        asked = {"worker": worker, "lease": lease, "request_id": request_id}
        return self._with_secrets(self._force(job, dataid, reason, steal=bool(steal), **asked), opened, key)

    def _force(self, job: str, dataid: str, reason: str, *, steal: bool, **asked: Any) -> Claim:
        names = check_name("job", job), check_name("dataid", dataid)
        return _taken(self._store.force(*names, asker_for(**asked), check_reason(reason), steal=steal))

    def success(
        self, claim: ClaimLike | str, dataid: str | None = None, token: int | None = None, *,
        outputs: Mapping[str, Iterable[str]] | None = None, by: str | None = None,
    ) -> None:  # fmt: skip
        """Report that the chunk is done; repeating it changes nothing. Raises ClaimLost if the claim is not yours.

        Raises ClaimRefused, and changes nothing, if `outputs` has a data id that was made from another one.

        :param outputs: The data ids that were made, by fan-out dataset of the job: they become READY. Ids of the last
        success that are missing here are held.
        """
        self._success(*self._reference(claim, dataid, token), check_outputs(outputs), by)

    def _success(
        self, job: str, dataid: str, token: int, outputs: Mapping[str, Sequence[str]] | None, by: str | None
    ) -> None:  # fmt: skip
        self._store.success(job, dataid, token, actor(by), outputs)
        event("chunk.success", job=job, dataid=dataid, token=token)

    def fail(
        self, claim: ClaimLike | str, message: str = "", dataid: str | None = None, token: int | None = None, *,
        by: str | None = None,
    ) -> None:  # fmt: skip
        """Report that the chunk failed. Raises ClaimLost, and changes nothing, if the claim is not yours."""
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

        The chunk is claimed again before all others, or held after `max_interruptions`. Repeating the report changes
        nothing. Raises ClaimLost, and changes nothing, if the claim is not yours.
        """
        why = printable(without_secrets(claim, message or "interrupted"))
        self._interrupt(*self._reference(claim, dataid, token), why, by)

    def _interrupt(self, job: str, dataid: str, token: int, message: str, by: str | None) -> None:
        self._store.interrupt(job, dataid, token, message, actor(by))
        event("chunk.interrupted", job=job, dataid=dataid, token=token)

    def heartbeat(
        self, claim: ClaimLike | str, dataid: str | None = None, token: int | None = None, *,
        lease: float | None = None,
    ) -> float:  # fmt: skip
        """Renew the lease of a claim and return its length. Raises ClaimLost if the lease has expired.

        :param lease: Lease length in seconds (default: as before).
        """
        length = claim.lease if isinstance(claim, Claim) and lease is None else lease
        return self._heartbeat(*self._reference(claim, dataid, token), length or DEFAULT_LEASE)

    def _heartbeat(self, job: str, dataid: str, token: int, lease: float) -> float:
        return self._store.heartbeat(job, dataid, token, check_positive_lease(lease))

    def keep_log(
        self, claim: ClaimLike | str, texts: Sequence[LogText], dataid: str | None = None, token: int | None = None, *,
        ended: bool = False,
    ) -> None:  # fmt: skip
        """Store the end of the output of an attempt. Secrets of the claim are masked in it.

        Call it whenever there is more; a text replaces the one before. While the chunk runs, its message is the last
        line. Nothing is kept if the setting `log_keep` is 0. Raises ClaimLost if the claim is not yours.

        :param texts: The end of each stream.
        :param ended: The log is complete: report the outcome next.
        """
        safe = [replace(each, text=readable(redact(without_secrets(claim, each.text)))) for each in texts]
        self._keep_log(*self._reference(claim, dataid, token), safe, ended=ended)

    def _keep_log(self, job: str, dataid: str, token: int, texts: Sequence[LogText], *, ended: bool) -> None:
        fitting = fit_texts(texts, self.log_keep)
        if fitting:
            self._store.keep_log(job, dataid, token, fitting, ended=ended)

    def _reference(self, claim: ClaimLike | str, dataid: str | None, token: int | None) -> tuple[str, str, int]:
        return check_reference(claim, dataid, token)

    def work(
        self, job: str, *, key: str | None = None, worker: str | None = None, lease: float = DEFAULT_LEASE,
        stop: Event | None = None,
    ) -> Work:  # fmt: skip
        """Return an iterator that claims chunk after chunk until none is left; see Work.

        Each claim is renewed while its body runs, and reported as done when the next one is requested.

        :param stop: Once it is set, no chunk is claimed, and the current one is reported as interrupted unless its job
            says `stop_exit = "trust"` and its body ends.
        """
        return Work(self, lambda: self.find_next(job, key=key, worker=worker, lease=lease), stop)

    # ---------------------------------------------------------------- support

    def resubmit(
        self, job: str, dataid: str | Iterable[str], *, reason: str, downstream: bool = False, steal: bool = False,
        dry_run: bool = False, by: str | None = None,
    ) -> Sequence[Change]:  # fmt: skip
        """Run chunks again, before all others. Returns what changed.

        :param dataid: One or more data ids.
        :param downstream: Include every chunk that was made from them.
        :param dry_run: Only return what would change.
        """
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
        """Hold a chunk: no job reads or makes it until `unhold`. Raises ClaimRefused while a worker has claimed it."""
        names = check_name("job", job), check_name("dataid", dataid)
        return self._store.hold(*names, check_reason(reason), actor(by))

    def unhold(self, job: str, dataid: str, *, reason: str = "", by: str | None = None) -> Sequence[Change]:
        """Release a chunk from its hold. It gets the status that it had before."""
        names = check_name("job", job), check_name("dataid", dataid)
        return self._store.unhold(*names, check_note("reason", reason), actor(by))

    def close(
        self, job: str, dataid: str, *, reason: str = "", reopen: bool = False, by: str | None = None
    ) -> bool:  # fmt: skip
        """Declare a data id complete, for a job whose inputs have no calendar. Returns whether it was
        open.

        Later arrivals are late, and are noted or cause a redo, as the mapping says.

        :param reopen: Reopen it: more may arrive. Returns whether it was closed.
        """
        names = check_name("job", job), check_name("dataid", dataid)
        return self._store.close(*names, check_note("reason", reason), actor(by), reopen=bool(reopen))

    def forget(
        self, job: str, dataid: str, *, reason: str, steal: bool = False, by: str | None = None
    ) -> Sequence[Change]:
        """Remove the rows of a chunk, as if the job had never claimed it. Rows of its inputs' jobs stay."""
        names = check_name("job", job), check_name("dataid", dataid)
        return self._store.forget(*names, check_reason(reason), actor(by), steal=bool(steal))

    def set_status(
        self, dataset: str, dataid: str, job: str, kind: str, status: str, *, reason: str, by: str | None = None
    ) -> Change:
        """Set the status of one row, as an operator. An unknown word is kept and blocks the chunk like HOLD."""
        row = Row(
            check_name("dataset", dataset), check_name("dataid", dataid), check_name("job", job), parse_kind(kind),
            parse_status(status),
        )  # fmt: skip
        change = self._store.set_status(row, check_reason(reason), actor(by))
        event("chunk.set", logging.WARNING, job=job, dataset=dataset, dataid=dataid, status=row.status, reason=reason)
        return change

    def pause(self, job: str, *, reason: str, by: str | None = None) -> Job:
        """Pause a job: it gets no more chunks, and running ones finish."""
        return self._store.pause(check_name("job", job), check_reason(reason), actor(by))

    def unpause(self, job: str, *, by: str | None = None) -> Job:
        """Let a paused job claim chunks again."""
        return self._store.pause(check_name("job", job), "", actor(by))

    def note_commands(self, job: str, digest: str, *, by: str | None = None) -> bool:
        """Record which pipeline file defines the job's commands. Returns whether it has changed.

        :param digest: SHA-256 of the file, in hexadecimal.
        """
        if not DIGEST.fullmatch(str(digest)):
            raise BadValue("digest", digest, "is not a SHA-256 in 64 hexadecimal digits")
        return self._store.note_commands(check_name("job", job), digest, actor(by))

    def reap(self, *, limit: int = 1000, by: str | None = None) -> int:
        """Turn expired claims into errors, and return their number. Workers that need such a chunk do so as well.

        :param limit: Largest number of claims to reap.
        """
        count = self._store.reap(actor(by), check_limit(limit))
        if count:
            event("chunk.reaped", logging.WARNING, count=count)
        return count

    def _open(self, job: str, key: str | None) -> Opened | None:
        """Open the job's secrets with its key before anything is claimed; None without a key."""
        text = self.secrets.key(key)
        return self.secrets.open(job, text) if text else None

    def _with_secrets(self, claim: Claim, opened: Opened | None, key: str | None) -> Claim:
        """Return the claim with its secrets opened by the key, or masked."""
        bare = {**claim.inputs, **claim.outputs}
        if not any(port.secrets for port in bare.values()):
            return claim
        try:
            ports = self._ports(claim.job, bare, opened, key)
        except WrongKey:
            # Keys were changed between the check and the claim. Claims that cannot be worked on are released.
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
