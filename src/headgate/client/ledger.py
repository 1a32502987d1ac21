"""The ledger of a service: the port over HTTP. Secrets come sealed, and are opened by who asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.client.connection import Connection
from headgate.core.census import Span, Tally
from headgate.core.claims import Plan, Verdict
from headgate.core.credentials import Custody, CustodyChange, MasterWrap
from headgate.core.ledger import Change, Claim, Dataset, Defined, Job, Port, Row
from headgate.core.locks import Lock
from headgate.core.wire import parse, plain
from headgate.stores.base import Asker, RowFilter, SpanFilter
from headgate.stores.deadlines import LEDGER_CALLS, answered_in_time


@answered_in_time(LEDGER_CALLS)
class ServiceLedger:
    """Datasets, jobs and chunks behind a service."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self.options = connection.options
        self._connection = connection

    # ---------------------------------------------------------------- definitions

    def define(self, datasets: Sequence[Dataset], jobs: Sequence[Job]) -> Defined:
        body = {
            "datasets": {
                each.name: {
                    "uri": each.uri, "order": each.order.value, "settings": dict(each.settings),
                    "secret_jobs": each.secret_jobs,
                }
                for each in datasets
            },
            "jobs": {
                each.name: {key: value for key, value in each.to_document().items() if key not in ("name", "paused")}
                for each in jobs
            },
        }  # fmt: skip
        return self._defined(self._connection.send("PUT", "pipeline", body=body))

    def datasets(self) -> Sequence[Dataset]:
        return [parse(Dataset, each) for each in self._connection.pages("datasets")]

    def jobs(self) -> Sequence[Job]:
        return [parse(Job, each) for each in self._connection.pages("jobs")]

    def job(self, job: str) -> tuple[Job, Sequence[Dataset]]:
        found = self._connection.get("jobs", job)
        datasets = [parse(Dataset, each) for each in found["datasets"]]
        if any(each.secrets for each in datasets):
            versions = self._versions(job)
            datasets = [replace(each, secrets=versions.get(each.name) or each.secrets) for each in datasets]
        return parse(Job, found["job"]), datasets

    # ---------------------------------------------------------------- secrets

    def dataset_custody(self, dataset: str) -> Custody:
        found: Custody = parse(Custody, self._connection.get("datasets", dataset, "custody"))
        return found

    def job_custody(self, job: str) -> Custody:
        found: Custody = parse(Custody, self._connection.get("jobs", job, "custody"))
        return found

    def change_custody(self, known: Custody, change: CustodyChange) -> bool:
        body = {"known": plain(known), "change": plain(change)}
        return bool(self._connection.once("custody", body=body)["changed"])

    def master_wraps(self, before: int, limit: int) -> Sequence[MasterWrap]:
        return [parse(MasterWrap, each) for each in self._connection.pages("master-wraps", before=before, limit=limit)]

    def rewrap(self, pairs: Sequence[tuple[MasterWrap, MasterWrap]]) -> int:
        return int(self._connection.once("master-wraps", body={"pairs": plain(pairs)})["count"])

    def refuse_masters(self, before: int) -> None:
        self._connection.send("PUT", "master-wraps", "least", before=before)

    def masters(self) -> Mapping[int, str]:
        return {int(each["number"]): str(each["check"]) for each in self._connection.pages("master-keys")}

    def know_master(self, number: int, check: str) -> str:
        return str(self._connection.send("PUT", "master-keys", str(number), body={"check": check})["check"])

    def forget_masters(self) -> int:
        return int(self._connection.send("DELETE", "master-keys", again=False)["count"])

    # ---------------------------------------------------------------- work

    def publish(self, dataset: str, dataids: Sequence[str], who: str) -> int:
        body = {"dataids": list(dataids), "by": who}
        return int(self._connection.once("datasets", dataset, "publish", body=body)["count"])

    def find_next(self, job: str, asker: Asker) -> Claim | None:
        found = self._connection.send("POST", "jobs", job, "next", body=_worker(asker), request_id=asker.request_id)
        return None if found is None else self._claim(found)

    def claim(self, job: str, dataid: str, asker: Asker) -> Claim:
        return self._claim(self._act(job, dataid, "claim", _worker(asker), request_id=asker.request_id))

    def force(self, job: str, dataid: str, asker: Asker, reason: str, *, steal: bool) -> Claim:
        body = {**_worker(asker), "reason": reason, "steal": steal}
        return self._claim(self._act(job, dataid, "force", body, request_id=asker.request_id))

    def success(self, job: str, dataid: str, token: int, who: str) -> None:
        self._act(job, dataid, "success", {"token": token, "by": who})

    def fail(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        self._act(job, dataid, "fail", {"token": token, "message": message, "by": who})

    def interrupt(self, job: str, dataid: str, token: int, message: str, who: str) -> None:
        self._act(job, dataid, "interrupt", {"token": token, "message": message, "by": who})

    def heartbeat(self, job: str, dataid: str, token: int, lease: float) -> float:
        return float(self._act(job, dataid, "heartbeat", {"token": token, "lease": lease})["lease"])

    # ---------------------------------------------------------------- support

    def resubmit(
        self, job: str, dataids: Sequence[str], reason: str, who: str, *, downstream: bool, steal: bool, dry_run: bool
    ) -> Sequence[Change]:
        body = {
            "dataids": list(dataids), "reason": reason, "by": who, "downstream": downstream, "steal": steal,
            "dry_run": dry_run,
        }  # fmt: skip
        return _changes(self._connection.once("jobs", job, "resubmit", body=body))

    def hold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        return _changes(self._act(job, dataid, "hold", {"reason": reason, "by": who}, once=True))

    def unhold(self, job: str, dataid: str, reason: str, who: str) -> Sequence[Change]:
        return _changes(self._act(job, dataid, "unhold", {"reason": reason, "by": who}, once=True))

    def forget(self, job: str, dataid: str, reason: str, who: str, *, steal: bool) -> Sequence[Change]:
        return _changes(self._act(job, dataid, "forget", {"reason": reason, "by": who, "steal": steal}, once=True))

    def set_status(self, row: Row, reason: str, who: str) -> Change:
        body = {"dataset": row.dataset, "kind": row.kind.value, "status": row.status, "reason": reason, "by": who}
        change: Change = parse(Change, self._act(row.job, row.dataid, "status", body, once=True))
        return change

    def pause(self, job: str, reason: str, who: str) -> Job:
        act = "pause" if reason else "unpause"
        found: Job = parse(Job, self._connection.once("jobs", job, act, body={"reason": reason, "by": who}))
        return found

    def reap(self, who: str, limit: int = 1000) -> int:
        del who  # The service tells who asked.
        return int(self._connection.send("POST", "reap", of="ledger", limit=limit)["count"])

    # ---------------------------------------------------------------- questions

    def explain(self, job: str, dataid: str) -> Verdict:
        found: Verdict = parse(Verdict, self._connection.get("jobs", job, "chunks", dataid, "explain"))
        return found

    def plan(self, job: str, limit: int) -> Plan:
        found = [parse(Verdict, each) for each in self._connection.get("jobs", job, "plan", limit=limit)["items"]]
        return Plan(tuple(each for each in found if each.granted), tuple(each for each in found if not each.granted))

    def left(self, job: str, most: int) -> int:
        return min(int(self._connection.get("jobs", job, "left")["count"]), most)

    def rows(self, which: RowFilter) -> Sequence[Row]:
        after = None if which.after is None else f"{which.dataset}/{which.after}"
        query: dict[str, Any] = {"dataset": which.dataset, "job": which.job, "dataid": which.dataid, "after": after}
        query |= {"kind": which.kind, "status": which.status}
        found = [parse(Row, each) for each in self._connection.pages("chunks", limit=which.limit, **query)]
        return found[: which.limit]

    def failures(self, limit: int, after: str | None = None) -> Sequence[Row]:
        return [parse(Row, each) for each in self._connection.pages("failures", limit=limit, after=after)]

    def standing(self) -> Sequence[Tally]:
        return [parse(Tally, each) for each in self._connection.pages("chunks", "standing")]

    def tallies(self, most: int) -> Sequence[Tally]:
        return [parse(Tally, each) for each in self._connection.pages("chunks", "tallies", most=most)]

    def spans(self, which: SpanFilter) -> Sequence[Span]:
        query = {"dataset": which.dataset, "beside": list(which.beside), "start": which.start, "last": which.last}
        found = self._connection.pages("chunks", "spans", **query, size=which.size, limit=which.limit)
        return [parse(Span, each) for each in found]

    def running(self) -> Sequence[Lock]:
        claims: Iterable[Any] = self._connection.pages("locks", claims=True)
        return [parse(Lock, each) for each in claims]

    def _act(
        self, job: str, dataid: str, act: str, body: Mapping[str, Any], *, request_id: str | None = None,
        once: bool = False,
    ) -> Any:  # fmt: skip
        path = ("jobs", job, "chunks", dataid, act)
        if once:
            return self._connection.once(*path, body=body)
        return self._connection.send("POST", *path, body=body, request_id=request_id)

    def _claim(self, document: Any) -> Claim:
        """A claim as a store gives it: of its secrets, the versions."""
        claim: Claim = parse(Claim, document)
        if not any(port.secrets for port in (*claim.inputs.values(), *claim.outputs.values())):
            return claim
        versions = self._versions(claim.job)
        return replace(claim, inputs=_named(claim.inputs, versions), outputs=_named(claim.outputs, versions))

    def _versions(self, job: str) -> dict[str, dict[str, str]]:
        secrets = self.job_custody(job).secrets
        return {dataset: {name: str(each) for name, each in known.items()} for dataset, known in secrets.items()}

    def _defined(self, document: Any) -> Defined:
        found: Defined = parse(Defined, document)
        return found


def _named(ports: Mapping[str, Port], versions: Mapping[str, Mapping[str, str]]) -> dict[str, Port]:
    return {name: replace(port, secrets=versions.get(name) or port.secrets, sealed={}) for name, port in ports.items()}


def _worker(asker: Asker) -> dict[str, Any]:
    return {"worker": asker.worker, "lease": asker.lease}


def _changes(documents: Any) -> list[Change]:
    return [parse(Change, each) for each in documents["items"]]
