"""Responses: errors, the holder of a busy resource, the status, and the metrics for Prometheus."""

import inspect
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, cast

import httpx2
import pytest

from headgate import Gate
from headgate.client.connection import ServiceConnection
from headgate.client.errors import raise_problem
from headgate.core import errors
from headgate.core.access.scopes import ROLES
from headgate.core.errors import HeadgateError
from headgate.core.ledger.verdicts import Verdict
from headgate.core.locks.model import Blocker, Mode, Request, Want
from headgate.http.api.direct import Direct
from headgate.http.errors import problem_of, status_of
from headgate.http.metrics import KNOWN
from headgate.http.port.server import Server
from tests.http.conftest import Bounded, Tokens
from tests.waiting import until

NOW = datetime(2026, 11, 15, tzinfo=UTC)
#: Arguments to construct each error, by argument name.
MADE_OF: dict[str, Any] = {
    "request": Request("id", "ann", (Want("r", Mode.EXCLUSIVE),)),
    "blockers": (Blocker("holder", "r", "ben", Mode.SHARED, NOW, "ab12-x"),),
    "cycle": ("ann", "ben", "ann"),
    "verdict": Verdict("clean", "1", ()),
    "allowed": ("fail", "finish"),
    "problems": ((3, "no digest"),),
    "token": 7,
    "version": 2,
    "retry_after": 30.0,
    "hint": "",
}
EVERY = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HeadgateError)]


def example(kind: type[HeadgateError]) -> HeadgateError:
    if "__init__" not in vars(kind):
        return kind("the text")
    names = list(inspect.signature(kind).parameters)
    return kind(*(MADE_OF.get(name, f"the {name}") for name in names))


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_is_raised_at_the_caller_as_at_the_service(kind: type[HeadgateError]) -> None:
    error = example(kind)
    answer = problem_of(error)
    document = json.loads(bytes(answer.body))
    assert (document["status"], answer.status_code) == (status_of(error), status_of(error))
    assert answer.media_type == "application/problem+json"
    assert document.keys() == {*vars(error), "type", "title", "status", "detail"}
    with pytest.raises(HeadgateError) as raised:
        raise_problem("http://x", httpx2.Response(answer.status_code, content=bytes(answer.body)), None)
    assert type(raised.value) is kind
    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)


def test_a_busy_resource_is_409_with_its_holder_and_retry_after(gate: Gate, admin: httpx2.Client) -> None:
    gate.locks.acquire("nightly", "busy:1", "read", lease=40)
    answer = admin.post("/v1/locks", json={"client": "me", "resource": "busy:1", "mode": "write"})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert 1 <= int(answer.headers["retry-after"]) <= 40
    (blocker,) = answer.json()["blockers"]
    assert (blocker["client"], blocker["mode"], blocker["resource"]) == ("nightly", "shared", "busy:1")
    assert answer.json()["type"] == "urn:headgate:lock-refused"
    assert "nightly" in answer.json()["detail"]
    wanted = {"client": "me", "wants": [{"resource": "busy:1", "mode": "exclusive"}], "lease": None, "note": ""}
    request = answer.json()["request"]
    assert {name: request[name] for name in wanted} == wanted
    assert not {"fresh", "outlives"} & request.keys(), "what the store alone has to know is not shown"


def test_the_status_has_the_form_of_ids(gate: Gate, with_scopes: Tokens) -> None:
    gate.locks.acquire("a", "ark:/13030/m5", "read")
    gate.locks.acquire("b", "ark:/13030/m5", "read")
    found = with_scopes("read").get("/v1/status").json()
    assert set(found) == {"opsQueue", "lockCount", "locks", "failures"}
    assert {"id": "ark:/13030/m5", "type": "SHARED", "count": 2} in found["locks"]
    assert found["lockCount"] == len(found["locks"])


