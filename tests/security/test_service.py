"""The service and untrusted callers: what it shows and logs, and which servers its clients trust."""

import json
import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import headgate
from headgate import ClaimLost, Gate, StoreUnavailable
from headgate.client import connection
from headgate.core.access.scopes import LIMITED
from headgate.http.port.server import Server
from headgate.http.service import Service
from headgate.telemetry import JsonLines, logger
from tests.http.conftest import Tokens, server, with_scopes
from tests.http.test_scopes import Route, every_route
from tests.proxy import Link, Proxy
from tests.security.conftest import CANARY, OTHER
from tests.waiting import until

__all__ = ["server", "with_scopes"]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """The gate behind the service of this file."""
    with headgate.connect(f"sqlite:///{tmp_path_factory.mktemp('service')}/headgate.sqlite") as found:
        yield found


# ---------------------------------------------------------------- S9: secrets are passed on sealed


class Listener(Proxy):
    """Records every byte to and from a service."""

    def __init__(self, url: str) -> None:
        self._heard: list[bytes] = []
        super().__init__(url)

    @property
    def heard(self) -> bytes:
        return b"".join(self._heard)

    def _passes(self, link: Link, direction: str, data: bytes) -> bool:
        self._heard.append(data)
        return super()._passes(link, direction, data)


@pytest.mark.parametrize("kind", ["http"])
def test_the_service_never_sees_a_secret_or_a_key(keys: dict[str, str], store_url: str) -> None:
    """The client opens them; the traffic contains neither."""
    listener = Listener(store_url)
    with headgate.connect(listener.url, token=os.environ["HEADGATE_API_TOKEN"]) as worker:
        claim = worker.ledger.find_next("clean", key=keys["clean"])
        assert claim
        assert claim.inputs["raw"].secrets == {"password": CANARY}
        assert claim.outputs["tidy"].secrets == {"password": OTHER}
        worker.ledger.success(claim)
    assert b"/v1/jobs/clean/next" in listener.heard
    assert b"sealed" in listener.heard
    for secret in (CANARY, OTHER, keys["clean"], keys["clean"].removeprefix("hgk_")):
        assert secret.encode() not in listener.heard


# ---------------------------------------------------------------- S12: items of others look as if they did not exist


def limited_routes() -> list[tuple[Route, str]]:
    """Every route that a limited token reaches by a name in its path."""
    nouns = {"chunk:claim": "{job}", "cred:read": "{job}", "data:publish": "{name}", "lock:acquire": "{lock_id}"}
    return [
        (route, word)
        for route in every_route()
        for word in LIMITED
        if word in route.scopes and nouns.get(word, "no such noun") in route.path
    ]


#: The request bodies, by the last word of the path: valid, so that the names in the path decide.
REPORTED: dict[str, object] = {"token": 1}
BODIES: dict[str, dict[str, object]] = {
    **dict.fromkeys(("success", "fail", "interrupt", "heartbeat", "renew", "check", "upgrade", "downgrade"), REPORTED),
    "hand-over": {"to": "mine"},
    "next": {},
    "claim": {},
    "publish": {"dataids": ["1"]},
    "logs": {**REPORTED, "texts": [{"stream": "stdout", "text": "done", "size": 4}]},
    "fan-in": {"dataids": ["1"]},
    "progress": {"dataids": ["1"]},
    "commands": {"digest": "0" * 64},
}


@pytest.mark.parametrize(("route", "word"), limited_routes(), ids=lambda each: getattr(each, "name", each))
def test_items_of_another_tenant_are_reported_as_not_found(
    gate: Gate, with_scopes: Tokens, route: Route, word: str
) -> None:
    for name in ("theirs", "theirs-made"):
        gate.ledger.define_dataset(name)
    gate.ledger.define_job("theirs", inputs=["theirs"], outputs=["theirs-made"])
    lock = gate.locks.acquire("they", "theirs:1", "shared")
    gone = gate.locks.acquire("they", "gone:1", "shared")
    gate.locks.release(gone)
    client = with_scopes(f"{word}:mine")
    before = gate.ledger.status()

    def ask(**names: str) -> tuple[int, str]:
        path = route.path
        for noun, name in {"dataid": "1", **names}.items():
            path = path.replace(f"{{{noun}}}", name)
        answer = client.request(route.method, path, json=BODIES.get(route.path.rpartition("/")[2]), params={"token": 1})
        return answer.status_code, str(answer.json().get("title", ""))

    theirs = ask(job="theirs", name="theirs", lock_id=lock.id)
    assert theirs == ask(job="nobodys", name="nobodys", lock_id=gone.id)
    assert theirs[0] in (403, 404, 409)
    assert gate.ledger.status() == before
    assert gate.locks.check(lock).token == lock.token


# ---------------------------------------------------------------- S13: force leaves a record, and the old holder is out


