"""Fixtures of the service: a real one, on its own port, called over HTTP."""

import datetime as dt
import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import headgate
from headgate import Gate
from headgate.http.limits.bounds import Limits
from headgate.http.port.server import Server
from headgate.http.service import Service


class Bounded(NamedTuple):
    """A service with its own limits, and the gate behind it."""

    gate: Gate
    server: Server

    def client(self, *scopes: str) -> httpx2.Client:
        """A caller whose token has these scopes; an admin's, if none is named."""
        token = self.gate.tokens.new("a test", scopes or ["admin"]).token
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.Client(base_url=self.server.url, headers=headers, timeout=60, trust_env=False)

    def socket(self) -> socket.socket:
        """A raw TCP connection to the service."""
        host, port = self.server.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=30)


Tokens = Callable[..., httpx2.Client]


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("URL", "SERVER", "API_TOKEN", "JOB_KEY", "MASTER_KEY_FILE"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """The gate behind the service."""
    with headgate.connect(f"sqlite:///{tmp_path_factory.mktemp('service')}/headgate.sqlite") as found:
        yield found


@pytest.fixture(scope="module")
def server(gate: Gate) -> Iterator[Server]:
    """A service that the tests of one file share."""
    server = Server(Service(gate), "127.0.0.1:0")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[Callable[..., Bounded]]:
    """Starts a service with the given limits and settings."""
    with ExitStack() as at_the_end:

        def start(limits: Limits | None = None, **settings: str) -> Bounded:
            url = f"sqlite:///{tmp_path}/bounded.sqlite"
            settings.setdefault("space_threshold", "0")
            gate = at_the_end.enter_context(headgate.connect(url, work_folder=str(tmp_path / "work"), **settings))
            server = Server(Service(gate, limits), "127.0.0.1:0")
            server.start()
            at_the_end.callback(server.stop)
            return Bounded(gate, server)

        yield start


@pytest.fixture
def with_scopes(gate: Gate, server: Server) -> Iterator[Tokens]:
    """A client whose token has these scopes."""
    made: list[httpx2.Client] = []

    def make(*scopes: str, **more: Any) -> httpx2.Client:
        token = gate.tokens.new("a test", scopes, **more).token
        headers = {"Authorization": f"Bearer {token}"}
        made.append(httpx2.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def admin(with_scopes: Tokens) -> httpx2.Client:
    """A client that may do everything."""
    return with_scopes("admin")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A self-signed certificate for 127.0.0.1."""
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
