"""A tour of the HTTP API: every operation once, on a real service. The reference shows the requests and answers."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any

import httpx2

from headgate import Gate
from headgate.core.access.credentials import CustodyChange
from headgate.core.inventory import Message, MessageKind, Recording
from headgate.core.ledger.watches.model import Sighting
from headgate.core.values.wire import parse, plain
from headgate.daemon_wiring import daemon_rounds

WHY = {"reason": "the disk was full"}
RESOURCE, CLIENT = "mysql://db1/core", "copy-core"
ARK = "ark:/99999/fk4x1"
PROFILE = 'collection = "maps"\nowner = "library"\nnotification = ["ann@example.org"]\nconfirmation_mail = true\n'
TAKER: dict[str, Any] = {"worker": "archive-2", "lease": 600}
PENDING: dict[str, Any] = {"query": {"state": "pending"}}
#: Replacements for values that differ from run to run, by the name of the member.
FIXED = {
    "since": "2026-11-15T04:50:00Z", "at": "2026-11-15T04:50:00Z", "created": "2026-11-15T04:50:00Z",
    "modified": "2026-11-15T04:50:00Z", "last_used": "2026-11-15T04:50:00Z", "started": "2026-11-15T04:50:00Z",
    "hour": "2026-11-15T04:00:00Z", "next_try": "2026-11-15T04:50:10Z", "owner_process": "node1 pid 4711 #a1b2c3",
    "version": "0.1.0", "tag": "7fqa", "spent": 1.5, "failures_last_day": 2,
    "expires_in": 60,
}  # fmt: skip
_ID = re.compile(r"\b[0-9a-z]{4}-[0-9a-z]{16}-[0-9a-z]{12}\b")
_TOKEN = re.compile(r"\bhg_([a-z0-9]{12})_[\w-]{43}")
#: Patterns of values that differ from run to run, with their replacements.
_VARIES = [
    (re.compile(pattern), shown)
    for pattern, shown in (
        (r"(?<=_)[\w-]{43}$", "Vn2cyy0Q70JkA58enAH8nExIWvbXNXrip565p7brcl4"),  # a secret
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00| UTC)?", "2026-11-15T04:50:00Z"),
        (r"\S+ pid \d+( #[0-9a-f]{6})?", "node1 pid 4711 #a1b2c3"),
        (r"\b\d{13}\.\d{6}", "0001794718200.000000"),  # a moment in a cursor
        (r"^\d{16}(?=\.\d+$)", "1794718200000000"),  # the same, in that of the history
        (r"(?<=expires in )\d+ (s|min( \d+ s)?)", "1 min"),
        (r"^[\w-]{16}$", "Vn2cyy0Q70JkA58e"),  # the id of a request that had none
        (r"(?<=-)[0-9a-f]{32}\b", "0f40824849927274e68b47eef26f669a"),
    )
]


class Tour:
    """Sends requests, and records the first successful request to each operation with its answer."""

    def __init__(self, client: httpx2.Client, folder: str) -> None:
        self._client, self._folder = client, folder
        self.noted: dict[str, dict[str, Any]] = {}
        self._ids: dict[str, str] = {}
        self._learn(client.headers["Authorization"])

    def ask(self, operation: str, body: Any = None, *, file: bytes = b"", status: int = 0, **names: Any) -> Any:
        """`GET /locks`, with names in the path, `query` and `headers`. Returns the answer."""
        method, path = operation.split()
        query, headers = names.pop("query", {}), names.pop("headers", {})
        sent: dict[str, Any] = {"content": file} if file else {} if body is None else {"json": body}
        where = ("" if path in ("/healthz", "/readyz") else "/v1") + path
        found = self._client.request(method, where.format(**names), params=query, headers=headers, **sent)
        assert found.status_code == status if status else found.is_success, (operation, found.status_code, found.text)
        content = found.json() if found.content else None
        self._learn(found.text)
        self.noted.setdefault(
            f"{method} {where}",
            self._still(
                {
                    "path": found.request.url.raw_path.decode(),
                    "headers": headers, "body": body if not file else file.decode(), "status": found.status_code,
                    "answer": content,
                }
            ),
        )  # fmt: skip
        return content

    def refused(self, operation: str, body: Any, status: int, **names: Any) -> None:
        """Record a refused request to an operation, besides the successful one."""
        method, path = operation.split()
        found = self._client.request(method, f"/v1{path}".format(**names), json=body)
        assert found.status_code == status, (operation, found.text)
        self._learn(found.text)
        told = {"path": found.request.url.raw_path.decode(), "headers": {}, "body": body, "status": status}
        self.noted[f"{method} /v1{path}"]["refused"] = self._still({**told, "answer": found.json()})

    def _still(self, value: Any, name: str = "") -> Any:
        """The value without parts that differ from run to run."""
        if isinstance(value, dict):
            return {key: self._still(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self._still(each, name) for each in value]
        if value is not None and name in FIXED and not (name == "version" and isinstance(value, int)):
            return FIXED[name]
        if isinstance(value, float):
            return math.ceil(round(value, 3))
        return self._still_text(value) if isinstance(value, str) else value

    def _learn(self, text: str) -> None:
        """The ids of tokens and locks in a text, with their replacements."""
        for found in _TOKEN.finditer(text):
            self._ids.setdefault(found[1], f"sd7zpeeenq{len(self._ids):02}")
        for found in _ID.finditer(text):
            self._ids.setdefault(found[0], f"7fqa-mzxw6ytboi2gk3tf-nbswy3dpeb{len(self._ids):02}")

    def _still_text(self, text: str) -> str:
        if text.startswith("From: "):
            return "From: headgate@localhost\r\n..."
        text = text.replace(self._folder, "/srv/headgate")
        for real, shown in self._ids.items():
            text = text.replace(real, shown)
        for pattern, shown in _VARIES:
            text = pattern.sub(shown, text)
        return text


def travel(tour: Tour, gate: Gate) -> None:
    """All of it."""
    for part in (_locks, _waiters, _definitions, _claims, _support, _questions, _submission, _batches, _ingest_jobs,
                 _queue, _inventory, _secrets, _whole, _incidents, _expectations):  # fmt: skip
        part(tour, gate)


def _locks(tour: Tour, gate: Gate) -> None:
    wanted = {"client": CLIENT, "resource": RESOURCE, "mode": "exclusive", "lease": 60}
    lock = tour.ask("POST /locks", wanted, headers={"Idempotency-Key": "copy-4711"})["locks"][0]
    at: dict[str, Any] = {"lock_id": lock["id"]}
    proof = {"token": lock["token"]}
    tour.refused("POST /locks", {"client": "report", "resource": RESOURCE, "mode": "shared"}, 409)
    tour.ask("GET /locks", query={"resource": RESOURCE})
    tour.ask("GET /locks/{lock_id}", **at)
    tour.ask("POST /locks/{lock_id}/renew", {**proof, "lease": 120}, **at)
    tour.ask("POST /locks/{lock_id}/check", proof, **at)
    tour.ask("POST /locks/{lock_id}/downgrade", proof, **at)
    proof = {"token": tour.ask("POST /locks/{lock_id}/upgrade", proof, **at)["token"]}
    tour.ask("DELETE /locks/{lock_id}", query=proof, **at)
    tour.refused("POST /locks/{lock_id}/renew", proof, 409, **at)
    for number, act in enumerate(("hand-over", "break")):
        (held,) = tour.ask("POST /locks", {"client": CLIENT, "resource": f"{RESOURCE}{number}"})["locks"]
        body = {"to": "nightly", "reason": "end of shift"} if act == "hand-over" else WHY
        tour.ask(f"POST /locks/{{lock_id}}/{act}", body, lock_id=held["id"])
    tour.ask("GET /guards/missing")


def _waiters(tour: Tour, gate: Gate) -> None:
    held = gate.locks.acquire("backup", RESOURCE, "shared")
    wanted = {"client": CLIENT, "resource": RESOURCE, "mode": "exclusive"}
    place = tour.ask("POST /waiters", wanted, headers={"Headgate-Request": "copy-1"})
    other = tour.ask("POST /waiters", wanted, headers={"Headgate-Request": "copy-2"})
    tour.ask("GET /waiters", query={"resource": RESOURCE})
    tour.ask("POST /waiters/{ticket}/withdraw", {**wanted, "request_id": "copy-2"}, ticket=other["ticket"])
    gate.locks.release(held)
    mine = {**wanted, "request_id": "copy-1"}
    (lock,) = tour.ask("POST /waiters/{ticket}/turn", {**mine, "wait": 10}, ticket=place["ticket"])["locks"]
    tour.ask("POST /waiters/{ticket}/give-up", mine, ticket=place["ticket"])
    tour.ask("DELETE /locks/{lock_id}", lock_id=lock["id"], query={"token": lock["token"]})


def _definitions(tour: Tour, gate: Gate) -> None:
    del gate
    datasets = {"orders_raw": {"uri": "postgresql://warehouse/raw"}, "orders_clean": {}}
    job = {"inputs": ["orders_raw"], "outputs": ["orders_clean"], "max_attempts": 3}
    tour.ask("PUT /pipeline", {"datasets": datasets, "jobs": {"clean": job}})
    tour.ask("PUT /datasets/{name}", {"uri": "postgresql://warehouse/report"}, name="report")
    tour.ask("PUT /jobs/{job}", {"inputs": ["orders_clean"], "outputs": ["report"]}, job="summarise")
    for each in ("datasets", "jobs"):
        tour.ask(f"GET /{each}", query={"limit": 1})
    tour.ask("GET /datasets/{name}", name="orders_raw")
    tour.ask("GET /jobs/{job}", job="clean")
    tour.ask("GET /jobs/{job}/connections", job="clean")
    tour.ask("POST /jobs/{job}/commands", {"digest": hashlib.sha256(b"[job.clean]").hexdigest()}, job="clean")
    tour.ask("POST /datasets/{name}/chunks/{dataid}/publish", name="orders_raw", dataid="2026-11-01")
    dataids = [f"2026-11-{day:02}" for day in range(2, 7)]
    tour.ask("POST /datasets/{name}/publish", {"dataids": dataids}, name="orders_raw")


def _claims(tour: Tour, gate: Gate) -> None:
    del gate
    path = "POST /jobs/{job}/chunks/{dataid}"
    wanted = {"worker": "node1", "lease": 60}
    claim = tour.ask("POST /jobs/{job}/next", wanted, job="clean")
    at: dict[str, Any] = {"job": "clean", "dataid": claim["dataid"]}
    tour.ask(f"{path}/heartbeat", {"token": claim["token"], "lease": 60}, **at)
    texts = [{"stream": "stdout", "text": "reading 3 files\n", "size": 16}]
    tour.ask(f"{path}/logs", {"token": claim["token"], "texts": texts}, **at)
    tour.ask(f"{path}/success", {"token": claim["token"]}, **at)
    tour.refused(f"{path}/heartbeat", {"token": claim["token"]}, 409, **at)
    for dataid, act, said in (("2026-11-02", "fail", "no space on disk"), ("2026-11-03", "interrupt", "SIGTERM")):
        claim = tour.ask(f"{path}/claim", wanted, job="clean", dataid=dataid)
        tour.ask(f"{path}/{act}", {"token": claim["token"], "message": said}, job="clean", dataid=dataid)
    tour.refused(f"{path}/claim", wanted, 409, **at)


def _questions(tour: Tour, gate: Gate) -> None:
    del gate
    tour.ask("GET /chunks", query={"dataset": "orders_clean", "limit": 1})
    tour.ask("GET /failures", query={"limit": 1})
    tour.ask("GET /chunks/standing")
    tour.ask("GET /chunks/tallies")
    tour.ask("GET /chunks/spans", query={"dataset": "orders_raw", "size": 3, "limit": 1})
    tour.ask("GET /jobs/{job}/chunks/{dataid}/explain", job="clean", dataid="2026-11-02")
    tour.ask("GET /jobs/{job}/chunks/{dataid}/logs", job="clean", dataid="2026-11-01")
    tour.ask("GET /jobs/{job}/plan", job="clean", query={"limit": 1})
    tour.ask("POST /jobs/{job}/fan-in", {"dataids": ["2026-11-01"]}, job="clean")
    tour.ask("GET /datasets/{dataset}/chunks/{dataid}/readers", dataset="orders_raw", dataid="2026-11-01")
    tour.ask("GET /jobs/{job}/left", job="clean")
    tour.ask("POST /jobs/{job}/progress", {"dataids": ["2026-11-14"]}, job="clean")


def _support(tour: Tour, gate: Gate) -> None:
    path = "POST /jobs/{job}/chunks/{dataid}"
    at: dict[str, Any] = {"job": "clean", "dataid": "2026-11-01"}
    tour.ask(f"{path}/resubmit", {**WHY, "downstream": True}, **at)
    tour.ask("POST /jobs/{job}/resubmit", {**WHY, "dataids": ["2026-11-01"]}, job="clean")
    tour.ask("POST /jobs/{job}/selected", {**WHY, "act": "resubmit", "status": ["ERROR"], "dry_run": True}, job="clean")
    tour.ask(f"{path}/hold", WHY, **at)
    tour.ask(f"{path}/unhold", {}, **at)
    tour.ask(f"{path}/status", {**WHY, "dataset": "orders_clean", "status": "READY"}, **at)
    tour.ask(f"{path}/forget", WHY, **at)
    gate.ledger.define_dataset("lanes")
    by_sample = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"}
    gate.ledger.define_job("merge", inputs=["lanes"], maps={"lanes": by_sample})
    tour.ask(f"{path}/close", WHY, job="merge", dataid="s1")
    tour.ask(f"{path}/force", {**WHY, "worker": "node1", "lease": 60}, job="clean", dataid="2026-11-04")
    tour.ask("POST /jobs/{job}/pause", WHY, job="summarise")
    tour.ask("POST /jobs/{job}/unpause", {}, job="summarise")


def _submission(tour: Tour, gate: Gate) -> None:
    sent = {"profile": "maps", "submitter": "ann", "payload_url": "https://example.org/coast.checkm"}
    bid = tour.ask("POST /batches", sent, headers={"Idempotency-Key": "deposit-4711"})["id"]
    tour.ask("GET /batches/{bid}/alarms", bid=bid)
    tour.ask("PUT /daemons/{daemon}", {"worker": "archive-2", "steps": ["job-downloading"], "lease": 60}, daemon="d1")
    tour.ask("GET /daemons")
    tour.ask("DELETE /daemons/{daemon}", daemon="d1")
    tour.ask("GET /alarms")
    seen = Sighting("orders_raw", "/data/incoming", "orders-{date:%Y-%m-%d}.csv", "archive-2 pid 4711", 30, 2, None)
    gate.watches.take_turn(seen)
    gate.ledger.define_job("audit", inputs=["orders_raw"], recur="90d")
    tour.ask("GET /recurrences")
    tour.ask("GET /watchers")
    tour.ask("POST /watchers/{dataset}/forget", {"reason": "files come by mail now"}, dataset="orders_raw")
    tour.ask("GET /queue/first-free", query={"noun": "batch", "state": "pending"})
    tour.ask("GET /queue/work", query={"batch": "pending", "wait": 5})


def _batches(tour: Tour, gate: Gate) -> None:
    del gate
    batch = tour.ask("POST /batches/next", TAKER, **PENDING)
    bid = batch["id"]
    proof = {"token": batch["token"], "state": "pending", "worker": "archive-2"}
    tour.ask("POST /batches/{bid}/renew", {**proof, "lease": 600}, bid=bid)
    tour.ask("PATCH /batches/{bid}", proof, bid=bid)
    tour.ask("GET /inventory/intakes/{bid}", bid=bid)
    tour.ask("PUT /inventory/intakes/{bid}/problem", {"problem": "a line of the manifest is not valid"}, bid=bid)
    tour.ask("POST /batches/{bid}/give-back", proof, bid=bid)
    proof["token"] = tour.ask("POST /batches/next", TAKER, **PENDING)["token"]
    new = {"payload_url": "https://example.org/coast.svg", "identifiers": {"local": ["coast"]}}
    tour.ask("POST /batches/{bid}/jobs", {**proof, "position": 0, "jobs": [new]}, bid=bid)
    tour.ask("POST /batches/{bid}/{event}", proof, bid=bid, event="start")
    tour.ask("GET /batches", query={"state": "processing"})
    tour.ask("GET /batches/{bid}", bid=bid)
    tour.ask("GET /batches/{bid}/jobs", bid=bid)


def _ingest_jobs(tour: Tour, gate: Gate) -> None:
    job = tour.ask("POST /ingest-jobs/next", TAKER, **PENDING)
    jid, owned = job["id"], {"token": job["token"], "state": "pending", "worker": "archive-2"}
    tour.ask("POST /ingest-jobs/{jid}/renew", {**owned, "lease": 600}, jid=jid)
    tour.ask("PATCH /ingest-jobs/{jid}", {**owned, "priority": 5}, jid=jid)
    tour.ask("POST /ingest-jobs/{jid}/give-back", owned, jid=jid)
    owned["token"] = tour.ask("POST /ingest-jobs/next", TAKER, **PENDING)["token"]
    tour.ask("POST /ingest-jobs/{jid}/{event}", owned, jid=jid, event="accept")
    tour.ask("PUT /ingest-jobs/{jid}/priority", {"priority": 1, "reason": "urgent"}, jid=jid)
    tour.ask("GET /ingest-jobs", query={"batch": job["batch"]})
    tour.ask("GET /ingest-jobs/{jid}", jid=jid)
    tour.ask("GET /ingest-jobs/{jid}/frozen", jid=jid)
    texts = [{"stream": "log", "text": "map.tif: 5,000 bytes\n", "size": 21}]
    log = {"token": 7, "attempt": 1, "step": "downloading", "texts": texts, "ended": True}
    tour.ask("PUT /ingest-jobs/{job}/logs", log, job=jid)
    tour.ask("GET /ingest-jobs/{job}/logs", job=jid)
    for state, event in (("estimating", "finish"), ("provisioning", "finish"), ("downloading", "fail")):
        taken = gate.queue.acquire_job(state)
        assert taken is not None
        gate.queue.fire(taken, event, "the file cannot be fetched" if event == "fail" else "")
    tour.ask("GET /ingest-jobs/{jid}/explanation", jid=jid)
    tour.ask("POST /ingest-jobs/{jid}/refresh", jid=jid)
    gate.queue.act(jid, "resume", reason="again", by="ann")


def _queue(tour: Tour, gate: Gate) -> None:
    del gate
    tour.ask("PUT /holds/{profile}", {"reason": "the storage is full"}, profile="maps")
    tour.ask("GET /holds")
    tour.ask("DELETE /holds/{profile}", profile="maps")
    for each in ("counts", "reportable", "faults", "summary", "metrics", "foreign"):
        tour.ask(f"GET /queue/{each}")
    for path in ("/profiles", "/profiles/{name}"):
        tour.ask(f"GET {path}", name="maps")
    tour.ask("POST /uploads", file=b"<svg/>", query={"name": "coast.svg"})
    tour.ask("GET /queue/cleanable", query={"noun": "batch", "seconds": 86400})
    fault = {
        "kind": "miscounted",
        "item": "bid0000000001",
        "what": "2 jobs are counted, 1 exists",
        "repair": "count them again",
    }
    tour.ask("POST /queue/repair", fault)


def _inventory(tour: Tour, gate: Gate) -> None:
    tour.ask("POST /inventory/local-ids", {"owner": "library", "ids": ["coast"], "ark": ARK})
    tour.ask("GET /inventory/local-ids", query={"owner": "library", "local": "coast"})
    jid = ""
    for state in ("downloading", "processing"):
        job = gate.queue.acquire_job(state)
        assert job is not None
        jid = gate.queue.fire(job, "finish", identifiers={"primary": ARK, "local": ["coast"]}).id
    file = {"name": "coast.svg", "size": 1204, "digest": "9f86d081884c7d65" * 4, "since": 1}
    made = {"ark": ARK, "owner": "library", "collection": "maps", "version": 1, "dataid": "ark_99999_fk4x1.v1",
            "files": [file], "what": "The coast", "local": ["coast"], "job": jid, "batch": "bid0000000001",
            "profile": "maps", "submitter": "ann", "created": "2026-11-15T04:50:00Z"}  # fmt: skip
    tour.ask("POST /inventory/recordings", {"recording": plain(parse(Recording, made))})
    tour.ask("GET /inventory/recordings", query={"job": jid})
    tour.ask("GET /objects", query={"owner": "library"})
    tour.ask("GET /objects/versions", query={"ark": ARK})
    tour.ask("GET /objects/files", query={"ark": ARK, "version": 1})
    tour.ask("GET /objects/owner", query={"ark": ARK})
    removal = {"ark": ARK, "dataids": [made["dataid"]], "reason": "the bytes are gone"}
    tour.ask("POST /inventory/removals", removal)
    tour.ask("POST /objects/verify", {"ark": ARK}, status=404)
    tour.ask("POST /messages", {"item": "bid0000000001", "notice": "queued"})
    for number in (1, 2):
        gate.inventory.post(Message(f"{jid}.callback-{number}", next(iter(MessageKind)), jid, "text"))
    both: list[dict[str, Any]] = [{"message": f"{jid}.callback-{number}"} for number in (1, 2)]
    one, two = both
    tour.ask("GET /messages", query={"item": jid, "limit": 1})
    tour.ask("GET /messages/due", query={"limit": 1})
    tour.ask("GET /messages/{message}", **one)
    tour.ask("POST /messages/{message}/delay", {"problem": "the host does not answer", "seconds": 60}, **one)
    tour.ask("POST /messages/{message}/settle", {"state": "delivered"}, **one)
    tour.ask("POST /messages/{message}/resend", **two)
    tour.ask("POST /messages/{message}/discard", {"reason": "the recipient has left"}, **two)
    tour.ask("DELETE /inventory/items/{item}", item="jid0000000099")


def _secrets(tour: Tour, gate: Gate) -> None:
    del gate
    known = tour.ask("GET /datasets/{name}/custody", name="orders_raw")
    tour.ask("GET /jobs/{job}/custody", job="clean")
    tour.ask("POST /custody", {"known": known, "change": plain(CustodyChange())})
    tour.ask("PUT /master-keys/{number}", {"check": "A" * 43}, number=1)
    tour.ask("GET /master-keys")
    tour.ask("GET /master-wraps", query={"before": 2})
    tour.ask("POST /master-wraps", {"pairs": []})
    tour.ask("PUT /master-wraps/least", query={"before": 1})
    tour.ask("DELETE /master-keys")


def _incidents(tour: Tour, gate: Gate) -> None:
    gate.ledger.define_dataset("bills")
    gate.ledger.define_job("bill", inputs=["orders_raw"], outputs=["bills"], max_attempts=1)
    gate.ledger.publish("orders_raw", ["2026-11-20"])
    gate.ledger.fail(gate.ledger.claim("bill", "2026-11-20"), "no space on disk")
    tour.ask("GET /incidents", query={"job": "bill"})
    tour.ask("GET /incidents/count")
    (found,) = gate.incidents.list("bill")
    tour.ask("GET /incidents/{number}", number=found.id)
    tour.ask("POST /incidents/{number}/snooze", {"seconds": 3600}, number=found.id)
    tour.ask("POST /incidents/{number}/acknowledge", {}, number=found.id)


def _expectations(tour: Tour, gate: Gate) -> None:
    gate.ledger.define_dataset("invoices", expect={"ids": ["2026-11-13"], "from": "2026-11-14"})
    daemon_rounds(gate, ["timekeeper"], 5)[0].act()
    tour.ask("GET /late", query={"dataset": "invoices"})
    tour.ask("GET /expectations")


def _whole(tour: Tour, gate: Gate) -> None:
    del gate
    for each in ("about", "status", "counts", "store/faults", "machines", "tokens/expiring"):
        tour.ask(f"GET /{each}")
    fault = {"kind": "miscounted", "item": RESOURCE, "what": "2 holds are counted, 1 exists", "repair": "count again"}
    tour.ask("POST /store/repair", fault)
    tour.ask("GET /history", query={"resource": RESOURCE, "limit": 1})
    tour.ask("GET /history/counts", query={"event": "fail"})
    tour.ask("PUT /clients/{name}", name="backup-2")
    tour.ask("GET /clients", query={"limit": 1})
    tour.ask("DELETE /clients/{name}", name="backup-2")
    tour.ask("PUT /resources", query={"resource": "file:/data/x"})
    tour.ask("GET /resources", query={"limit": 1})
    tour.ask("DELETE /resources", query={"resource": "file:/data/x"})
    tour.ask("POST /reap", query={"of": "locks"})
    token = tour.ask("POST /tokens", {"name": "nightly", "scopes": ["lock:acquire:db:"], "expires": 7776000})
    tour.ask("GET /tokens", query={"limit": 1})
    new = tour.ask("POST /tokens/{token_id}/rotate", {}, token_id=token["id"])
    tour.ask("DELETE /tokens/{token_id}", token_id=new["id"])
    tour.ask("POST /sign-in-codes")
    tour.ask("GET /healthz")
    tour.ask("GET /readyz")
