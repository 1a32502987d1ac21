"""Every POST of the API is sent twice with one Idempotency-Key: to another replica, and after the service died."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.core.access.credentials import CustodyChange
from headgate.core.inventory import Message, MessageKind, Recording
from headgate.core.ledger.watches.model import Sighting
from headgate.core.values.wire import parse, plain
from headgate.http.app import API
from headgate.http.repeats import Repeat
from tests.http.replicas import Replica, contents, forget_answers, two_replicas

ROUTES = {
    each.path: each.repeat
    for part in API
    for each in part.declared
    if each.method == "POST" and each.repeat is not None
}
ACT = {"reason": "a test"}
PROFILE = 'collection = "raw"\nowner = "o"\nnotification = ["ann@example.org"]\nconfirmation_mail = true\n'


def test_every_post_of_the_api_declares_the_answer_to_a_repeat() -> None:
    assert [each.path for part in API for each in part.declared if each.method == "POST" and not each.repeat] == []


class Walk:
    """Sends each request three times with one key, and compares."""

    def __init__(self, first: Replica, second: Replica) -> None:
        self.gate, self.url = first.gate, first.gate.settings["url"]
        token = first.gate.tokens.new("walker", ["admin"]).token
        self.first, self.second = first.client(token), second.client(token)
        self.seen: set[str] = set()
        self._keys = count(1)

    def post(self, route: str, body: Any = None, *, status: int = 0, file: bytes = b"", **names: Any) -> Any:
        """The answer to the first request."""
        self.seen.add(route)
        repeat, query = ROUTES[route], names.pop("query", {})
        sent: dict[str, Any] = {"content": file} if file else {} if body is None else {"json": body}
        sent |= {"headers": {"Idempotency-Key": f"key {next(self._keys)}"}, "params": query}
        path = route.format(**names)
        answer = self.first.post(path, **sent)
        expected = (status,) if status else (200, 201, 202, 204)
        assert answer.status_code in expected, (route, answer.text)
        if repeat.recorded and answer.is_success:
            self._compare(route, repeat, answer, path, sent)
        return answer.json() if answer.content else None

    def _compare(self, route: str, repeat: Repeat, answer: httpx2.Response, path: str, sent: dict[str, Any]) -> None:
        before = contents(self.url)
        again = self.second.post(path, **sent)
        if repeat.secret:
            assert (again.status_code, again.json()["result"]) == (409, answer.json()["id"])
        else:
            assert (again.status_code, again.content) == (answer.status_code, answer.content), (route, again.text)
        other = self.second.post(path, **{**sent, "params": {**sent["params"], "another": "1"}})
        assert (other.status_code, other.json()["type"]) == (422, "urn:headgate:key-reused"), (route, other.text)
        assert contents(self.url) == before, f"{route} was done again"
        if not (repeat.secret or repeat.file):
            forget_answers(self.url)
            rebuilt = self.second.post(path, **sent)
            assert rebuilt.status_code in (answer.status_code, 201), (route, rebuilt.text)
            assert _named(rebuilt) == _named(answer), route
            # Where the store recognises a repeated grant, only its lease starts again.
            kept = [name for name in before if not repeat.by_store or "history" in name]
            now = contents(self.url)
            assert {name: now[name] for name in kept} == {name: before[name] for name in kept}, (
                f"{route} was done again"
            )

    def close(self) -> None:
        self.first.close()
        self.second.close()


def _named(answer: httpx2.Response) -> Any:
    """An answer without the remaining time."""
    found = answer.json() if answer.content else None
    found = found["locks"][0] if isinstance(found, dict) and "locks" in found else found
    keys = ("id", "token", "dataid", "count", "lease", "new", "changes", "state", "items", "next")
    return {key: found[key] for key in keys if key in found} if isinstance(found, dict) else found


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    url = f"sqlite:///{tmp_path}/headgate.sqlite"
    (tmp_path / "p.toml").write_text(PROFILE)
    folders = {"work_folder": "work", "storage_root": "store", "profiles_folder": ""}
    with two_replicas(url, **{name: str(tmp_path / each) for name, each in folders.items()}) as both:
        walk = Walk(*both)
        yield walk
        walk.close()


def test_every_post_is_done_once_and_answered_twice(walk: Walk) -> None:
    _locks(walk)
    _waiters(walk)
    _claims(walk)
    _support(walk)
    _incidents(walk)
    _queue(walk)
    _inventory(walk)
    _rest(walk)
    assert set(ROUTES) - walk.seen == set()


def _locks(walk: Walk) -> None:
    lock = walk.post("/v1/locks", {"client": "c", "resource": "r:1", "lease": 600})["locks"][0]
    proof = {"token": lock["token"]}
    at: dict[str, Any] = {"lock_id": lock["id"]}
    walk.post("/v1/locks/{lock_id}/renew", {**proof, "lease": 700}, **at)
    walk.post("/v1/locks/{lock_id}/check", proof, **at)
    walk.post("/v1/locks/{lock_id}/downgrade", proof, **at)
    walk.post("/v1/locks/{lock_id}/upgrade", proof, **at)
    walk.post("/v1/locks/{lock_id}/hand-over", {"to": "walker"}, **at)
    walk.post("/v1/locks/{lock_id}/break", ACT, **at)


def _waiters(walk: Walk) -> None:
    held = walk.gate.locks.acquire("holder", "r:2", "exclusive")
    wanted = {"client": "w", "resource": "r:2"}

    def place(number: int) -> dict[str, Any]:
        found = walk.first.post("/v1/waiters", json=wanted, headers={"Headgate-Request": f"w{number}"}).json()
        return {"ticket": found["ticket"], "request_id": f"w{number}"}

    walk.gate.locks.acquire("holder", "r:3", "exclusive")
    walk.post("/v1/waiters", {**wanted, "resource": "r:3"})
    mine, other = place(1), place(2)
    walk.post("/v1/waiters/{ticket}/turn", {**wanted, "request_id": "w1"}, ticket=mine["ticket"])
    walk.post("/v1/waiters/{ticket}/withdraw", {**wanted, "request_id": "w2"}, ticket=other["ticket"])
    walk.gate.locks.release(held)
    walk.post("/v1/waiters/{ticket}/give-up", {**wanted, "request_id": "w1"}, ticket=mine["ticket"])


def _claims(walk: Walk) -> None:
    for name in ("raw", "tidy"):
        walk.gate.ledger.define_dataset(name)
    walk.gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    by_sample = {"kind": "split", "format": "{sample}.{lane}", "job_format": "{sample}"}
    walk.gate.ledger.define_job("merge", inputs=["tidy"], maps={"tidy": by_sample})
    walk.post("/v1/datasets/{name}/chunks/{dataid}/publish", name="raw", dataid="1")
    walk.post("/v1/datasets/{name}/publish", {"dataids": ["2", "3", "4"]}, name="raw")
    path = "/v1/jobs/{job}/chunks/{dataid}"
    claim = walk.post("/v1/jobs/{job}/next", {"lease": 600}, job="clean")
    at: dict[str, Any] = {"job": "clean", "dataid": claim["dataid"]}
    walk.post(f"{path}/heartbeat", {"token": claim["token"], "lease": 700}, **at)
    texts = [{"stream": "stdout", "text": "done", "size": 4, "cut": False}]
    walk.post(f"{path}/logs", {"token": claim["token"], "texts": texts, "ended": True}, **at)
    walk.post(f"{path}/success", {"token": claim["token"]}, **at)
    claim = walk.post(f"{path}/claim", {"lease": 600}, job="clean", dataid="2")
    walk.post(f"{path}/fail", {"token": claim["token"], "message": "no"}, job="clean", dataid="2")
    claim = walk.post(f"{path}/claim", {"lease": 600}, job="clean", dataid="4")
    walk.post(f"{path}/interrupt", {"token": claim["token"], "message": "SIGTERM"}, job="clean", dataid="4")
    walk.post(f"{path}/force", {**ACT, "lease": 600}, job="clean", dataid="3")
    walk.post("/v1/jobs/{job}/progress", {"dataids": ["3"]}, job="clean")
    walk.post("/v1/jobs/{job}/fan-in", {"dataids": ["3"]}, job="clean")


def _support(walk: Walk) -> None:
    path = "/v1/jobs/{job}/chunks/{dataid}"
    at: dict[str, Any] = {"job": "clean", "dataid": "1"}
    walk.post(f"{path}/resubmit", ACT, **at)
    walk.post("/v1/jobs/{job}/resubmit", {**ACT, "dataids": ["1"]}, job="clean")
    walk.post(f"{path}/hold", ACT, **at)
    walk.post(f"{path}/unhold", ACT, **at)
    walk.post(f"{path}/close", ACT, job="merge", dataid="s1")
    walk.post(f"{path}/status", {**ACT, "dataset": "tidy", "status": "READY"}, **at)
    walk.post(f"{path}/forget", ACT, **at)
    walk.post("/v1/jobs/{job}/selected", {**ACT, "act": "hold", "dataids": ["1"]}, job="clean")
    walk.post("/v1/jobs/{job}/commands", {"digest": "0" * 64}, job="clean")
    walk.post("/v1/jobs/{job}/pause", ACT, job="clean")
    walk.post("/v1/jobs/{job}/unpause", ACT, job="clean")


def _incidents(walk: Walk) -> None:
    walk.gate.ledger.define_job("strict", inputs=["raw"], max_attempts=1)
    walk.gate.ledger.fail(walk.gate.ledger.claim("strict", "1"), "no")
    number = walk.gate.incidents.list("strict")[0].id
    walk.post("/v1/incidents/{number}/snooze", {"seconds": 60}, number=number)
    walk.post("/v1/incidents/{number}/acknowledge", {}, number=number)
    walk.gate.watches.take_turn(Sighting("raw", "/in", "{name}.csv", "w1", 600, 1, None))
    walk.post("/v1/watchers/{dataset}/forget", ACT, dataset="raw")


def _queue(walk: Walk) -> None:
    sent = {"profile": "p", "submitter": "s", "payload_url": "https://example.org/x"}
    bid = walk.post("/v1/batches", sent)["id"]
    batch = walk.post("/v1/batches/next", {"lease": 600}, query={"state": "pending"})
    proof = {"token": batch["token"], "state": "pending", "worker": batch["worker"]}
    new = {"payload_url": "https://example.org/x"}
    walk.post("/v1/batches/{bid}/renew", {**proof, "lease": 700}, bid=bid)
    walk.post("/v1/batches/{bid}/give-back", proof, bid=bid)
    batch = walk.post("/v1/batches/next", {"lease": 600}, query={"state": "pending"})
    proof["token"] = batch["token"]
    walk.post("/v1/batches/{bid}/jobs", {**proof, "position": 0, "jobs": [new]}, bid=bid)
    walk.post("/v1/batches/{bid}/{event}", proof, bid=bid, event="start")
    job = walk.post("/v1/ingest-jobs/next", {"lease": 600}, query={"state": "pending"})
    owned, jid = {"token": job["token"], "state": "pending", "worker": job["worker"]}, job["id"]
    walk.post("/v1/ingest-jobs/{jid}/renew", {**owned, "lease": 700}, jid=jid)
    walk.post("/v1/ingest-jobs/{jid}/give-back", owned, jid=jid)
    job = walk.post("/v1/ingest-jobs/next", {"lease": 600}, query={"state": "pending"})
    walk.post("/v1/ingest-jobs/{jid}/{event}", {**owned, "token": job["token"]}, jid=jid, event="accept")
    walk.post("/v1/ingest-jobs/{jid}/refresh", status=409, jid=jid)
    walk.post("/v1/queue/repair", {"kind": "a fault", "item": bid, "what": "nothing"})
    walk.post("/v1/store/repair", {"kind": "a fault", "item": bid, "what": "nothing"})


def _inventory(walk: Walk) -> None:
    ark = "ark:/99999/fk4x"
    walk.post("/v1/inventory/local-ids", {"owner": "o", "ids": ["x"], "ark": ark})
    made = {"ark": ark, "owner": "o", "collection": "raw", "version": 1, "dataid": "ark_99999_fk4x.v1", "files": []}
    item = {"job": _stored(walk, ark), "batch": "bid0000000001", "profile": "p", "submitter": "s"}
    recording = plain(parse(Recording, {**made, **item, "created": "2026-11-15T04:50:00Z"}))
    walk.post("/v1/inventory/recordings", {"recording": recording})
    walk.post("/v1/inventory/removals", {"ark": ark, "dataids": [made["dataid"]], "reason": "a test"})
    assert walk.post("/v1/messages", {"item": "bid0000000001", "notice": "queued"}) == {"new": True}
    for number in (1, 2):
        walk.gate.inventory.post(Message(f"m{number}", next(iter(MessageKind)), "jid0000000001", "text"))
    walk.post("/v1/messages/{message}/delay", {"problem": "away", "seconds": 5}, message="m1")
    walk.post("/v1/messages/{message}/settle", {"state": "delivered"}, message="m1")
    walk.post("/v1/messages/{message}/resend", message="m2")
    walk.post("/v1/messages/{message}/discard", {"reason": "nobody waits for it"}, message="m2")


def _stored(walk: Walk, ark: str) -> str:
    """The id of an ingest job whose object is stored under that name and is being recorded."""
    found = ""
    for state in ("estimating", "provisioning", "downloading", "processing"):
        job = walk.gate.queue.acquire_job(state)
        assert job is not None
        found = walk.gate.queue.fire(job, "finish", identifiers={"primary": ark}).id
    return found


def _rest(walk: Walk) -> None:
    known = walk.first.get("/v1/datasets/raw/custody").json()
    walk.post("/v1/custody", {"known": known, "change": plain(CustodyChange())})
    walk.post("/v1/master-wraps", {"pairs": []})
    walk.post("/v1/reap", query={"of": "locks"})
    token = walk.post("/v1/tokens", {"name": "once", "scopes": ["read"]})
    walk.post("/v1/sign-in-codes")
    walk.post("/v1/tokens/{token_id}/rotate", {}, token_id=token["id"])
    walk.post("/v1/uploads", file=b"some bytes", query={"name": "x.txt"})
    walk.post("/v1/objects/verify", {"ark": "ark:/99999/fk4x"}, status=404)
