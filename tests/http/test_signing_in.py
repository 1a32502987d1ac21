"""Signing in on a network that others can read or attack: cookies over TLS only, and delays after failed attempts."""

import asyncio
import ssl

import httpx2
import pytest

import headgate
from headgate import BadValue, Gate, NotAllowed
from headgate.http.app import make_app
from headgate.http.errors import TooMany
from headgate.http.limits.sign_ins import MOST_ADDRESSES, MOST_FAILED, WITHIN_SECONDS, SignIns
from headgate.http.port.server import Server
from headgate.http.service import Service

STRANGER = "203.0.113.7"


def test_under_tls_the_cookie_is_sent_over_tls_only_and_no_other_site_can_set_it(
    gate: Gate, certificate: tuple[str, str]
) -> None:
    server = Server(Service(gate), "127.0.0.1:0", certificate)
    server.start()
    trusted = ssl.create_default_context(cafile=certificate[0])
    try:
        with httpx2.Client(base_url=server.url, verify=trusted, trust_env=False) as client:
            token = gate.tokens.new("a test", ["read"]).token
            answer = client.post("/sign-in", data={"token": token}, headers={"Origin": server.url})
            said = answer.headers["set-cookie"]
            assert said.startswith("__Host-headgate-")
            assert {"secure", "httponly", "samesite=strict", "path=/"} <= {
                part.strip().lower() for part in said.split(";")
            }
            assert "domain" not in said.lower()
            assert client.get("/ingest").status_code == 200
        plain = said.split(";")[0].removeprefix("__Host-")
        with httpx2.Client(base_url=server.url, verify=trusted, trust_env=False) as client:
            assert client.get("/ingest", headers={"Cookie": plain}).status_code == 303
    finally:
        server.stop()


def test_a_code_signs_in_only_through_our_own_confirmed_form(gate: Gate, server: Server) -> None:
    token = gate.tokens.new("ann", ["read"])
    code = gate.sessions.new_code(token.id).code
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        for path in (f"/sign-in?code={code}", f"/sign-in?token={code}&confirmed=yes", f"/?code={code}"):
            assert "set-cookie" not in client.get(path).headers, "what looks ahead at links signs nobody in"
        form = {"token": code, "next": "/locks"}
        for headers in ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                        {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"}):  # fmt: skip
            crossed = client.post("/sign-in", data={**form, "confirmed": "yes"}, headers=headers)
            assert (crossed.status_code, "set-cookie" in crossed.headers) == (403, False), headers
        asked = client.post("/sign-in", data=form, headers={"Origin": server.url, "Sec-Fetch-Site": "same-origin"})
        assert (asked.status_code, "set-cookie" in asked.headers) == (200, False)
        assert "Sign in as ann?" in asked.text
        done = client.post("/sign-in", data={**form, "confirmed": "yes"}, headers={"Origin": server.url})
        assert (done.status_code, done.headers["location"]) == (303, "/locks")
        first = next(iter(client.cookies.values()))
        assert client.get("/locks").status_code == 200
        again = client.post("/sign-in", data={**form, "confirmed": "yes"})
        assert (again.status_code, "was used already or has expired" in again.text) == (401, True)
        other = gate.sessions.new_code(gate.tokens.new("ben", ["read"]).id).code
        asked = client.post("/sign-in", data={"token": other})
        assert "You are signed in as <b>ann</b>" in asked.text
        assert client.post("/sign-in", data={"token": other, "confirmed": "yes"}).status_code == 303
    with pytest.raises(NotAllowed):
        gate.sessions.find(first)


def test_a_token_can_create_a_code_for_itself(gate: Gate, server: Server) -> None:
    made = gate.tokens.new("ann", ["lock:acquire:s3://ours/"])
    with headgate.connect(server.url, token=made.token) as remote:
        code = remote.sessions.new_code()
        with pytest.raises(BadValue, match="for the API token of the caller"):
            remote.sessions.new_code(made.id)
    assert gate.sessions.whose(code.code).id == made.id


def test_a_signed_in_browser_cannot_create_codes(gate: Gate, server: Server) -> None:
    """Otherwise it could stay signed in as long as it likes, even after signing out."""
    session = gate.sessions.sign_in(gate.tokens.new("ann", ["admin"]).token)
    headers = {
        "Cookie": f"headgate-{gate.store.tag}={session}",
        "Headgate-Form-Key": gate.sessions.find(session).form_key,
    }
    asked = httpx2.post(f"{server.url}/v1/sign-in-codes", headers=headers, json={}, trust_env=False)
    assert (asked.status_code, "cannot create sign-in codes" in asked.json()["detail"]) == (403, True)


def test_a_stream_of_a_browser_ends_when_it_is_signed_out(gate: Gate, server: Server) -> None:
    session = gate.sessions.sign_in(gate.tokens.new("ann", ["read"]).token)
    cookie = {"Cookie": f"headgate-{gate.store.tag}={session}"}
    with httpx2.stream("GET", f"{server.url}/v1/events", headers=cookie, trust_env=False, timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(lines)
        gate.sessions.end(session)
        assert list(lines) is not None  # The stream ends.


def test_repeated_failures_to_sign_in_delay_only_that_address(gate: Gate) -> None:
    app = make_app(Service(gate))
    token = gate.tokens.new("a test", ["read"]).token

    async def try_from(address: str, text: str) -> httpx2.Response:
        transport = httpx2.ASGITransport(app, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://headgate") as client:
            return await client.post("/sign-in", data={"token": text})

    async def tries() -> None:
        for _ in range(MOST_FAILED):
            assert (await try_from(STRANGER, "hg_wrong")).status_code == 401
        barred = await try_from(STRANGER, token)
        assert barred.status_code == 429
        assert 1 <= int(barred.headers["retry-after"]) <= WITHIN_SECONDS
        assert "set-cookie" not in barred.headers
        assert (await try_from("203.0.113.8", token)).status_code == 303
        for _ in range(MOST_FAILED + 1):
            assert (await try_from("127.0.0.1", "hg_wrong")).status_code == 401

    asyncio.run(tries())


def test_failed_attempts_expire_and_a_limited_number_of_addresses_is_remembered() -> None:
    now = 0.0
    tries = SignIns(lambda: now)
    for _ in range(MOST_FAILED):
        tries.check(STRANGER)
        tries.record_failure(STRANGER)
    with pytest.raises(TooMany):
        tries.check(STRANGER)
    now = WITHIN_SECONDS
    tries.check(STRANGER)
    for number in range(MOST_ADDRESSES + 5):
        tries.record_failure(f"2001:db8::{number:x}")
    assert len(tries._failed) == MOST_ADDRESSES
