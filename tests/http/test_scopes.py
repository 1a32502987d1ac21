"""Every route with every scope, as listed in the OpenAPI: no route is missing, and none answers without its scope."""

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

import headgate
from headgate import Gate
from headgate.core.access.scopes import SCOPES
from headgate.core.values.redaction import redact
from headgate.http.api.description import openapi
from headgate.http.app import API
from headgate.http.port.server import Server
from tests.cli.commands import Headgate
from tests.http.conftest import Tokens

OPEN = {"/healthz", "/readyz"}
#: Routes that also check who acts: an owner, a person or a daemon.
TWICE = re.compile(r"POST /v1/(batches|ingest-jobs)/\{\w+\}/\{event\}")
#: Values for the names in a path.
NAMES = {"lock_id": "abcd-abcdefghijklmnop-abcdefghijkl", "bid": "bid9999999999", "jid": "jid9999999999", "ticket": "1"}


class Route(NamedTuple):
    """One possible request."""

    method: str
    path: str
    scopes: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@cache
def every_route() -> list[Route]:
    """As listed in the OpenAPI."""
    found = []
    for path, methods in openapi(API)["paths"].items():
        for method, what in methods.items():
            scopes = tuple(word for each in what.get("security", []) for words in each.values() for word in words)
            found.append(Route(method.upper(), path, scopes))
    return found


def ask(client: httpx2.Client, route: Route) -> int:
    """Send a request that can have no effect; of a stream, read the beginning."""
    path = re.sub(r"\{(\w+)\}", lambda found: NAMES.get(found[1], "nobody"), route.path)
    body: Any = {} if route.method in ("POST", "PUT", "PATCH") else None
    with client.stream(route.method, path, json=body) as answer:
        return answer.status_code


def test_every_route_but_the_two_for_supervisors_names_its_scopes() -> None:
    assert {route.path for route in every_route() if not route.scopes} == OPEN
    assert all(word in SCOPES for route in every_route() for word in route.scopes)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_reaches_exactly_the_routes_that_name_its_scope(with_scopes: Tokens, scope: str) -> None:
    client = with_scopes(scope)
    for route in every_route():
        status = ask(client, route)
        if not route.scopes or scope in (*route.scopes, "admin"):
            assert status != 401, route.name
            assert status != 403 or TWICE.fullmatch(route.name), route.name
        else:
            assert status == 403, route.name


def test_without_a_token_every_request_is_refused(server: Any) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        for route in every_route():
            status = ask(client, route)
            assert (status == 401) == bool(route.scopes), route.name