@pytest.fixture
def told(bounded: Callable[..., Bounded]) -> list[str]:
    """The metrics after one event of every kind."""
    service = bounded()
    gate, client = service.gate, service.client("read")
    client.get("/metrics")  # Only events from here on are counted.
    for name in ("m-in", "m-out"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job("m-make", inputs=["m-in"], outputs=["m-out"])
    gate.ledger.publish("m-in", ["1", "2"])
    claim = gate.ledger.find_next("m-make")
    assert claim
    gate.ledger.fail(claim, "why not")
    gate.ledger.find_next("m-make")
    gate.locks.release(gate.locks.acquire("m", "m:1", "write"))
    gate.locks.acquire("m", "m:2", "write")
    gate.queue.submit("m", "me", "https://example.org/x")
    found = client.get("/metrics").text.splitlines()
    client.close()
    return found


def test_metrics_cover_locks_claims_failures_ages_and_times(told: list[str]) -> None:
    for line in (
        'headgate_locks_held{mode="exclusive"}',
        "headgate_locks_waited 0.0",
        "headgate_claims 1.0",
        'headgate_events_total{event="claim",noun="chunk"} 2.0',
        'headgate_events_total{event="fail",noun="chunk"} 1.0',
        'headgate_events_total{event="grant",noun="lock"} 2.0',
        'headgate_state_seconds_count{noun="chunk",state="RUNNING"} 1.0',
        'headgate_state_seconds_count{noun="lock",state="exclusive"} 1.0',
        'headgate_queue_items{noun="batch",state="pending"} 1.0',
    ):
        assert any(each.startswith(line) for each in told), line
    (count,) = (each for each in told if each.startswith("headgate_store_seconds_count"))
    assert float(count.split()[1]) > 0


def test_every_metric_is_known_and_every_known_one_is_reported(told: list[str]) -> None:
    kinds = {line.split()[2]: line.split()[3] for line in told if line.startswith("# TYPE")}
    own = {name: kind for name, kind in kinds.items() if not name.endswith("_created")}
    assert own == {each.shown: each.kind.__name__.lower() for each in KNOWN}


def test_an_unknown_operation_is_reported(admin: httpx2.Client) -> None:
    nowhere = admin.get("/v1/nothing").json()
    assert (nowhere["type"], nowhere["detail"][:32]) == ("urn:headgate:not-found", "there is nothing at /v1/nothing;")
    answer = admin.put("/v1/locks")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert answer.json()["detail"] == "/v1/locks supports GET, POST, not PUT"


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"{bad", 400, "the body is not JSON: Expecting property name"),
        (b"\xff\xfe\xff", 400, "the body is not JSON"),
        (b"[" * 100_000, 400, "the body is not JSON"),
        (b"[]", 422, "body: Input should be"),
        (
            b'{"client": 1, "resource": "a", "colour": 2}',
            422,
            "body.client: Input should be a valid string; body.colour",
        ),
        (b"", 422, "body: Field required"),
    ],
)
def test_a_body_that_cannot_be_read_is_reported(admin: httpx2.Client, body: bytes, status: int, told: str) -> None:
    answer = admin.post("/v1/locks", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["detail"][: len(told)]) == (status, told)


def test_a_body_that_is_not_declared_as_json_is_not_read(admin: httpx2.Client) -> None:
    answer = admin.post(
        "/v1/locks", content=b'{"client": "a", "resource": "b"}', headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]
    assert admin.get("/v1/locks?resource=b").json()["items"] == []


@pytest.mark.parametrize(
    "value",
    [
        b"1" * 5000,
        b"1e999",
        b"Infinity",
        b"NaN",
        b'"\\ud800"',
        b'"a\\u0000"',
        b'"\xed\xa0\x80"',
        b"[" * 400 + b"]" * 400,
    ],
    ids=["too many digits", "too large", "infinity", "no number", "half a character", "a NUL", "its bytes", "too deep"],
)
def test_values_that_cannot_be_stored_are_refused(admin: httpx2.Client, value: bytes) -> None:
    begun = b'{"profile": "p", "submitter": "s", "payload_url": "https://x.org", "metadata": {"n": '
    answer = admin.post("/v1/batches", content=begun + value + b"}}", headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert admin.get("/v1/batches").status_code == 200


def test_a_backslash_before_zeros_is_no_nul(admin: httpx2.Client) -> None:
    answer = admin.post(
        "/v1/locks", content=rb'{"client": "\\u0000", "resource": "a"}', headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["locks"][0]["client"]) == (201, r"\u0000")


def test_an_internal_error_is_found_in_the_log_by_the_id_in_the_response(
    admin: httpx2.Client, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks() -> None:
        raise RuntimeError("a mistake of ours")

    app = cast("Any", server)._server.config.app
    app.router.routes.append(Direct("GET", "/v1/breaks", breaks))

    def told(request_id: str) -> dict[str, Any]:
        events = [(each.message, cast("Any", each).keys) for each in caplog.records if each.name == "headgate"]
        return {name: keys for name, keys in events if keys.get("request") == request_id}

    with caplog.at_level("INFO", "headgate"):
        answer = admin.get("/v1/breaks")
        own = answer.headers["x-request-id"]
        until(lambda: "http.request" in told(own), "the log line")
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:headgate:internal-error")
    assert "raise RuntimeError" in told(own)["http.broken"]["trace"]
    assert told(own)["http.request"]["status"] == 500


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (502, b"<html>", errors.StoreUnavailable),
        (503, b'{"type": "about:blank"}', errors.StoreUnavailable),
        (409, b'{"type": "urn:headgate:lock-refused", "detail": "of another version"}', errors.StoreUnavailable),
        (500, b"[]", errors.StoreUnavailable),
        (413, b'{"type": "urn:headgate:too-large", "detail": "the body is too large"}', errors.BadValue),
        (403, b'{"type": "https://a.proxy/no", "detail": "not from there"}', errors.NotAllowed),
    ],
)
def test_unexpected_responses_of_a_proxy_become_headgate_errors(
    status: int, content: bytes, kind: type[HeadgateError]
) -> None:
    with pytest.raises(kind):
        raise_problem("http://x", httpx2.Response(status, content=content), None)


