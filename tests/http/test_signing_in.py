"""Signing in where others may listen or try: TLS cookies, and who fails too often waits."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headgate import Gate
from headgate.http.app import make_app
from headgate.http.errors import TooMany
from headgate.http.server import Server
from headgate.http.service import Service
from headgate.http.sign_ins import MOST_ADDRESSES, MOST_FAILED, WITHIN_SECONDS, SignIns

STRANGER = "203.0.113.7"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Of 127.0.0.1, signed by itself."""
    folder: Path = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "headgate test")])
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=2))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "chain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    return str(folder / "chain.pem"), str(folder / "key.pem")


def test_under_tls_the_cookie_goes_by_tls_alone_and_no_other_site_can_set_it(
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


def test_who_fails_too_often_waits_and_others_do_not(gate: Gate) -> None:
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


def test_tries_are_forgotten_with_time_and_so_many_addresses_are_known() -> None:
    now = 0.0
    tries = SignIns(lambda: now)
    for _ in range(MOST_FAILED):
        tries.check(STRANGER)
        tries.tell_failure(STRANGER)
    with pytest.raises(TooMany):
        tries.check(STRANGER)
    now = WITHIN_SECONDS
    tries.check(STRANGER)
    for number in range(MOST_ADDRESSES + 5):
        tries.tell_failure(f"2001:db8::{number:x}")
    assert len(tries._failed) == MOST_ADDRESSES
