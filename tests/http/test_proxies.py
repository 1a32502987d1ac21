"""Behind a proxy: its headers count only if it is trusted."""

import asyncio
from pathlib import Path

import httpx2
import pytest

import headgate
from headgate import BadValue
from headgate.http.api.proxies import UNKNOWN, Trusted
from headgate.http.app import make_app
from headgate.http.limits.sign_ins import MOST_FAILED
from headgate.http.service import Service

PROXY, STRANGER = "10.0.0.5", "203.0.113.7"
FORWARDED = {"X-Forwarded-For": STRANGER, "X-Forwarded-Proto": "https", "X-Forwarded-Host": "headgate.example.org"}


@pytest.mark.parametrize(
    ("forwarded", "found"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("1.2.3.4, 203.0.113.7", "203.0.113.7"),  # Values written by the caller come before those added by the proxy.
        ("203.0.113.7, 10.0.0.6,10.0.0.5", "203.0.113.7"),
        ("10.0.0.6", "10.0.0.6"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("127.0.0.1, nonsense", UNKNOWN),
        ("unknown", UNKNOWN),
        (" , ", PROXY),
    ],
)
def test_the_last_address_that_is_not_a_proxy_is_the_caller(forwarded: str, found: str) -> None:
    assert Trusted("10.0.0.0/24, ::1").origin(PROXY, forwarded) == found


def test_a_setting_without_addresses_is_refused_and_none_trusts_no_proxy() -> None:
    for wrong in ("proxy1", "10.0.0.5/8", "10.0.0.5 10.0.0.6"):
        with pytest.raises(BadValue, match="is not an address or network"):
            Trusted(wrong)
    assert "127.0.0.1" not in Trusted("none")
    assert "127.0.0.1" in Trusted("127.0.0.0/8, ::1")
    assert "nonsense" not in Trusted("0.0.0.0/0, ::/0")


def test_headers_of_a_trusted_proxy_count_and_those_of_others_do_not(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    with headgate.connect(url, trusted_proxies=PROXY, rate_limit="2") as gate:
        app = make_app(Service(gate))
        token = gate.tokens.new("a test", ["read"]).token

        async def post(peer: str, text: str = "hg_wrong", **headers: str) -> httpx2.Response:
            transport = httpx2.ASGITransport(app, client=(peer, 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://inside") as client:
                return await client.post("/sign-in", data={"token": text}, headers={**FORWARDED, **headers})

        async def wrong_token(peer: str, come_from: str) -> int:
            transport = httpx2.ASGITransport(app, client=(peer, 1))
            headers = {"Authorization": "Bearer hg_wrong", "X-Forwarded-For": come_from}
            async with httpx2.AsyncClient(transport=transport, base_url="http://inside") as client:
                return (await client.get("/v1/status", headers=headers)).status_code

        async def tries() -> None:
            own = {"Origin": "https://headgate.example.org"}
            done = await post(PROXY, token, **own)
            assert (done.status_code, "secure" in done.headers["set-cookie"].lower()) == (303, True)
            assert done.headers["strict-transport-security"] == "max-age=31536000"
            for peer in (STRANGER, "127.0.0.1"):
                refused = await post(peer, token, **own)
                assert (refused.status_code, "strict-transport-security" in refused.headers) == (403, False)
            for _ in range(MOST_FAILED):
                assert (await post(PROXY)).status_code == 401
            assert (await post(PROXY)).status_code == 429
            assert (await post(PROXY, **{"X-Forwarded-For": "203.0.113.8"})).status_code == 401
            lies = [
                (await post("203.0.113.9", **{"X-Forwarded-For": f"1.2.3.{each}"})).status_code for each in range(9)
            ]
            assert lies == [401] * MOST_FAILED + [429] * (9 - MOST_FAILED)
            assert 429 in [await wrong_token(PROXY, "198.51.100.1") for _ in range(20)]
            assert await wrong_token(PROXY, "198.51.100.2") == 401

        asyncio.run(tries())


@pytest.mark.parametrize(
    ("host", "hsts", "told"),
    [("h.example", "1h", "3600"), ("h.example", "0", None), ("localhost", "1h", None), ("localhost:8750", "1h", None)],
)
def test_strict_transport_security_follows_the_setting(tmp_path: Path, host: str, hsts: str, told: str | None) -> None:
    with headgate.connect(f"sqlite:///{tmp_path}/store.sqlite", hsts=hsts) as gate:
        app = make_app(Service(gate))

        async def ask(scheme: str) -> str | None:
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url=f"{scheme}://{host}") as client:
                found: str | None = (await client.get("/healthz")).headers.get("strict-transport-security")
                return found

        assert asyncio.run(ask("https")) == (told and f"max-age={told}")
        assert asyncio.run(ask("http")) is None