def test_a_forced_claim_needs_a_reason_is_recorded_and_makes_the_old_token_stale(
    gate: Gate, with_scopes: Tokens
) -> None:
    gate.ledger.define_dataset("forced")
    gate.ledger.define_job("make-forced", outputs=["forced"])
    old = gate.ledger.claim("make-forced", "1", worker="first")
    path = "/v1/jobs/make-forced/chunks/1/force"
    assert with_scopes("operate").post(path, json={"reason": "x", "steal": True}).status_code == 403
    forcer = with_scopes("admin:force")
    assert forcer.post(path, json={"steal": True}).status_code == 422
    new = forcer.post(path, json={"reason": "it hangs", "steal": True, "worker": "second"}).json()
    assert new["token"] > old.token
    with pytest.raises(ClaimLost):
        gate.ledger.success(old)
    told = gate.history(job="make-forced", event="force")[0]
    assert (told.reason, told.before, told.after) == ("it hangs", "RUNNING", "RUNNING")
    assert told.client == "second"


# ---------------------------------------------------------------- S14, S18: headers and bodies


def test_responses_allow_no_other_origin_and_no_content_sniffing(with_scopes: Tokens) -> None:
    admin = with_scopes("admin")
    answer = admin.get("/v1/status", headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert admin.options("/v1/locks", headers={"Origin": "https://evil.example"}).status_code == 405


def test_a_duplicate_key_is_refused(with_scopes: Tokens) -> None:
    admin = with_scopes("admin")
    body = b'{"name": "a", "reason": "x", "scopes": ["read"], "scopes": ["admin"]}'
    for path in ("/v1/tokens", "/v1/custody", "/v1/jobs/j/chunks/1/force", "/v1/inventory/removals", "/v1/locks"):
        answer = admin.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert answer.json()["detail"] == "body 'scopes' appears twice"


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"nul", b"1e999999999"])
def test_a_body_that_is_not_json_is_refused(with_scopes: Tokens, body: bytes) -> None:
    answer = with_scopes("admin").post("/v1/locks", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)


# ---------------------------------------------------------------- S16: logs


def test_the_log_has_no_token_key_or_body_and_one_line_per_request(gate: Gate, with_scopes: Tokens) -> None:
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonLines().format(record))

    keeper, level = Keeper(), logger.level
    logger.addHandler(keeper)
    logger.setLevel(logging.DEBUG)
    try:
        client = with_scopes("admin")
        token = client.headers["Authorization"].removeprefix("Bearer ")
        made = client.post("/v1/tokens", json={"name": "canary", "scopes": ["read"]}).json()["token"]
        url = f"https://me:{CANARY}@example.org/x?X-Amz-Signature={CANARY}"
        client.post(
            "/v1/batches", json={"profile": "p", "submitter": "s", "payload_url": url},
            headers={"Idempotency-Key": f"key-{CANARY}"},
        )  # fmt: skip
        client.get("/v1/history", params={"resource": CANARY}, headers={"Authorization": f"Bearer hg_{CANARY}"})
        client.get('/v1/locks/x%0A{"level":"error","event":"forged"}')
        until(lambda: any("forged" in line for line in lines), "the line of what has been answered already")
    finally:
        logger.removeHandler(keeper)
        logger.setLevel(level)
    text = "\n".join(lines)
    assert "http.request" in text
    for secret in (token, made, CANARY):
        assert secret not in text
    assert all(json.loads(line)["event"] != "forged" for line in lines)
    assert len(text.splitlines()) == len(lines)


# ---------------------------------------------------------------- S17: TLS


Certificate = Callable[..., tuple[Path, Path]]


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    """A certificate signed by its own authority, with its key: for a host, and valid until a moment."""

    def make(host: str = "localhost", days: int = 1) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        until = datetime.now(UTC) + timedelta(days=days)
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(until - timedelta(days=10))
            .not_valid_after(until)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        chain, private = tmp_path / f"{host}.pem", tmp_path / f"{host}.key"
        chain.write_bytes(built.public_bytes(serialization.Encoding.PEM))
        kind, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(kind, form, serialization.NoEncryption()))
        return chain, private

    return make


@pytest.mark.parametrize(
    ("host", "days", "trusted", "answered"),
    [
        ("localhost", 1, True, True),
        ("localhost", 1, False, False),
        ("localhost", -1, True, False),
        ("elsewhere.example", 1, True, False),
    ],
    ids=["good", "of nobody that is trusted", "too old", "another host's"],
)
def test_a_client_connects_only_to_a_service_with_a_valid_certificate(
    gate: Gate, certificate: Certificate, monkeypatch: pytest.MonkeyPatch, host: str, days: int, trusted: bool,
    answered: bool,
) -> None:  # fmt: skip
    chain, key = certificate(host, days)
    server = Server(Service(gate), "127.0.0.1:0", (str(chain), str(key)))
    server.start()
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
    connection._certificates.cache_clear()
    token = gate.tokens.new("tls", ["admin"]).token
    url = server.url.replace("127.0.0.1", "localhost")
    try:
        if answered:
            with headgate.connect(url, token=token) as found:
                assert found.locks.list(client="nobody") == []
        else:
            with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
                headgate.connect(url, token=token)
    finally:
        connection._certificates.cache_clear()
        server.stop()


def test_http_on_the_port_of_tls_is_refused_and_sent_nowhere_else(gate: Gate, certificate: Certificate) -> None:
    chain, key = certificate()
    server = Server(Service(gate), "127.0.0.1:0", (str(chain), str(key)))
    server.start()
    try:
        found = httpx2.get(server.url.replace("https:", "http:") + "/healthz", trust_env=False)
        assert (found.status_code, "location" in found.headers, "use https" in found.text) == (400, False, True)
    finally:
        server.stop()