@pytest.mark.parametrize("token", ["hg_", "nonsense", "hg_aaaaaaaaaaaa_" + "a" * 43])
def test_a_wrong_token_is_refused(server: Any, token: str) -> None:
    answer = httpx2.get(f"{server.url}/v1/status", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_request_without_a_token_learns_how_to_send_one_and_the_text_survives_the_redactor(server: Any) -> None:
    told = httpx2.get(f"{server.url}/v1/status", trust_env=False).json()["detail"]
    assert all(word in told for word in ("HEADGATE_API_TOKEN", "--pass-api-token", "Authorization"))
    assert redact(told) == told


def test_an_expired_or_revoked_token_is_refused(gate: Gate, with_scopes: Tokens) -> None:
    assert with_scopes("read", expires=0).get("/v1/status").status_code == 401
    client = with_scopes("read")
    assert client.get("/v1/status").status_code == 200
    gate.tokens.revoke(gate.tokens.list()[-1].id)
    assert client.get("/v1/status").status_code == 401


def test_a_jobs_token_sees_its_own_job_and_others_are_unknown(gate: Gate, with_scopes: Tokens) -> None:
    for name in ("raw", "tidy", "other"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job("clean", inputs=["raw"], outputs=["tidy"])
    gate.ledger.define_job("report", inputs=["raw"], outputs=["other"])
    gate.ledger.publish("raw", ["1", "2"])
    client = with_scopes("chunk:claim:clean", "cred:read:clean")
    claim = client.post("/v1/jobs/clean/next", json={}).json()
    path = f"/v1/jobs/clean/chunks/{claim['dataid']}"
    assert client.post(f"{path}/success", json={"token": claim["token"]}).status_code == 204
    assert client.get("/v1/jobs/clean/custody").status_code == 200
    for method, other in (
        ("POST", "/v1/jobs/report/next"),
        ("POST", "/v1/jobs/report/chunks/1/claim"),
        ("GET", "/v1/jobs/report"),
        ("GET", "/v1/jobs/report/chunks/1/explain"),
        ("GET", "/v1/jobs/report/custody"),
        ("GET", "/v1/chunks?job=report"),
    ):
        answer = client.request(method, other, json={} if method == "POST" else None)
        unknown = client.request(method, other.replace("report", "nothing"), json={} if method == "POST" else None)
        assert (answer.status_code, unknown.status_code) == (404, 404), other
        assert answer.json()["title"] == unknown.json()["title"]
    assert client.get("/v1/chunks?job=clean").status_code == 200
    unnamed = client.get("/v1/chunks")
    assert (unnamed.status_code, unnamed.json()["scope"]) == (403, "read")
    assert "name one job that it has access to" in unnamed.json()["why"]
    assert client.get("/v1/locks").status_code == 403
    assert client.post(f"{path}/hold", json={"reason": "x"}).status_code == 403


def test_the_command_shows_the_plan_of_its_job_to_a_jobs_token(gate: Gate, server: Server, tmp_path: Path) -> None:
    for name in ("dirty", "washed"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job("wash", inputs=["dirty"], outputs=["washed"])
    gate.ledger.publish("dirty", ["1"])
    token = gate.tokens.new("worker", ["chunk:claim:wash"]).token
    command = Headgate(server.url, tmp_path)
    shown = command("job", "plan", "wash", HEADGATE_API_TOKEN=token)
    assert (shown.code, shown.out.split()) == (0, ["DATAID", "STATE", "WHY", "1", "next", "-"]), shown.err
    listed = command("data", "list", HEADGATE_API_TOKEN=token)
    assert (listed.code, "name one job that it has access to" in listed.err) == (77, True), listed.err
    command.end_all()


def test_lock_scopes_match_the_prefix_of_a_resource(gate: Gate, with_scopes: Tokens) -> None:
    client = with_scopes("lock:acquire:s3://ours/")
    mine = client.post("/v1/locks", json={"client": "me", "resource": "s3://ours/1"})
    assert mine.status_code == 201
    refused = client.post("/v1/locks", json={"client": "me", "resource": "s3://theirs/1"})
    assert (refused.status_code, refused.json()["scope"]) == (403, "lock:acquire:s3://theirs/1")
    other = gate.locks.acquire("they", "s3://theirs/1", "exclusive")
    assert client.get(f"/v1/locks/{other.id}").status_code == 404
    assert client.delete(f"/v1/locks/{other.id}", params={"token": other.token}).status_code == 409
    assert gate.locks.check(other).id == other.id
    others = [gate.locks.acquire("they", f"s3://theirs/{number}", "exclusive") for number in range(2, 9)]
    client.post("/v1/locks", json={"client": "me", "resource": "s3://ours/2"})
    listed: list[Any] = []
    after = None
    while after is not None or not listed:
        page = client.get("/v1/locks", params={"limit": 1, **({"after": after} if after else {})}).json()
        listed, after = [*listed, *page["items"]], page["next"]
    assert sorted(lock["resource"] for lock in listed) == ["s3://ours/1", "s3://ours/2"]
    for lock in others:
        gate.locks.release(lock)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("chunks/1/resubmit", {"steal": True}),
        ("resubmit", {"dataids": ["1"], "steal": True}),
        ("selected", {"act": "resubmit", "dataids": ["1"], "steal": True}),
        ("selected", {"act": "forget", "dataids": ["1"]}),
    ],
)
def test_an_operator_takes_no_chunk_from_a_worker(
    gate: Gate, with_scopes: Tokens, path: str, asked: dict[str, Any]
) -> None:
    gate.ledger.define({"made": {}}, {"make": {"outputs": ["made"]}})
    gate.ledger.success(gate.ledger.force("make", "1", reason="a test"))
    body = {"reason": "stuck", **asked}
    refused = with_scopes("operate").post(f"/v1/jobs/make/{path}", json=body)
    assert (refused.status_code, "needs the scope admin:force" in refused.json()["detail"]) == (403, True)
    assert [row.status for row in gate.ledger.status("made")] == ["READY"]
    assert with_scopes("operate", "admin:force").post(f"/v1/jobs/make/{path}", json=body).status_code == 200


def test_an_operator_must_give_a_reason_and_is_recorded_with_the_token(gate: Gate, with_scopes: Tokens) -> None:
    lock = gate.locks.acquire("they", "s3://broken/1", "exclusive")
    forcer = with_scopes("admin:force")
    assert forcer.post(f"/v1/locks/{lock.id}/break", json={}).status_code == 422
    answer = forcer.post(f"/v1/locks/{lock.id}/break", json={"reason": "stuck", "by": "ann"})
    assert answer.status_code == 200
    told = gate.history("s3://broken/1", event="break")[0]
    assert (told.client, told.reason) == ("they", "a test (ann): stuck")
    with pytest.raises(headgate.LockLost):
        gate.locks.release(lock)


def test_the_store_never_holds_a_token_of_the_service(gate: Gate, tmp_path: Any) -> None:
    made = gate.tokens.new("secret keeper", ["read"])
    path = gate.settings["url"].removeprefix("sqlite:///")
    content = b"".join(each.read_bytes() for each in type(tmp_path)(path).parent.iterdir() if each.is_file())
    assert made.id.encode() in content
    assert made.token.encode() not in content
    assert made.token.removeprefix(f"hg_{made.id}_").encode() not in content
