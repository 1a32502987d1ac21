"""The ledger of a service: each operation as it is declared in `headgate.operations`. Secrets come sealed, and are
opened by who asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.calls.deadlines import LEDGER_CALLS, answered_in_time
from headgate.client.asking import Asking
from headgate.client.connection import Connection
from headgate.client.sending import of_asker, send, sends
from headgate.core.census import Span
from headgate.core.claims import Plan, Verdict
from headgate.core.filters import RowFilter, SpanFilter
from headgate.core.ledger import Asker, Change, Claim, Dataset, Defined, Job, Port, Row
from headgate.core.locks import Lock
from headgate.operations import claims, ledger, locks, secrets, whole
from headgate.operations.declaring import Operation


@answered_in_time(LEDGER_CALLS)
class ServiceLedger:
    """Datasets, jobs and chunks behind a service."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self.options = connection.options
        self.connection = connection

    # ---------------------------------------------------------------- definitions

    def define(self, datasets: Sequence[Dataset], jobs: Sequence[Job]) -> Defined:
        asked = {
            "datasets": {
                each.name: {
                    "uri": each.uri, "order": each.order, "settings": each.settings, "secret_jobs": each.secret_jobs,
                }
                for each in datasets
            },
            "jobs": {
                each.name: {key: value for key, value in each.to_document().items() if key not in ("name", "paused")}
                for each in jobs
            },
        }  # fmt: skip
        found: Defined = send(self.connection, ledger.define, **asked)
        return found

    datasets = sends(ledger.datasets)
    jobs = sends(ledger.jobs)

    def job(self, job: str) -> tuple[Job, Sequence[Dataset]]:
        found: ledger.JobFound = send(self.connection, ledger.job, job=job)
        datasets = found.datasets
        if any(each.secrets for each in datasets):
            versions = self._versions(job)
            datasets = [replace(each, secrets=versions.get(each.name) or each.secrets) for each in datasets]
        return found.job, datasets

    # ---------------------------------------------------------------- secrets

    dataset_custody = sends(secrets.dataset_custody)
    job_custody = sends(secrets.job_custody)
    change_custody = sends(secrets.change_custody)
    master_wraps = sends(secrets.master_wraps)
    rewrap = sends(secrets.rewrap)
    refuse_masters = sends(secrets.refuse_masters)
    know_master = sends(secrets.know_master)
    forget_masters = sends(secrets.forget_masters)

    def masters(self) -> Mapping[int, str]:
        return {each.number: each.check for each in send(self.connection, secrets.masters)}

    # ---------------------------------------------------------------- work

    def publish(self, dataset: str, dataids: Sequence[str], who: str) -> int:
        return int(send(self.connection, ledger.publish_all, name=dataset, dataids=dataids, by=who))

    def find_next(self, job: str, asker: Asker) -> Claim | None:
        return self._claimed(claims.find_next, asker, job=job)

    def listen(self, job: str, wake: Callable[[], None]) -> Asking:
        del job, wake
        return Asking()

    def claim(self, job: str, dataid: str, asker: Asker) -> Claim:
        return self._granted(claims.claim, asker, job=job, dataid=dataid)

    def force(self, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
        return self._granted(ledger.force, asker, job=job, dataid=dataid, reason=reason, steal=steal)

    success = sends(claims.success)
    fail = sends(claims.fail)
    interrupt = sends(claims.interrupt)
    heartbeat = sends(claims.heartbeat)

    # ---------------------------------------------------------------- support

    resubmit = sends(ledger.resubmit_all)
    hold = sends(ledger.hold)
    unhold = sends(ledger.unhold)
    forget = sends(ledger.forget)

    def set_status(self, row: Row, reason: str, who: str) -> Change:
        named = {"job": row.job, "dataid": row.dataid, "dataset": row.dataset, "kind": row.kind}
        change: Change = send(self.connection, ledger.set_status, **named, status=row.status, reason=reason, by=who)
        return change

    def pause(self, job: str, reason: str, who: str) -> Job:
        operation = ledger.pause if reason else ledger.unpause
        found: Job = send(self.connection, operation, job=job, reason=reason, by=who)
        return found

    def reap(self, who: str, limit: int = 1000) -> int:
        del who  # The service tells who asked.
        return int(send(self.connection, whole.reap, of="ledger", limit=limit))

    # ---------------------------------------------------------------- questions

    explain = sends(ledger.explain)
    standing = sends(ledger.standing)
    tallies = sends(ledger.tallies)

    def plan(self, job: str, limit: int) -> Plan:
        found: Sequence[ledger.Planned] = send(self.connection, ledger.plan, job=job, limit=limit)
        claimable = tuple(_verdict(each) for each in found if each.granted)
        return Plan(claimable, tuple(_verdict(each) for each in found if not each.granted))

    def left(self, job: str, most: int) -> int:
        return min(int(send(self.connection, ledger.left, job=job)), most)

    def rows(self, which: RowFilter) -> Sequence[Row]:
        after = None if which.after is None else f"{which.dataset}/{which.after}"
        found: Sequence[Row] = send(
            self.connection, ledger.chunks, dataset=which.dataset, job=which.job, dataid=which.dataid,
            kind=which.kind, status=which.status, after=after, limit=which.limit,
        )  # fmt: skip
        return found[: which.limit]

    def failures(self, limit: int, after: str | None = None) -> Sequence[Row]:
        found: Sequence[Row] = send(self.connection, ledger.failures, limit=limit, after=after)
        return found

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        found: Sequence[Span] = send(
            self.connection, ledger.spans, dataset=which.dataset, beside=which.beside, start=which.start,
            last=which.last, size=which.size, limit=which.limit,
        )  # fmt: skip
        return found

    def running(self) -> Sequence[Lock]:
        found: Sequence[Lock] = send(self.connection, locks.list_locks, claims=True)
        return found

    def _granted(self, operation: Operation, asker: Asker, **asked: Any) -> Claim:
        found = self._claimed(operation, asker, **asked)
        if found is None:
            raise TypeError(f"{operation.name} was neither granted nor refused")
        return found

    def _claimed(self, operation: Operation, asker: Asker, **asked: Any) -> Claim | None:
        """A claim as a store gives it: of its secrets, the versions."""
        claim: Claim | None = send(self.connection, operation, **asked, **of_asker(asker))
        if claim is None or not any(port.secrets for port in (*claim.inputs.values(), *claim.outputs.values())):
            return claim
        versions = self._versions(claim.job)
        return replace(claim, inputs=_named(claim.inputs, versions), outputs=_named(claim.outputs, versions))

    def _versions(self, job: str) -> dict[str, dict[str, str]]:
        custody = self.job_custody(job)
        return {
            dataset: {name: str(each) for name, each in known.items()} for dataset, known in custody.secrets.items()
        }


def _named(ports: Mapping[str, Port], versions: Mapping[str, Mapping[str, str]]) -> dict[str, Port]:
    return {name: replace(port, secrets=versions.get(name) or port.secrets, sealed={}) for name, port in ports.items()}


def _verdict(planned: ledger.Planned) -> Verdict:
    return Verdict(planned.job, planned.dataid, planned.conditions)