def test_an_html_page_instead_of_an_answer_is_reported(server: Server, gate: Gate) -> None:
    connection = ServiceConnection(server.url + "/sign-in?next=", gate.tokens.new("a test", ["read"]).token)
    with closing(connection), pytest.raises(errors.StoreUnavailable, match="without JSON"):
        connection.get("about")


def test_a_connection_that_was_closed_locally_is_reported(server: Server, gate: Gate) -> None:
    connection = ServiceConnection(server.url, gate.tokens.new("a test", ["read"]).token)
    with closing(connection):
        connection.get("about")
    with pytest.raises(errors.StoreUnavailable, match="this client has closed"):
        connection.get("about")


def test_a_connection_is_opened_by_many_threads_at_once(server: Server, gate: Gate) -> None:
    connection = ServiceConnection(server.url, gate.tokens.new("a test", ["read"]).token)
    begin = threading.Barrier(8)

    def ask(_number: int) -> str:
        begin.wait()
        return str(connection.get("about")["token"])

    with closing(connection), ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {"a test"}


@pytest.mark.parametrize(
    "path", ["/v1/objects?owner=%00", "/v1/jobs/a%00b/custody", "/v1/messages/%00", "/v1/datasets/%00"]
)
def test_a_name_that_no_store_can_keep_is_not_sent_to_the_store(admin: httpx2.Client, path: str) -> None:
    assert admin.get(path).status_code == 422


def test_a_long_process_name_is_truncated_to_fit(gate: Gate, admin: httpx2.Client) -> None:
    named = {"Headgate-Client": "x" * 300}
    assert admin.post("/v1/locks", json={"client": "c", "resource": "long"}, headers=named).status_code == 201
    assert [lock.owner for lock in gate.locks.list("long")] == ["x" * 255]


def test_a_missing_or_unknown_api_token_is_answered_with_how_to_get_one(server: Server, gate: Gate) -> None:
    expired = gate.tokens.new("late", ["read"], expires=0.001).token
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": f"Bearer {expired[:-1]}x"}):
        answer = httpx2.get(f"{server.url}/v1/about", headers=headers, trust_env=False)
        assert answer.status_code == 401
        assert "HEADGATE_API_TOKEN" in answer.json()["detail"]
        command = re.search(r"headgate token new NAME --role (\w+)", answer.json()["detail"])
        assert command
        assert command[1] in ROLES, "the command works as it is printed"


@pytest.mark.parametrize(
    ("sent", "missing"),
    [({"token": 11}, ["state"]), ({}, ["token", "state"]), ({"state": "recording"}, ["token"])],
)
def test_a_report_without_token_or_state_names_the_missing_fields(
    gate: Gate, admin: httpx2.Client, sent: dict[str, Any], missing: list[str]
) -> None:
    batch = gate.queue.submit("m", "me", "https://example.org/x")
    for path in (f"/v1/batches/{batch.id}/start", "/v1/ingest-jobs/jid0000000001/finish"):
        answer = admin.post(path, json=sent)
        assert answer.status_code == 422
        assert [each["where"] for each in answer.json()["errors"]] == [f"body.{name}" for name in missing]
        assert all(f"body.{name}: Field required" in answer.json()["detail"] for name in missing)


def test_the_delay_of_a_redo_is_read_with_a_unit_and_answered_in_seconds(gate: Gate, admin: httpx2.Client) -> None:
    for dataset in ("lanes", "samples"):
        gate.ledger.define_dataset(dataset)
    mapping: dict[str, object] = {
        "kind": "split",
        "format": "{s}.{l}",
        "job_format": "{s}",
        "on_late": "redo",
        "late_delay": "10m",
    }
    definition = {"inputs": ["lanes"], "outputs": ["samples"], "maps": {"lanes": mapping}}
    assert admin.put("/v1/jobs/merge", json=definition).status_code == 200
    found = admin.get("/v1/jobs/merge").json()["job"]["maps"]
    assert found["lanes"]["late_delay"] == 600
    assert admin.put("/v1/jobs/merge", json={**definition, "maps": found}).json()["changes"] == []
    mapping["late_delay"] = True
    assert admin.put("/v1/jobs/merge", json=definition).status_code == 422, "it is not coerced"
    mapping["late_delay"] = "soon"
    assert (
        "late_delay 'soon' of job 'merge' is not a duration"
        in admin.put("/v1/jobs/merge", json=definition).json()["detail"]
    )
