"""The ledger of a service. Secrets are sealed and opened in the caller's process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from headgate.calls.deadlines import LEDGER_CALLS, answered_in_time, bulk, listing, of_listed, of_rows
from headgate.client.asking import USABLE_PART, WaitingThere, polled
from headgate.client.connection import ServiceConnection
from headgate.client.sending import ServicePart, check_text, known_by, remote, send
from headgate.core.filters import RowFilter, SpanFilter
from headgate.core.ledger.census import Span
from headgate.core.ledger.model import Claim, Defined, Job, Port, Row
from headgate.core.ledger.progress import JobProgress
from headgate.core.ledger.verdicts import Plan, Verdict
from headgate.core.locks.model import Lock
from headgate.core.values.variables import NO_MORE, NamePatterns
from headgate.operations import claims, ledger, locks, secrets, whole
from headgate.service.checks import check_positive_lease
from headgate.service.leases.clock import steady
from headgate.service.leases.ending import Look
from headgate.service.leases.looking import REST_SECONDS, Looking
from headgate.service.ledger.claim_reports import ClaimLike, reference
from headgate.service.ledger.definitions import Definitions
from headgate.service.ledger.job_progress import JobWait
from headgate.service.ledger.questions import LEFT_MOST
from headgate.service.ledger.use_cases import Ledger
from headgate.service.secrets.claim_secrets import with_opened
from headgate.service.secrets.custody import CustodyRecords
from headgate.service.secrets.use_cases import Opened, Secrets

CALLS = {
    **LEDGER_CALLS, "_define": bulk, "_publish": of_rows, "_resubmit": of_rows, "_success": of_listed,
    "change_part": bulk, "claims": listing, "next_of": listing, "left_of": listing,
}  # fmt: skip


@answered_in_time(LEDGER_CALLS)
@remote("ledger.custody", secrets.declared)
class RemoteCustody(ServicePart, CustodyRecords):
    """Sealed secrets and check values of keys in a service's store."""

    def masters(self) -> Mapping[int, str]:
        return {each.number: each.check for each in send(self.connection, secrets.masters)}


@answered_in_time(CALLS)
@remote(
    "ledger", ledger.declared, claims.declared, here=("define_dataset", "define_job", "find_next"),
    _publish=ledger.publish_all, _resubmit=ledger.resubmit_all,
)  # fmt: skip
class RemoteLedger(Ledger):
    """Datasets, jobs and chunks behind a service, which checks and records each operation."""

    def __init__(
        self, connection: ServiceConnection, own: Secrets, variables: NamePatterns = NO_MORE, log_keep: int = 0
    ) -> None:
        """`own`: seals and opens secrets in this process."""
        self.log_keep = log_keep
        self.connection, self.options = connection, connection.options
        self.secrets, self.custody, self._variables = own, own.custody, variables

    # ---------------------------------------------------------------- definitions

    def _define(self, plan: Definitions) -> Defined:
        asked = {
            "datasets": {
                each.name: {
                    "uri": each.uri, "order": each.order, "settings": each.settings, "secret_jobs": each.secret_jobs,
                    "expect": dict(each.expect) or None,
                }
                for each in plan.datasets
            },
            "jobs": {
                each.name: {key: value for key, value in each.to_document().items() if key not in ("name", "paused")}
                for each in plan.jobs
            },
        }  # fmt: skip
        found: Defined = send(self.connection, ledger.define, **asked)
        return found

    # ---------------------------------------------------------------- work

    def looking_for_next(
        self, job: str, *, key: str | None, worker: str | None, lease: float, request_id: str | None
    ) -> Looking[Claim]:
        # Leases are renewed in this process.
        asked = {"worker": worker, "lease": check_positive_lease(lease), "request_id": known_by(request_id)}
        opened = self._open(job, key)

        def ask(seconds: float) -> Claim | None:
            began = steady()
            claim: Claim | None = send(self.connection, claims.find_next, job=job, wait=seconds, **asked)
            if claim is not None and seconds and steady() - began > claim.lease * USABLE_PART:
                # The service may have granted it as soon as the request arrived: ask how much of the lease is left.
                began = steady()
                claim = send(self.connection, claims.find_next, job=job, **asked)
            if claim is not None and seconds:
                claim = replace(claim, expires_in=claim.expires_in - (steady() - began))
            return None if claim is None else self._with_secrets(claim, opened, key)

        return WaitingThere(ask)

    def looking_for_work(self, job: str) -> Looking[bool]:
        return Looking(partial(self._has_work, check_text("job", job)), polled)

    def _looking(self, job: str, waiting: JobWait, look: Look[JobProgress]) -> Looking[JobProgress]:
        del job
        return WaitingThere(look, REST_SECONDS, lambda: waiting.is_unfinished)

    def _ports(self, job: str, ports: Mapping[str, Port], opened: Opened | None, key: str | None) -> Mapping[str, Port]:
        """Without a key, as the service returns them. With a key, the currently sealed value, which may have been set
        again.
        """
        if opened is None or not any(port.secrets for port in ports.values()):
            return ports
        return with_opened(ports, self.secrets.open(job, self.secrets.key(key)))

    def _reference(self, claim: ClaimLike | str, dataid: str | None, token: int | None) -> tuple[str, str, int]:
        return reference(claim, dataid, token)

    def _distinct(self, dataids: str | Iterable[str]) -> list[str]:
        given = [dataids] if isinstance(dataids, str) else dataids
        return list(dict.fromkeys(check_text("dataid", each) for each in given))

    # ---------------------------------------------------------------- support

    def reap(self, *, limit: int = 1000, by: str | None = None) -> int:
        del by  # The service knows the caller.
        return int(send(self.connection, whole.reap, of="ledger", limit=limit))

    # ---------------------------------------------------------------- questions

    def plan(self, job: str, limit: int = 20) -> Plan:
        found: Sequence[ledger.Planned] = send(self.connection, ledger.plan, job=job, limit=limit)
        claimable = tuple(_verdict(each) for each in found if each.granted)
        return Plan(claimable, tuple(_verdict(each) for each in found if not each.granted))

    def left(self, job: str, most: int = LEFT_MOST) -> int:
        return min(int(send(self.connection, ledger.left, job=job)), most)

    def next_of(self, job: Job) -> Plan:
        return self.plan(job.name, 1)

    def left_of(self, job: Job) -> int:
        return self.left(job.name)

    def _status(self, asked: Mapping[str, Any]) -> Sequence[Row]:
        return self.rows(RowFilter(**asked))

    def rows(self, which: RowFilter) -> Sequence[Row]:
        after = None if which.after is None else f"{which.dataset}/{which.after}"
        found: Sequence[Row] = send(self.connection, ledger.chunks, **asdict(replace(which, after=after)))
        return found[: which.limit]

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        found: Sequence[Span] = send(self.connection, ledger.spans, **asdict(which))
        return found

    def claims(self) -> Sequence[Lock]:
        found: Sequence[Lock] = send(self.connection, locks.list_locks, claims=True)
        return found


def _verdict(planned: ledger.Planned) -> Verdict:
    return Verdict(planned.job, planned.dataid, planned.conditions)
