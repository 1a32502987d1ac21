"""Fixtures of the service: a real one, on a port of its own, spoken to over HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import headgate
from headgate import Gate
from headgate.http.server import Server
from headgate.http.service import Service

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
